//! A workload: the training job whose cost is to be told.

use std::sync::Arc;

use crate::error::{GraphError, Result, nearest};
use crate::gpu::Gpu;
use crate::graph::{Graph, Node, TensorId, Weight, WeightKind};
use crate::op::Op;
use crate::setup::TrainingSetup;

/// A graph, how it is trained, and on which GPU. Sizes at its batch are known not to overflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    graph: Arc<Graph>,
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
    /// A setup out of range, or weights, activations, attention scores or recorded steps that at this batch exceed
    /// [`Workload::MAX_BYTES`].
    pub fn new(graph: impl Into<Arc<Graph>>, setup: TrainingSetup, gpu: Gpu) -> Result<Self> {
        let graph = graph.into();
        setup.check()?;
        check_trainable(&graph, &setup)?;
        let batch = [setup.startup_batch, setup.last_batch].into_iter().flatten().fold(setup.batch_size, u64::max);
        let mut total = 0_u64;
        let mut add = |bytes: Option<u64>, what: &dyn Fn() -> (String, String)| {
            let sum = bytes.and_then(|bytes| total.checked_add(bytes)).filter(|&sum| sum <= Self::MAX_BYTES);
            total = sum.ok_or_else(|| {
                let (name, found) = what();
                GraphError::Overflow { what: format!("memory of `{name}` at batch {batch}"), found }
            })?;
            Ok(())
        };
        for weight in graph.weights() {
            add(Some(weight.bytes()), &|| (weight.name.clone(), weight.shape.to_string()))?;
        }
        for tensor in graph.tensors() {
            let elements = tensor.shape.elements(batch);
            let bytes = elements.and_then(|elements| elements.checked_mul(tensor.dtype.bytes()));
            add(bytes, &|| (tensor.name.clone(), tensor.shape.to_string()))?;
        }
        for node in graph.nodes() {
            if let Op::Attention { heads, .. } = node.op {
                let scores = score_bytes(&graph, node, heads, batch);
                add(scores, &|| (node.name.clone(), "attention scores".into()))?;
            }
        }
        for record in graph.step_records() {
            let bytes = record.allocated()?.at(batch).filter(|&bytes| bytes <= Self::MAX_BYTES);
            bytes.ok_or_else(|| GraphError::Overflow {
                what: format!("the {} step record at batch {batch}", record.precision.name()),
                found: "the sum of its buffers".into(),
            })?;
        }
        Ok(Self { graph, setup, gpu })
    }

    /// The computation graph.
    pub fn graph(&self) -> &Graph {
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
        Self { graph: Arc::clone(&self.graph), setup: self.setup.clone(), gpu }
    }

    /// One step of the same job at another batch, without what comes before and after it.
    ///
    /// # Errors
    /// As [`Workload::new`].
    pub fn at_batch(&self, batch_size: u64) -> Result<Self> {
        let setup = TrainingSetup { batch_size, last_batch: None, startup_batch: None, ..self.setup.clone() };
        Self::new(Arc::clone(&self.graph), setup, self.gpu.clone())
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

/// Every prefix of the setup must name some parameter: a typo would freeze the whole network.
fn check_trainable(graph: &Graph, setup: &TrainingSetup) -> Result<()> {
    let names =
        || graph.weights().iter().filter(|weight| weight.kind == WeightKind::Parameter).map(|weight| &weight.name);
    match setup.trainable.iter().find(|prefix| !names().any(|name| name.starts_with(prefix.as_str()))) {
        Some(prefix) => Err(GraphError::Unknown {
            what: "prefix of trained parameters",
            name: prefix.clone(),
            nearest: nearest(prefix, names().map(String::as_str)),
        }),
        None => Ok(()),
    }
}

/// Bytes of the score matrix that attention without a fused kernel makes; `None` on overflow.
fn score_bytes(graph: &Graph, node: &Node, heads: u64, batch: u64) -> Option<u64> {
    let tokens = |input: usize| {
        let dims = graph.tensor(*node.inputs.get(input)?).shape.dims();
        dims[dims.len().checked_sub(2)?].at(batch)
    };
    let scores = tokens(0).unwrap_or(1).checked_mul(tokens(1).unwrap_or(1))?;
    scores.checked_mul(batch)?.checked_mul(heads)?.checked_mul(4)
}
