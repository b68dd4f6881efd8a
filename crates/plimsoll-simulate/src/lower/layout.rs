//! How gradients lie in memory: what can be added to in place, and what is copied before it is read.

use plimsoll_graph::{Dim, Node, Op, TensorId};

use super::Lowering;
use super::rules::{InputGradient, Rule};
use crate::trace::{BufferId, Role};

/// The order of a gradient's elements in its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// That of its dimensions: contiguous.
    Rows,
    /// Another one, as after a transpose.
    Permuted,
    /// With gaps, as part of a larger tensor.
    Strided,
}

/// A gradient on its way back through the graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gradient {
    pub(super) buffer: BufferId,
    pub(super) order: Order,
    /// Whether it is a view. Autograd's views keep their base alive, so that nothing is added to them in place.
    pub(super) is_view: bool,
}

impl Gradient {
    /// A new tensor.
    pub(super) const fn new(buffer: BufferId) -> Self {
        Self { buffer, order: Order::Rows, is_view: false }
    }
}

impl Lowering<'_> {
    /// Whether a view or a copy turns dimensions around, as far as shapes tell.
    pub(super) fn turns(&self, node: &Node) -> bool {
        let (Some(&input), Some(&output)) = (node.inputs.first(), node.outputs.first()) else { return false };
        match node.op {
            Op::View => {
                let shapes = (self.extents(input), self.extents(output));
                // What needs a copy afterwards was turned, whether or not shapes show it.
                moves_back(&shapes.0, &shapes.1) || moves_back(&shapes.1, &shapes.0) || self.is_copied(output)
            }
            // What is not copied for the sake of an earlier turn is turned by the copy itself.
            Op::Copy => !self.is_from_view(input),
            _ => false,
        }
    }

    fn is_from_view(&self, id: TensorId) -> bool {
        self.writer(id).is_some_and(|node| matches!(node.op, Op::View))
    }

    fn writer(&self, id: TensorId) -> Option<&Node> {
        self.writers[id.0 as usize].map(|index| &self.workload.graph().nodes()[index as usize])
    }

    fn is_copied(&self, id: TensorId) -> bool {
        self.copies[id.0 as usize].is_some()
    }

    /// Whether an attention works on queries, keys and values whose tokens stand before the batch, as those of
    /// `nn.MultiheadAttention` do: its result is copied back into that order.
    pub(super) fn puts_tokens_first(&self, attention: &Node) -> bool {
        let Some(&output) = attention.outputs.first() else { return false };
        self.is_copied(output)
            || self.views[output.0 as usize].is_some_and(|view| {
                self.workload.graph().nodes()[view as usize].outputs.iter().any(|&id| self.is_copied(id))
            })
    }

    /// The copy into another order that a linear layer reads, if it does.
    pub(super) fn turned_copy(&self, linear: &Node) -> Option<&Node> {
        let input = linear.inputs.first().filter(|_| matches!(linear.op, Op::Linear));
        input.and_then(|&id| self.writer(id)).filter(|node| matches!(node.op, Op::Copy) && self.turns(node))
    }

    /// Whether a linear layer reads strided input: it makes a copy itself, and adds its bias afterwards.
    pub(super) fn is_strided(&self, linear: &Node) -> bool {
        let source = self.turned_copy(linear).and_then(|copy| copy.inputs.first());
        source.is_some_and(|&id| self.writer(id).is_none_or(|node| !matches!(node.op, Op::Attention { .. })))
    }

    /// Copies the gradient of a node's output where the backward pass starts with a change of shape, for which
    /// elements must stand in order.
    pub(super) fn put_in_order(&mut self, node: &Node, gradient: Gradient, id: TensorId) -> Gradient {
        let is_turned = self.turned_copy(node).is_some() && self.rank(id) > 2;
        if is_turned || self.flattens(node) && gradient.order == Order::Permuted {
            self.straightened(gradient, id)
        } else if self.splits_and_turns(node) && gradient.order == Order::Rows {
            Gradient { order: Order::Permuted, ..self.straightened(gradient, id) }
        } else {
            gradient
        }
    }

    /// Whether a node's backward pass starts with a change of shape.
    fn flattens(&self, node: &Node) -> bool {
        match node.op {
            Op::Linear => node.outputs.first().is_some_and(|&id| self.rank(id) > 2),
            Op::View => !self.turns(node),
            _ => false,
        }
    }

    /// Whether a view splits a dimension before it turns the parts: back again, parts that stand apart are copied
    /// together before they are one dimension.
    fn splits_and_turns(&self, node: &Node) -> bool {
        let (Some(&input), [output]) = (node.inputs.first(), &node.outputs[..]) else { return false };
        self.rank(input) < self.rank(*output) && self.turns(node)
    }

    fn rank(&self, id: TensorId) -> usize {
        self.workload.graph().tensor(id).shape.dims().len()
    }

    /// A copy of a gradient in the order of its dimensions, seen in another shape.
    pub(super) fn straightened(&mut self, gradient: Gradient, id: TensorId) -> Gradient {
        let buffer = self.tape.allocate(self.bytes(id), Role::ActivationGradient);
        self.tape.release(gradient.buffer);
        Gradient { buffer, order: Order::Rows, is_view: true }
    }

    /// How a gradient lies that is handed on as it is.
    pub(super) fn passed(&self, node: &Node, gradient: Gradient) -> Gradient {
        let order = match gradient.order {
            Order::Rows if self.turns(node) => Order::Permuted,
            Order::Permuted if self.turns(node) => Order::Rows,
            order => order,
        };
        let is_view = gradient.is_view || matches!(node.op, Op::View) || order != gradient.order;
        Gradient { buffer: gradient.buffer, order, is_view }
    }

    /// How a new gradient of an input lies.
    pub(super) fn made(
        &self,
        node: &Node,
        rule: &Rule,
        incoming: Gradient,
        id: TensorId,
        buffer: BufferId,
    ) -> Gradient {
        let order = match node.op {
            // Tokens stand before heads.
            Op::Attention { .. } if self.rank(id) > 3 => Order::Permuted,
            // Several parts are put together, and then turned.
            Op::View if node.outputs.len() > 1 && self.turns(node) => Order::Permuted,
            _ if rule.gradient == InputGradient::Elementwise && incoming.order == Order::Permuted => Order::Permuted,
            _ => Order::Rows,
        };
        // A product of matrices gives rows, which are seen as more dimensions.
        let is_view = matches!(node.op, Op::Linear) && self.rank(id) > 2;
        Gradient { buffer, order, is_view }
    }

    /// The extents of a tensor at the workload's batch.
    pub(super) fn extents(&self, id: TensorId) -> Vec<u64> {
        let batch = self.workload.setup().batch_size;
        let dims = self.workload.graph().tensor(id).shape.dims();
        dims.iter().map(|dim: &Dim| dim.at(batch).unwrap_or(1)).collect()
    }
}

/// Whether the first extent that differs stands further back in the other shape, and not because it was split.
fn moves_back(from: &[u64], to: &[u64]) -> bool {
    let Some(axis) = (0..from.len().min(to.len())).find(|&axis| from[axis] != to[axis]) else { return false };
    let extent = from[axis];
    let Some(behind) = to[axis..].iter().position(|&other| other == extent).filter(|_| extent > 1) else {
        return false;
    };
    to[axis..=axis + behind].iter().product::<u64>() != extent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_told_from_splits() {
        for (from, to, turns) in [
            (&[8, 24, 32][..], &[8, 32, 24][..], true),
            (&[8, 24, 32], &[8, 4, 24, 8], true),
            (&[8, 2, 4, 12], &[8, 4, 2, 12], true),
            (&[8, 24, 32], &[24, 8, 32], true),
            (&[8, 24, 32], &[8, 24, 4, 8], false),
            (&[8, 32], &[8, 1, 32], false),
            (&[8, 24, 32], &[8, 8, 32], false),
            (&[8, 24, 32], &[192, 32], false),
            (&[8, 64, 1, 1], &[8, 64], false),
        ] {
            assert_eq!(moves_back(from, to) || moves_back(to, from), turns, "{from:?} {to:?}");
        }
    }
}
