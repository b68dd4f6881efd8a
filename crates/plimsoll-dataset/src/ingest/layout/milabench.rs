//! milabench's runs over batch sizes and GPUs.

use plimsoll_graph::{Optimizer, Precision, TrainingSetup};

use super::Job;
use super::run::Cells;
use crate::ingest::cells::short;
use crate::measurement::Label;

pub(super) const COLUMNS: &[&str] = &["gpu", "benchmark", "batch_size", "memory_mib", "samples_per_s"];

/// A benchmark whose model is known.
struct Benchmark {
    /// Its name without the precision.
    name: &'static str,
    model: &'static str,
    tokens: Option<u64>,
    optimizer: Optimizer,
    /// What it runs in where its name does not say.
    precision: Precision,
}

const fn vision(name: &'static str, model: &'static str, precision: Precision) -> Benchmark {
    Benchmark { name, model, tokens: None, optimizer: Optimizer::Sgd, precision }
}

const fn text(name: &'static str, model: &'static str, tokens: Option<u64>) -> Benchmark {
    Benchmark { name, model, tokens, optimizer: Optimizer::Adam, precision: Precision::AmpFp16 }
}

/// The benchmarks whose model is known.
///
/// The vision jobs are torchvision's at 224 x 224 (focalnet is timm's) with plain SGD, the others those of Hugging Face
/// with Adam.
const BENCHMARKS: [Benchmark; 9] = [
    // The base model: at a batch of 1 it reads less than Adam keeps for the large one.
    text("bert", "hf/bert-base-uncased", Some(512)),
    vision("convnext_large", "torchvision/convnext_large", Precision::AmpFp16),
    vision("focalnet", "timm/focalnet_base_lrf", Precision::AmpFp16),
    text("reformer", "hf/milabench-reformer", None),
    vision("regnet_y_128gf", "torchvision/regnet_y_128gf", Precision::AmpFp16),
    vision("resnet50", "torchvision/resnet50", Precision::AmpFp16),
    // A sample takes twice what it takes in `resnet50`.
    vision("resnet50-noio", "torchvision/resnet50", Precision::Tf32),
    // A sample takes over twice what 512 tokens take.
    text("t5", "hf/t5-base-1024", Some(1024)),
    text("whisper", "hf/milabench-whisper", None),
];

/// Precisions by the end of a benchmark's name; the longest that fits counts.
const PRECISIONS: [(&str, Precision); 4] = [
    ("-tf32-fp16", Precision::AmpFp16),
    ("-fp16", Precision::AmpFp16),
    ("-tf32", Precision::Tf32),
    ("-fp32", Precision::Fp32),
];

/// The job of a row, if its benchmark is one of those whose model is known.
pub(super) fn job(cells: &Cells<'_>) -> Result<Job, String> {
    let title = cells.needed("benchmark")?;
    let suffix = PRECISIONS.iter().find_map(|(suffix, precision)| Some((title.strip_suffix(suffix)?, *precision)));
    let name = suffix.map_or(title, |(name, _)| name);
    let benchmark = BENCHMARKS
        .iter()
        .find(|benchmark| benchmark.name == name)
        .ok_or_else(|| format!("the model of milabench's `{}` is not known", short(title)))?;
    let setup = TrainingSetup {
        optimizer: benchmark.optimizer,
        precision: suffix.map_or(benchmark.precision, |(_, precision)| precision),
        sequence_length: benchmark.tokens,
        ..TrainingSetup::new(cells.count("batch_size")?)
    };
    let model = benchmark.model;
    let reference = benchmark.tokens.map_or_else(|| model.to_owned(), |tokens| format!("{model}@{tokens}"));
    let name = model.rsplit('/').next().unwrap_or(model);
    Ok(Job {
        label: Label::NvidiaSmiDevice,
        variant: title.to_owned(),
        samples_per_s: cells.positive("samples_per_s"),
        ..Job::new(reference, name, setup, cells.reading("memory_mib")?)
    })
}
