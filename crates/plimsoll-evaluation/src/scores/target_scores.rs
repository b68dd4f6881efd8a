//! The metrics of one target.

use plimsoll_dataset::{Outcome, Target};
use serde::{Deserialize, Serialize};

use super::bootstrap::{Bootstrap, Intervals};
use super::bounds::BoundScores;
use crate::prediction::Prediction;

/// How good the estimates of one target are, in the target's outside unit.
///
/// APE is the absolute percentage error, `|estimate - measured| / measured`. Shares and rates lie in 0..=1; a name
/// that ends in `_pct` without `within_` is in percent. A metric without rows is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetScores {
    /// Rows with a measurement and an estimate: what the metrics are over.
    pub n: usize,
    /// Rows with a measurement or a limit for which the estimator gave no number.
    pub missing: usize,
    /// Rows measured as 0, for which APE is not defined; they count in all other metrics.
    pub ape_skipped: usize,
    /// Median APE.
    pub median_ape_pct: Option<f64>,
    /// Mean APE.
    pub mape_pct: Option<f64>,
    /// 90 % quantile of APE.
    pub p90_ape_pct: Option<f64>,
    /// 99 % quantile of APE.
    pub p99_ape_pct: Option<f64>,
    /// Share of rows with an APE of at most 5 %.
    pub within_5_pct: Option<f64>,
    /// Share of rows with an APE of at most 10 %.
    pub within_10_pct: Option<f64>,
    /// Share of rows with an APE of at most 20 %.
    pub within_20_pct: Option<f64>,
    /// Coefficient of determination; `None` where the measured values do not vary.
    pub r2: Option<f64>,
    /// Mean absolute error.
    pub mae: Option<f64>,
    /// Root of the mean squared error.
    pub rmse: Option<f64>,
    /// Mean of estimate minus measured.
    pub bias: Option<f64>,
    /// Share of rows estimated below the measured value.
    pub underestimation_rate: Option<f64>,
    /// What has to be added to every estimate, in percent of it, so that 95 % of rows are not underestimated. Below 0
    /// where estimates could even be cut; `None` where no multiplier helps.
    pub margin_95_pct: Option<f64>,
    /// The same for 99 % of rows.
    pub margin_99_pct: Option<f64>,
    /// What only memory has.
    #[serde(flatten)]
    pub memory: Option<MemoryScores>,
    /// Confidence intervals, where drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
}

/// Metrics of peak memory alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryScores {
    /// Share of rows whose estimate lies in the same bin as the measured peak.
    pub bin_accuracy: Option<f64>,
    /// Width of the half-open bins, MiB.
    pub bin_width_mib: f64,
    /// Share of measured rows, all of which fitted, whose estimate says so: at most the GPU's memory.
    pub fit_accuracy: Option<f64>,
    /// Rows that ran out of memory and have an estimate.
    pub censored: usize,
    /// Share of those whose estimate rightly lies above the limit.
    pub censored_above_limit: Option<f64>,
    /// What upper bounds hold and cost, and how often the answer to "does it fit?" is right.
    #[serde(default)]
    pub bounds: BoundScores,
}

impl TargetScores {
    /// Scores one target over rows, in any order.
    pub(crate) fn of(target: Target, rows: &[&Prediction], bin_width_mib: f64, bootstrap: Option<&Bootstrap>) -> Self {
        let measured: Vec<_> = rows.iter().filter_map(|row| Some((row, row.measured(target)?))).collect();
        let mut pairs: Vec<Pair> = measured
            .iter()
            .filter_map(|(row, measured)| Some(Pair { measured: *measured, estimated: row.estimated(target)? }))
            .collect();
        // Sums of floats depend on their order; this one does not depend on that of the rows.
        pairs.sort_unstable_by(|a, b| a.measured.total_cmp(&b.measured).then(a.estimated.total_cmp(&b.estimated)));
        let mut scores = Self::of_pairs(&pairs, bootstrap);
        scores.missing = measured.len() - pairs.len();
        if target == Target::PeakMemory {
            scores.missing +=
                rows.iter().filter(|row| row.outcome.is_censored() && row.estimated(target).is_none()).count();
            scores.memory = Some(MemoryScores::of(rows, &pairs, bin_width_mib));
        }
        scores
    }

    fn of_pairs(pairs: &[Pair], bootstrap: Option<&Bootstrap>) -> Self {
        let mut apes: Vec<f64> = pairs.iter().filter_map(Pair::ape_pct).collect();
        apes.sort_unstable_by(f64::total_cmp);
        let within = |limit: f64| share(&apes, |ape| *ape <= limit);
        let mut ratios: Vec<f64> = pairs.iter().map(Pair::ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        Self {
            n: pairs.len(),
            missing: 0,
            ape_skipped: pairs.len() - apes.len(),
            median_ape_pct: quantile(&apes, 0.5),
            mape_pct: mean(apes.iter().copied()),
            p90_ape_pct: quantile(&apes, 0.9),
            p99_ape_pct: quantile(&apes, 0.99),
            within_5_pct: within(5.0),
            within_10_pct: within(10.0),
            within_20_pct: within(20.0),
            r2: r2(pairs),
            mae: mean(pairs.iter().map(|pair| pair.error().abs())),
            rmse: mean(pairs.iter().map(|pair| pair.error().powi(2))).map(f64::sqrt),
            bias: mean(pairs.iter().map(Pair::error)),
            underestimation_rate: share(pairs, |pair| pair.estimated < pair.measured),
            margin_95_pct: margin_pct(&ratios, 95),
            margin_99_pct: margin_pct(&ratios, 99),
            memory: None,
            intervals: bootstrap.and_then(|bootstrap| bootstrap.intervals(&apes)),
        }
    }
}

/// An estimate this near to the edge of a bin, as a share of it, is that edge.
const EDGE: f64 = 1e-9;

impl MemoryScores {
    fn of(rows: &[&Prediction], pairs: &[Pair], bin_width_mib: f64) -> Self {
        let bin = |mib: f64| (mib / bin_width_mib).floor();
        // Classifiers say the upper edge of a bin, up to rounding: that is the bin below, not the one that begins there.
        let named = |pair: &Pair| {
            let edge = (pair.estimated / bin_width_mib).round();
            let is_edge = (pair.estimated - edge * bin_width_mib).abs() <= EDGE * pair.estimated;
            if is_edge && pair.estimated != pair.measured { edge - 1.0 } else { bin(pair.estimated) }
        };
        let estimates = |row: &&&Prediction| row.estimated(Target::PeakMemory).is_some();
        let measured: Vec<_> = rows.iter().filter(estimates).filter(|row| row.outcome.peak_mib().is_some()).collect();
        let limits: Vec<(f64, f64)> = rows
            .iter()
            .filter_map(|row| match row.outcome {
                Outcome::OutOfMemory { above_mib } => Some((above_mib, row.estimated(Target::PeakMemory)?)),
                _ => None,
            })
            .collect();
        Self {
            // Bins without a width would hold everything.
            bin_accuracy: share(pairs, |pair| bin(pair.measured) == named(pair)).filter(|_| bin_width_mib > 0.0),
            bin_width_mib,
            fit_accuracy: share(&measured, |row| {
                row.estimated(Target::PeakMemory).is_some_and(|estimated| estimated <= row.capacity_mib)
            }),
            censored: limits.len(),
            censored_above_limit: share(&limits, |(limit, estimated)| estimated > limit),
            bounds: BoundScores::of(rows),
        }
    }
}

/// A measured value and its estimate.
struct Pair {
    measured: f64,
    estimated: f64,
}

impl Pair {
    fn error(&self) -> f64 {
        self.estimated - self.measured
    }

    /// `None` where nothing was measured to compare with.
    fn ape_pct(&self) -> Option<f64> {
        (self.measured > 0.0).then(|| self.error().abs() / self.measured * 100.0)
    }

    /// The multiplier that lifts the estimate to the measured value: infinite where none does.
    fn ratio(&self) -> f64 {
        if self.estimated > 0.0 {
            self.measured / self.estimated
        } else if self.measured <= self.estimated {
            0.0
        } else {
            f64::INFINITY
        }
    }
}

/// The smallest margin, in percent, with which at least `covered_pct` percent of the rows are not underestimated.
///
/// No interpolation between rows: it would cover fewer rows than it says.
fn margin_pct(sorted_ratios: &[f64], covered_pct: usize) -> Option<f64> {
    let rows = (sorted_ratios.len() * covered_pct).div_ceil(100);
    let ratio = sorted_ratios.get(rows.checked_sub(1)?)?;
    ratio.is_finite().then_some((ratio - 1.0) * 100.0)
}

fn r2(pairs: &[Pair]) -> Option<f64> {
    let average = mean(pairs.iter().map(|pair| pair.measured))?;
    // Asked of the values and not of their variance, which rounding leaves just above 0.
    let varies = pairs.iter().any(|pair| pair.measured != pairs[0].measured);
    let total: f64 = pairs.iter().map(|pair| (pair.measured - average).powi(2)).sum();
    let left: f64 = pairs.iter().map(|pair| pair.error().powi(2)).sum();
    (varies && total > 0.0).then(|| 1.0 - left / total)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let n = values.len();
    (n > 0).then(|| values.sum::<f64>() / n as f64)
}

fn share<T>(values: &[T], holds: impl Fn(&T) -> bool) -> Option<f64> {
    mean(values.iter().map(|value| f64::from(u8::from(holds(value)))))
}

/// The quantile of values in ascending order, between two of them on a straight line.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * (sorted.len().checked_sub(1)?) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
#[path = "target_scores_tests.rs"]
mod tests;
