//! What an estimator sees of a workload.
//!
//! [`featurize`] turns a [`Workload`] into [`Features`]: a sequence of layers (a token
//! and numbers each), a summary vector and a GPU vector. It is one pure, versioned function, used for training and
//! for serving alike; [`FeatureSchema`] names every number it yields, in order, and travels with every checkpoint
//! and exported network.
//!
//! The crate deliberately knows nothing of measurements, scaling or networks. Its numbers are raw: logarithms of
//! sizes, counts and flags; scalers are fitted on training data and live in the checkpoint.

mod compress;
mod gpu;
mod layer;
mod schema;
mod summary;
mod torchinfo;

use std::sync::LazyLock;

use plimsoll_graph::Workload;
use plimsoll_simulate::Simulation;

pub use compress::MAX_LAYERS;
pub use schema::{FeatureSchema, SchemaMismatch};

/// Everything that estimators are given of one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// Operator tokens, `[n]`, indices into [`FeatureSchema::tokens`].
    pub tokens: Vec<u16>,
    /// Numbers of each layer, `[n, f]` row by row, as [`FeatureSchema::layer`] names them.
    pub layers: Vec<f32>,
    /// Totals over the graph and the setup, `[s]`, as [`FeatureSchema::summary`] names them.
    pub summary: Vec<f32>,
    /// The GPU descriptor, `[g]`, as [`FeatureSchema::gpu`] names it.
    pub gpu: Vec<f32>,
    /// Estimates that need no training, and what learned ones correct.
    pub analytic: Analytic,
}

impl Features {
    /// The probability that a convolution takes more workspace than was replayed, by more than 5 % of what the allocator
    /// reserves.
    pub fn spike_risk(&self) -> f32 {
        static PLACE: LazyLock<usize> = LazyLock::new(summary::spike_risk);
        self.summary.get(*PLACE).copied().unwrap_or_default()
    }

    /// Whether the job runs in cuDNN's benchmark mode.
    pub fn is_benchmarked(&self) -> bool {
        static PLACE: LazyLock<usize> = LazyLock::new(summary::benchmark);
        self.summary.get(*PLACE).is_some_and(|&flag| flag > 0.5)
    }
}

/// What can be said of a workload's memory without having measured any, MiB.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Analytic {
    /// What the replayed allocator reserves at its peak.
    pub reserved_mib: f32,
    /// Nominal memory of context and libraries.
    pub context_mib: f32,
    /// Bytes alive at the peak of a step.
    pub live_peak_mib: f32,
    /// The plain tensor sum: weights, gradients, optimiser states, saved activations.
    pub tensor_sum_mib: f32,
    /// The "estimated total size" of torchinfo: input, parameters, twice the outputs of layers that have some.
    pub torchinfo_mib: f32,
}

impl Analytic {
    /// Names of the fields, in order.
    pub const NAMES: [&'static str; 5] =
        ["reserved_mib", "context_mib", "live_peak_mib", "tensor_sum_mib", "torchinfo_mib"];

    /// The figures in the order of [`Analytic::NAMES`].
    pub const fn to_array(self) -> [f32; 5] {
        [self.reserved_mib, self.context_mib, self.live_peak_mib, self.tensor_sum_mib, self.torchinfo_mib]
    }

    /// The figures from the order of [`Analytic::NAMES`].
    pub const fn from_array(
        [reserved_mib, context_mib, live_peak_mib, tensor_sum_mib, torchinfo_mib]: [f32; 5],
    ) -> Self {
        Self { reserved_mib, context_mib, live_peak_mib, tensor_sum_mib, torchinfo_mib }
    }

    /// The simulator's estimate of peak memory.
    pub const fn simulated_mib(self) -> f32 {
        self.reserved_mib + self.context_mib
    }
}

/// Turns a workload into features.
///
/// Pure and deterministic; time linear in the graph. Sequences longer than [`MAX_LAYERS`] after repeated blocks
/// were merged are pooled, never cut.
pub fn featurize(workload: &Workload) -> Features {
    featurize_simulated(workload, &Simulation::of(workload))
}

/// As [`featurize`], for a workload whose simulation is at hand.
pub fn featurize_simulated(workload: &Workload, simulation: &Simulation) -> Features {
    let layers = layer::layers(workload, &simulation.trace);
    let summary = summary::summary(workload, simulation, &layers);
    let memory = simulation.memory;
    let sequence = compress::compress(layers);
    Features {
        tokens: sequence.iter().map(|layer| layer.token).collect(),
        layers: sequence.iter().flat_map(layer::Layer::numbers).collect(),
        summary,
        gpu: gpu::numbers(workload.gpu()).to_vec(),
        analytic: Analytic {
            reserved_mib: mib(simulation.replay.reserved_bytes),
            context_mib: simulation.context_mib as f32,
            live_peak_mib: mib(memory.live_peak_bytes),
            tensor_sum_mib: mib(memory.tensor_sum_bytes()),
            torchinfo_mib: mib(torchinfo::total_bytes(workload)),
        },
    }
}

/// Bytes as MiB.
fn mib(bytes: u64) -> f32 {
    (bytes as f64 / f64::from(1 << 20)) as f32
}

/// The logarithm under which sizes from nothing to exabytes become numbers of similar magnitude.
fn log(value: u64) -> f32 {
    (value as f64).ln_1p() as f32
}
