//! Layers: nodes that compute, with their sizes.

use std::collections::HashMap;
use std::sync::OnceLock;

use plimsoll_graph::{Op, Workload};
use plimsoll_simulate::{StepTrace, node_cost};

use crate::log;

/// Names of a layer's numbers, in order.
pub(crate) const NAMES: [&str; 14] = [
    "log_parameters",
    "log_output_elements",
    "log_flops",
    "log_bytes_moved",
    "log_saved_bytes",
    "log_output_bytes",
    "output_element_bytes",
    "log_kernel",
    "log_stride",
    "log_groups",
    "log_width",
    "log_positions",
    "log_repeats",
    "trains",
];

/// Places, in the order of [`NAMES`], of the numbers that only a simulated step knows: what is kept for the backward pass.
pub(crate) fn simulated() -> Vec<usize> {
    (0..NAMES.len()).filter(|&place| NAMES[place] == "log_saved_bytes").collect()
}

/// One layer of the sequence; sizes are those of a single repetition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Layer {
    pub(crate) token: u16,
    pub(crate) parameters: u64,
    pub(crate) output_elements: u64,
    pub(crate) flops: u64,
    pub(crate) bytes_moved: u64,
    pub(crate) saved_bytes: u64,
    pub(crate) output_bytes: u64,
    pub(crate) element_bytes: u64,
    pub(crate) kernel: u64,
    pub(crate) stride: u64,
    pub(crate) groups: u64,
    pub(crate) width: u64,
    pub(crate) positions: u64,
    pub(crate) repeats: u64,
    pub(crate) trains: bool,
}

impl Layer {
    /// The numbers, in the order of [`NAMES`].
    pub(crate) fn numbers(&self) -> [f32; NAMES.len()] {
        [
            log(self.parameters),
            log(self.output_elements),
            log(self.flops),
            log(self.bytes_moved),
            log(self.saved_bytes),
            log(self.output_bytes),
            self.element_bytes as f32,
            log(self.kernel),
            log(self.stride),
            log(self.groups),
            log(self.width),
            log(self.positions),
            log(self.repeats),
            f32::from(u8::from(self.trains)),
        ]
    }
}

/// Index of an operator's token in the vocabulary.
fn token_index(op: &Op) -> u16 {
    named_token(op.token())
}

/// Index of a token of a name in the vocabulary.
pub(crate) fn named_token(token: &str) -> u16 {
    static INDICES: OnceLock<HashMap<&'static str, u16>> = OnceLock::new();
    let indices = INDICES.get_or_init(|| Op::tokens().into_iter().zip(0..).collect());
    indices.get(token).copied().unwrap_or_default()
}

/// The layers of a workload in execution order. Views are left out: they neither compute nor allocate.
pub(crate) fn layers(workload: &Workload, trace: &StepTrace) -> Vec<Layer> {
    let graph = workload.graph();
    let mut layers = Vec::with_capacity(graph.nodes().len());
    for (node, memory) in graph.nodes().iter().zip(&trace.nodes).filter(|(node, _)| !matches!(node.op, Op::View)) {
        let cost = node_cost(workload, node);
        let output = node.outputs.first().map(|&id| (id, graph.tensor(id)));
        let (kernel, stride, groups) = window(&node.op);
        let width = output.map_or(1, |(_, tensor)| match (&node.op, tensor.shape.dims()) {
            (Op::Conv(_) | Op::BatchNorm | Op::Pool(_), [_, channels, ..]) => channels.factor(),
            _ => tensor.shape.last().factor(),
        });
        let output_elements: u64 = node.outputs.iter().map(|&id| workload.elements(id)).sum();
        layers.push(Layer {
            token: token_index(&node.op),
            parameters: node.weights.iter().map(|&id| graph.weight(id).elements()).sum(),
            output_elements,
            flops: cost.flops,
            bytes_moved: cost.read_bytes.saturating_add(cost.write_bytes),
            saved_bytes: memory.saved_bytes,
            output_bytes: memory.output_bytes,
            element_bytes: output.map_or(4, |(_, tensor)| tensor.dtype.bytes()),
            kernel,
            stride,
            groups,
            width,
            positions: output_elements / width.max(1) / workload.setup().batch_size,
            repeats: 1,
            trains: node.weights.iter().any(|&id| workload.trains(graph.weight(id))),
        });
    }
    layers
}

/// Kernel positions, stride and groups of an operator that has them; 1 otherwise.
fn window(op: &Op) -> (u64, u64, u64) {
    let product = |extents: &[u64]| extents.iter().copied().fold(1, u64::saturating_mul);
    match op {
        Op::Conv(conv) => (product(&conv.kernel), product(&conv.stride), conv.groups),
        Op::Pool(pool) => (product(&pool.kernel), product(&pool.stride), 1),
        Op::GroupNorm { groups } => (1, 1, *groups),
        Op::Attention { heads, .. } => (1, 1, *heads),
        _ => (1, 1, 1),
    }
}
