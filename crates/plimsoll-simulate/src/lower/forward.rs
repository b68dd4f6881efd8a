//! One node forward.

use plimsoll_graph::{Activation, Node, Op, TensorId};

use super::rules::{InputGradient, Keep, Rule};
use super::{Lowering, convolution, node_id};
use crate::trace::{BufferId, Direction, Event, Role};

impl Lowering<'_> {
    /// Runs a node. Unrecorded ones (inside a checkpointed segment) keep nothing.
    pub(super) fn forward(&mut self, index: usize, node: &Node, is_recorded: bool) {
        self.tape.node = Some(node_id(index));
        let rule = self.rule(node);
        let records = is_recorded && node.outputs.iter().any(|id| self.needs_gradient[id.0 as usize]);
        let mut passing = self.cast_weights(index, node, records);
        let inputs = self.take_inputs(node);
        let temporary =
            (rule.forward_temporary > 0).then(|| self.tape.allocate(rule.forward_temporary, Role::Temporary));
        let mut extra = if rule.extra_first { self.make_extra(&rule) } else { Vec::new() };
        self.compute_outputs(index, node, &rule, &inputs);
        if !rule.extra_first {
            extra = self.make_extra(&rule);
        }
        if records {
            self.save(index, node, &rule, &inputs);
            for buffer in extra {
                self.tape.trace.nodes[index].saved_bytes += self.tape.trace.bytes(buffer);
                self.saved[index].push(buffer);
            }
        } else {
            // Without a backward pass to come, masks and statistics die with the operator.
            for buffer in extra {
                self.tape.release(buffer);
            }
        }
        if let Some(temporary) = temporary {
            self.tape.release(temporary);
        }
        passing.extend(inputs);
        for buffer in passing {
            self.tape.release(buffer);
        }
        self.let_go(index, node);
    }

    /// The storages that a node reads, each with a claim of its own: those of its inputs, or copies at the width in
    /// which it computes.
    fn take_inputs(&mut self, node: &Node) -> Vec<BufferId> {
        let width = self.compute_width(node);
        let mut taken = Vec::with_capacity(node.inputs.len());
        for &id in &node.inputs {
            let Some(buffer) = self.values[id.0 as usize] else { continue };
            if self.is_cast(node, id, width) {
                taken.push(self.tape.allocate(self.elements[id.0 as usize] * width, Role::Cast));
            } else {
                self.tape.retain(buffer);
                taken.push(buffer);
            }
        }
        taken
    }

    /// Autocast's half-width copies of weights, the last first: made once, kept to the end of the forward pass, and
    /// beyond it by nodes whose input needs a gradient. Convolutions keep theirs in any case. Those of frozen weights
    /// are returned: they are made anew each time, and go when the node has run.
    fn cast_weights(&mut self, index: usize, node: &Node, records: bool) -> Vec<BufferId> {
        let input_needs = node.inputs.first().is_some_and(|id| self.needs_gradient[id.0 as usize]);
        let is_kept = records && (input_needs || matches!(node.op, Op::Conv(_)));
        let mut passing = Vec::new();
        for (position, &id) in node.weights.iter().enumerate().rev() {
            if !self.is_weight_cast(node, id) {
                continue;
            }
            let elements = self.workload.graph().weight(id).elements();
            let slot = id.0 as usize;
            let buffer = match self.weight_casts[slot] {
                Some(buffer) => buffer,
                None => self.tape.allocate(elements * 2, Role::Cast),
            };
            if self.trains[slot] {
                self.weight_casts[slot] = Some(buffer);
            } else {
                passing.push(buffer);
            }
            if is_kept && position == 0 {
                self.tape.retain(buffer);
                self.saved[index].push(buffer);
            }
        }
        passing
    }

    pub(super) fn release_weight_casts(&mut self) {
        for slot in 0..self.weight_casts.len() {
            if let Some(buffer) = self.weight_casts[slot].take() {
                self.tape.release(buffer);
            }
        }
    }

    fn compute_outputs(&mut self, index: usize, node: &Node, rule: &Rule, inputs: &[BufferId]) {
        let shares = node.op.shares_storage() || is_identity(node, rule) || overwrites(&node.op);
        for &id in &node.outputs {
            let slot = id.0 as usize;
            let buffer = match inputs.first() {
                Some(&input) if shares => {
                    self.tape.retain(input);
                    input
                }
                _ => {
                    let bytes = self.bytes(id);
                    self.tape.trace.nodes[index].output_bytes += bytes;
                    self.tape.allocate(bytes, Role::Activation)
                }
            };
            self.values[slot] = Some(buffer);
        }
        match &node.op {
            Op::Conv(_) => {
                if let Some(convolution) =
                    convolution(self.workload, node, Direction::Forward, self.compute_width(node))
                {
                    self.tape.convolve(convolution);
                }
            }
            Op::Linear | Op::MatMul | Op::Attention { .. } | Op::Recurrent { .. } => self.tape.push(Event::Multiply),
            _ => {}
        }
    }

    fn save(&mut self, index: usize, node: &Node, rule: &Rule, inputs: &[BufferId]) {
        let needs = |this: &Self, id: TensorId| this.needs_gradient[id.0 as usize];
        let trains = node.weights.iter().any(|id| self.trains[id.0 as usize]);
        for (position, &buffer) in inputs.iter().enumerate().take(rule.unkept_from) {
            let keep = if position == 0 { rule.input } else { rule.others };
            let is_kept = match keep {
                Keep::Never => false,
                Keep::Always => true,
                Keep::ForWeights => trains,
                Keep::ForOthers => {
                    trains || node.inputs.iter().enumerate().any(|(other, &id)| other != position && needs(self, id))
                }
            };
            if is_kept {
                self.keep(index, buffer);
            }
        }
        let first = usize::from(!rule.output);
        let kept = if rule.further_outputs { node.outputs.len() } else { usize::from(rule.output) };
        if first < kept {
            for &id in &node.outputs[first..kept.min(node.outputs.len())] {
                if let Some(buffer) = self.values[id.0 as usize] {
                    self.keep(index, buffer);
                }
            }
        }
    }

    /// Masks, indices and statistics.
    fn make_extra(&mut self, rule: &Rule) -> Vec<BufferId> {
        let sizes = rule.extra.into_iter().filter(|&bytes| bytes > 0);
        sizes.map(|bytes| self.tape.allocate(bytes, Role::Saved)).collect()
    }

    fn keep(&mut self, index: usize, buffer: BufferId) {
        self.tape.retain(buffer);
        self.saved[index].push(buffer);
        if self.tape.mark_saved(buffer) {
            self.tape.trace.nodes[index].saved_bytes += self.tape.trace.bytes(buffer);
        }
    }

    /// Variables go when their last reader has run and the module that was called with them is done; outputs that
    /// nobody reads at once, unless the loop holds them.
    fn let_go(&mut self, index: usize, node: &Node) {
        for &id in &node.inputs {
            self.drop_reader(id);
        }
        for id in std::mem::take(&mut self.released_after[index]) {
            self.drop_reader(id);
        }
        for &id in &node.outputs {
            if self.readers[id.0 as usize] == 0 {
                self.drop_value(id);
            }
        }
    }

    fn drop_reader(&mut self, id: TensorId) {
        let readers = &mut self.readers[id.0 as usize];
        *readers = readers.saturating_sub(1);
        if *readers == 0 {
            self.drop_value(id);
        }
    }

    fn drop_value(&mut self, id: TensorId) {
        let slot = id.0 as usize;
        if !self.is_output[slot]
            && let Some(buffer) = self.values[slot].take()
        {
            self.tape.release(buffer);
        }
    }
}

/// Whether an operator outside the format writes over its first input, which its name then tells.
pub(super) fn overwrites(op: &Op) -> bool {
    matches!(op, Op::Other { name } if name.ends_with('_'))
}

/// Whether the framework returns the input itself: dropout of nothing, the identity function.
fn is_identity(node: &Node, rule: &Rule) -> bool {
    rule.gradient == InputGradient::Passed
        && matches!(
            node.op,
            Op::Dropout { .. } | Op::StochasticDepth { .. } | Op::Activation { function: Activation::Identity, .. }
        )
}
