//! Who holds the memory: layers and weights by size.

use std::cmp::Reverse;

use plimsoll_graph::{NodeId, WeightId, WeightKind, Workload};

use crate::ledger::{Holding, Ledger};
use crate::optimizer::{parameter_bytes, state_bytes};

/// What a layer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerShare {
    /// The layer.
    pub node: NodeId,
    /// Its bytes, by use. Its weights and their states are not among them.
    pub holding: Holding,
}

/// What a weight takes over the whole of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightShare {
    /// The weight.
    pub weight: WeightId,
    /// Itself.
    pub weight_bytes: u64,
    /// Its gradient, from the backward pass to the end of the step.
    pub gradient_bytes: u64,
    /// Its optimiser states.
    pub optimizer_bytes: u64,
}

impl WeightShare {
    /// All together.
    pub const fn total(&self) -> u64 {
        self.weight_bytes + self.gradient_bytes + self.optimizer_bytes
    }
}

/// Nodes that hold something, largest first; the earlier one where they hold the same.
pub(super) fn layers(workload: &Workload, ledger: &Ledger) -> Vec<LayerShare> {
    let nodes = (0..workload.graph().nodes().len() as u32).map(NodeId);
    let mut shares: Vec<LayerShare> = nodes
        .map(|node| LayerShare { node, holding: ledger.holding(Some(node)) })
        .filter(|share| share.holding.total() > 0)
        .collect();
    shares.sort_by_key(|share| Reverse(share.holding.total()));
    shares
}

/// Weights, largest first.
pub(super) fn weights(workload: &Workload) -> Vec<WeightShare> {
    let mut shares: Vec<WeightShare> = (0..)
        .map(WeightId)
        .zip(workload.graph().weights())
        .map(|(id, weight)| {
            let weight_bytes = parameter_bytes(workload, weight);
            let trains = weight.kind == WeightKind::Parameter && workload.trains(weight);
            WeightShare {
                weight: id,
                weight_bytes,
                gradient_bytes: if trains { weight_bytes } else { 0 },
                optimizer_bytes: if trains { state_bytes(workload, weight).iter().sum() } else { 0 },
            }
        })
        .collect();
    shares.sort_by_key(|share| Reverse(share.total()));
    shares
}
