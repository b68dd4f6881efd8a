//! Scores of an estimator on one data set and split.

mod bootstrap;
mod bounds;
mod size_class;
mod target_scores;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use plimsoll_dataset::{Label, Target};
use plimsoll_graph::Family;
use serde::{Deserialize, Serialize};

pub use bootstrap::{Bootstrap, Interval, Intervals};
pub use bounds::{BoundScores, DecisionScores, LevelScores};
pub use size_class::SizeClass;
pub(crate) use target_scores::quantile;
pub use target_scores::{MemoryScores, TargetScores};

use crate::error::{EvaluationError, Result};
use crate::prediction::Prediction;
use crate::replace_file::replace_file;

/// Scores by target; memory comes first.
pub type TargetMap = BTreeMap<Target, TargetScores>;

/// What scores need to know besides the predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreContext {
    /// Name of the data set.
    pub data: String,
    /// Which rows the estimator had not seen, such as `test` or `5-fold by architecture`.
    pub split: String,
    /// Rows of the source that could not be used.
    pub rejected: usize,
    /// Width of the half-open memory bins of `bin_accuracy`, MiB.
    pub bin_width_mib: f64,
    /// How to draw confidence intervals; `None` for none.
    pub bootstrap: Option<Bootstrap>,
}

impl ScoreContext {
    /// No rejected rows, bins of 1 GiB, confidence intervals from 1,000 resamples.
    pub fn new(data: impl Into<String>, split: impl Into<String>) -> Self {
        Self {
            data: data.into(),
            split: split.into(),
            rejected: 0,
            bin_width_mib: 1024.0,
            bootstrap: Some(Bootstrap::default()),
        }
    }
}

/// How good the estimates of one estimator are, over all and by group.
///
/// Every map is ordered and every metric without rows is null, so the same predictions in any order give the same
/// JSON. Groups have the same targets as the whole. Confidence intervals are drawn for peak memory, over the whole and
/// the families.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Who made the estimates; several names joined by `+` where predictions were mixed.
    pub estimator: String,
    /// Name of the data set.
    pub data: String,
    /// Which rows the estimator had not seen.
    pub split: String,
    /// How the peaks were read; several definitions joined by `+` where rows are mixed.
    pub label: String,
    /// Rows scored: measured, censored and those without a recorded peak.
    pub rows: usize,
    /// Rows of the source that could not be used.
    pub rejected: usize,
    /// Rows that ran out of memory.
    pub censored: usize,
    /// Rows whose reading is doubted. They have no measured peak, or count as having run out of memory.
    #[serde(default)]
    pub doubted: usize,
    /// Scores of peak memory with every reading at its word, the doubted ones too; only where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_read: Option<TargetScores>,
    /// Scores over all rows. Memory is always there, a utilisation metric where any row has it measured.
    pub targets: TargetMap,
    /// Scores by architecture family.
    pub families: BTreeMap<Family, TargetMap>,
    /// Scores by GPU.
    pub gpus: BTreeMap<String, TargetMap>,
    /// Scores by measured peak. Rows without one, censored rows among them, are in no class.
    pub sizes: BTreeMap<SizeClass, TargetMap>,
}

impl Scores {
    /// Scores predictions, which should be of one estimator on one data set.
    pub fn of<'a>(predictions: impl IntoIterator<Item = &'a Prediction>, context: &ScoreContext) -> Self {
        let rows: Vec<&Prediction> = predictions.into_iter().collect();
        let has =
            |target: &Target| *target == Target::PeakMemory || rows.iter().any(|row| row.measured(*target).is_some());
        let targets: Vec<Target> = Target::ALL.into_iter().filter(has).collect();
        let score = |rows: &[&Prediction], bootstrap: Option<&Bootstrap>| -> TargetMap {
            // Relative errors are not what utilisation is judged by: drawing intervals for them would be time wasted.
            let drawn = |target: Target| bootstrap.filter(|_| target == Target::PeakMemory);
            let of_target = |target| TargetScores::of(target, rows, context.bin_width_mib, drawn(target));
            targets.iter().map(|target| (*target, of_target(*target))).collect()
        };
        let drawn = context.bootstrap.as_ref();
        Self {
            estimator: distinct(rows.iter().map(|row| row.estimator.as_str())),
            data: context.data.clone(),
            split: context.split.clone(),
            label: label_of(&rows),
            rows: rows.len(),
            rejected: context.rejected,
            censored: rows.iter().filter(|row| row.outcome.is_censored()).count(),
            doubted: rows.iter().filter(|row| row.doubt.is_some()).count(),
            as_read: as_read(&rows, context),
            targets: score(&rows, drawn),
            families: grouped(&rows, |row| Some(row.family), |group| score(group, drawn)),
            gpus: grouped(&rows, |row| Some(row.gpu.clone()), |group| score(group, None)),
            sizes: grouped(&rows, |row| row.outcome.peak_mib().map(SizeClass::of), |group| score(group, None)),
        }
    }

    /// Scores each estimator of mixed predictions on its own, in the order in which they first appear.
    pub fn by_estimator<'a>(
        predictions: impl IntoIterator<Item = &'a Prediction>,
        context: &ScoreContext,
    ) -> Vec<Self> {
        by_estimator(predictions).into_iter().map(|(_, rows)| Self::of(rows, context)).collect()
    }

    /// The scores of peak memory over all rows.
    pub fn memory(&self) -> &TargetScores {
        &self.targets[&Target::PeakMemory]
    }
}

/// Scores of peak memory with every reading at its word; `None` where no reading is doubted.
fn as_read(rows: &[&Prediction], context: &ScoreContext) -> Option<TargetScores> {
    rows.iter().any(|row| row.doubt.is_some()).then(|| {
        let rows: Vec<Prediction> = rows.iter().map(|row| row.as_read()).collect();
        let rows: Vec<&Prediction> = rows.iter().collect();
        TargetScores::of(Target::PeakMemory, &rows, context.bin_width_mib, context.bootstrap.as_ref())
    })
}

/// Writes scores as JSON, whole or not at all.
pub fn write_scores(path: &Path, scores: &[Scores]) -> Result<()> {
    replace_file(path, |writer| {
        serde_json::to_writer_pretty(&mut *writer, scores)
            .map_err(|source| EvaluationError::Json { path: path.to_owned(), source })?;
        writeln!(writer).map_err(|source| EvaluationError::File { action: "write", path: path.to_owned(), source })
    })
}

/// Predictions by estimator, in the order in which the estimators first appear.
pub(crate) fn by_estimator<'a>(
    predictions: impl IntoIterator<Item = &'a Prediction>,
) -> Vec<(&'a str, Vec<&'a Prediction>)> {
    let mut groups: Vec<(&str, Vec<&Prediction>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for row in predictions {
        let place = *places.entry(&row.estimator).or_insert_with(|| {
            groups.push((&row.estimator, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(row);
    }
    groups
}

/// The label definition of rows; several joined by `+`.
pub(crate) fn label_of(rows: &[&Prediction]) -> String {
    let found = Label::ALL.into_iter().filter(|label| rows.iter().any(|row| row.label == *label));
    found.map(Label::name).collect::<Vec<_>>().join("+")
}

/// Names without repetition, in order, joined by `+`.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("+")
}

/// Scores of each group of rows; rows without a key are in no group.
fn grouped<K: Ord>(
    rows: &[&Prediction],
    key: impl Fn(&Prediction) -> Option<K>,
    score: impl Fn(&[&Prediction]) -> TargetMap,
) -> BTreeMap<K, TargetMap> {
    let mut groups: BTreeMap<K, Vec<&Prediction>> = BTreeMap::new();
    for row in rows {
        if let Some(key) = key(row) {
            groups.entry(key).or_default().push(row);
        }
    }
    groups.into_iter().map(|(key, group)| (key, score(&group))).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_dataset::Outcome;

    use super::*;
    use crate::prediction::tests::row;

    #[test]
    fn groups_split_the_rows_and_keep_the_targets_of_the_whole() {
        let mut rows = vec![row("a:1", 900.0, 1000.0), row("a:2", 3000.0, 3000.0), row("a:3", 0.0, 50_000.0)];
        rows[1].family = Family::Mlp;
        rows[1].gpu = "V100-16GB".to_owned();
        rows[1].utilisation[0] = Some(0.5);
        rows[2].outcome = Outcome::OutOfMemory { above_mib: 40_000.0 };
        let scores = Scores::of(&rows, &ScoreContext::new("published", "all rows"));
        assert_eq!((scores.rows, scores.censored, scores.memory().n), (3, 1, 2));
        assert_eq!(scores.label, "nvidia_smi_device");
        assert_eq!(scores.targets.keys().copied().collect::<Vec<_>>(), [Target::PeakMemory, Target::Gputl]);
        let cnn = &scores.families[&Family::Cnn];
        assert_eq!((cnn[&Target::PeakMemory].n, cnn[&Target::Gputl].n), (1, 0));
        assert_eq!(cnn[&Target::Gputl].mae, None);
        assert_eq!(scores.families[&Family::Mlp][&Target::Gputl].missing, 1);
        assert_eq!(scores.gpus.keys().collect::<Vec<_>>(), ["A100-40GB", "V100-16GB"]);
        assert_eq!(scores.sizes.values().map(|group| group[&Target::PeakMemory].n).sum::<usize>(), 2);
    }

    #[test]
    fn doubted_readings_are_scored_apart() {
        let mut rows = vec![row("a:1", 1100.0, 1000.0), row("a:2", 3000.0, 2000.0), row("a:3", 50_000.0, 1.0)];
        for (row, mib) in rows[1..].iter_mut().zip([500.0, 40_000.0]) {
            row.doubt = Some(plimsoll_dataset::Doubt { reason: "reads too little".to_owned(), reading_mib: mib });
        }
        rows[1].outcome = Outcome::Unknown;
        rows[2].outcome = Outcome::OutOfMemory { above_mib: 40_000.0 };
        let scores = Scores::of(&rows, &ScoreContext::new("runs", "all rows"));
        assert_eq!((scores.rows, scores.memory().n, scores.doubted, scores.censored), (3, 1, 2, 1));
        let as_read = scores.as_read.expect("two are doubted");
        assert_eq!((as_read.n, as_read.memory.expect("memory").censored), (3, 0));
        assert!(Scores::of(&rows[..1], &ScoreContext::new("runs", "all rows")).as_read.is_none());
    }

    #[test]
    fn estimators_and_labels_are_not_mixed_silently() {
        let mut rows = vec![row("a:1", 900.0, 1000.0), row("a:1", 900.0, 800.0)];
        rows[1].estimator = "analytic".to_owned();
        rows[1].label = Label::Reserved;
        let context = ScoreContext::new("published", "all rows");
        let each = Scores::by_estimator(&rows, &context);
        let names: Vec<_> = each.iter().map(|scores| (scores.estimator.as_str(), scores.label.as_str())).collect();
        assert_eq!(names, [("mlp", "nvidia_smi_device"), ("analytic", "reserved")]);
        let mixed = Scores::of(&rows, &context);
        assert_eq!((mixed.estimator.as_str(), mixed.label.as_str()), ("analytic+mlp", "nvidia_smi_device+reserved"));
    }

    #[test]
    fn json_has_the_agreed_keys_and_nulls_instead_of_nan() {
        let scores = Scores::of(&[], &ScoreContext::new("nothing", "all rows"));
        let json = serde_json::to_value(&scores).expect("known");
        let memory = &json["targets"]["peak_memory_mib"];
        assert_eq!(memory["n"], 0);
        for key in [
            "median_ape_pct",
            "mape_pct",
            "p90_ape_pct",
            "p99_ape_pct",
            "r2",
            "mae",
            "rmse",
            "underestimation_rate",
            "within_5_pct",
            "within_10_pct",
            "within_20_pct",
            "margin_95_pct",
            "margin_99_pct",
            "bin_accuracy",
            "fit_accuracy",
            "censored_above_limit",
        ] {
            assert_eq!(memory.get(key), Some(&serde_json::Value::Null), "{key}");
        }
        assert_eq!((&memory["bin_width_mib"], &memory["censored"]), (&1024.0.into(), &0.into()));
        assert_eq!(serde_json::from_value::<Scores>(json).expect("known"), scores);
    }

    #[test]
    fn scores_are_written_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("scores.json");
        let scores = vec![Scores::of(&[row("a:1", 900.0, 1000.0)], &ScoreContext::new("published", "all rows"))];
        write_scores(&path, &scores).expect("written");
        let text = std::fs::read_to_string(&path).expect("readable");
        assert_eq!(serde_json::from_str::<Vec<Scores>>(&text).expect("known"), scores);
        assert!(text.contains("\"0.5-1 GiB\""), "{text}");
    }
}
