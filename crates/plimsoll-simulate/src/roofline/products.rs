//! Kernels of operators that multiply matrices: linear layers, products of activations, recurrent layers.

use plimsoll_graph::{Node, RecurrentCell};

use super::kernel::{Kernel, KernelKind};
use super::lower::Passes;
use super::matrix::Product;
use super::scene::Scene;

/// `y = x Wᵀ + b`: one product forwards; two and a sum backwards.
pub(super) fn linear(scene: &Scene, node: &Node) -> Passes {
    let out = scene.extent_from_end(node.outputs.first(), 0);
    let inner = scene.extent_from_end(node.inputs.first(), 0);
    let rows = (scene.outputs(node) / out).max(1.0);
    let mut passes = Passes::default();
    let product = |m, n, k| {
        let product = Product { m, n, k, count: 1.0, width: scene.width(), pipe: scene.pipe(false) };
        product.kernel(&scene.machine, KernelKind::Matrix)
    };
    passes.forward.push(product(rows, out, inner));
    if node.inputs.first().is_some_and(|&id| scene.wants_gradient(id)) {
        passes.backward.push(product(rows, inner, out));
    }
    if scene.trains(node, 0) {
        passes.backward.push(product(out, inner, rows));
    }
    if scene.trains(node, 1) {
        passes.backward.push(Kernel::reduction(rows * out, out, rows * out * scene.width()));
    }
    passes
}

/// The product of two activations, `count` of them.
pub(super) fn batched(scene: &Scene, node: &Node) -> Passes {
    let n = scene.extent_from_end(node.outputs.first(), 0);
    let m = scene.extent_from_end(node.outputs.first(), 1);
    let k = scene.extent_from_end(node.inputs.first(), 0);
    let count = (scene.outputs(node) / (m * n)).max(1.0);
    let mut passes = Passes::default();
    products(scene, &mut passes, (m, n, k), count);
    passes
}

pub(super) fn products(scene: &Scene, passes: &mut Passes, (m, n, k): (f64, f64, f64), count: f64) {
    let product = |m, n, k| {
        let product = Product { m, n, k, count, width: scene.width(), pipe: scene.pipe(false) };
        product.kernel(&scene.machine, KernelKind::Matrix)
    };
    passes.forward.push(product(m, n, k));
    passes.backward.extend([product(m, k, n), product(k, n, m)]);
}

/// A recurrent layer: the inputs' product at once, then a small product a step and direction.
pub(super) fn recurrent(scene: &Scene, node: &Node, cell: RecurrentCell, hidden: u64, stacked: u64) -> Passes {
    let gates = match cell {
        RecurrentCell::Rnn => 1.0,
        RecurrentCell::Gru => 3.0,
        RecurrentCell::Lstm => 4.0,
    };
    let hidden = hidden.max(1) as f64;
    let batch = scene.workload.setup().batch_size as f64;
    let parameters: f64 = (0..node.weights.len()).map(|position| scene.weight(node, position)).sum();
    let tokens = (scene.outputs(node) / scene.extent_from_end(node.outputs.first(), 0)).max(1.0);
    let steps = (tokens / batch).max(1.0) * stacked.max(1) as f64;
    let rows = (tokens / (tokens / batch).max(1.0)).max(1.0);
    let product = |m, n, k| {
        let product = Product { m, n, k, count: 1.0, width: scene.width(), pipe: scene.pipe(true) };
        product.kernel(&scene.machine, KernelKind::Matrix)
    };
    let outer = (parameters / (gates * hidden)).max(1.0);
    let mut passes = Passes::default();
    passes.forward.push(product(tokens, gates * hidden, outer));
    passes.backward.extend([product(tokens, outer, gates * hidden), product(gates * hidden, outer, tokens)]);
    let cell_bytes = rows * gates * hidden * 4.0;
    let point = Kernel::stream(KernelKind::Elementwise, rows * hidden, cell_bytes, cell_bytes, 10.0 * gates);
    for (list, step) in [
        (&mut passes.forward, product(rows, gates * hidden, hidden)),
        (&mut passes.backward, product(rows, hidden, gates * hidden)),
    ] {
        list.push(Kernel { repeat: steps, ..step });
        list.push(Kernel { repeat: steps, ..point });
    }
    passes
}
