//! The GPUs that a network can be asked about, as the numbers it reads.

use plimsoll_features::featurize;
use plimsoll_graph::{DType, Family, Gpu, GpuCatalogue, GraphBuilder, Shape, TrainingSetup, Workload};
use serde::{Deserialize, Serialize};

/// What another program needs to fill the input `gpu`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuVocabulary {
    /// Names of the GPUs in the training data; estimates for others extrapolate.
    pub in_training: Vec<String>,
    /// Known GPUs with their raw features.
    pub catalogue: Vec<GpuVector>,
}

/// A GPU as a network reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuVector {
    /// Its name.
    pub name: String,
    /// Other spellings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Its memory in MiB, which estimates are held against.
    pub memory_mib: u64,
    /// Raw features in the order of the schema's `gpu`.
    pub features: Vec<f32>,
}

impl GpuVocabulary {
    pub(crate) fn new(in_training: &[String], catalogue: &GpuCatalogue) -> Self {
        let probe = probe(catalogue.gpus().first());
        let vector = |gpu: &Gpu| {
            let probe = probe.as_ref().expect("there is a GPU");
            let workload = Workload::new(probe.graph().clone(), probe.setup().clone(), gpu.clone());
            GpuVector {
                name: gpu.name.clone(),
                aliases: gpu.aliases.clone(),
                memory_mib: gpu.memory_mib,
                features: featurize(&workload.expect("catalogues hold checked GPUs")).gpu,
            }
        };
        Self { in_training: in_training.to_vec(), catalogue: catalogue.gpus().iter().map(vector).collect() }
    }
}

/// The smallest workload: features of a GPU do not depend on what runs on it.
fn probe(gpu: Option<&Gpu>) -> Option<Workload> {
    let gpu = gpu?.clone();
    let mut builder = GraphBuilder::new("probe", Family::Mlp);
    let x = builder.input("x", Shape::batched(&[1]), DType::Float32);
    let y = builder.linear("y", x, 1, true).expect("one number fits");
    let graph = builder.finish(&[y]).expect("a layer on an input is a graph");
    Some(Workload::new(graph, TrainingSetup::new(1), gpu).expect("a checked GPU and one number fit"))
}
