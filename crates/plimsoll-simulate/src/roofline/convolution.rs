//! Kernels of convolutions.

use plimsoll_graph::{Conv, Node};

use super::algorithm::{Algorithm, Shape, VECTOR, is_plain_3_by_3};
use super::kernel::{Kernel, KernelKind};
use super::lower::Passes;
use super::matrix::Product;
use super::scene::Scene;
use crate::trace::Direction;

/// Kernels that gather their inputs element by element reach this much of what a plain product does.
const NARROW_SHARE: f64 = 0.5;
/// Winograd's tiles of 4 by 4 make 16 products do the work of 36.
const WINOGRAD_SAVING: f64 = 36.0 / 16.0;
/// What such a kernel reaches beside transforming its tiles.
const WINOGRAD_EFFICIENCY: f64 = 0.6;

/// A convolution as the products that cuDNN makes of it.
pub(super) fn convolution(scene: &Scene, node: &Node, conv: &Conv) -> Passes {
    let width = scene.width();
    let groups = conv.groups.max(1) as f64;
    let window = conv.kernel.iter().fold(1.0, |product, &extent| product * extent.max(1) as f64);
    let channels_in = scene.extent(node.inputs.first(), 1).unwrap_or(1.0);
    let channels_out = scene.extent(node.outputs.first(), 1).unwrap_or(1.0);
    let (inputs, outputs) = (scene.first_input(node), scene.outputs(node));
    // A transposed convolution is the data gradient of a plain one: roles swap.
    let (wide, narrow, positions) = if conv.transposed {
        (channels_out, channels_in, inputs / channels_in)
    } else {
        (channels_in, channels_out, outputs / channels_out)
    };
    let wide_positions = (if conv.transposed { outputs } else { inputs }) / wide;
    let per_group = (wide / groups).max(1.0);
    let filters = (narrow / groups).max(1.0);
    // Strides thin out the taps that reach a position.
    let taps = filters * window * positions / wide_positions.max(1.0);
    let weights = scene.weight(node, 0) * width;
    let (input_bytes, output_bytes) = (inputs * width, outputs * width);
    let mut passes = Passes::default();
    let depthwise = per_group < 4.0 && groups > 1.0;
    let allowed = scene.pipe(true);
    let row = scene.extent_from_end(node.inputs.first(), 0);
    let shape = Shape { channels: per_group, filters, row, is_plain_3_by_3: is_plain_3_by_3(conv) };
    let product = |direction, m, n, k, read, write| {
        let algorithm = shape.algorithm(allowed, direction);
        let pipe = algorithm.pipe(allowed);
        let product = Product { m, n, k, count: groups, width, pipe };
        let mut kernel = product.kernel(&scene.machine, KernelKind::Convolution);
        // Neighbouring positions read the same inputs: traffic is the tensors', not the unrolled matrix's.
        (kernel.read_bytes, kernel.write_bytes) = (read, write);
        kernel.padding *= shape.padding(pipe);
        match algorithm {
            Algorithm::Product => {}
            Algorithm::Gather => kernel.efficiency *= NARROW_SHARE,
            Algorithm::Winograd => {
                kernel.flops /= WINOGRAD_SAVING;
                kernel.efficiency = WINOGRAD_EFFICIENCY;
            }
        }
        kernel.channels = per_group;
        kernel.aligned = per_group % VECTOR == 0.0 && filters % VECTOR == 0.0;
        if depthwise {
            // No tile is worth loading: each output element gathers its window.
            let direct = Kernel::stream(KernelKind::Convolution, m * n * groups, read, write, k);
            return Kernel { efficiency: 0.3, ..direct };
        }
        kernel
    };
    // Tensor cores want channels last, which PyTorch's default layout is not.
    let reorders = |kernel: &Kernel| kernel.on_tensor_cores() && window > 1.0 && !depthwise;
    let reorder = |bytes: f64| Kernel::stream(KernelKind::Copy, bytes / width, bytes, bytes, 0.0);
    let lists = [
        (
            true,
            product(Direction::Forward, positions, filters, per_group * window, input_bytes + weights, output_bytes),
        ),
        (
            node.inputs.first().is_some_and(|&id| scene.wants_gradient(id)),
            product(Direction::DataGradient, wide_positions, per_group, taps, output_bytes + weights, input_bytes),
        ),
        (
            scene.trains(node, 0),
            product(
                Direction::FilterGradient,
                filters,
                per_group * window,
                positions,
                input_bytes + output_bytes,
                weights,
            ),
        ),
    ];
    for (index, (_, kernel)) in lists.into_iter().enumerate().filter(|(_, (wanted, _))| *wanted) {
        let list = if index == 0 { &mut passes.forward } else { &mut passes.backward };
        if reorders(&kernel) {
            list.push(reorder(kernel.read_bytes));
        }
        list.push(kernel);
        if reorders(&kernel) && index < 2 {
            list.push(reorder(kernel.write_bytes));
        }
    }
    if node.weights.len() > 1 {
        passes.forward.push(Kernel::stream(KernelKind::Elementwise, outputs, output_bytes, output_bytes, 1.0));
    }
    if scene.trains(node, 1) {
        passes.backward.push(Kernel::reduction(outputs, channels_out, output_bytes));
    }
    passes
}
