//! Gradient-boosted trees: what one would try first on a table of measurements, and so what networks have to beat.
//!
//! Trees cannot say more than the largest leaf that they were fitted to, so they are fitted to logarithms: of peak
//! memory itself, from what can be counted in a graph, or of the ratio by which it differs from the simulation.

use forust_ml::Matrix;
use forust_ml::gradientbooster::{GradientBooster, GrowPolicy};
use forust_ml::objective::ObjectiveType;
use forust_ml::sampler::SampleMethod;
use plimsoll_dataset::{Sample, Stack};
use plimsoll_features::FeatureSchema;
use serde::{Deserialize, Serialize};

use crate::calibration::{Calibration, Scores, Steps};
use crate::error::{ModelError, Result};
use crate::estimate::Estimate;
use crate::estimator::{Estimator, Fit};
use crate::fit::holdout;
use crate::network::LEAST_MIB;
use crate::network::labels;
use crate::settings::{CalibrationSettings, check};

/// What trees are fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoostedOn {
    /// The logarithm of peak memory, from counts of the graph, the setup and the GPU: nothing is simulated.
    Features,
    /// The logarithm of measurement over simulation, from every feature of the workload and the GPU.
    Simulation,
}

/// Trees and how they grow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoostedSettings {
    /// What they are fitted to.
    pub on: BoostedOn,
    /// How many.
    #[serde(default = "default_trees")]
    pub trees: usize,
    /// Share of each tree's step that is taken.
    #[serde(default = "default_learning_rate")]
    pub learning_rate: f64,
    /// Splits from root to leaf, at most.
    #[serde(default = "default_depth")]
    pub depth: usize,
    /// Rows in a leaf, at least.
    #[serde(default = "default_leaf_rows")]
    pub leaf_rows: usize,
    /// Share of the rows that each tree is fitted to.
    #[serde(default = "default_rows")]
    pub rows: f64,
    /// Share of the features that each tree may split at.
    #[serde(default = "default_columns")]
    pub columns: f64,
    /// Seed of both draws.
    #[serde(default)]
    pub seed: u64,
}

const fn default_trees() -> usize {
    600
}
const fn default_learning_rate() -> f64 {
    0.05
}
const fn default_depth() -> usize {
    6
}
const fn default_leaf_rows() -> usize {
    2
}
const fn default_rows() -> f64 {
    0.8
}
const fn default_columns() -> f64 {
    0.5
}

impl BoostedSettings {
    /// Usual settings.
    pub const fn new(on: BoostedOn) -> Self {
        Self {
            on,
            trees: default_trees(),
            learning_rate: default_learning_rate(),
            depth: default_depth(),
            leaf_rows: default_leaf_rows(),
            rows: default_rows(),
            columns: default_columns(),
            seed: 0,
        }
    }

    /// Checks every number before any work starts.
    ///
    /// # Errors
    /// The first setting out of range.
    pub fn check(&self) -> Result<()> {
        check("boosted.trees", self.trees as f64, 1.0, 100_000.0)?;
        check("boosted.learning_rate", self.learning_rate, 1e-4, 1.0)?;
        check("boosted.depth", self.depth as f64, 1.0, 16.0)?;
        check("boosted.leaf_rows", self.leaf_rows as f64, 1.0, 1e6)?;
        check("boosted.rows", self.rows, 0.01, 1.0)?;
        check("boosted.columns", self.columns, 0.01, 1.0)
    }
}

/// Settings of boosted trees, and of the bounds around them.
#[derive(Debug, Clone, PartialEq)]
pub struct BoostedFit {
    /// Name on the leaderboard.
    pub name: String,
    /// The trees.
    pub settings: BoostedSettings,
    /// What is kept out of the fit to make bounds hold: trees know the rows that they were fitted to by heart.
    pub calibration: CalibrationSettings,
}

impl Fit for BoostedFit {
    type Fitted = BoostedTrees;
    type Error = ModelError;

    /// Fits to measured rows; runs out of memory, of which only a limit is known, are left out. So are the validation
    /// samples: the number of trees is a setting.
    ///
    /// # Errors
    /// Settings out of range, fewer than two measured training rows.
    fn fit(&self, training: &[&Sample], _validation: &[&Sample]) -> Result<BoostedTrees> {
        self.settings.check()?;
        let division = holdout::divide(training, self.calibration, 1)?;
        let held_out: Vec<&Sample> = division.judges.iter().map(|judge| judge.sample).collect();
        let fitted: Vec<&Sample> =
            division.fitted.into_iter().filter(|sample| sample.outcome.peak_mib().is_some()).collect();
        if fitted.len() < 2 {
            return Err(ModelError::Data {
                what: "the training part".into(),
                expected: "at least two rows with measured memory".into(),
                found: fitted.len().to_string(),
            });
        }
        let columns = Columns::of(self.settings.on);
        let target = |sample: &&Sample| {
            let peak_mib = sample.outcome.peak_mib().unwrap_or(LEAST_MIB).max(LEAST_MIB);
            peak_mib.ln() - self.settings.on.log_base(sample)
        };
        let targets: Vec<f64> = fitted.iter().map(target).collect();
        let table = columns.table(&fitted);
        let mut booster = self.settings.booster();
        booster.fit_unweighted(&Matrix::new(&table, fitted.len(), columns.count()), &targets, None).map_err(
            |error| ModelError::Data {
                what: "the training part".into(),
                expected: "a table that trees can be fitted to".into(),
                found: error.to_string(),
            },
        )?;
        let mut trees =
            BoostedTrees { name: self.name.clone(), on: self.settings.on, columns, booster, calibration: None };
        let estimates = trees.log_mib(&held_out);
        let scores =
            held_out.iter().zip(estimates).filter_map(|(sample, log)| Scores::of(sample, log, Steps::default()));
        trees.calibration = Calibration::of(&scores.collect::<Vec<_>>());
        Ok(trees)
    }
}

impl BoostedSettings {
    fn booster(&self) -> GradientBooster {
        let mut booster = GradientBooster::default()
            .set_objective_type(ObjectiveType::SquaredLoss)
            .set_iterations(self.trees)
            .set_learning_rate(self.learning_rate as f32)
            .set_max_depth(self.depth)
            // The second derivative of half a square is 1 a row.
            .set_min_leaf_weight(self.leaf_rows as f32)
            .set_subsample(self.rows as f32)
            .set_colsample_bytree(self.columns)
            .set_initialize_base_score(true)
            .set_seed(self.seed);
        booster.sample_method = if self.rows < 1.0 { SampleMethod::Random } else { SampleMethod::None };
        booster.grow_policy = GrowPolicy::DepthWise;
        booster
    }
}

impl BoostedOn {
    /// What is added to the trees' sum to make it the logarithm of MiB.
    fn log_base(self, sample: &Sample) -> f64 {
        match self {
            Self::Features => 0.0,
            Self::Simulation => {
                let analytic = sample.features.analytic;
                let quantities = [analytic.reserved_mib, analytic.context_mib, analytic.live_peak_mib];
                let parts = labels::parts(sample.label);
                let sum: f64 = quantities.into_iter().zip(parts).map(|(mib, part)| f64::from(mib * part)).sum();
                sum.max(LEAST_MIB).ln()
            }
        }
    }
}

/// Which numbers of a sample trees may split at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Columns {
    /// Places in the summary.
    summary: Vec<usize>,
    gpu: usize,
}

impl Columns {
    fn of(on: BoostedOn) -> Self {
        let schema = FeatureSchema::current();
        let hidden = match on {
            BoostedOn::Features => FeatureSchema::simulated_summary(),
            BoostedOn::Simulation => Vec::new(),
        };
        let summary = (0..schema.summary.len()).filter(|place| !hidden.contains(place)).collect();
        Self { summary, gpu: schema.gpu.len() }
    }

    /// Summary, GPU, how the peak was read, and the software.
    fn count(&self) -> usize {
        self.summary.len() + self.gpu + labels::SHIFTED.len() + Stack::NUMBERS.len()
    }

    /// The numbers of samples, column by column.
    fn table(&self, samples: &[&Sample]) -> Vec<f64> {
        let mut table = Vec::with_capacity(self.count() * samples.len());
        for &place in &self.summary {
            table.extend(samples.iter().map(|sample| f64::from(sample.features.summary[place])));
        }
        for place in 0..self.gpu {
            table.extend(samples.iter().map(|sample| f64::from(sample.features.gpu[place])));
        }
        for place in 0..labels::SHIFTED.len() {
            table.extend(samples.iter().map(|sample| f64::from(labels::shift(sample.label)[place])));
        }
        for place in 0..Stack::NUMBERS.len() {
            table.extend(samples.iter().map(|sample| f64::from(sample.stack.numbers()[place])));
        }
        table
    }
}

/// Fitted trees.
pub struct BoostedTrees {
    name: String,
    on: BoostedOn,
    columns: Columns,
    booster: GradientBooster,
    calibration: Option<Calibration>,
}

impl BoostedTrees {
    /// What the trees take as 32-bit numbers: a feature, a threshold and two branches a split, a value a leaf.
    pub fn size_bytes(&self) -> u64 {
        let nodes = self.booster.trees.iter().flat_map(|tree| tree.nodes.iter());
        nodes.map(|node| if node.is_leaf { 4 } else { 16 }).sum()
    }

    /// Logarithms of MiB, in the order of the samples.
    fn log_mib(&self, samples: &[&Sample]) -> Vec<f64> {
        if samples.is_empty() {
            return Vec::new();
        }
        let table = self.columns.table(samples);
        let sums = self.booster.predict(&Matrix::new(&table, samples.len(), self.columns.count()), false);
        let log = |(sum, sample): (f64, &&Sample)| (sum + self.on.log_base(sample)).max(LEAST_MIB.ln());
        sums.into_iter().zip(samples).map(log).collect()
    }
}

impl Estimator for BoostedTrees {
    fn name(&self) -> &str {
        &self.name
    }

    fn estimate(&self, samples: &[&Sample]) -> Vec<Estimate> {
        let estimate = |(log_mib, sample): (f64, &&Sample)| Estimate {
            peak_memory_mib: Some(log_mib.exp()),
            bounds: self.calibration.as_ref().map(|calibration| calibration.around(log_mib, sample)),
            ..Estimate::default()
        };
        self.log_mib(samples).into_iter().zip(samples).map(estimate).collect()
    }
}
