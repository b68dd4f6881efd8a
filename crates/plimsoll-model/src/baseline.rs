//! Estimators without a network: what the field's formulas do, and what a constant adds.

use plimsoll_dataset::Sample;

use crate::calibration::{Calibration, Scores, Steps};
use crate::error::{ModelError, Result};
use crate::estimate::Estimate;
use crate::estimator::{Estimator, Fit};

/// A quantity computed from the graph alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Analytic {
    /// Weights, gradients, optimiser states and saved activations, added up.
    TensorSum,
    /// What torchinfo prints as the estimated total size of a network.
    TorchInfo,
    /// The largest number of bytes alive during a step.
    LivePeak,
    /// What the replayed allocator reserves, with context and libraries.
    Simulated,
}

impl Analytic {
    /// Every quantity, the best first.
    pub const ALL: [Self; 4] = [Self::Simulated, Self::LivePeak, Self::TensorSum, Self::TorchInfo];

    const fn name(self) -> &'static str {
        match self {
            Self::TensorSum => "tensor-sum",
            Self::TorchInfo => "torchinfo",
            Self::LivePeak => "live-peak",
            Self::Simulated => "simulated",
        }
    }

    fn mib(self, sample: &Sample) -> f64 {
        let analytic = &sample.features.analytic;
        f64::from(match self {
            Self::TensorSum => analytic.tensor_sum_mib,
            Self::TorchInfo => analytic.torchinfo_mib,
            Self::LivePeak => analytic.live_peak_mib,
            Self::Simulated => analytic.simulated_mib(),
        })
    }
}

/// An analytic quantity as it is: nothing learned.
impl Estimator for Analytic {
    fn name(&self) -> &str {
        (*self).name()
    }

    fn estimate(&self, samples: &[&Sample]) -> Vec<Estimate> {
        samples.iter().map(|sample| memory(self.mib(sample))).collect()
    }
}

/// Fits one constant on top of an analytic quantity: the median of what it lacks. Its bounds are calibrated on the same
/// rows: one constant does not adapt itself to thousands of them.
impl Fit for Analytic {
    type Fitted = WithConstant;
    type Error = ModelError;

    fn fit(&self, training: &[&Sample], _validation: &[&Sample]) -> Result<WithConstant> {
        let lacking = |sample: &&Sample| sample.outcome.peak_mib().map(|peak| peak - self.mib(sample));
        let mut lacks: Vec<f64> = training.iter().filter_map(lacking).collect();
        lacks.sort_by(f64::total_cmp);
        let constant_mib = *lacks.get(lacks.len() / 2).ok_or_else(|| ModelError::Data {
            what: "the training part".into(),
            expected: "at least one row with measured memory".into(),
            found: format!("{} rows without", training.len()),
        })?;
        let mut fitted = WithConstant {
            analytic: *self,
            constant_mib,
            name: format!("{}+constant", (*self).name()),
            calibration: None,
        };
        let score = |sample: &&Sample| Scores::of(sample, fitted.mib(sample).ln(), Steps::default());
        let scores: Vec<Scores> = training.iter().filter_map(score).collect();
        fitted.calibration = Calibration::of(&scores);
        Ok(fitted)
    }
}

/// An analytic quantity plus a fitted constant.
#[derive(Debug, Clone, PartialEq)]
pub struct WithConstant {
    analytic: Analytic,
    constant_mib: f64,
    name: String,
    calibration: Option<Calibration>,
}

impl WithConstant {
    /// The constant, MiB.
    pub const fn constant_mib(&self) -> f64 {
        self.constant_mib
    }

    fn mib(&self, sample: &Sample) -> f64 {
        (self.analytic.mib(sample) + self.constant_mib).max(1.0)
    }
}

impl Estimator for WithConstant {
    fn name(&self) -> &str {
        &self.name
    }

    fn estimate(&self, samples: &[&Sample]) -> Vec<Estimate> {
        let estimate = |sample: &&Sample| {
            let mib = self.mib(sample);
            let bounds = |calibration: &Calibration| calibration.around(mib.ln(), sample);
            Estimate { bounds: self.calibration.as_ref().map(bounds), ..memory(mib) }
        };
        samples.iter().map(estimate).collect()
    }
}

fn memory(mib: f64) -> Estimate {
    Estimate { peak_memory_mib: Some(mib), ..Estimate::default() }
}
