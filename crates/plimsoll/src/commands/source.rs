//! From arguments to workloads and samples: what several commands share.

mod graph;
pub(crate) mod named;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plimsoll_dataset::{DatasetError, Format, IngestOptions, Loaded, Rejection, load_samples};
use plimsoll_graph::{Gpu, GpuCatalogue, Optimizer, Precision, TrainingSetup, Workload};

pub(crate) use graph::{Source, read, zoo};

use crate::cli::{GraphArguments, SetupArguments, SourceArguments, TrainingArguments};
use crate::errors::Usage;
use crate::output;

/// The built-in catalogue, with a user's file on top if there is one.
pub(crate) fn catalogue(gpu_file: Option<&Path>) -> Result<Cow<'static, GpuCatalogue>> {
    Ok(match gpu_file {
        None => Cow::Borrowed(GpuCatalogue::built_in()),
        Some(path) => Cow::Owned(GpuCatalogue::with_file(path)?),
    })
}

/// The layout of a name.
pub(crate) fn format(name: Option<&str>) -> Result<Option<Format>> {
    name.map(|name| {
        Format::from_name(name).with_context(|| {
            let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("unknown format `{name}`: expected one of {}", known.join(", "))
        })
    })
    .transpose()
}

/// The setup that arguments describe; `None` if they say no batch size.
pub(crate) fn setup(arguments: &SetupArguments) -> Result<Option<TrainingSetup>> {
    let Some(batch) = arguments.batch else { return Ok(None) };
    let mut setup = training(&arguments.training, batch)?;
    setup.last_batch = arguments.last_batch;
    setup.check()?;
    Ok(Some(setup))
}

/// The setup of a batch size.
pub(crate) fn training(arguments: &TrainingArguments, batch: u64) -> Result<TrainingSetup> {
    let mut setup = TrainingSetup::new(batch);
    if let Some(name) = &arguments.optimizer {
        setup.optimizer = Optimizer::from_name(name)?;
    }
    if let Some(name) = &arguments.precision {
        setup.precision = Precision::from_name(name)?;
    }
    if let Some(steps) = arguments.gradient_accumulation {
        setup.gradient_accumulation = steps;
    }
    setup.activation_checkpointing = arguments.activation_checkpointing;
    setup.trainable.clone_from(&arguments.trainable);
    let framework = &arguments.framework;
    setup.startup_batch = framework.startup_batch;
    setup.cudnn_benchmark = framework.cudnn_benchmark;
    setup.keeps_gradients = framework.keep_gradients;
    setup.prefetches = framework.prefetch;
    setup.weight_decay = framework.weight_decay;
    setup.expandable_segments = framework.expandable_segments;
    setup.max_split_size_mib = framework.max_split_size;
    setup.check()?;
    Ok(setup)
}

/// The GPU that arguments name.
pub(crate) fn gpu(name: Option<&str>, catalogue: &GpuCatalogue) -> Result<Option<Gpu>> {
    Ok(name.map(|name| catalogue.find(name).cloned()).transpose()?)
}

/// The training job that arguments describe, and what a user should know of the form in which its graph was there.
pub(crate) fn workload(
    graph: &GraphArguments,
    arguments: &SetupArguments,
    gpu_file: Option<&Path>,
) -> Result<(Workload, Vec<String>)> {
    let catalogue = catalogue(gpu_file)?;
    let setup = setup(arguments)?.ok_or_else(|| usage("the batch size is not given", "say `--batch N`"))?;
    let gpu = gpu(arguments.gpu.as_deref(), &catalogue)?
        .ok_or_else(|| usage("the GPU is not given", "say `--gpu NAME`; `plimsoll gpus` lists them"))?;
    let Source { graph, doubts } = read(graph, setup.precision)?;
    Ok((Workload::new(graph, setup, gpu)?, doubts))
}

/// What a user should know of a job before trusting what is made of it, with what there is to know of the form in which
/// its graph was there.
pub(crate) fn doubts(workload: &Workload, of_its_form: &[String]) -> Vec<String> {
    let gpu = workload.gpu();
    let mut doubts = Vec::new();
    if gpu.vendor != "nvidia" {
        doubts.push(format!(
            "{} is not from NVIDIA: context, allocator and workspaces are those of CUDA all the same",
            gpu.name
        ));
    }
    let is_bf16 = matches!(workload.setup().precision, Precision::AmpBf16 | Precision::Bf16);
    if is_bf16 && gpu.vendor == "nvidia" && gpu.compute_capability < 8.0 {
        doubts.push(format!("{} computes bf16 in software only", gpu.name));
    }
    let guessed = plimsoll_simulate::guessed_operators(workload);
    if !guessed.is_empty() {
        let names = guessed.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        doubts.push(format!("operators without a rule count as keeping all they touch: {names}"));
    }
    doubts.extend_from_slice(of_its_form);
    doubts
}

/// What ingest needs to know beyond the files.
pub(crate) fn options(
    source: &SourceArguments,
    arguments: &SetupArguments,
    catalogue: &GpuCatalogue,
) -> Result<IngestOptions> {
    Ok(IngestOptions {
        format: format(source.format.as_deref())?,
        gpu: gpu(arguments.gpu.as_deref(), catalogue)?,
        setup: setup(arguments)?,
        keeps_contradictions: source.keep_contradictions,
        all_repeats: source.all_repeats,
        stack: source.software.stack,
        graphs: Some(named::graphs()),
        ..IngestOptions::default()
    })
}

/// Reads samples from files of any kind and tells a person what was left out.
pub(crate) fn load(files: &[PathBuf], source: &SourceArguments, setup: &SetupArguments) -> Result<Loaded> {
    let catalogue = catalogue(source.gpu_file.as_deref())?;
    let options = options(source, setup, &catalogue)?;
    let loaded = load_samples(files, &options, &catalogue)?;
    tell(&loaded.rejected, &loaded.unknown_operators, &loaded.ignored_columns);
    strict(source.strict, &loaded.rejected)?;
    Ok(loaded)
}

/// Any rejected row is a failure under `--strict`.
pub(crate) fn strict(is_strict: bool, rejected: &[Rejection]) -> Result<()> {
    match rejected.first() {
        Some(first) if is_strict => Err(DatasetError::Rejected { count: rejected.len(), first: first.clone() }.into()),
        _ => Ok(()),
    }
}

/// Says what was left out and what is uncertain, each once.
pub(crate) fn tell(rejected: &[Rejection], unknown_operators: &BTreeSet<String>, ignored_columns: &BTreeSet<String>) {
    if !rejected.is_empty() {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for rejection in rejected {
            *reasons.entry(&rejection.reason).or_default() += 1;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        output::warn(format!("{} rows were rejected", rejected.len()));
        for (reason, count) in reasons.iter().take(5) {
            output::note(format!("  {count} x {reason}"));
        }
        if reasons.len() > 5 {
            output::note(format!("  and {} other reasons", reasons.len() - 5));
        }
    }
    let list = |names: &BTreeSet<String>| names.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
    if !unknown_operators.is_empty() {
        output::warn(format!("operators without a rule count as keeping all they touch: {}", list(unknown_operators)));
    }
    if !ignored_columns.is_empty() {
        output::warn(format!("columns that mean nothing here were ignored: {}", list(ignored_columns)));
    }
}

/// An error for arguments that a command cannot work with.
pub(crate) fn usage(what: &str, hint: &str) -> anyhow::Error {
    Usage { what: what.into(), hint: hint.into() }.into()
}
