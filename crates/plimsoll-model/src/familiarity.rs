//! How far a workload lies from everything that was measured.

use plimsoll_dataset::{Label, Sample};
use plimsoll_features::Features;
use serde::{Deserialize, Serialize};

/// The mean excess at which the score is `1 - 1/e`.
///
/// Architectures held out at random have a mean excess below 0.001; whole families held out have 0.01 to 0.1, and
/// generated workloads of all kinds 0.06 to 0.12 (GPUMemNet's rows, one GPU).
pub const EXCESS_UNIT: f32 = 0.03;

/// The range of every summary and GPU feature over the rows that were fitted to.
///
/// A distance in standard deviations was tried too: it does not tell a held-out architecture (up to 5 squared
/// deviations in the mean) from a held-out family (3 to 11). What lies outside a range does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Familiarity {
    /// Least value of each feature, summary first, then GPU.
    pub low: Vec<f32>,
    /// Largest value of each feature.
    pub high: Vec<f32>,
}

impl Familiarity {
    /// The ranges over measured rows; over all rows where none is measured.
    pub(crate) fn of(samples: &[&Sample]) -> Self {
        let is_measured = |sample: &&&Sample| sample.label != Label::Simulated;
        let only_simulated = !samples.iter().any(|sample| is_measured(&sample));
        let mut ranges = Self::default();
        for sample in samples.iter().filter(|sample| only_simulated || is_measured(sample)) {
            let values = numbers(&sample.features);
            if ranges.low.is_empty() {
                (ranges.low, ranges.high) = values.map(|value| (value, value)).unzip();
                continue;
            }
            for ((low, high), value) in ranges.low.iter_mut().zip(&mut ranges.high).zip(values) {
                (*low, *high) = (low.min(value), high.max(value));
            }
        }
        ranges
    }

    /// What each excess is divided by: the width of the range. A feature that never varied has one of a thousandth of
    /// its size, so that any other value is far outside.
    pub fn widths(&self) -> Vec<f32> {
        let pairs = self.low.iter().zip(&self.high);
        pairs.map(|(low, high)| (high - low).max(1e-3 * low.abs().max(high.abs()).max(1.0))).collect()
    }

    /// 0 for a workload within all ranges, towards 1 for one outside of many.
    ///
    /// The excess of a feature is how far it lies outside its range, as a share of the range's width and at most 1;
    /// the score is `1 - exp(-mean excess / EXCESS_UNIT)`. In single precision, as exported networks repeat it.
    pub fn score(&self, features: &Features) -> f64 {
        if self.low.is_empty() {
            return 0.0;
        }
        let excess = |((value, width), (low, high)): ((f32, f32), (&f32, &f32))| {
            ((low - value).max(value - high).max(0.0) / width).min(1.0)
        };
        let ranges = self.low.iter().zip(&self.high);
        let sum: f32 = numbers(features).zip(self.widths()).zip(ranges).map(excess).sum();
        f64::from(1.0 - (-(sum / self.low.len() as f32) / EXCESS_UNIT).exp())
    }

    /// Whether the ranges, which may come from a file, are ranges of so many features.
    pub(crate) fn is_sound(&self, features: usize) -> bool {
        self.low.len() == self.high.len()
            && (self.low.is_empty() || self.low.len() == features)
            && self.low.iter().zip(&self.high).all(|(low, high)| low.is_finite() && high.is_finite() && low <= high)
    }
}

fn numbers(features: &Features) -> impl Iterator<Item = f32> + '_ {
    features.summary.iter().chain(&features.gpu).copied()
}
