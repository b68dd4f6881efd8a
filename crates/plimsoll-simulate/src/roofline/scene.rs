//! What lowering asks of a workload: sizes, gradients, precision.

use plimsoll_graph::{Node, Precision, TensorId, Workload};

use super::kernel::Pipe;
use super::machine::Machine;

/// A workload on a machine, with what flows backwards known.
pub(super) struct Scene<'a> {
    pub(super) workload: &'a Workload,
    pub(super) machine: Machine,
    /// Whether each tensor gets a gradient.
    wants_gradient: Vec<bool>,
    /// How often each tensor is read.
    uses: Vec<u32>,
}

impl<'a> Scene<'a> {
    pub(super) fn of(workload: &'a Workload) -> Self {
        let graph = workload.graph();
        let mut wants_gradient = vec![false; graph.tensors().len()];
        let mut uses = vec![0_u32; graph.tensors().len()];
        for node in graph.nodes() {
            let trains = node.weights.iter().any(|&id| workload.trains(graph.weight(id)));
            let wants = trains || node.inputs.iter().any(|id| wants_gradient[id.0 as usize]);
            for id in &node.inputs {
                let uses = &mut uses[id.0 as usize];
                *uses = uses.saturating_add(1);
            }
            for id in &node.outputs {
                wants_gradient[id.0 as usize] = wants && graph.tensor(*id).dtype.is_float();
            }
        }
        Self { workload, machine: Machine::of(workload.gpu()), wants_gradient, uses }
    }

    pub(super) fn wants_gradient(&self, id: TensorId) -> bool {
        self.wants_gradient[id.0 as usize]
    }

    /// Gradients that arrive at a tensor beyond the first, each of which is a sum.
    pub(super) fn gradient_sums(&self, id: TensorId) -> u32 {
        self.uses[id.0 as usize].saturating_sub(1)
    }

    pub(super) fn elements(&self, id: TensorId) -> f64 {
        self.workload.elements(id) as f64
    }

    /// Bytes of a tensor as it is computed with.
    pub(super) fn bytes(&self, id: TensorId) -> f64 {
        let dtype = self.workload.graph().tensor(id).dtype;
        let width = if dtype.is_float() { self.width().min(dtype.bytes() as f64) } else { dtype.bytes() as f64 };
        self.elements(id) * width
    }

    /// Bytes of an activation's element.
    pub(super) fn width(&self) -> f64 {
        match self.workload.setup().precision {
            Precision::Fp32 | Precision::Tf32 => 4.0,
            Precision::AmpFp16 | Precision::AmpBf16 | Precision::Bf16 => 2.0,
        }
    }

    /// Where products run.
    pub(super) fn pipe(&self, is_convolution: bool) -> Pipe {
        match self.workload.setup().precision {
            // PyTorch lets cuDNN use TF32 unasked, cuBLAS not.
            Precision::Fp32 if is_convolution && self.machine.has_tf32() => Pipe::Tf32,
            Precision::Tf32 if self.machine.has_tf32() => Pipe::Tf32,
            Precision::Fp32 | Precision::Tf32 => Pipe::Fp32,
            _ if self.machine.has_half() => Pipe::Half,
            _ => Pipe::Fp32,
        }
    }

    /// Elements of a node's first input.
    pub(super) fn first_input(&self, node: &Node) -> f64 {
        node.inputs.first().map_or(0.0, |&id| self.elements(id))
    }

    /// Bytes of all inputs.
    pub(super) fn input_bytes(&self, node: &Node) -> f64 {
        node.inputs.iter().map(|&id| self.bytes(id)).sum()
    }

    /// Elements of all outputs.
    pub(super) fn outputs(&self, node: &Node) -> f64 {
        node.outputs.iter().map(|&id| self.elements(id)).sum()
    }

    /// Elements of a node's weight at this position, 0 where there is none.
    pub(super) fn weight(&self, node: &Node, position: usize) -> f64 {
        node.weights.get(position).map_or(0.0, |&id| self.workload.graph().weight(id).elements() as f64)
    }

    /// Whether a node's weight at this position is updated.
    pub(super) fn trains(&self, node: &Node, position: usize) -> bool {
        node.weights.get(position).is_some_and(|&id| self.workload.trains(self.workload.graph().weight(id)))
    }

    /// The factor of an extent of a node's input or output; `None` where there is none.
    pub(super) fn extent(&self, tensor: Option<&TensorId>, axis: usize) -> Option<f64> {
        let dims = self.workload.graph().tensor(*tensor?).shape.dims();
        dims.get(axis).map(|dim| dim.factor().max(1) as f64)
    }

    /// The factor of the last extent but `back`, 1 where there is none.
    pub(super) fn extent_from_end(&self, tensor: Option<&TensorId>, back: usize) -> f64 {
        tensor.map_or(1.0, |&id| {
            let dims = self.workload.graph().tensor(id).shape.dims();
            let axis = dims.len().checked_sub(back.saturating_add(1));
            axis.and_then(|axis| dims.get(axis)).map_or(1.0, |dim| dim.factor().max(1) as f64)
        })
    }
}
