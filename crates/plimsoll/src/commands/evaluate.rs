//! `plimsoll evaluate`

use anyhow::Result;
use plimsoll_evaluation::{ScoreContext, Scores, predict, write_predictions};
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
    if arguments.json { output::json(&scores) } else { output::line(summary(&scores)) }
}

/// Scores as a table for people.
pub(super) fn summary(scores: &Scores) -> String {
    let number = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let rows: Vec<Vec<String>> = scores
        .targets
        .iter()
        .filter(|(_, metrics)| metrics.n > 0)
        .map(|(target, metrics)| {
            vec![
                target.name().to_owned(),
                metrics.n.to_string(),
                number(metrics.median_ape_pct, 2),
                number(metrics.mape_pct, 2),
                number(metrics.p90_ape_pct, 2),
                number(metrics.r2, 4),
                number(metrics.mae, 4),
                number(metrics.underestimation_rate, 3),
                number(metrics.memory.as_ref().and_then(|memory| memory.bin_accuracy), 4),
            ]
        })
        .collect();
    let header = ["target", "n", "median APE %", "MAPE %", "p90 APE %", "R2", "MAE", "underestimated", "bin accuracy"];
    format!(
        "{} on {} ({}), label {}: {} rows, {} rejected, {} ran out of memory\n{}",
        scores.estimator,
        scores.data,
        scores.split,
        scores.label,
        scores.rows,
        scores.rejected,
        scores.censored,
        output::table(&header, &rows)
    )
}
