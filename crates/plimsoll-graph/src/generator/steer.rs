//! A crude idea of memory, to aim with. What a workload really takes is for others to say.

use super::ranges::Span;
use crate::graph::{Graph, WeightKind};
use crate::setup::{Precision, TrainingSetup};
use crate::shape::Dim;

/// Memory as a straight line over the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// Weights, gradients and optimiser state, in bytes.
    fixed: f64,
    /// Every activation that owns storage and what the loss of a language model takes, in bytes a sample.
    per_sample: f64,
}

impl Line {
    pub(super) fn new(graph: &Graph, setup: &TrainingSetup) -> Self {
        let half = |when: bool| if when { 0.5 } else { 1.0 };
        let weights: u64 = graph
            .weights()
            .iter()
            .filter(|weight| weight.kind == WeightKind::Parameter)
            .map(crate::graph::Weight::elements)
            .sum();
        let per_weight = 8.0 + setup.optimizer.state_bytes_per_parameter() as f64;
        let activations: f64 = graph
            .nodes()
            .iter()
            .filter(|node| !node.op.shares_storage())
            .flat_map(|node| &node.outputs)
            .map(|&id| {
                let tensor = graph.tensor(id);
                tensor.shape.elements(1).unwrap_or(u64::MAX) as f64 * tensor.dtype.bytes() as f64
            })
            .sum();
        // Scores of a whole vocabulary for every token are so large that their logarithms and gradients matter.
        let loss: f64 = graph
            .outputs()
            .iter()
            .map(|&id| &graph.tensor(id).shape)
            .filter(|shape| matches!(shape.dims().first(), Some(Dim::Batch(2..))))
            .map(|shape| 2.0 * 4.0 * shape.elements(1).unwrap_or(u64::MAX) as f64)
            .sum();
        let bf16 = setup.precision == Precision::Bf16;
        Self {
            fixed: weights as f64 * per_weight * half(bf16),
            per_sample: activations * half(bf16 || setup.precision.is_mixed()) + loss,
        }
    }

    /// Mebibytes at a batch, as a logarithm of base two.
    pub(super) fn log2_mib(self, batch: u64) -> f64 {
        (self.fixed + self.per_sample * batch as f64).max(1.0).log2() - 20.0
    }

    /// The batch that comes nearest to an amount of memory; a power of two if it shall be `round`.
    pub(super) fn batch_for(self, log2_mib: f64, span: Span, round: bool) -> u64 {
        let wanted = ((log2_mib + 20.0).exp2() - self.fixed) / self.per_sample.max(1.0);
        let wanted = wanted.max(1.0);
        let batch = if round { wanted.log2().round().exp2() } else { wanted.round() };
        (batch as u64).clamp(span.low, span.high)
    }
}
