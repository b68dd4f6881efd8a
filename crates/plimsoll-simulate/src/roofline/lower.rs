//! The kernels of a training step, in the order in which they are launched.

use plimsoll_graph::{Loss, Node, NodeId, Op, Workload};

use super::kernel::{Kernel, KernelKind};
use super::optimizer::optimizer;
use super::scene::Scene;
use super::{attention, convolution, products, streams};
use crate::replay::Phase;

/// Time that an interpreter, a module's call and the dispatcher take for an operator, microseconds.
const FORWARD_US: f64 = 25.0;
/// Time that autograd's engine takes for an operator.
const BACKWARD_US: f64 = 20.0;
/// What choosing an algorithm adds for a convolution.
const CONVOLUTION_US: f64 = 25.0;
/// Time to put one launch into the queue.
const LAUNCH_US: f64 = 8.0;

/// Kernels of a node.
#[derive(Debug, Default)]
pub(super) struct Passes {
    pub(super) forward: Vec<Kernel>,
    pub(super) backward: Vec<Kernel>,
}

impl Passes {
    pub(super) fn of<const F: usize, const B: usize>(forward: [Kernel; F], backward: [Kernel; B]) -> Self {
        Self { forward: forward.to_vec(), backward: backward.to_vec() }
    }
}

/// Forward, loss, backward and optimiser of one step, in order of launch. Linear in the graph.
pub fn kernels(workload: &Workload) -> Vec<Kernel> {
    let scene = Scene::of(workload);
    let nodes = workload.graph().nodes();
    let micro_batches = workload.setup().gradient_accumulation as f64;
    let mut all = Vec::with_capacity(nodes.len().saturating_mul(6));
    let mut backward = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let passes = passes(&scene, node);
        let id = NodeId(index as u32);
        let extra = if matches!(node.op, Op::Conv(_)) { CONVOLUTION_US } else { 0.0 };
        launch(&mut all, &passes.forward, (Some(id), Phase::Forward), FORWARD_US + extra);
        let mut list = Vec::with_capacity(passes.backward.len());
        if workload.setup().activation_checkpointing {
            launch(&mut list, &passes.forward, (Some(id), Phase::Backward), FORWARD_US + extra);
        }
        launch(&mut list, &passes.backward, (Some(id), Phase::Backward), BACKWARD_US + extra);
        backward.push(list);
    }
    let loss = loss(&scene);
    launch(&mut all, &loss.forward, (None, Phase::Forward), 2.0 * FORWARD_US);
    launch(&mut all, &loss.backward, (None, Phase::Backward), 2.0 * BACKWARD_US);
    all.extend(backward.into_iter().rev().flatten());
    for kernel in &mut all {
        kernel.repeat *= micro_batches;
    }
    optimizer(&scene, &mut all, LAUNCH_US);
    all
}

/// Appends the kernels of one operator; the first of them waits for all that happens before it.
fn launch(all: &mut Vec<Kernel>, kernels: &[Kernel], (node, phase): (Option<NodeId>, Phase), operator_us: f64) {
    for (index, kernel) in kernels.iter().enumerate() {
        let before = if index == 0 { operator_us } else { 0.0 };
        all.push(Kernel { node, phase, dispatch_us: before + LAUNCH_US, ..*kernel });
    }
}

fn passes(scene: &Scene, node: &Node) -> Passes {
    let mut passes = match &node.op {
        Op::Linear => products::linear(scene, node),
        Op::Conv(conv) => convolution::convolution(scene, node, conv),
        Op::MatMul => products::batched(scene, node),
        Op::Attention { heads, kernel, dropout, .. } => attention::attention(scene, node, *heads, *kernel, *dropout),
        Op::Recurrent { cell, hidden, layers, .. } => products::recurrent(scene, node, *cell, *hidden, *layers),
        _ => streams::passes(scene, node),
    };
    if !node.outputs.iter().any(|&id| scene.wants_gradient(id)) {
        passes.backward.clear();
    }
    if scene.workload.setup().precision.is_mixed() && node.op.token() != "embedding" && !node.weights.is_empty() {
        // Autocast narrows the weights anew in each step.
        let weight = scene.weight(node, 0);
        passes.forward.insert(0, Kernel::stream(KernelKind::Copy, weight, 4.0 * weight, 2.0 * weight, 0.0));
    }
    for &id in node.outputs.iter().filter(|&&id| scene.wants_gradient(id) && scene.gradient_sums(id) > 0) {
        // What several readers send back is added up.
        let bytes = scene.bytes(id);
        let sum = Kernel::stream(KernelKind::Elementwise, scene.elements(id), 2.0 * bytes, bytes, 1.0);
        passes.backward.insert(0, Kernel { repeat: f64::from(scene.gradient_sums(id)), ..sum });
    }
    passes
}

/// The loss over what the graph puts out.
fn loss(scene: &Scene) -> Passes {
    let Some(&id) = scene.workload.graph().outputs().first() else {
        return Passes::default();
    };
    let (elements, bytes) = (scene.elements(id), scene.elements(id) * 4.0);
    let stream = |kind, slots| Kernel::stream(kind, elements, bytes, bytes, slots);
    match scene.workload.setup().loss {
        Loss::Own => Passes::default(),
        Loss::MeanSquaredError => Passes::of(
            [stream(KernelKind::Elementwise, 2.0), Kernel::reduction(elements, 1.0, bytes)],
            [stream(KernelKind::Elementwise, 2.0)],
        ),
        Loss::CrossEntropy => {
            let rows = elements / scene.extent_from_end(Some(&id), 0);
            let softmax = stream(KernelKind::Normalisation, 10.0);
            let pick = Kernel { threads: 32.0, blocks: 1.0, ..Kernel::reduction(rows, 1.0, 12.0 * rows) };
            let zero = Kernel { read_bytes: 0.0, ..stream(KernelKind::Copy, 0.0) };
            Passes::of([softmax, pick], [zero, pick, softmax])
        }
    }
}
