//! Work of a node: floating-point operations and bytes moved.

use plimsoll_graph::{Node, Op, RecurrentCell, Workload};

/// What the forward pass of one node costs. Saturates instead of overflowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCost {
    /// Floating-point operations, a multiply-add counting two.
    pub flops: u64,
    /// Bytes read: inputs and weights.
    pub read_bytes: u64,
    /// Bytes written: outputs.
    pub write_bytes: u64,
}

/// Counts the forward pass of a node; the backward pass of a node with weights does about twice the work.
pub fn node_cost(workload: &Workload, node: &Node) -> NodeCost {
    let graph = workload.graph();
    let bytes = |id| workload.elements(id).saturating_mul(graph.tensor(id).dtype.bytes());
    let weights: u64 = node.weights.iter().map(|&id| graph.weight(id).bytes()).sum();
    let outputs: u64 = node.outputs.iter().map(|&id| workload.elements(id)).sum();
    let read_bytes = node.inputs.iter().map(|&id| bytes(id)).fold(weights, u64::saturating_add);
    let write_bytes = node.outputs.iter().map(|&id| bytes(id)).fold(0, u64::saturating_add);
    let first = node.weights.first().map(|&id| graph.weight(id));
    let input = node.inputs.first().map_or(0, |&id| workload.elements(id));
    let flops = match &node.op {
        // Each output element is a dot product over the weight's other extents.
        Op::Linear => {
            // The input says the width: some frameworks store weights as [in, out], others as [out, in].
            let width = node.inputs.first().map_or(1, |&id| graph.tensor(id).shape.last().factor());
            outputs.saturating_mul(2 * width)
        }
        Op::Conv(conv) => {
            let filter = first.map_or(1, |weight| {
                let leading = weight.shape.dims().first().map_or(1, |dim| dim.factor()).max(1);
                weight.elements() / leading
            });
            // A transposed convolution spreads each input element instead of gathering each output element.
            let positions = if conv.transposed { input } else { outputs };
            positions.saturating_mul(2 * filter)
        }
        Op::MatMul => {
            let inner = node.inputs.first().map_or(1, |&id| graph.tensor(id).shape.last().factor());
            outputs.saturating_mul(2 * inner)
        }
        Op::Attention { .. } => {
            let key_tokens = node.inputs.get(1).map_or(1, |&id| {
                let dims = graph.tensor(id).shape.dims();
                dims.len().checked_sub(2).map_or(1, |axis| dims[axis].factor())
            });
            input.saturating_mul(4).saturating_mul(key_tokens)
        }
        Op::Recurrent { cell, .. } => {
            let gates = match cell {
                RecurrentCell::Rnn => 1,
                RecurrentCell::Gru => 3,
                RecurrentCell::Lstm => 4,
            };
            let parameters: u64 = node.weights.iter().map(|&id| graph.weight(id).elements()).sum();
            let width = node.outputs.first().map_or(1, |&id| graph.tensor(id).shape.last().factor()).max(1);
            (outputs / width).saturating_mul(2 * parameters).max(gates * outputs)
        }
        Op::Embedding { .. } | Op::View | Op::Copy | Op::Concat | Op::Pad { .. } | Op::Gather => 0,
        _ => outputs.max(input),
    };
    NodeCost { flops, read_bytes, write_bytes }
}
