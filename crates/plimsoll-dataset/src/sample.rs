//! A measurement with features: what estimators are fitted to and judged by.

use plimsoll_features::{Features, featurize_simulated};
use plimsoll_graph::Family;
use plimsoll_simulate::Simulation;

use crate::measurement::{Doubt, Label, Measurement, Outcome};
use crate::stack::Stack;

/// Features and targets of one row, with what splits and reports group by.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The measurement's id.
    pub id: String,
    /// Architecture family.
    pub family: Family,
    /// Architecture apart from batch size and setup.
    pub architecture: String,
    /// Finer than the family, or empty.
    pub shape: String,
    /// Name of the GPU.
    pub gpu: String,
    /// Memory of the GPU, MiB.
    pub capacity_mib: f64,
    /// Samples per step.
    pub batch_size: u64,
    /// How the peak was read.
    pub label: Label,
    /// The software that the run used, as far as it is known.
    pub stack: Stack,
    /// What became of the run.
    pub outcome: Outcome,
    /// Utilisation as ratios in the order of [`UTILISATION`](crate::UTILISATION); `None` where not recorded.
    pub utilisation: [Option<f32>; 6],
    /// Estimates that others published for this very row: (estimator, MiB).
    pub published_estimates: Vec<(String, f64)>,
    /// Set where the reading is doubted: the outcome then says only what is certain.
    pub doubt: Option<Doubt>,
    /// What estimators see.
    pub features: Features,
}

impl Sample {
    /// Computes the features of a measurement.
    pub fn from_measurement(measurement: &Measurement) -> Self {
        Self::from_simulation(measurement, &Simulation::of(&measurement.workload))
    }

    /// Computes the features of a measurement whose workload is simulated already.
    pub fn from_simulation(measurement: &Measurement, simulation: &Simulation) -> Self {
        let workload = &measurement.workload;
        Self {
            id: measurement.id.clone(),
            family: workload.graph().family(),
            architecture: measurement.architecture.clone(),
            shape: measurement.shape.clone(),
            gpu: workload.gpu().name.clone(),
            capacity_mib: workload.gpu().memory_mib as f64,
            batch_size: workload.setup().batch_size,
            label: measurement.label,
            stack: measurement.stack,
            outcome: measurement.outcome,
            utilisation: measurement.utilisation.map(|ratio| ratio.map(|ratio| ratio as f32)),
            published_estimates: measurement.published_estimates.clone(),
            doubt: measurement.doubt.clone(),
            features: featurize_simulated(workload, simulation),
        }
    }
}
