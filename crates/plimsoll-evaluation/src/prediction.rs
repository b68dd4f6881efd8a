//! An estimate beside what was measured.

use plimsoll_dataset::{Doubt, Label, Outcome, Sample, Target, UTILISATION};
use plimsoll_graph::Family;
use plimsoll_model::{Estimate, Estimator};

/// One row: what an estimator said of a sample, and what was measured of it.
///
/// It stands alone: scores, tables and plots are made of predictions without the data they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Who made the estimate.
    pub estimator: String,
    /// The measurement's id.
    pub id: String,
    /// The cross-validation fold whose estimator had not seen this row, if there are folds.
    pub fold: Option<u32>,
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
    /// What became of the run.
    pub outcome: Outcome,
    /// Measured utilisation as ratios in the order of [`UTILISATION`]; `None` where not recorded.
    pub utilisation: [Option<f64>; 6],
    /// What the estimator said.
    pub estimate: Estimate,
    /// What the simulator says in MiB, where it was asked.
    pub simulated_mib: Option<f64>,
    /// Set where the reading is doubted: the outcome then says only what is certain.
    pub doubt: Option<Doubt>,
}

impl Prediction {
    /// Puts an estimate beside its sample.
    pub fn new(estimator: &str, fold: Option<u32>, sample: &Sample, estimate: Estimate) -> Self {
        Self {
            estimator: estimator.to_owned(),
            id: sample.id.clone(),
            fold,
            family: sample.family,
            architecture: sample.architecture.clone(),
            shape: sample.shape.clone(),
            gpu: sample.gpu.clone(),
            capacity_mib: sample.capacity_mib,
            batch_size: sample.batch_size,
            label: sample.label,
            outcome: sample.outcome,
            utilisation: sample.utilisation.map(|ratio| ratio.map(f64::from)),
            estimate,
            simulated_mib: Some(f64::from(sample.features.analytic.simulated_mib())),
            doubt: sample.doubt.clone(),
        }
    }

    /// What was measured of a target, in the target's outside unit (MiB, percent, ratio).
    pub fn measured(&self, target: Target) -> Option<f64> {
        match position(target) {
            None => self.outcome.peak_mib(),
            Some(index) => self.utilisation[index].map(|ratio| ratio * target.per_ratio()),
        }
        .filter(|value| value.is_finite())
    }

    /// What was estimated of a target, in the target's outside unit. An estimate that is not finite is none.
    pub fn estimated(&self, target: Target) -> Option<f64> {
        match position(target) {
            None => self.estimate.peak_memory_mib,
            Some(index) => self.estimate.utilisation[index].map(|ratio| ratio * target.per_ratio()),
        }
        .filter(|value| value.is_finite())
    }

    /// The same row with its reading taken at its word, doubted or not.
    #[must_use]
    pub fn as_read(&self) -> Self {
        let outcome = match &self.doubt {
            Some(doubt) => Outcome::Measured { peak_mib: doubt.reading_mib },
            None => self.outcome,
        };
        Self { outcome, doubt: None, ..self.clone() }
    }

    /// Signed error of the memory estimate relative to the measured peak, in percent.
    pub fn memory_error_pct(&self) -> Option<f64> {
        let measured = self.measured(Target::PeakMemory).filter(|measured| *measured > 0.0)?;
        Some((self.estimated(Target::PeakMemory)? - measured) / measured * 100.0)
    }
}

/// Where a utilisation metric stands in arrays; `None` for memory.
fn position(target: Target) -> Option<usize> {
    UTILISATION.iter().position(|metric| *metric == target)
}

/// Asks an estimator about samples and puts its answers beside them.
///
/// # Panics
///
/// If the estimator does not give exactly one estimate a sample: that breaks the contract of [`Estimator`].
pub fn predict(estimator: &dyn Estimator, fold: Option<u32>, samples: &[&Sample]) -> Vec<Prediction> {
    let estimates = estimator.estimate(samples);
    assert_eq!(estimates.len(), samples.len(), "{} must give one estimate for each sample", estimator.name());
    let rows = samples.iter().zip(estimates);
    rows.map(|(sample, estimate)| Prediction::new(estimator.name(), fold, sample, estimate)).collect()
}

/// Estimates that others published for these very rows, each as an estimator of its own, in order of their names.
///
/// An estimator has rows only where it published a number, so its count may be smaller than that of the samples.
pub fn published_predictions<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<Prediction> {
    let mut predictions: Vec<_> = samples
        .into_iter()
        .flat_map(|sample| {
            sample.published_estimates.iter().map(move |(estimator, mib)| {
                let estimate = Estimate { peak_memory_mib: Some(*mib), ..Estimate::default() };
                Prediction::new(estimator, None, sample, estimate)
            })
        })
        .collect();
    // Stable: rows keep their order within an estimator.
    predictions.sort_by(|one, other| one.estimator.cmp(&other.estimator));
    predictions
}

#[cfg(test)]
pub(crate) mod tests {
    use plimsoll_features::Features;

    use super::*;

    pub(crate) fn row(id: &str, measured_mib: f64, estimated_mib: f64) -> Prediction {
        Prediction {
            estimator: "mlp".to_owned(),
            id: id.to_owned(),
            fold: None,
            family: Family::Cnn,
            architecture: "vgg16".to_owned(),
            shape: String::new(),
            gpu: "A100-40GB".to_owned(),
            capacity_mib: 40_536.0,
            batch_size: 32,
            label: Label::NvidiaSmiDevice,
            outcome: Outcome::Measured { peak_mib: measured_mib },
            utilisation: [None; 6],
            estimate: Estimate { peak_memory_mib: Some(estimated_mib), ..Estimate::default() },
            simulated_mib: None,
            doubt: None,
        }
    }

    fn sample(id: &str, published: &[(&str, f64)]) -> Sample {
        Sample {
            id: id.to_owned(),
            family: Family::Cnn,
            architecture: "vgg16".to_owned(),
            shape: String::new(),
            gpu: "A100-40GB".to_owned(),
            capacity_mib: 40_536.0,
            batch_size: 32,
            label: Label::NvidiaSmiDevice,
            stack: plimsoll_dataset::Stack::default(),
            outcome: Outcome::Measured { peak_mib: 8222.0 },
            utilisation: [Some(0.5), None, None, None, None, None],
            published_estimates: published.iter().map(|(name, mib)| ((*name).to_owned(), *mib)).collect(),
            doubt: None,
            features: Features {
                tokens: Vec::new(),
                layers: Vec::new(),
                summary: Vec::new(),
                gpu: Vec::new(),
                analytic: plimsoll_features::Analytic {
                    reserved_mib: 5600.0,
                    context_mib: 1400.0,
                    ..Default::default()
                },
            },
        }
    }

    #[test]
    fn utilisation_is_percent_outside_only_for_gputl() {
        let mut prediction = Prediction::new("mlp", Some(3), &sample("a:1", &[]), Estimate::default());
        prediction.utilisation[1] = Some(0.25);
        assert_eq!(prediction.measured(Target::Gputl), Some(50.0));
        assert_eq!(prediction.measured(Target::Gract), Some(0.25));
        assert_eq!(prediction.measured(Target::PeakMemory), Some(8222.0));
        assert_eq!(prediction.estimated(Target::PeakMemory), None);
        assert_eq!(prediction.simulated_mib, Some(7000.0));
    }

    #[test]
    fn an_estimate_that_is_not_finite_is_none() {
        let prediction = row("a:1", 1000.0, f64::NAN);
        assert_eq!(prediction.estimated(Target::PeakMemory), None);
        assert_eq!(prediction.memory_error_pct(), None);
    }

    #[test]
    fn published_estimates_become_estimators_with_the_rows_they_cover() {
        let samples =
            [sample("a:1", &[("horus", 21_525.8), ("faketensor", 3121.3)]), sample("a:2", &[("faketensor", 5379.0)])];
        let predictions = published_predictions(&samples);
        let rows: Vec<_> = predictions.iter().map(|row| (row.estimator.as_str(), row.id.as_str())).collect();
        assert_eq!(rows, [("faketensor", "a:1"), ("faketensor", "a:2"), ("horus", "a:1")]);
        assert_eq!(predictions[2].estimate.peak_memory_mib, Some(21_525.8));
    }
}
