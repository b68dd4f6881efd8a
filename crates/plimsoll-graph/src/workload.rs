//! A workload: the training job whose cost is to be told.

use crate::error::{GraphError, Result};
use crate::gpu::Gpu;
use crate::graph::{Graph, TensorId, Weight, WeightKind};
use crate::setup::TrainingSetup;

/// A graph, how it is trained, and on which GPU. Sizes at its batch are known not to overflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    graph: Graph,
    setup: TrainingSetup,
    gpu: Gpu,
}

impl Workload {
    /// More activation bytes than this cannot be meant (a thousand times the largest cluster's memory); it
    /// leaves room for sums and products of sizes without overflow.
    pub const MAX_BYTES: u64 = 1 << 56;

    /// Puts the parts together.
    ///
    /// # Errors
    /// A setup out of range, or activations that at this batch exceed [`Workload::MAX_BYTES`].
    pub fn new(graph: Graph, setup: TrainingSetup, gpu: Gpu) -> Result<Self> {
        setup.check()?;
        let mut total = 0_u64;
        for tensor in graph.tensors() {
            let bytes = tensor
                .shape
                .elements(setup.batch_size)
                .and_then(|elements| elements.checked_mul(tensor.dtype.bytes()))
                .and_then(|bytes| total.checked_add(bytes))
                .filter(|&bytes| bytes <= Self::MAX_BYTES);
            total = bytes.ok_or_else(|| GraphError::Overflow {
                what: format!("memory of `{}` at batch {}", tensor.name, setup.batch_size),
                found: tensor.shape.to_string(),
            })?;
        }
        Ok(Self { graph, setup, gpu })
    }

    /// The computation graph.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How it is trained.
    pub const fn setup(&self) -> &TrainingSetup {
        &self.setup
    }

    /// The GPU it runs on.
    pub const fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The same job on another GPU.
    #[must_use]
    pub fn on(&self, gpu: Gpu) -> Self {
        Self { graph: self.graph.clone(), setup: self.setup.clone(), gpu }
    }

    /// Elements of a tensor at this workload's batch.
    pub fn elements(&self, id: TensorId) -> u64 {
        let shape = &self.graph.tensor(id).shape;
        shape.elements(self.setup.batch_size).expect("checked when the workload was built")
    }

    /// Whether a weight is updated: the graph and the setup must both say so.
    pub fn trains(&self, weight: &Weight) -> bool {
        weight.kind == WeightKind::Parameter && self.setup.trains(&weight.name)
    }
}
