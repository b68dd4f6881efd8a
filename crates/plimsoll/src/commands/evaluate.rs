//! `plimsoll evaluate`

use std::collections::BTreeMap;

use anyhow::Result;
use plimsoll_dataset::{Outcome, Target};
use plimsoll_evaluation::{
    Prediction, ScoreContext, Scores, TargetScores, predict, published_predictions, write_predictions,
};
use plimsoll_model::{DeviceKind, Learned};

use super::source;
use crate::cli::EvaluateArguments;
use crate::output;

/// Judges a checkpoint on measurements.
pub(super) fn run(arguments: &EvaluateArguments) -> Result<()> {
    let learned = Learned::load(&arguments.checkpoint, &DeviceKind::Cpu.open()?)?;
    let loaded = source::load(&arguments.data, &arguments.source, &arguments.setup)?;
    let samples: Vec<_> = loaded.samples.iter().collect();
    let predictions = predict(&learned, None, &samples);
    if let Some(path) = &arguments.predictions {
        write_predictions(path, &predictions)?;
    }
    let names: Vec<String> = arguments.data.iter().map(|path| path.display().to_string()).collect();
    let context = ScoreContext {
        rejected: loaded.rejected.len(),
        bin_width_mib: arguments.bin_width,
        ..ScoreContext::new(names.join(", "), "all rows of the files")
    };
    let scores = Scores::of(&predictions, &context);
    // What others said of these very rows, each with the rows that it covers.
    let published = published_predictions(samples.iter().copied());
    let published_scores = Scores::by_estimator(&published, &context);
    if arguments.json {
        let mut document = serde_json::to_value(&scores)?;
        if !published_scores.is_empty() {
            document["published"] = serde_json::to_value(&published_scores)?;
        }
        return output::json(&document);
    }
    output::line(summary(&scores))?;
    for scores in &published_scores {
        output::line(format!("\n{}", summary(scores)))?;
    }
    if !published.is_empty() && predictions.len() <= MOST_ROWS {
        output::line(format!("\n{}", row_by_row(&predictions, &published)))?;
    }
    Ok(())
}

/// Sets up to this size are printed row by row where others' estimates stand beside ours.
const MOST_ROWS: usize = 100;

/// Every row: what was measured, what we say, and what others said, MiB.
fn row_by_row(predictions: &[Prediction], published: &[Prediction]) -> String {
    let mut others: BTreeMap<&str, BTreeMap<&str, &Prediction>> = BTreeMap::new();
    for row in published {
        others.entry(&row.estimator).or_default().insert(&row.id, row);
    }
    let mib = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let rows: Vec<Vec<String>> = predictions
        .iter()
        .map(|row| {
            let mut cells = vec![row.architecture.clone(), row.gpu.clone(), row.batch_size.to_string()];
            cells.push(match (&row.doubt, row.outcome) {
                (Some(doubt), _) => format!("{:.0}?", doubt.reading_mib),
                (None, Outcome::OutOfMemory { above_mib }) => format!("> {above_mib:.0}"),
                (None, _) => mib(row.measured(Target::PeakMemory)),
            });
            cells.push(mib(row.estimated(Target::PeakMemory)));
            cells.extend(
                others
                    .values()
                    .map(|rows| mib(rows.get(row.id.as_str()).and_then(|row| row.estimated(Target::PeakMemory)))),
            );
            cells
        })
        .collect();
    let mut header = vec!["architecture", "gpu", "batch", "measured MiB"];
    header.push(predictions.first().map_or("estimate", |row| row.estimator.as_str()));
    header.extend(others.keys());
    output::table(&header, &rows)
}

/// Scores as a table for people.
pub(super) fn summary(scores: &Scores) -> String {
    let number = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let row = |name: &str, metrics: &TargetScores| {
        vec![
            name.to_owned(),
            metrics.n.to_string(),
            number(metrics.median_ape_pct, 2),
            number(metrics.mape_pct, 2),
            number(metrics.p90_ape_pct, 2),
            number(metrics.r2, 4),
            number(metrics.mae, 4),
            number(metrics.underestimation_rate, 3),
            number(metrics.memory.as_ref().and_then(|memory| memory.bin_accuracy), 4),
        ]
    };
    let targets = scores.targets.iter().filter(|(_, metrics)| metrics.n > 0);
    let rows: Vec<Vec<String>> = targets.map(|(target, metrics)| row(target.name(), metrics)).collect();
    let mut rows = rows;
    if let Some(metrics) = &scores.as_read {
        rows.push(row("every reading at its word", metrics));
    }
    let header = ["target", "n", "median APE %", "MAPE %", "p90 APE %", "R2", "MAE", "underestimated", "bin accuracy"];
    format!(
        "{} on {} ({}), label {}: {} rows, {} rejected, {} ran out of memory, {} doubted\n{}",
        scores.estimator,
        scores.data,
        scores.split,
        scores.label,
        scores.rows,
        scores.rejected,
        scores.censored,
        scores.doubted,
        output::table(&header, &rows)
    )
}
