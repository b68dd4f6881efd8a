//! Whether upper bounds hold, what they cost, and whether the answer to "does it fit?" is right.

use plimsoll_dataset::{Outcome, Target};
use plimsoll_model::LEVELS;
use serde::{Deserialize, Serialize};

use crate::prediction::Prediction;

/// What is said of upper bounds and of the decision that they are for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BoundScores {
    /// One entry for each level, where any estimate has bounds.
    pub levels: Vec<LevelScores>,
    /// Whether jobs were rightly said to fit their GPU.
    pub decision: DecisionScores,
}

/// A bound at one level over the measured rows that have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelScores {
    /// The share of rows that the bound promises to hold for.
    pub level: f64,
    /// Rows measured and bounded.
    pub n: usize,
    /// The share that it holds for.
    pub coverage: f64,
    /// Mean of `(bound - measured) / measured`, percent: what is reserved in vain, less what is missing.
    pub mean_over_allocation_pct: f64,
    /// Median of the same.
    pub median_over_allocation_pct: f64,
}

/// "It fits" against what became of the run: a measured run fitted, one out of memory did not.
///
/// The estimate says that a job fits where it is at most the GPU's memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DecisionScores {
    /// Rows with an estimate that fitted or ran out of memory.
    pub n: usize,
    /// Of these, rows that ran out of memory.
    pub out_of_memory: usize,
    /// Share of right answers.
    pub accuracy: Option<f64>,
    /// Share of runs out of memory that were said to fit.
    pub missed_out_of_memory: Option<f64>,
    /// Share of runs that fitted and were said not to.
    pub refused_in_vain: Option<f64>,
    /// Share of runs out of memory whose bound at 95 % wrongly lies within the GPU's memory.
    pub missed_at_95: Option<f64>,
}

impl BoundScores {
    pub(super) fn of(rows: &[&Prediction]) -> Self {
        let levels = LEVELS.iter().enumerate().filter_map(|(index, &level)| LevelScores::of(rows, index, level));
        Self { levels: levels.collect(), decision: DecisionScores::of(rows) }
    }

    /// The scores of a level, if there are any.
    pub fn level(&self, level: f64) -> Option<&LevelScores> {
        self.levels.iter().find(|scores| (scores.level - level).abs() < 1e-9)
    }
}

impl LevelScores {
    fn of(rows: &[&Prediction], index: usize, level: f64) -> Option<Self> {
        let excess = |row: &&Prediction| {
            let measured = row.measured(Target::PeakMemory).filter(|measured| *measured > 0.0)?;
            let bound = row.estimate.bounds?.to_array()[index];
            Some(((bound - measured) / measured * 100.0, bound >= measured))
        };
        let rows: Vec<(f64, bool)> = rows.iter().filter_map(excess).filter(|(excess, _)| excess.is_finite()).collect();
        let mut excesses: Vec<f64> = rows.iter().map(|(excess, _)| *excess).collect();
        // Sums of floats depend on their order; this one does not depend on that of the rows.
        excesses.sort_unstable_by(f64::total_cmp);
        let n = rows.len();
        Some(Self {
            level,
            n,
            coverage: rows.iter().filter(|(_, holds)| *holds).count() as f64 / n as f64,
            mean_over_allocation_pct: excesses.iter().sum::<f64>() / n as f64,
            median_over_allocation_pct: super::quantile(&excesses, 0.5)?,
        })
    }
}

impl DecisionScores {
    fn of(rows: &[&Prediction]) -> Self {
        let answers: Vec<Answer> = rows.iter().filter_map(|row| Answer::of(row)).collect();
        let share = |of: fn(&&Answer) -> bool, holds: fn(&&Answer) -> bool| {
            let of: Vec<&Answer> = answers.iter().filter(of).collect();
            (!of.is_empty()).then(|| of.iter().copied().filter(holds).count() as f64 / of.len() as f64)
        };
        Self {
            n: answers.len(),
            out_of_memory: answers.iter().filter(|answer| !answer.fitted).count(),
            accuracy: share(|_| true, |answer| answer.fitted == answer.said),
            missed_out_of_memory: share(|answer| !answer.fitted, |answer| answer.said),
            refused_in_vain: share(|answer| answer.fitted, |answer| !answer.said),
            missed_at_95: share(
                |answer| !answer.fitted && answer.said_at_95.is_some(),
                |answer| answer.said_at_95 == Some(true),
            ),
        }
    }
}

/// One row's answer to "does it fit?".
struct Answer {
    fitted: bool,
    said: bool,
    said_at_95: Option<bool>,
}

impl Answer {
    fn of(row: &Prediction) -> Option<Self> {
        let fitted = match row.outcome {
            Outcome::Measured { .. } => true,
            Outcome::OutOfMemory { .. } => false,
            Outcome::Unknown => return None,
        };
        Some(Self {
            fitted,
            said: row.estimated(Target::PeakMemory)? <= row.capacity_mib,
            said_at_95: row.estimate.bounds.map(|bounds| bounds.p95 <= row.capacity_mib),
        })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Bounds;

    use super::*;
    use crate::prediction::tests::row;

    fn bounded(measured: f64, p95: f64) -> Prediction {
        let mut row = row("a:1", measured, p95);
        row.estimate.bounds = Some(Bounds { p50: p95, p90: p95, p95, p99: 2.0 * p95 });
        row
    }

    #[test]
    fn coverage_and_cost_are_over_measured_rows_with_bounds() {
        let mut out_of_memory = bounded(0.0, 90_000.0);
        out_of_memory.outcome = Outcome::OutOfMemory { above_mib: 40_000.0 };
        let rows = [bounded(1000.0, 1100.0), bounded(1000.0, 900.0), row("b:1", 1000.0, 1.0), out_of_memory];
        let scores = BoundScores::of(&rows.iter().collect::<Vec<_>>());
        let at_95 = scores.level(0.95).expect("two rows");
        assert_eq!((at_95.n, at_95.coverage), (2, 0.5));
        assert!(at_95.mean_over_allocation_pct.abs() < 1e-9);
        let at_99 = scores.level(0.99).expect("two rows");
        assert_eq!((at_99.coverage, at_99.mean_over_allocation_pct), (1.0, 100.0));
        assert!(BoundScores::of(&[&rows[2]]).levels.is_empty());
    }

    #[test]
    fn a_decision_is_right_where_it_agrees_with_what_became_of_the_run() {
        let out_of_memory = |estimated: f64| {
            let mut row = bounded(0.0, estimated);
            row.outcome = Outcome::OutOfMemory { above_mib: 40_000.0 };
            row
        };
        let rows =
            [bounded(1000.0, 1100.0), bounded(39_000.0, 50_000.0), out_of_memory(50_000.0), out_of_memory(30_000.0)];
        let decision = BoundScores::of(&rows.iter().collect::<Vec<_>>()).decision;
        assert_eq!((decision.n, decision.out_of_memory, decision.accuracy), (4, 2, Some(0.5)));
        assert_eq!((decision.missed_out_of_memory, decision.refused_in_vain), (Some(0.5), Some(0.5)));
        assert_eq!(decision.missed_at_95, Some(0.5));
        assert_eq!(BoundScores::of(&[]).decision.accuracy, None);
    }
}
