//! Whose the bytes are that the allocator handed out.

use plimsoll_graph::{Graph, NodeId};

use crate::trace::{Buffer, Role};

/// Bytes handed out, by use: what was asked for, without the allocator's rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Parameters and buffers.
    pub weights: u64,
    /// Gradients of parameters.
    pub gradients: u64,
    /// Optimiser states.
    pub optimizer: u64,
    /// The batch, activations, what autograd keeps beside them, and the loss.
    pub activations: u64,
    /// Gradients of activations.
    pub activation_gradients: u64,
    /// Within one operator or one optimiser step.
    pub temporaries: u64,
    /// cuBLAS and cuDNN.
    pub workspaces: u64,
}

impl Usage {
    /// No use at all.
    pub(crate) const NOTHING: Self = Self {
        weights: 0,
        gradients: 0,
        optimizer: 0,
        activations: 0,
        activation_gradients: 0,
        temporaries: 0,
        workspaces: 0,
    };

    /// All uses together.
    pub const fn total(&self) -> u64 {
        self.weights
            + self.gradients
            + self.optimizer
            + self.activations
            + self.activation_gradients
            + self.temporaries
            + self.workspaces
    }

    const fn of(&mut self, role: Role) -> &mut u64 {
        match role {
            Role::Gradient => &mut self.gradients,
            Role::Temporary => &mut self.temporaries,
            Role::ActivationGradient => &mut self.activation_gradients,
            Role::Input | Role::Activation | Role::Saved | Role::Cast | Role::Loss => &mut self.activations,
        }
    }
}

/// Bytes that one node has asked for and that are still alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holding {
    /// What it computed, and copies of that at another precision.
    pub activations: u64,
    /// What its backward pass needs beside inputs and outputs.
    pub saved: u64,
    /// Gradients that it sends back, those of weights apart.
    pub activation_gradients: u64,
    /// Gradients of its weights.
    pub gradients: u64,
    /// Alive while it runs only.
    pub temporaries: u64,
}

impl Holding {
    /// All together.
    pub const fn total(&self) -> u64 {
        self.activations + self.saved + self.activation_gradients + self.gradients + self.temporaries
    }

    const fn of(&mut self, role: Role) -> &mut u64 {
        match role {
            Role::Input | Role::Activation | Role::Cast | Role::Loss => &mut self.activations,
            Role::Saved => &mut self.saved,
            Role::ActivationGradient => &mut self.activation_gradients,
            Role::Gradient => &mut self.gradients,
            Role::Temporary => &mut self.temporaries,
        }
    }
}

/// Bytes handed out, by use and by node.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// By use.
    pub usage: Usage,
    /// By node; the last entry is no node's: batch and loss. Weights, states and workspaces are not in it.
    holdings: Vec<Holding>,
}

impl Ledger {
    pub(crate) fn new(graph: &Graph) -> Self {
        Self { usage: Usage::NOTHING, holdings: vec![Holding::default(); graph.nodes().len() + 1] }
    }

    /// What a node holds; without a node, what the batch and the loss do.
    pub fn holding(&self, node: Option<NodeId>) -> Holding {
        self.holdings[self.place(node)]
    }

    pub(crate) fn take(&mut self, buffer: Buffer) {
        let place = self.place(buffer.node);
        *self.usage.of(buffer.role) += buffer.bytes;
        *self.holdings[place].of(buffer.role) += buffer.bytes;
    }

    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        let place = self.place(buffer.node);
        *self.usage.of(buffer.role) -= buffer.bytes;
        *self.holdings[place].of(buffer.role) -= buffer.bytes;
    }

    fn place(&self, node: Option<NodeId>) -> usize {
        node.map_or(self.holdings.len() - 1, |id| id.0 as usize)
    }
}
