//! The published table of real models, with what GPUMemNet, FakeTensor and Horus said of each.

use plimsoll_graph::{Optimizer, Precision, TrainingSetup};

use super::Job;
use super::run::Cells;
use crate::measurement::Label;

pub(super) const COLUMNS: &[&str] =
    &["model", "library", "input", "batch_size", "optimizer", "precision", "gpu", "peak_memory_mib"];

/// The estimators' columns. MB is taken as MiB, the reading that favours those who guess too low.
const ESTIMATES: &[(&str, &str)] = &[
    ("gpumemnet_estimate_mib", "gpumemnet"),
    ("faketensor_estimate_mb", "faketensor"),
    ("horus_estimate_mb", "horus"),
];

/// Names in the table that a library has under another.
const NAMES: [(&str, &str); 3] =
    [("bert-base", "bert-base-uncased"), ("bert-large", "bert-large-uncased"), ("xception", "legacy_xception")];

pub(super) fn job(cells: &Cells<'_>) -> Result<Job, String> {
    let (model, library) = (cells.needed("model")?, cells.needed("library")?);
    // What follows a comma says how the model was built.
    let folder = match library.split(',').next().unwrap_or_default().trim() {
        "transformers" => "hf",
        folder => folder,
    };
    let input = cells.needed("input")?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|&number| number > 0);
    let tokens = input.strip_suffix(" tokens").and_then(number);
    let side = input.rsplit('x').next().and_then(number);
    let size = tokens.or(side).ok_or_else(|| {
        format!("`input` should be CxHxW or a number of tokens, is `{}`", crate::ingest::cells::short(input))
    })?;
    let name = NAMES.iter().find(|(name, _)| *name == model).map_or(model, |(_, known)| known);
    let setup = TrainingSetup {
        optimizer: Optimizer::from_name(cells.needed("optimizer")?).map_err(|error| error.to_string())?,
        precision: Precision::from_name(cells.needed("precision")?).map_err(|error| error.to_string())?,
        sequence_length: tokens,
        input_size: if tokens.is_some() { None } else { Some(size) },
        ..TrainingSetup::new(cells.count("batch_size")?)
    };
    Ok(Job {
        label: Label::NvidiaSmiDevice,
        published_estimates: cells.estimates(ESTIMATES)?,
        ..Job::new(format!("{folder}/{name}@{size}"), model, setup, cells.reading("peak_memory_mib")?)
    })
}
