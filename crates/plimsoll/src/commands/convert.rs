//! `plimsoll convert`

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use plimsoll_dataset::{Converted, IngestOptions, Layout, Outcome, convert};
use serde_json::json;

use super::{ingest, source};
use crate::cli::ConvertArguments;
use crate::output;

/// Turns a published table into a measurement table; graphs are not needed for it.
pub(super) fn run(arguments: &ConvertArguments) -> Result<()> {
    let catalogue = source::catalogue(arguments.gpu_file.as_deref())?;
    let layout = arguments.layout.as_deref().map(layout).transpose()?;
    let options = IngestOptions {
        gpu: source::gpu(arguments.gpu.as_deref(), &catalogue)?,
        all_repeats: arguments.all_repeats,
        ..IngestOptions::default()
    };
    let converted = convert(&arguments.file, layout, &options, &catalogue)?;
    if let Some(path) = &arguments.rejects {
        ingest::write_rejects(path, &converted.rejected)?;
    }
    source::tell(&converted.rejected, &BTreeSet::new(), &BTreeSet::new());
    source::strict(arguments.strict, &converted.rejected)?;
    let rejected = converted.rejected.len();
    ensure!(!converted.runs.is_empty(), "no usable row: {rejected} rows were rejected, and nothing was written");
    converted.write(&arguments.out)?;
    let counts = Counts::of(&converted);
    if arguments.json {
        return output::json(&json!({
            "layout": converted.layout.name(),
            "rows": converted.runs.len(),
            "ok": counts.good,
            "oom": counts.out_of_memory,
            "suspect": counts.suspect,
            "doubts": counts.doubts,
            "merged": converted.merged,
            "rejected": rejected,
            "out": arguments.out,
        }));
    }
    for (doubt, count) in &counts.doubts {
        output::note(format!("  {count} x {doubt}"));
    }
    output::line(format!(
        "{}: {} rows ({} ok, {} out of memory, {} suspect; {} repeats in medians), {rejected} rejected -> {}",
        converted.layout.name(),
        converted.runs.len(),
        counts.good,
        counts.out_of_memory,
        counts.suspect,
        converted.merged,
        arguments.out.display()
    ))
}

fn layout(name: &str) -> Result<Layout> {
    Layout::from_name(name).with_context(|| {
        let known: Vec<&str> = Layout::ALL.iter().map(|layout| layout.name()).collect();
        format!("unknown layout `{name}`: expected one of {}", known.join(", "))
    })
}

/// How many rows went which way, and why.
#[derive(Default)]
struct Counts<'a> {
    good: usize,
    out_of_memory: usize,
    suspect: usize,
    doubts: BTreeMap<&'a str, usize>,
}

impl<'a> Counts<'a> {
    fn of(converted: &'a Converted) -> Self {
        let mut counts = Self::default();
        for judged in &converted.runs {
            match judged.outcome {
                Outcome::Measured { .. } => counts.good += 1,
                Outcome::OutOfMemory { .. } => counts.out_of_memory += 1,
                Outcome::Unknown => counts.suspect += 1,
            }
            if let Some(doubt) = &judged.doubt {
                *counts.doubts.entry(&doubt.reason).or_default() += 1;
            }
        }
        counts
    }
}
