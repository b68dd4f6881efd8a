//! Metrics as columns of tables.

use plimsoll_dataset::Target;

use super::words;
use crate::scores::{Interval, MemoryScores, TargetScores};

/// Which end of a column is the better one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Better {
    /// Errors.
    Lower,
    /// Shares of rows that are right.
    Higher,
    /// Errors with a sign.
    NearerZero,
    /// Numbers that an estimate far too high, or far too low, would win.
    Neither,
}

/// A column of metrics.
#[derive(Debug, Clone)]
pub(super) struct Metric {
    /// Heading with the unit.
    pub(super) name: String,
    better: Better,
    /// The number.
    pub(super) value: fn(&TargetScores) -> Option<f64>,
    /// The number as text.
    pub(super) show: fn(Option<f64>, Target) -> String,
    /// Its confidence interval, where there is one.
    pub(super) interval: fn(&TargetScores) -> Option<Interval>,
}

impl Metric {
    /// A metric without an interval.
    pub(super) fn new(
        name: impl Into<String>,
        better: Better,
        value: fn(&TargetScores) -> Option<f64>,
        show: fn(Option<f64>, Target) -> String,
    ) -> Self {
        Self { name: name.into(), better, value, show, interval: |_| None }
    }

    /// A key that is smaller for better scores; `None` where there is no better.
    pub(super) fn rank(&self, scores: &TargetScores) -> Option<f64> {
        let value = (self.value)(scores)?;
        match self.better {
            Better::Lower => Some(value),
            Better::Higher => Some(-value),
            Better::NearerZero => Some(value.abs()),
            Better::Neither => None,
        }
    }
}

/// Median APE with its interval.
pub(super) fn median_ape() -> Metric {
    let interval = |scores: &TargetScores| scores.intervals.map(|intervals| intervals.median_ape_pct);
    Metric { interval, ..Metric::new("median APE %", Better::Lower, |scores| scores.median_ape_pct, pct) }
}

/// MAPE with its interval.
pub(super) fn mape() -> Metric {
    let interval = |scores: &TargetScores| scores.intervals.map(|intervals| intervals.mape_pct);
    Metric { interval, ..Metric::new("MAPE %", Better::Lower, |scores| scores.mape_pct, pct) }
}

/// 90 % quantile of APE.
pub(super) fn p90_ape() -> Metric {
    Metric::new("p90 APE %", Better::Lower, |scores| scores.p90_ape_pct, pct)
}

/// Share of rows within 10 %.
pub(super) fn within_10() -> Metric {
    Metric::new("within 10 % (% of rows)", Better::Higher, |scores| scores.within_10_pct, share)
}

/// Share of rows estimated too low.
pub(super) fn underestimated() -> Metric {
    Metric::new("underestimated (% of rows)", Better::Neither, |scores| scores.underestimation_rate, share)
}

/// What to add to every estimate.
pub(super) fn margin_95() -> Metric {
    Metric::new("margin for 95 % of rows (%)", Better::Neither, |scores| scores.margin_95_pct, pct)
}

/// Share of rows that the bound at 95 % holds for.
pub(super) fn covered_95() -> Metric {
    let value = |scores: &TargetScores| Some(memory(scores)?.bounds.level(0.95)?.coverage);
    Metric::new("below the bound at 95 % (% of rows)", Better::Neither, value, share)
}

/// How far that bound lies above what was measured.
pub(super) fn over_allocated_95() -> Metric {
    let value = |scores: &TargetScores| Some(memory(scores)?.bounds.level(0.95)?.mean_over_allocation_pct);
    Metric::new("its mean over-allocation (%)", Better::Neither, value, pct)
}

/// Share of rows, out of memory or not, for which "does it fit?" was answered rightly.
pub(super) fn decision() -> Metric {
    let value = |scores: &TargetScores| memory(scores)?.bounds.decision.accuracy;
    Metric::new("rightly said to fit or not (% of rows)", Better::Higher, value, share)
}

/// R², MAE, RMSE and bias, in the target's unit.
pub(super) fn errors(unit: &str) -> Vec<Metric> {
    let name = |name: &str| format!("{name} {unit}").trim_end().to_owned();
    vec![
        Metric::new("R²", Better::Higher, |scores| scores.r2, |value, _| words::fixed(value, 4)),
        Metric::new(name("MAE"), Better::Lower, |scores| scores.mae, words::amount),
        Metric::new(name("RMSE"), Better::Lower, |scores| scores.rmse, words::amount),
        Metric::new(name("bias"), Better::NearerZero, |scores| scores.bias, words::amount),
    ]
}

/// What only memory has.
pub(super) fn memory(scores: &TargetScores) -> Option<&MemoryScores> {
    scores.memory.as_ref()
}

/// Percent.
pub(super) fn pct(value: Option<f64>, _: Target) -> String {
    words::fixed(value, 2)
}

/// A share of rows as percent.
pub(super) fn share(value: Option<f64>, _: Target) -> String {
    words::share(value)
}

/// A count of rows.
pub(super) fn whole(value: Option<f64>, _: Target) -> String {
    words::fixed(value, 0)
}
