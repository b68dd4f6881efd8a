//! What autograd keeps of each operator until its backward pass.
//!
//! Sources: PyTorch's `derivatives.yaml` and the CUDA kernels behind it (version 2.x). A reader can check the
//! table operator by operator; nothing here is fitted.

use plimsoll_graph::{Activation, AttentionKernel, Binary, Node, Op, Pool, PoolKind, RecurrentCell, Workload};

/// Which tensors of a node autograd keeps, and what it allocates beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Saved {
    /// The first input.
    pub input: bool,
    /// All further inputs.
    pub other_inputs: bool,
    /// The output.
    pub output: bool,
    /// Masks, indices and statistics, in bytes.
    pub extra_bytes: u64,
}

impl Saved {
    const NOTHING: Self = Self { input: false, other_inputs: false, output: false, extra_bytes: 0 };
    const INPUT: Self = Self { input: true, ..Self::NOTHING };
    const INPUTS: Self = Self { other_inputs: true, ..Self::INPUT };
    const OUTPUT: Self = Self { output: true, ..Self::NOTHING };

    const fn and(self, extra_bytes: u64) -> Self {
        Self { extra_bytes, ..self }
    }
}

/// What autograd keeps of a node, for a batch as the workload has it.
pub fn saved(workload: &Workload, node: &Node) -> Saved {
    let output = node.outputs.first().map_or(0, |&id| workload.elements(id));
    match &node.op {
        Op::Linear | Op::Conv(_) => Saved::INPUT,
        // Mean and inverse deviation in fp32: a channel each, a group of a sample each, or a row each.
        Op::BatchNorm => Saved::INPUT.and(8 * channels(workload, node)),
        Op::InstanceNorm => Saved::INPUT.and(8 * batch_times(workload, node, channels(workload, node))),
        Op::GroupNorm { groups } => Saved::INPUT.and(8 * batch_times(workload, node, *groups)),
        Op::LayerNorm => Saved::INPUT.and(8 * rows(workload, node)),
        Op::RmsNorm => Saved::INPUT.and(4 * rows(workload, node)),
        Op::LocalResponseNorm => Saved { output: true, ..Saved::INPUT },
        Op::Activation { function, inplace } => activation(*function, *inplace, 4 * output),
        Op::Softmax | Op::LogSoftmax => Saved::OUTPUT,
        // One byte an element says what was kept.
        Op::Dropout { p, .. } if *p > 0.0 => Saved::NOTHING.and(output),
        Op::Dropout { .. } => Saved::NOTHING,
        Op::StochasticDepth { .. } => Saved::NOTHING.and(4 * batch_times(workload, node, 1)),
        Op::Pool(pool) => pooling(pool, output),
        Op::Embedding { .. } => Saved::INPUT,
        Op::Attention { heads, kernel, dropout, .. } => attention(workload, node, *heads, *kernel, *dropout),
        Op::MatMul => Saved::INPUTS,
        // Arithmetic with a plain number keeps nothing; a learned scale keeps what it scales.
        Op::Binary { function: Binary::Add, .. } => Saved::NOTHING,
        Op::Binary { function: Binary::Multiply | Binary::Divide, .. }
            if node.inputs.len() < 2 && node.weights.is_empty() =>
        {
            Saved::NOTHING
        }
        Op::Binary { .. } => Saved::INPUTS,
        Op::Concat | Op::View | Op::Copy | Op::Pad | Op::Reduce | Op::Upsample => Saved::NOTHING,
        Op::Gather => Saved { other_inputs: true, ..Saved::NOTHING },
        Op::Recurrent { cell, layers, bidirectional, .. } => {
            let gates = match cell {
                RecurrentCell::Rnn => 1,
                RecurrentCell::Gru => 4,
                RecurrentCell::Lstm => 6,
            };
            let directions = 1 + u64::from(*bidirectional);
            Saved { output: true, ..Saved::INPUT }.and(4 * gates * output * layers / directions.max(1))
        }
        // Nothing is known: assume the costlier case.
        Op::Other { .. } => Saved { output: true, ..Saved::INPUTS },
    }
}

const fn activation(function: Activation, inplace: bool, bytes: u64) -> Saved {
    use Activation::{Gelu, HardSigmoid, HardSwish, Mish, Silu, Softplus};
    match function {
        Activation::Identity => Saved::NOTHING,
        Activation::Relu | Activation::Tanh | Activation::Sigmoid => Saved::OUTPUT,
        // In place the input is gone. Where the function can be inverted the result is saved instead; where it
        // cannot, autograd takes a copy of the input first.
        Gelu | Silu | Mish | Softplus | HardSwish | HardSigmoid if inplace => Saved::NOTHING.and(bytes),
        _ if inplace => Saved::OUTPUT,
        _ => Saved::INPUT,
    }
}

const fn pooling(pool: &Pool, output: u64) -> Saved {
    match pool.kind {
        // Eight-byte indices beside the input.
        PoolKind::Max | PoolKind::AdaptiveMax => Saved::INPUT.and(8 * output),
        PoolKind::Average => Saved::INPUT,
        // A global average runs as a mean, which keeps nothing; other grids keep the input, but are rare.
        PoolKind::AdaptiveAverage => Saved::NOTHING,
    }
}

fn attention(workload: &Workload, node: &Node, heads: u64, kernel: AttentionKernel, dropout: f64) -> Saved {
    let tokens = |input: usize| {
        node.inputs.get(input).map_or(1, |&id| {
            let dims = workload.graph().tensor(id).shape.dims();
            // (batch, tokens, width) or (batch, heads, tokens, width): tokens stand second to last.
            dims.len().checked_sub(2).map_or(1, |axis| dims[axis].factor())
        })
    };
    let (query_tokens, key_tokens) = (tokens(0), tokens(1));
    let per_head = batch_times(workload, node, heads).saturating_mul(query_tokens);
    match kernel {
        // The logarithm of each row's sum, beside query, key, value and output.
        AttentionKernel::Fused => Saved { output: true, ..Saved::INPUTS }.and(4 * per_head),
        // The softmax; with dropout its mask and the dropped weights too.
        AttentionKernel::Eager => {
            let bytes = if dropout > 0.0 { 4 + 1 + 4 } else { 4 };
            Saved::INPUTS.and(per_head.saturating_mul(key_tokens).saturating_mul(bytes))
        }
    }
}

fn channels(workload: &Workload, node: &Node) -> u64 {
    node.inputs
        .first()
        .and_then(|&id| workload.graph().tensor(id).shape.dims().get(1).map(|dim| dim.factor()))
        .unwrap_or(1)
}

fn batch_times(workload: &Workload, node: &Node, factor: u64) -> u64 {
    let batch = node.inputs.first().and_then(|&id| {
        workload.graph().tensor(id).shape.dims().first().and_then(|dim| dim.at(workload.setup().batch_size))
    });
    batch.unwrap_or(1).saturating_mul(factor)
}

fn rows(workload: &Workload, node: &Node) -> u64 {
    node.inputs.first().map_or(1, |&id| {
        let width = workload.graph().tensor(id).shape.last().factor().max(1);
        workload.elements(id) / width
    })
}
