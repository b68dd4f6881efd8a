//! The table: what each operator keeps, takes and gives back.
//!
//! Sources: PyTorch's `derivatives.yaml` and the CUDA kernels behind it (version 2.x), held against PyTorch itself in
//! `tests/golden.rs`. A reader can check the table operator by operator; nothing here is fitted.

use plimsoll_graph::{
    Activation, Binary, DType, Dim, Graph, Node, Op, PadMode, Pool, PoolKind, Reduction, TensorId, Workload,
};

use super::aten;
use super::kernels;
use super::sums;

/// When autograd keeps a tensor, given that the node needs a gradient at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Never,
    Always,
    /// Only for the gradient of the node's weights.
    ForWeights,
    /// Only for the gradient of the other inputs.
    ForOthers,
}

/// How the gradient of an input comes from the gradient of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputGradient {
    /// A tensor of its own.
    New,
    /// A tensor of its own, with elements in the order of the output's gradient.
    Elementwise,
    /// The very same tensor, if the sizes agree.
    Passed,
    /// That of the first input the very same tensor, those of others tensors of their own.
    PassedFirst,
    /// A view into it that is not contiguous.
    Slice,
    /// A view of it that repeats elements.
    Expanded,
}

/// Memory of an operator's own, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scratch {
    /// Until the operator is done.
    Held(u64),
    /// Until the next held part is there, or the last part is.
    Passing(u64),
}

/// Memory of an operator's own, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scratches([Scratch; 7]);

impl Scratches {
    pub(super) const NONE: Self = Self([Scratch::Passing(0); 7]);

    /// As many as the table needs at most.
    pub(super) fn of<const N: usize>(parts: [Scratch; N]) -> Self {
        let mut all = Self::NONE;
        all.0[..N].copy_from_slice(&parts);
        all
    }

    /// Those that take anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = Scratch> {
        self.0.into_iter().filter(|part| !matches!(part, Scratch::Held(0) | Scratch::Passing(0)))
    }
}

/// What one operator does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of the table")]
pub(super) struct Rule {
    /// Whether the first input is kept.
    pub(super) input: Keep,
    /// Whether further inputs are kept.
    pub(super) others: Keep,
    /// Inputs from this place on are not kept, whatever else is said.
    pub(super) unkept_from: usize,
    /// Bytes of the gradient of an attention's mask before it is summed to the mask's size.
    pub(super) mask_gradient: u64,
    /// Whether the output is kept.
    pub(super) output: bool,
    /// Whether further outputs are kept, such as indices.
    pub(super) further_outputs: bool,
    /// Masks, indices and statistics that are kept, in bytes each.
    pub(super) extra: [u64; 3],
    /// Whether these are made before the output.
    pub(super) extra_first: bool,
    /// Alive during the forward pass of the operator beside its output, in bytes.
    pub(super) forward_temporary: u64,
    /// What the backward pass takes before it makes gradients, and after.
    pub(super) before: Scratches,
    pub(super) after: Scratches,
    /// How gradients of inputs come about.
    pub(super) gradient: InputGradient,
    /// Whether the backward pass copies gradients that are not contiguous.
    pub(super) needs_rows: bool,
    /// Whether gradients of weights come before those of inputs.
    pub(super) weights_first: bool,
}

impl Rule {
    /// Keeps nothing, makes gradients of their own.
    pub(super) const PLAIN: Self = Self {
        input: Keep::Never,
        others: Keep::Never,
        unkept_from: usize::MAX,
        mask_gradient: 0,
        output: false,
        further_outputs: false,
        extra: [0; 3],
        extra_first: false,
        forward_temporary: 0,
        before: Scratches::NONE,
        after: Scratches::NONE,
        gradient: InputGradient::New,
        needs_rows: false,
        weights_first: false,
    };
    pub(super) const ELEMENTWISE: Self = Self { gradient: InputGradient::Elementwise, ..Self::PLAIN };
    pub(super) const PASSED: Self = Self { gradient: InputGradient::Passed, ..Self::PLAIN };
    pub(super) const INPUT: Self = Self { input: Keep::Always, ..Self::ELEMENTWISE };
    pub(super) const INPUTS: Self = Self { others: Keep::Always, ..Self::INPUT };
    pub(super) const OUTPUT: Self = Self { output: true, ..Self::ELEMENTWISE };
    const WEIGHTED: Self = Self { input: Keep::ForWeights, ..Self::PLAIN };
    /// Reads its input and gradients that are contiguous.
    pub(super) const DENSE: Self = Self { input: Keep::Always, needs_rows: true, ..Self::PLAIN };

    pub(super) const fn and(self, bytes: u64) -> Self {
        Self { extra: [bytes, 0, 0], ..self }
    }

    const fn and_both(self, bytes: u64) -> Self {
        Self { extra: [bytes, bytes, 0], ..self }
    }
}

/// A node with what its rule depends on.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) workload: &'a Workload,
    pub(super) node: &'a Node,
    /// Elements of the first input.
    pub(super) input: u64,
    /// Elements of the first output.
    pub(super) output: u64,
    /// Bytes of an element as the operator computes.
    pub(super) width: u64,
}

/// Width under autocast: half for matrix products, full where range matters, that of the input otherwise.
pub(super) fn autocast_width(op: &Op) -> Option<u64> {
    match op {
        Op::Linear
        | Op::Conv(_)
        | Op::MatMul
        | Op::Attention { .. }
        | Op::Recurrent { .. }
        | Op::Activation { function: Activation::Prelu, .. } => Some(2),
        Op::LayerNorm
        | Op::RmsNorm
        | Op::GroupNorm { .. }
        | Op::Softmax
        | Op::LogSoftmax
        | Op::Activation { function: Activation::Softplus, .. } => Some(4),
        _ => None,
    }
}

/// The rule of a node. Operators that nobody knows get the costlier case: inputs and output are kept.
pub(super) fn rule(site: Site<'_>) -> Rule {
    let Site { node, output, width, .. } = site;
    match &node.op {
        Op::Linear => Rule { weights_first: node.weights.len() < 2, ..Rule::WEIGHTED },
        // One formula for all gradients keeps the input even where no weight trains.
        Op::Conv(_) => Rule::DENSE,
        // Mean and inverse deviation in fp32: a channel each, a group of a sample each, or a row each.
        Op::BatchNorm => Rule::DENSE.and_both(4 * site.channels()),
        Op::InstanceNorm => instance_norm(site),
        Op::GroupNorm { groups } => Rule::DENSE.and_both(4 * site.samples().saturating_mul(*groups)),
        Op::LayerNorm => Rule::DENSE.and_both(4 * site.rows()),
        Op::RmsNorm => Rule::DENSE.and(4 * site.rows()),
        Op::LocalResponseNorm => Rule { output: true, ..Rule::INPUT },
        Op::Activation { function, inplace } => activation(*function, *inplace, site),
        Op::Softmax | Op::LogSoftmax => Rule { needs_rows: true, output: true, ..Rule::PLAIN },
        // The fused kernel keeps a byte an element; in place a tensor of noise is multiplied in.
        Op::Dropout { p, inplace: false } if *p > 0.0 => Rule { extra_first: true, ..Rule::ELEMENTWISE.and(output) },
        Op::Dropout { p, .. } if *p > 0.0 => Rule::ELEMENTWISE.and(width.saturating_mul(output)),
        Op::StochasticDepth { p } if *p > 0.0 => {
            Rule { extra_first: true, ..Rule::ELEMENTWISE.and(width.saturating_mul(site.samples())) }
        }
        Op::Dropout { .. } | Op::StochasticDepth { .. } => Rule::PASSED,
        Op::Pool(pool) => pooling(pool, site),
        Op::Embedding { sparse } => kernels::embedding(site, *sparse),
        Op::Attention { heads, kernel, dropout, .. } => kernels::attention(site, *heads, *kernel, *dropout),
        Op::MatMul => Rule { input: Keep::ForOthers, others: Keep::ForOthers, ..Rule::PLAIN },
        Op::Binary { function, .. } => binary(*function, site),
        Op::Concat => Rule { gradient: InputGradient::Slice, ..Rule::PLAIN },
        Op::View | Op::Copy => Rule::PASSED,
        // A border of numbers has no gradient; one of elements adds theirs to those that they were taken from.
        Op::Pad { mode: PadMode::Constant } => Rule::PLAIN,
        Op::Pad { .. } => Rule::DENSE,
        Op::Reduce { function } => reduction(*function, site),
        Op::Upsample => Rule { needs_rows: true, ..Rule::PLAIN },
        Op::Gather => Rule { others: Keep::Always, ..Rule::PLAIN },
        Op::Recurrent { cell, layers, bidirectional, .. } => kernels::recurrent(site, *cell, *layers, *bidirectional),
        Op::Other { name } => aten::rule(name, site).unwrap_or(Rule { output: true, ..Rule::INPUTS }),
    }
}

fn activation(function: Activation, inplace: bool, site: Site<'_>) -> Rule {
    use Activation::{
        Elu, Gelu, Glu, HardSigmoid, HardSwish, HardTanh, Identity, LeakyRelu, Mish, Prelu, Relu, Relu6, Selu, Sigmoid,
        Silu, Softplus, Tanh,
    };
    match function {
        Identity => Rule::PASSED,
        Relu | Tanh | Sigmoid => Rule::OUTPUT,
        // In place the input is gone. Where the function can be inverted the result is saved instead.
        LeakyRelu | Elu | Selu if inplace => Rule::OUTPUT,
        // Where it cannot, autograd takes a copy of the input first.
        _ if inplace => Rule { extra_first: true, ..Rule::ELEMENTWISE.and(site.width.saturating_mul(site.output)) },
        // The gradient of the slope is made for every element before it is summed.
        Prelu => Rule { after: Scratches::of([Scratch::Held(site.width.saturating_mul(site.input))]), ..Rule::INPUT },
        Gelu | Silu | Mish | Softplus | HardSwish | HardSigmoid | HardTanh | Relu6 | LeakyRelu | Elu | Selu | Glu => {
            Rule::INPUT
        }
    }
}

/// A sum needs no operand, a product needs those whose partner is differentiated.
fn binary(function: Binary, site: Site<'_>) -> Rule {
    let node = site.node;
    let is_scaled = node.inputs.len() < 2 && node.weights.is_empty();
    let one = Scratch::Held(site.width.saturating_mul(site.output));
    match function {
        Binary::Add => Rule::PASSED,
        // What a number is taken from, or what is taken from one: the gradient of the latter is negated.
        Binary::Subtract if is_scaled => Rule::ELEMENTWISE,
        Binary::Subtract => Rule { gradient: InputGradient::PassedFirst, ..Rule::PLAIN },
        Binary::Multiply | Binary::Divide if is_scaled => Rule::ELEMENTWISE,
        Binary::Multiply if node.inputs.len() < 2 => {
            Rule { input: Keep::ForWeights, after: Scratches::of([one]), ..Rule::ELEMENTWISE }
        }
        Binary::Multiply => Rule { input: Keep::ForOthers, others: Keep::ForOthers, ..Rule::ELEMENTWISE },
        // The quotient once more, and its negative.
        Binary::Divide => Rule {
            input: Keep::ForOthers,
            others: Keep::Always,
            before: if node.inputs.len() > 1 { Scratches::of([one, one]) } else { Scratches::NONE },
            ..Rule::ELEMENTWISE
        },
        // Powers: the next lower one, and that times the exponent.
        Binary::Other if node.inputs.len() < 2 => Rule { before: Scratches::of([one, one]), ..Rule::INPUT },
        Binary::Other => Rule::INPUTS,
    }
}

/// What many elements become. Means and sums spread their gradient; the rest compare with the input.
fn reduction(function: Reduction, site: Site<'_>) -> Rule {
    let Site { width, input, output, .. } = site;
    let elements = Scratch::Held(width.saturating_mul(input));
    let with_output = Rule { output: true, ..Rule::INPUT };
    match function {
        Reduction::Mean => Rule { forward_temporary: site.reduction_bytes(), ..Rule::PLAIN },
        Reduction::Sum => {
            Rule { forward_temporary: site.reduction_bytes(), gradient: InputGradient::Expanded, ..Rule::PLAIN }
        }
        Reduction::Index => Rule::PLAIN,
        // Positions, where the graph does not list them.
        Reduction::Max if site.node.outputs.len() < 2 => Rule::PLAIN.and(output.saturating_mul(8)),
        Reduction::Max => Rule { further_outputs: true, ..Rule::PLAIN },
        // A mask of equals, how many there are, and the share of each.
        Reduction::Amax => Rule {
            before: Scratches::of([
                Scratch::Held(input),
                Scratch::Held(output.saturating_mul(8)),
                Scratch::Held(width.saturating_mul(output)),
            ]),
            ..with_output
        },
        Reduction::Product | Reduction::Norm => with_output,
        // Deviations from the mean.
        Reduction::Std => Rule { before: Scratches::of([elements]), ..with_output },
        Reduction::Var => Rule { before: Scratches::of([elements]), ..Rule::INPUT },
        // Differences and their exponentials.
        Reduction::LogSumExp => Rule { before: Scratches::of([elements, elements]), ..with_output },
    }
}

/// Runs as a batch norm of one sample, with a weight for each channel of each sample.
fn instance_norm(site: Site<'_>) -> Rule {
    let planes = 4 * site.samples().saturating_mul(site.channels());
    if site.node.weights.is_empty() {
        return Rule::DENSE.and_both(planes);
    }
    Rule { extra: [planes; 3], ..Rule::DENSE }
}

fn pooling(pool: &Pool, site: Site<'_>) -> Rule {
    match pool.kind {
        // Eight-byte indices beside the input.
        PoolKind::Max | PoolKind::AdaptiveMax => Rule::DENSE.and(site.output.saturating_mul(8)),
        // A global average runs as a mean, which keeps nothing.
        PoolKind::AdaptiveAverage if site.output == site.samples().saturating_mul(site.channels()) => Rule::PLAIN,
        PoolKind::Average | PoolKind::AdaptiveAverage => Rule::DENSE,
    }
}

/// Tensors that stay empty of gradients: integers and booleans.
pub(super) fn is_differentiable(graph: &Graph, id: TensorId) -> bool {
    matches!(graph.tensor(id).dtype, DType::Float64 | DType::Float32 | DType::Float16 | DType::BFloat16 | DType::Float8)
}

impl Site<'_> {
    fn channels(self) -> u64 {
        self.first_dims().and_then(|dims| dims.get(1)).map_or(1, |dim| dim.factor())
    }

    pub(super) fn samples(self) -> u64 {
        let batch = self.workload.setup().batch_size;
        self.first_dims().and_then(|dims| dims.first()).and_then(|dim| dim.at(batch)).unwrap_or(1)
    }

    /// The buffer of a sum or mean over dimensions before the last.
    fn reduction_bytes(self) -> u64 {
        let last = |ids: &[TensorId]| {
            ids.first().and_then(|&id| self.workload.graph().tensor(id).shape.dims().last().copied())
        };
        if self.output == 0 || last(&self.node.inputs) != last(&self.node.outputs) {
            return 0;
        }
        sums::buffer_bytes(self.workload.gpu(), self.input / self.output, self.output)
    }

    fn rows(self) -> u64 {
        let width = self.first_dims().and_then(|dims| dims.last()).map_or(1, |dim| dim.factor());
        self.input / width.max(1)
    }

    fn first_dims(&self) -> Option<&[Dim]> {
        self.node.inputs.first().map(|&id| self.workload.graph().tensor(id).shape.dims())
    }
}
