//! One node backward.

use std::collections::HashSet;

use plimsoll_graph::{Node, Op, TensorId, WeightId};

use super::kernels::MASK;
use super::layout::{Gradient, Order};
use super::rules::{InputGradient, Rule, Scratch, Scratches};
use super::{Lowering, convolution, node_id, sums};
use crate::optimizer::parameter_bytes;
use crate::trace::{BufferId, Direction, Event, Role};

impl Lowering<'_> {
    /// Takes the gradients of a node's outputs to its inputs and weights, and frees what it kept.
    pub(super) fn backward(&mut self, index: usize, node: &Node) {
        self.tape.node = Some(node_id(index));
        let reached: Vec<TensorId> =
            node.outputs.iter().copied().filter(|id| self.gradients[id.0 as usize].is_some()).collect();
        let mut incoming: Vec<Gradient> =
            reached.iter().filter_map(|id| self.gradients[id.0 as usize].take()).collect();
        if incoming.is_empty() {
            self.free_saved(index);
            return;
        }
        for (gradient, &id) in incoming.iter_mut().zip(&reached) {
            *gradient = self.put_in_order(node, *gradient, id);
        }
        let mut rule = self.rule(node);
        let is_tokens_first = matches!(node.op, Op::Attention { .. }) && self.puts_tokens_first(node);
        rule.weights_first |= self.is_strided(node);
        rule.needs_rows &= !matches!(node.op, Op::Attention { .. }) || is_tokens_first;
        let mut held = self.take(&rule.before);
        if node.outputs.len() > 1 && matches!(node.op, Op::View) {
            // Parts that nobody differentiates are filled with zeros.
            let reached: HashSet<TensorId> = reached.iter().copied().collect();
            for &id in node.outputs.iter().filter(|id| !reached.contains(id)) {
                held.push(self.tape.allocate(self.bytes(id), Role::Temporary));
            }
        }
        if rule.needs_rows && incoming.iter().any(|gradient| gradient.order != Order::Rows) {
            let bytes = node.outputs.iter().map(|&id| self.bytes(id)).sum();
            held.push(self.tape.allocate(bytes, Role::Temporary));
        }
        let (mut of_inputs, of_weights) = if rule.weights_first {
            let of_weights = self.weight_gradients(node, true);
            (self.input_gradients(node, &rule, &incoming), of_weights)
        } else {
            let of_inputs = self.input_gradients(node, &rule, &incoming);
            held.append(&mut self.take(&rule.after));
            (of_inputs, self.weight_gradients(node, false))
        };
        if rule.weights_first {
            held.append(&mut self.take(&rule.after));
        }
        self.release_all(&mut held);
        for gradient in incoming {
            self.tape.release(gradient.buffer);
        }
        self.free_saved(index);
        if is_tokens_first {
            // Heads are taken apart, and then tokens: the last input first, each time in another order.
            for _ in 0..2 {
                for (id, gradient) in of_inputs.iter_mut().rev() {
                    *gradient = self.straightened(*gradient, *id);
                }
            }
        }
        for (id, gradient) in of_inputs {
            let gradient = if rule.mask_gradient > 0 && node.inputs.get(MASK) == Some(&id) {
                let summed = self.tape.allocate(self.bytes(id), Role::ActivationGradient);
                self.tape.release(gradient.buffer);
                Gradient::new(summed)
            } else {
                self.uncast(node, id, gradient)
            };
            self.flow(id, gradient);
        }
        self.accumulate_weights(node, of_weights);
    }

    /// Takes an operator's own memory; what it holds until it is done is returned.
    fn take(&mut self, scratch: &Scratches) -> Vec<BufferId> {
        let (mut held, mut passing) = (Vec::new(), Vec::new());
        for part in scratch.iter() {
            match part {
                Scratch::Held(bytes) => {
                    held.push(self.tape.allocate(bytes, Role::Temporary));
                    self.release_all(&mut passing);
                }
                Scratch::Passing(bytes) => passing.push(self.tape.allocate(bytes, Role::Temporary)),
            }
        }
        self.release_all(&mut passing);
        held
    }

    fn release_all(&mut self, buffers: &mut Vec<BufferId>) {
        for buffer in buffers.drain(..) {
            self.tape.release(buffer);
        }
    }

    fn free_saved(&mut self, index: usize) {
        for buffer in std::mem::take(&mut self.saved[index]) {
            self.tape.release(buffer);
        }
    }

    /// Gradients of a node's inputs, in the order of these.
    fn input_gradients(&mut self, node: &Node, rule: &Rule, incoming: &[Gradient]) -> Vec<(TensorId, Gradient)> {
        let mut made: Vec<(TensorId, Gradient, bool)> = Vec::with_capacity(node.inputs.len());
        // Products, quotients and differences take their gradients by the names of their operands: `other` or `mat2`
        // first, then `self`.
        let is_other_first = matches!(node.op, Op::MatMul | Op::Binary { .. });
        for step in 0..node.inputs.len() {
            let position = if is_other_first { node.inputs.len() - 1 - step } else { step };
            let id = node.inputs[position];
            if self.needs_gradient[id.0 as usize] {
                let (gradient, is_whole) = self.input_gradient(node, rule, incoming, position);
                made.push((id, gradient, is_whole));
            }
        }
        if is_other_first {
            made.reverse();
        }
        let summed = made.into_iter().map(|(id, gradient, is_whole)| {
            if !is_whole {
                return (id, gradient);
            }
            let buffer = self.tape.allocate(self.bytes(id), Role::ActivationGradient);
            self.tape.release(gradient.buffer);
            (id, Gradient::new(buffer))
        });
        summed.collect()
    }

    /// The gradient of one input, and whether it is made in full, to be summed when all are there.
    fn input_gradient(&mut self, node: &Node, rule: &Rule, incoming: &[Gradient], position: usize) -> (Gradient, bool) {
        let id = node.inputs[position];
        let width = self.compute_width(node);
        let output: u64 = node.outputs.iter().map(|id| self.elements[id.0 as usize]).sum();
        let first = incoming[0];
        let elements = self.elements[id.0 as usize];
        let same_size = elements == output && incoming.len() == 1;
        let way = match rule.gradient {
            InputGradient::PassedFirst if position == 0 => InputGradient::Passed,
            InputGradient::PassedFirst => InputGradient::Elementwise,
            way => way,
        };
        let is_whole = way == InputGradient::Elementwise && elements < output && node.outputs.len() == 1;
        let gradient = match way {
            _ if position == MASK && rule.mask_gradient > 0 => {
                Gradient::new(self.tape.allocate(rule.mask_gradient, Role::ActivationGradient))
            }
            _ if is_whole => Gradient::new(self.tape.allocate(output * width, Role::ActivationGradient)),
            InputGradient::Passed if same_size && !self.changes_width(node, id) => {
                self.tape.retain(first.buffer);
                self.passed(node, first)
            }
            InputGradient::Slice if !self.changes_width(node, id) => {
                self.tape.retain(first.buffer);
                // A concatenation of one tensor is sliced whole.
                let order = if same_size { first.order } else { Order::Strided };
                Gradient { buffer: first.buffer, order, is_view: true }
            }
            InputGradient::Expanded if !self.changes_width(node, id) => {
                self.tape.retain(first.buffer);
                Gradient { buffer: first.buffer, order: Order::Permuted, is_view: true }
            }
            _ => {
                let bytes = if self.is_cast(node, id, width) { elements * width } else { self.bytes(id) };
                let buffer = self.tape.allocate(bytes, Role::ActivationGradient);
                self.work(node, Direction::DataGradient);
                self.made(node, rule, first, id, buffer)
            }
        };
        (gradient, is_whole && position != MASK)
    }

    /// Whether input and output of a node differ in the width of their elements.
    fn changes_width(&self, node: &Node, input: TensorId) -> bool {
        let output = node.outputs.first().map(|id| self.widths[id.0 as usize]);
        output.is_some_and(|width| width != self.widths[input.0 as usize])
    }

    /// Gradients of trained weights, at the width in which the node computes.
    fn weight_gradients(&mut self, node: &Node, bias_first: bool) -> Vec<(WeightId, BufferId)> {
        let mut gradients = Vec::new();
        let mut weights = node.weights.clone();
        if bias_first {
            weights.reverse();
        }
        for id in weights {
            if !self.trains[id.0 as usize] {
                continue;
            }
            let weight = self.workload.graph().weight(id);
            let bytes = if self.is_weight_cast(node, id) {
                weight.elements() * 2
            } else {
                parameter_bytes(self.workload, weight)
            };
            let buffer = self.tape.allocate(bytes, Role::Gradient);
            if gradients.is_empty() {
                self.work(node, Direction::FilterGradient);
            }
            self.sum_rows(node, id);
            gradients.push((id, buffer));
        }
        gradients
    }

    /// The buffer in which the gradient of a weight is summed that works alike on every row: biases, positions, scales.
    fn sum_rows(&mut self, node: &Node, id: WeightId) {
        let is_summed = match node.op {
            Op::Linear => node.weights.first() != Some(&id),
            Op::Binary { .. } => self.is_of_rows(node, id),
            _ => false,
        };
        if is_summed {
            let columns = self.workload.graph().weight(id).elements();
            let elements = node.outputs.first().map_or(0, |&id| self.elements[id.0 as usize]);
            self.tape.touch(sums::buffer_bytes(self.workload.gpu(), elements / columns.max(1), columns));
        }
    }

    /// Whether a weight has the last extents of a node's output.
    fn is_of_rows(&self, node: &Node, id: WeightId) -> bool {
        let graph = self.workload.graph();
        let dims = graph.weight(id).shape.dims();
        let leading = dims.iter().take_while(|dim| dim.factor() == 1).count();
        node.outputs.first().is_some_and(|&id| graph.tensor(id).shape.dims().ends_with(&dims[leading..]))
    }

    /// Kernels that take workspaces.
    fn work(&mut self, node: &Node, direction: Direction) {
        match &node.op {
            Op::Conv(_) => {
                if let Some(convolution) = convolution(self.workload, node, direction, self.compute_width(node)) {
                    self.tape.convolve(convolution);
                }
            }
            Op::Linear | Op::MatMul | Op::Attention { .. } | Op::Recurrent { .. } => self.tape.push(Event::Multiply),
            _ => {}
        }
    }

    /// Hands weights their gradients, converted to their own width first.
    fn accumulate_weights(&mut self, node: &Node, gradients: Vec<(WeightId, BufferId)>) {
        for (id, buffer) in gradients {
            let buffer = if self.is_weight_cast(node, id) {
                let wide = self
                    .tape
                    .allocate(parameter_bytes(self.workload, self.workload.graph().weight(id)), Role::Gradient);
                self.tape.release(buffer);
                wide
            } else {
                buffer
            };
            self.gather(id, buffer, matches!(node.op, Op::Linear));
        }
    }

    /// Sums the gradients of a weight that several nodes use; when the last has come, the weight takes them.
    fn gather(&mut self, id: WeightId, new: BufferId, is_view: bool) {
        let slot = id.0 as usize;
        self.uses[slot] = self.uses[slot].saturating_sub(1);
        let sum = match self.pending[slot].take() {
            None => (new, is_view),
            Some((old, false)) => {
                self.tape.release(new);
                (old, false)
            }
            Some((old, true)) => {
                let sum = self.tape.allocate(self.tape.trace.bytes(new), Role::Gradient);
                self.tape.release(old);
                self.tape.release(new);
                (sum, false)
            }
        };
        if self.uses[slot] == 0 {
            self.tape.push(Event::Accumulate(sum.0, id));
        } else {
            self.pending[slot] = Some(sum);
        }
    }

    /// Weights whose other uses no gradient has reached take what there is.
    pub(super) fn accumulate_pending(&mut self) {
        for slot in 0..self.pending.len() {
            if let Some((buffer, _)) = self.pending[slot].take() {
                self.tape.push(Event::Accumulate(buffer, WeightId(slot as u32)));
            }
        }
    }

    /// The gradient of an input that autocast had converted.
    fn uncast(&mut self, node: &Node, id: TensorId, gradient: Gradient) -> Gradient {
        let width = self.compute_width(node);
        if !self.is_cast(node, id, width) {
            return gradient;
        }
        let buffer = self.tape.allocate(self.bytes(id), Role::ActivationGradient);
        self.tape.release(gradient.buffer);
        Gradient { buffer, is_view: false, ..gradient }
    }

    /// Adds a gradient to what other readers of the tensor have sent: in place if nobody else sees it.
    fn flow(&mut self, id: TensorId, new: Gradient) {
        let slot = id.0 as usize;
        let Some(old) = self.gradients[slot] else {
            self.gradients[slot] = Some(new);
            return;
        };
        if !old.is_view && old.order != Order::Strided && self.tape.is_sole_owner(old.buffer) {
            self.tape.release(new.buffer);
            return;
        }
        let buffer = self.tape.allocate(self.bytes(id), Role::ActivationGradient);
        self.tape.release(old.buffer);
        self.tape.release(new.buffer);
        self.gradients[slot] = Some(Gradient::new(buffer));
    }
}
