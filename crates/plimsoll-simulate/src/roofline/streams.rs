//! Kernels of operators that stream: activations, normalisation, pooling, copies.

use plimsoll_graph::{Activation, Binary, Node, Op, Pool, PoolKind};

use super::kernel::{Kernel, KernelKind};
use super::lower::Passes;
use super::scene::Scene;

/// Kernels with which embedding gradients are sorted and summed.
const SORT_KERNELS: f64 = 8.0;

/// Instructions for an element, forwards and backwards, in round figures.
const fn instructions(function: Activation) -> (f64, f64) {
    match function {
        Activation::Identity => (0.0, 0.0),
        Activation::Relu | Activation::Relu6 | Activation::HardTanh => (1.0, 1.0),
        Activation::LeakyRelu | Activation::Prelu | Activation::HardSigmoid | Activation::HardSwish => (2.0, 3.0),
        Activation::Elu | Activation::Selu => (12.0, 12.0),
        Activation::Sigmoid | Activation::Silu | Activation::Glu => (12.0, 16.0),
        Activation::Tanh => (16.0, 3.0),
        Activation::Gelu => (25.0, 40.0),
        Activation::Softplus => (30.0, 16.0),
        Activation::Mish => (45.0, 50.0),
    }
}

/// Forward and backward of a node that does not multiply matrices.
pub(super) fn passes(scene: &Scene, node: &Node) -> Passes {
    let width = scene.width();
    let (inputs, outputs) = (scene.first_input(node), scene.outputs(node));
    let (read, write) = (scene.input_bytes(node), outputs * width);
    let elementwise = |read, write, slots| Kernel::stream(KernelKind::Elementwise, outputs, read, write, slots);
    let copy = |read, write| Kernel::stream(KernelKind::Copy, outputs.max(inputs), read, write, 0.0);
    match &node.op {
        Op::View | Op::Dropout { p: 0.0, .. } => Passes::default(),
        Op::Activation { function: Activation::Identity, .. } => Passes::default(),
        Op::Activation { function, .. } => {
            let (forward, backward) = instructions(*function);
            let mut passes =
                Passes::of([elementwise(read, write, forward)], [elementwise(2.0 * write, write, backward)]);
            if !node.weights.is_empty() {
                // A learned slope: its gradient is written out in full and summed.
                passes.backward.push(Kernel::reduction(outputs, scene.weight(node, 0), write));
            }
            passes
        }
        // A byte of mask for each element; the random numbers cost more than the product.
        Op::Dropout { .. } => {
            Passes::of([elementwise(read, write + outputs, 12.0)], [elementwise(write + outputs, write, 2.0)])
        }
        Op::BatchNorm | Op::InstanceNorm | Op::GroupNorm { .. } => {
            let channels = scene.extent(node.inputs.first(), 1).unwrap_or(1.0);
            let normed = |read, slots| normalisation(outputs, channels, read, write, slots);
            let mut passes = Passes::of([normed(2.0 * read, 6.0)], [normed(4.0 * write, 10.0)]);
            if matches!(node.op, Op::BatchNorm) {
                // The count of batches seen, on the GPU.
                passes.forward.push(Kernel::stream(KernelKind::Elementwise, 1.0, 8.0, 8.0, 1.0));
            }
            passes
        }
        Op::LayerNorm | Op::RmsNorm | Op::LocalResponseNorm => {
            let rows = inputs / scene.extent_from_end(node.inputs.first(), 0);
            let mut passes = Passes::of(
                [normalisation(outputs, rows, read, write, 6.0)],
                [normalisation(outputs, rows, 2.0 * write, write, 10.0)],
            );
            passes.backward.push(Kernel::reduction(2.0 * outputs, scene.weight(node, 0).max(1.0), 2.0 * write));
            passes
        }
        Op::Softmax | Op::LogSoftmax => {
            let rows = outputs / scene.extent_from_end(node.outputs.first(), 0);
            Passes::of(
                [normalisation(outputs, rows, read, write, 10.0)],
                [normalisation(outputs, rows, 2.0 * write, write, 4.0)],
            )
        }
        Op::StochasticDepth { .. } => {
            Passes::of([elementwise(0.0, 0.0, 0.0), elementwise(read, write, 1.0)], [elementwise(write, write, 1.0)])
        }
        Op::Pool(pool) => pooling(pool, inputs, outputs, (read, write)),
        Op::Embedding { .. } => {
            let table = scene.weight(node, 0) * 4.0;
            let sort = Kernel { repeat: SORT_KERNELS, ..Kernel::stream(KernelKind::Copy, inputs, read, read, 0.0) };
            let zero = Kernel::stream(KernelKind::Copy, table / 4.0, 0.0, table, 0.0);
            Passes::of([copy(read + write, write)], [zero, sort, copy(write, write)])
        }
        Op::Binary { function, .. } => {
            let forward = elementwise(read, write, 1.0);
            if matches!(function, Binary::Add | Binary::Subtract) || (node.inputs.len() < 2 && node.weights.is_empty())
            {
                return Passes::of([forward], []);
            }
            Passes::of([forward], [elementwise(2.0 * write, write, 1.0), elementwise(2.0 * write, write, 1.0)])
        }
        // The gradient of a concatenation is read in slices where it is.
        Op::Concat => Passes::of([copy(read, write)], []),
        Op::Copy | Op::Pad { .. } | Op::Upsample => Passes::of([copy(read, write)], [copy(write, read)]),
        Op::Gather => Passes::of([copy(write, write)], [copy(0.0, read), copy(write, write)]),
        Op::Reduce { .. } => Passes::of([Kernel::reduction(inputs, outputs, read)], [copy(write, read)]),
        _ => Passes::of([elementwise(read, write, 2.0)], [elementwise(read + write, read, 2.0)]),
    }
}

/// A normalisation over `sets`: a block for each, which reads its part twice.
fn normalisation(elements: f64, sets: f64, read: f64, write: f64, slots: f64) -> Kernel {
    let threads = (elements / sets.max(1.0)).clamp(32.0, 512.0);
    Kernel {
        blocks: sets.max(1.0),
        threads: (threads / 32.0).ceil() * 32.0,
        blocks_per_sm: 16.0,
        ..Kernel::stream(KernelKind::Normalisation, elements, read, write, slots)
    }
}

fn pooling(pool: &Pool, inputs: f64, outputs: f64, (read, write): (f64, f64)) -> Passes {
    let forward = match pool.kind {
        // A global average is a mean.
        PoolKind::AdaptiveAverage => Kernel::reduction(inputs, outputs, read),
        // Eight-byte indices beside the maximum.
        PoolKind::Max | PoolKind::AdaptiveMax => {
            Kernel::stream(KernelKind::Reduction, outputs, read, write + 8.0 * outputs, 9.0)
        }
        PoolKind::Average => Kernel::stream(KernelKind::Reduction, outputs, read, write, 9.0),
    };
    Passes::of([forward], [Kernel::stream(KernelKind::Elementwise, inputs, write, read, 2.0)])
}
