//! From a forward graph and a training setup to the memory events of a training step.
//!
//! The forward pass allocates what each node computes, keeps what its [rule](rules) says autograd keeps, and lets go
//! of the rest as soon as nothing reads it. The backward pass visits nodes in reverse, allocates gradients and frees
//! what was kept. Everything is linear in the graph.

mod aten;
mod backward;
mod checkpoint;
mod convolution;
mod forward;
mod kernels;
mod layout;
mod loss;
mod rules;
mod scopes;
mod sums;
mod tape;

use std::collections::HashSet;

use plimsoll_graph::{DType, Graph, Node, NodeId, Op, Precision, TensorId, WeightId, Workload};

use self::checkpoint::Segments;
pub(crate) use self::convolution::convolution;
use self::forward::overwrites;
pub(crate) use self::kernels::Sorting;
use self::layout::Gradient;
use self::rules::{Rule, Site, autocast_width, is_differentiable, rule};
pub(crate) use self::sums::buffer_bytes as sum_buffer_bytes;
use self::tape::Tape;
use crate::trace::{BufferId, Event, NodeMemory, StepTrace};

/// The memory events of one training step of a workload.
pub fn lower(workload: &Workload) -> StepTrace {
    Lowering::new(workload).step()
}

/// The memory events of a forward pass alone, after which everything is freed.
pub fn lower_forward(workload: &Workload) -> StepTrace {
    Lowering::new(workload).forward_only()
}

/// Names of operators whose memory no rule tells, each once, in order of appearance.
///
/// Those whose results are integers or booleans need no rule: no gradient flows through them, so nothing is kept.
pub fn unruled_operators(graph: &Graph) -> Vec<&str> {
    let mut seen = HashSet::new();
    let names = graph.nodes().iter().filter_map(|node| match &node.op {
        Op::Other { name } if !aten::is_known(name) => {
            node.outputs.iter().any(|id| is_differentiable(graph, *id)).then_some(name.as_str())
        }
        _ => None,
    });
    names.filter(|name| seen.insert(*name)).collect()
}

/// Everything known while a step is lowered.
struct Lowering<'a> {
    workload: &'a Workload,
    tape: Tape,
    /// Elements, bytes of an element, and whether a gradient flows back, by tensor.
    elements: Vec<u64>,
    widths: Vec<u8>,
    needs_gradient: Vec<bool>,
    /// Whether a weight trains, by weight.
    trains: Vec<bool>,
    /// The storage of a tensor while some node has yet to read it.
    values: Vec<Option<BufferId>>,
    /// Nodes that have yet to read a tensor, or that it outlives.
    readers: Vec<u32>,
    /// Tensors that go when a node has run although it does not read them last, by node.
    released_after: Vec<Vec<TensorId>>,
    /// Half-width copies of weights that autocast keeps for the forward pass.
    weight_casts: Vec<Option<BufferId>>,
    /// Buffers kept for the backward pass, and where those of a node lie.
    saved: Vec<Vec<BufferId>>,
    gradients: Vec<Option<Gradient>>,
    segments: Segments,
    is_output: Vec<bool>,
    /// The node that writes a tensor, one that copies it, and one that views it.
    writers: Vec<Option<u32>>,
    copies: Vec<Option<u32>>,
    views: Vec<Option<u32>>,
    /// Gradients of weights that more than one node uses, whether they are views, and how many have yet to come.
    pending: Vec<Option<(BufferId, bool)>>,
    uses: Vec<u32>,
    /// The gradient of the loss, which the caller of the backward pass holds until it is over.
    seed: Option<BufferId>,
}

impl<'a> Lowering<'a> {
    fn new(workload: &'a Workload) -> Self {
        let graph = workload.graph();
        let tensors = graph.tensors().len();
        let mut readers = vec![0; tensors];
        for id in graph.nodes().iter().flat_map(|node| &node.inputs) {
            readers[id.0 as usize] += 1;
        }
        let mut released_after = vec![Vec::new(); graph.nodes().len()];
        for (slot, holder) in scopes::last_holders(graph).into_iter().enumerate() {
            if let Some(holder) = holder {
                readers[slot] += 1;
                released_after[holder as usize].push(TensorId(slot as u32));
            }
        }
        let setup = workload.setup();
        let segments = if setup.activation_checkpointing { Segments::of(graph) } else { Segments::default() };
        let mut lowering = Self {
            workload,
            tape: Tape::default(),
            elements: (0..tensors as u32).map(|id| workload.elements(TensorId(id))).collect(),
            widths: graph.tensors().iter().map(|tensor| float_width(tensor.dtype, setup.precision)).collect(),
            needs_gradient: vec![false; tensors],
            trains: graph.weights().iter().map(|weight| workload.trains(weight)).collect(),
            values: vec![None; tensors],
            readers,
            released_after,
            weight_casts: vec![None; graph.weights().len()],
            saved: vec![Vec::new(); graph.nodes().len()],
            gradients: vec![None; tensors],
            segments,
            is_output: vec![false; tensors],
            writers: vec![None; tensors],
            copies: vec![None; tensors],
            views: vec![None; tensors],
            pending: vec![None; graph.weights().len()],
            uses: vec![0; graph.weights().len()],
            seed: None,
        };
        for (index, node) in graph.nodes().iter().enumerate() {
            for id in &node.outputs {
                lowering.writers[id.0 as usize] = Some(index as u32);
            }
            let readers = match node.op {
                Op::Copy => &mut lowering.copies,
                Op::View => &mut lowering.views,
                _ => continue,
            };
            for id in &node.inputs {
                readers[id.0 as usize] = Some(index as u32);
            }
        }
        for id in graph.nodes().iter().flat_map(|node| &node.weights) {
            lowering.uses[id.0 as usize] += 1;
        }
        for id in graph.outputs() {
            lowering.is_output[id.0 as usize] = true;
        }
        lowering.tape.trace.nodes = vec![NodeMemory::default(); graph.nodes().len()];
        lowering.infer();
        lowering
    }

    /// Widths of elements and the reach of gradients, node by node.
    fn infer(&mut self) {
        let is_mixed = self.workload.setup().precision.is_mixed();
        for node in self.workload.graph().nodes() {
            let trains = node.weights.iter().any(|id| self.trains[id.0 as usize]);
            let needs = trains || node.inputs.iter().any(|id| self.needs_gradient[id.0 as usize]);
            let width = is_mixed.then(|| self.mixed_width(node));
            for &output in &node.outputs {
                let index = output.0 as usize;
                self.needs_gradient[index] = needs && is_differentiable(self.workload.graph(), output);
                if let Some(width) = width
                    && self.workload.graph().tensor(output).dtype == DType::Float32
                {
                    self.widths[index] = width as u8;
                }
            }
            if needs && overwrites(&node.op) {
                self.reach_whole(node);
            }
        }
    }

    /// What is written into a view reaches all who read the viewed tensor from then on, though the graph names that
    /// one as it was.
    fn reach_whole(&mut self, node: &Node) {
        let graph = self.workload.graph();
        let mut part = node.inputs.first();
        while let Some(&id) = part {
            let writer = self.writers[id.0 as usize].map(|index| &graph.nodes()[index as usize]);
            part = writer.filter(|writer| writer.op == Op::View).and_then(|writer| writer.inputs.first());
            let Some(&whole) = part else { return };
            // Whatever a tensor is a view of is reached when the tensor is.
            if self.needs_gradient[whole.0 as usize] || !is_differentiable(graph, whole) {
                return;
            }
            self.needs_gradient[whole.0 as usize] = true;
        }
    }

    /// Width of a node's fp32 outputs under autocast.
    fn mixed_width(&self, node: &Node) -> u64 {
        let of_inputs = || {
            node.inputs
                .iter()
                .filter(|id| is_differentiable(self.workload.graph(), **id))
                .map(|id| u64::from(self.widths[id.0 as usize]))
                .max()
        };
        match autocast_width(&node.op) {
            Some(width) => width,
            // Arithmetic with an fp32 weight gives fp32.
            None if matches!(node.op, Op::Binary { .. }) && !node.weights.is_empty() => 4,
            None => of_inputs().unwrap_or(4),
        }
    }

    fn bytes(&self, id: TensorId) -> u64 {
        self.elements[id.0 as usize] * u64::from(self.widths[id.0 as usize])
    }

    /// Bytes of an element as a node computes: autocast converts inputs of another width.
    fn compute_width(&self, node: &Node) -> u64 {
        let natural = || node.outputs.first().map_or(4, |id| u64::from(self.widths[id.0 as usize]));
        if self.workload.setup().precision.is_mixed() {
            autocast_width(&node.op).unwrap_or_else(natural)
        } else {
            natural()
        }
    }

    /// Whether autocast copies an input at another width.
    fn is_cast(&self, node: &Node, input: TensorId, width: u64) -> bool {
        self.workload.setup().precision.is_mixed()
            && autocast_width(&node.op).is_some()
            && self.workload.graph().tensor(input).dtype == DType::Float32
            && u64::from(self.widths[input.0 as usize]) != width
    }

    fn is_weight_cast(&self, node: &Node, weight: WeightId) -> bool {
        self.workload.setup().precision.is_mixed()
            && autocast_width(&node.op) == Some(2)
            && self.workload.graph().weight(weight).dtype == DType::Float32
    }

    fn rule(&self, node: &Node) -> Rule {
        let elements = |ids: &[TensorId]| ids.first().map_or(0, |id| self.elements[id.0 as usize]);
        rule(Site {
            workload: self.workload,
            node,
            input: elements(&node.inputs),
            output: elements(&node.outputs),
            width: self.compute_width(node),
        })
    }

    fn step(mut self) -> StepTrace {
        let graph = self.workload.graph();
        self.start();
        let target = self.target();
        self.tape.push(Event::ZeroGrad);
        for (index, node) in graph.nodes().iter().enumerate() {
            self.enter(index);
            let is_recorded = !self.segments.contains(index);
            self.forward(index, node, is_recorded);
        }
        let seed = self.loss(target);
        self.tape.trace.saved_bytes = self.tape.live();
        self.tape.push(Event::Backward);
        self.start_backward(seed);
        let mut index = graph.nodes().len();
        while index > 0 {
            index -= 1;
            self.recompute_ending_at(index);
            self.backward(index, &graph.nodes()[index]);
        }
        self.accumulate_pending();
        if let Some(seed) = self.seed.take() {
            self.tape.release(seed);
        }
        self.finish()
    }

    fn forward_only(mut self) -> StepTrace {
        self.start();
        for (index, node) in self.workload.graph().nodes().iter().enumerate() {
            self.forward(index, node, true);
        }
        self.release_values();
        for saved in std::mem::take(&mut self.saved).into_iter().flatten() {
            self.tape.release(saved);
        }
        self.release_weight_casts();
        let mut trace = self.finish();
        // A pass of its own keeps nothing for a step to come.
        for id in std::mem::take(&mut trace.held) {
            trace.events.push(Event::Free(id));
        }
        trace
    }

    /// The batch arrives; that of the step before goes first.
    fn start(&mut self) {
        for &id in self.workload.graph().inputs() {
            let bytes = self.bytes(id);
            let buffer = self.tape.arrive(bytes);
            // Beyond what the loop holds there is the graph's own claim, given up when the last node has read it.
            if self.readers[id.0 as usize] > 0 {
                self.tape.retain(buffer);
                self.values[id.0 as usize] = Some(buffer);
            }
        }
    }

    /// The graph's claims on what nobody has read end; the training loop's stay.
    fn release_values(&mut self) {
        for slot in 0..self.values.len() {
            if let Some(buffer) = self.values[slot].take() {
                self.tape.release(buffer);
            }
        }
    }

    fn finish(self) -> StepTrace {
        self.tape.trace
    }
}

/// Bytes of an element: floats are half as wide in pure bf16.
fn float_width(dtype: DType, precision: Precision) -> u8 {
    let bytes = if precision == Precision::Bf16 && dtype == DType::Float32 { 2 } else { dtype.bytes() };
    bytes as u8
}

/// The node of an index.
fn node_id(index: usize) -> NodeId {
    NodeId(index as u32)
}
