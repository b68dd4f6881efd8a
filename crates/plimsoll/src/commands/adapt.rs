//! `plimsoll adapt`

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use plimsoll_dataset::{Label, Sample, Stack};
use plimsoll_evaluation::{LearningCurve, LearningCurves, learning_curve};
use plimsoll_model::{Adaptation, Learned, Reading};
use serde_json::json;

use super::{estimate, source};
use crate::cli::{AdaptArguments, DrawBy};
use crate::output;

/// Fits a checkpoint to GPUs from a few measured runs of each, or says how many runs that takes.
pub(super) fn run(arguments: &AdaptArguments) -> Result<()> {
    let learned = estimate::estimator(Some(arguments.checkpoint.as_path()).filter(|name| name.as_os_str() != SHIPPED))?;
    let loaded = source::load(&arguments.data, &arguments.source, &arguments.setup)?;
    let catalogue = source::catalogue(arguments.source.gpu_file.as_deref())?;
    let wanted = source::gpu(arguments.setup.gpu.as_deref(), &catalogue)?.map(|gpu| gpu.name);
    let samples = groups(loaded.samples.iter().filter(|sample| wanted.as_ref().is_none_or(|gpu| *gpu == sample.gpu)));
    if let (true, Some(gpu)) = (samples.is_empty(), wanted) {
        let mut found: Vec<&str> = loaded.samples.iter().map(|sample| sample.gpu.as_str()).collect();
        found.sort_unstable();
        found.dedup();
        return Err(source::usage(
            &format!("no row is of GPU `{gpu}`"),
            &format!("the rows are of {}", found.join(", ")),
        ));
    }
    if !arguments.curve.is_empty() {
        curves(&learned, &samples, arguments)?;
    }
    let Some(out) = &arguments.out else { return Ok(()) };
    let shown: Vec<&Sample> = samples.values().flat_map(|rows| spread(rows, arguments.rows)).collect();
    let adapted = learned.adapt(&shown)?;
    adapted.save(out)?;
    let is_new = |known: &&Adaptation| samples.contains_key(&(known.gpu.as_str(), known.label, known.stack));
    let adaptations: Vec<&Adaptation> = adapted.description().adaptations.iter().filter(is_new).collect();
    if arguments.json {
        return output::json(&json!({ "out": out, "adaptations": adaptations }));
    }
    adaptations.iter().try_for_each(|adaptation| output::line(words(adaptation)))?;
    output::line(format!("-> {}", out.display()))
}

/// What stands for the estimator that ships with Plimsoll.
const SHIPPED: &str = "shipped";

/// Rows of one GPU on one stack, read alike.
type Groups<'a> = BTreeMap<(&'a str, Label, Stack), Vec<&'a Sample>>;

fn groups<'a>(samples: impl Iterator<Item = &'a Sample>) -> Groups<'a> {
    let mut groups = Groups::new();
    for sample in samples {
        groups.entry((sample.gpu.as_str(), sample.label, sample.stack)).or_default().push(sample);
    }
    groups
}

/// At most so many measured rows, evenly spread over all; without a limit all rows, measured or not.
fn spread<'a>(rows: &[&'a Sample], limit: Option<u64>) -> Vec<&'a Sample> {
    let Some(limit) = limit else { return rows.to_vec() };
    let measured: Vec<&Sample> = rows.iter().copied().filter(|row| row.outcome.peak_mib().is_some()).collect();
    let count = (limit as usize).min(measured.len());
    (0..count).map(|place| measured[place * measured.len() / count]).collect()
}

/// Prints how well the estimator does after each number of runs, and draws it.
fn curves(learned: &Learned, samples: &Groups, arguments: &AdaptArguments) -> Result<()> {
    let curve = |(&(gpu, label, stack), rows): (&(&str, Label, Stack), &Vec<&Sample>)| {
        let group = |row: &Sample| match arguments.by {
            DrawBy::Run => row.id.clone(),
            DrawBy::Architecture => row.architecture.clone(),
        };
        let groups: Vec<String> = rows.iter().map(|row| group(row)).collect();
        let runs: Vec<(Reading, &str)> =
            learned.readings(rows).into_iter().zip(groups.iter().map(String::as_str)).collect();
        let points = learning_curve(&runs, &arguments.curve, arguments.repeats as usize, arguments.seed);
        LearningCurve { gpu: gpu.to_owned(), label, stack, points }
    };
    let files: Vec<String> = arguments.data.iter().map(|path| path.display().to_string()).collect();
    let drawn = match arguments.by {
        DrawBy::Run => "runs drawn one by one",
        DrawBy::Architecture => "whole architectures drawn",
    };
    let title = format!("{} on {}, {drawn}", learned.description().data.name, files.join(", "));
    let curves = LearningCurves { title, curves: samples.iter().map(curve).collect() };
    ensure!(
        curves.curves.iter().any(|curve| !curve.points.is_empty()),
        "no GPU has enough measured rows for any of these numbers of runs and ten more to judge"
    );
    if let Some(path) = &arguments.plot {
        curves.write(path)?;
        output::note(format!("wrote {}", path.display()));
    }
    if arguments.json {
        return output::json(&json!({ "curves": curves.curves }));
    }
    output::line(output::table(&LearningCurves::COLUMNS, &curves.rows()))
}

/// An adaptation in one line.
fn words(adaptation: &Adaptation) -> String {
    let scale = if adaptation.scale == 1.0 { String::new() } else { format!("{:.3} x ", adaptation.scale) };
    let law = match adaptation.offset_mib {
        0.0 => format!("{scale}estimate"),
        offset => format!("{scale}estimate {} {:.0} MiB", if offset < 0.0 { '-' } else { '+' }, offset.abs()),
    };
    let stack = if adaptation.stack.is_unknown() { String::new() } else { format!(", {}", adaptation.stack) };
    format!(
        "{} ({}{stack}): {} runs and {} out of memory: {law}; median error {:.2} % before, {:.2} % on runs left out",
        adaptation.gpu,
        adaptation.label.name(),
        adaptation.rows,
        adaptation.censored_rows,
        adaptation.error_before_pct,
        adaptation.error_after_pct
    )
}
