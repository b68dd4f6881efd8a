//! One line of the leaderboard.

use plimsoll_dataset::Target;
use serde::{Deserialize, Serialize};

use crate::scores::{Scores, TargetScores};

/// The family of rows that are over all families.
pub(crate) const ALL_FAMILIES: &str = "all";

/// What an estimator costs to keep and to ask, where known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Bytes of the fitted estimator on disk.
    pub size_bytes: Option<u64>,
    /// Time for one estimate, milliseconds.
    pub latency_ms: Option<f64>,
}

/// The scores of one target and family in one run. The fields are the columns of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaderboardRow {
    /// Which run.
    pub run_id: String,
    /// Name of the run's config.
    pub config: String,
    /// Who made the estimates.
    pub estimator: String,
    /// Name of the data set.
    pub data: String,
    /// Which rows the estimator had not seen.
    pub split: String,
    /// How the peaks were read.
    pub label: String,
    /// What was estimated.
    pub target: Target,
    /// A family, or `all`.
    pub family: String,
    /// Rows scored.
    pub n: usize,
    /// Median absolute percentage error.
    pub median_ape_pct: Option<f64>,
    /// Mean absolute percentage error.
    pub mape_pct: Option<f64>,
    /// 90 % quantile of the absolute percentage error.
    pub p90_ape_pct: Option<f64>,
    /// Share of rows within 10 %.
    pub within_10_pct: Option<f64>,
    /// Coefficient of determination.
    pub r2: Option<f64>,
    /// Mean absolute error in the target's unit.
    pub mae: Option<f64>,
    /// Root of the mean squared error in the target's unit.
    pub rmse: Option<f64>,
    /// Share of rows estimated too low.
    pub underestimation_rate: Option<f64>,
    /// Margin with which 95 % of rows are not underestimated.
    pub margin_95_pct: Option<f64>,
    /// Margin with which 99 % of rows are not underestimated.
    pub margin_99_pct: Option<f64>,
    /// Share of rows in the right memory bin.
    pub bin_accuracy: Option<f64>,
    /// Width of those bins, MiB.
    pub bin_width_mib: Option<f64>,
    /// Share of measured rows rightly said to fit.
    pub fit_accuracy: Option<f64>,
    /// Rows that ran out of memory.
    pub censored: Option<usize>,
    /// Share of those estimated above their limit.
    pub censored_above_limit: Option<f64>,
    /// Bytes of the fitted estimator.
    pub size_bytes: Option<u64>,
    /// Time for one estimate, milliseconds.
    pub latency_ms: Option<f64>,
    /// Share of rows that the upper bound at 95 % holds for.
    pub coverage_95: Option<f64>,
    /// Mean of what that bound lies above the measured peak, percent of the peak.
    pub over_allocation_95_pct: Option<f64>,
    /// Share of rows, out of memory or not, rightly said to fit or not.
    pub decision_accuracy: Option<f64>,
    /// Lower end of the 95 % bootstrap interval of the median absolute percentage error.
    pub median_ape_low_pct: Option<f64>,
    /// Its upper end.
    pub median_ape_high_pct: Option<f64>,
    /// Lower end of the interval of the mean absolute percentage error.
    pub mape_low_pct: Option<f64>,
    /// Its upper end.
    pub mape_high_pct: Option<f64>,
}

/// Which run a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunName<'a> {
    /// The hash of config and data.
    pub id: &'a str,
    /// Name of the config; may be empty.
    pub config: &'a str,
}

/// The columns of the file, in order.
pub(super) const COLUMNS: [&str; 33] = [
    "run_id",
    "config",
    "estimator",
    "data",
    "split",
    "label",
    "target",
    "family",
    "n",
    "median_ape_pct",
    "mape_pct",
    "p90_ape_pct",
    "within_10_pct",
    "r2",
    "mae",
    "rmse",
    "underestimation_rate",
    "margin_95_pct",
    "margin_99_pct",
    "bin_accuracy",
    "bin_width_mib",
    "fit_accuracy",
    "censored",
    "censored_above_limit",
    "size_bytes",
    "latency_ms",
    "coverage_95",
    "over_allocation_95_pct",
    "decision_accuracy",
    "median_ape_low_pct",
    "median_ape_high_pct",
    "mape_low_pct",
    "mape_high_pct",
];

impl LeaderboardRow {
    /// The rows of one run's scores: every target over all families, then each family. A target without any row to
    /// score has none.
    pub fn of(run: RunName<'_>, scores: &Scores, cost: Cost) -> Vec<Self> {
        let whole = std::iter::once((ALL_FAMILIES, &scores.targets));
        let families = scores.families.iter().map(|(family, targets)| (family.name(), targets));
        let rows = whole.chain(families).flat_map(|(family, targets)| {
            let scored = targets.iter().filter(|(_, metrics)| {
                metrics.n > 0 || metrics.memory.as_ref().is_some_and(|memory| memory.censored > 0)
            });
            scored.map(move |(target, metrics)| Self::new(run, scores, family, *target, metrics, cost))
        });
        rows.collect()
    }

    fn new(
        run: RunName<'_>,
        scores: &Scores,
        family: &str,
        target: Target,
        metrics: &TargetScores,
        cost: Cost,
    ) -> Self {
        let intervals = metrics.intervals;
        let memory = metrics.memory.as_ref();
        let at_95 = memory.and_then(|memory| memory.bounds.level(0.95));
        Self {
            run_id: run.id.to_owned(),
            config: run.config.to_owned(),
            estimator: scores.estimator.clone(),
            data: scores.data.clone(),
            split: scores.split.clone(),
            label: scores.label.clone(),
            target,
            family: family.to_owned(),
            n: metrics.n,
            median_ape_pct: metrics.median_ape_pct,
            mape_pct: metrics.mape_pct,
            p90_ape_pct: metrics.p90_ape_pct,
            within_10_pct: metrics.within_10_pct,
            r2: metrics.r2,
            mae: metrics.mae,
            rmse: metrics.rmse,
            underestimation_rate: metrics.underestimation_rate,
            margin_95_pct: metrics.margin_95_pct,
            margin_99_pct: metrics.margin_99_pct,
            bin_accuracy: memory.and_then(|memory| memory.bin_accuracy),
            bin_width_mib: memory.map(|memory| memory.bin_width_mib),
            fit_accuracy: memory.and_then(|memory| memory.fit_accuracy),
            censored: memory.map(|memory| memory.censored),
            censored_above_limit: memory.and_then(|memory| memory.censored_above_limit),
            size_bytes: cost.size_bytes,
            latency_ms: cost.latency_ms,
            coverage_95: at_95.map(|level| level.coverage),
            over_allocation_95_pct: at_95.map(|level| level.mean_over_allocation_pct),
            decision_accuracy: memory.and_then(|memory| memory.bounds.decision.accuracy),
            median_ape_low_pct: intervals.map(|intervals| intervals.median_ape_pct.low),
            median_ape_high_pct: intervals.map(|intervals| intervals.median_ape_pct.high),
            mape_low_pct: intervals.map(|intervals| intervals.mape_pct.low),
            mape_high_pct: intervals.map(|intervals| intervals.mape_pct.high),
        }
    }

    /// Whether two rows say the same of the same: published estimates and formulas without a fit come out of every run that
    /// asks them about a file, alike but for the run and what the machine was busy with.
    pub(super) fn says_what(&self, other: &Self) -> bool {
        let run = |row: &Self| (row.run_id.clone(), row.config.clone(), row.latency_ms);
        let (run_id, config, latency_ms) = run(other);
        Self { run_id, config, latency_ms, ..self.clone() } == *other
    }

    /// What makes the row unique.
    pub(super) fn key(&self) -> Key {
        Key {
            data: self.data.clone(),
            split: self.split.clone(),
            label: self.label.clone(),
            target: self.target,
            family: (self.family != ALL_FAMILIES, self.family.clone()),
            estimator: self.estimator.clone(),
            run_id: self.run_id.clone(),
        }
    }
}

/// What makes a row unique, in the order in which the file is sorted: what can be compared stands together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    data: String,
    split: String,
    label: String,
    target: Target,
    /// `all` before the families.
    family: (bool, String),
    estimator: String,
    run_id: String,
}

impl Key {
    /// A key that comes before all others that differ from this one in the run alone.
    pub(super) fn first_of_its_runs(&self) -> Self {
        Self { run_id: String::new(), ..self.clone() }
    }

    /// Whether two keys differ in the run at most.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.first_of_its_runs() == other.first_of_its_runs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::tests::row as prediction;
    use crate::scores::ScoreContext;

    #[test]
    fn the_columns_are_the_fields() {
        let scores = Scores::of(&[prediction("a:1", 1000.0, 1100.0)], &ScoreContext::new("published", "test"));
        let rows = LeaderboardRow::of(RunName { id: "r1", config: "test" }, &scores, Cost::default());
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(&rows[0]).expect("known");
        let text = String::from_utf8(writer.into_inner().expect("known")).expect("known");
        assert_eq!(text.lines().next(), Some(COLUMNS.join(",").as_str()));
    }

    #[test]
    fn a_row_is_made_for_the_whole_and_each_family_and_only_for_what_was_scored() {
        let mut censored = prediction("a:2", 0.0, 50_000.0);
        censored.outcome = plimsoll_dataset::Outcome::OutOfMemory { above_mib: 40_000.0 };
        censored.family = plimsoll_graph::Family::Mlp;
        let mut measured = prediction("a:1", 1000.0, 1100.0);
        measured.utilisation[0] = Some(0.5);
        let scores = Scores::of(&[measured, censored], &ScoreContext::new("published", "test"));
        let rows = LeaderboardRow::of(RunName { id: "r1", config: "test" }, &scores, Cost::default());
        let found: Vec<_> = rows.iter().map(|row| (row.family.as_str(), row.target, row.n, row.censored)).collect();
        // GPUTL was measured but never estimated; the MLP has nothing but a limit.
        let memory = Target::PeakMemory;
        assert_eq!(found, [("all", memory, 1, Some(1)), ("mlp", memory, 0, Some(1)), ("cnn", memory, 1, Some(0))]);
    }
}
