//! `plimsoll fit-batch`

mod search;

use anyhow::{Result, bail};
use plimsoll_graph::{Gpu, GraphError};
use serde_json::{Value, json};

use super::load::{Load, OpenJob, upper_bound_mib};
use super::source;
use crate::cli::FitBatchArguments;
use crate::errors::{Hint, Usage};
use crate::output::{self, gib};
use crate::{interrupt, progress};

/// Finds the largest batch that fits on a GPU.
pub(super) fn run(arguments: &FitBatchArguments) -> Result<()> {
    let catalogue = source::catalogue(arguments.gpu_file.as_deref())?;
    let gpu = catalogue.find(&arguments.gpu)?;
    let (multiple, limit) = (arguments.multiple_of, arguments.max / arguments.multiple_of);
    if limit == 0 {
        let what = format!("no multiple of {multiple} is at most {}", arguments.max);
        return Err(Usage { what, hint: "raise `--max` or lower `--multiple-of`".into() }.into());
    }
    let job =
        OpenJob::read(&arguments.graph, &arguments.training, &arguments.software, arguments.checkpoint.as_deref())?;
    let mut tried = Tried { job: &job, gpu, confidence: arguments.confidence, loads: Vec::new() };
    let mut patience = progress::Patience::new();
    let found = search::largest(limit, |multiples| {
        if interrupt::is_requested() {
            bail!("interrupted before the largest batch was found");
        }
        patience.tell(format!("batch {}", multiples * multiple));
        tried.fits(multiples * multiple)
    });
    drop(patience);
    let Some(multiples) = found? else { return Err(tried.nothing_fits(multiple)) };
    let batch = multiples * multiple;
    let answer = Answer {
        title: format!("{} on {}", job.title()?, gpu.name),
        job: &job,
        arguments,
        load: tried.loads.iter().find(|load| load.batch() == batch).expect("the answer was tried"),
        next: tried.loads.iter().filter(|load| load.batch() > batch).min_by_key(|load| load.batch()),
        tried: &tried.loads,
    };
    if arguments.json { output::json(&answer.json()?) } else { output::line(answer.words()) }
}

/// The batch sizes that were tried so far.
struct Tried<'a> {
    job: &'a OpenJob,
    gpu: &'a Gpu,
    confidence: f64,
    loads: Vec<Load>,
}

impl Tried<'_> {
    fn fits(&mut self, batch: u64) -> Result<bool> {
        let load = match self.job.at(batch, self.gpu) {
            Ok(load) => load,
            // Sizes beyond counting are beyond any GPU; whatever else is wrong is wrong at the first batch too.
            Err(error) if !self.loads.is_empty() && is_overflow(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        let fits = load.fits(self.confidence);
        self.loads.push(load);
        Ok(fits)
    }

    fn nothing_fits(&self, batch: u64) -> anyhow::Error {
        let hint = "`plimsoll explain` shows what holds the memory".to_owned();
        let bound = self.loads.first().map_or(0.0, |load| upper_bound_mib(&load.estimate, self.confidence));
        anyhow::Error::new(Hint(hint)).context(format!(
            "not even a batch of {batch} fits on {}: it takes up to {} with {} % confidence, and there are {}",
            self.gpu.name,
            gib(bound),
            percent(self.confidence),
            gib(self.gpu.memory_mib as f64)
        ))
    }
}

fn is_overflow(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(GraphError::Overflow { .. })))
}

/// Everything there is to say.
struct Answer<'a> {
    title: String,
    job: &'a OpenJob,
    arguments: &'a FitBatchArguments,
    load: &'a Load,
    /// The smallest batch above that was tried, and so does not fit.
    next: Option<&'a Load>,
    tried: &'a [Load],
}

impl Answer<'_> {
    fn bound(&self, load: &Load) -> f64 {
        upper_bound_mib(&load.estimate, self.arguments.confidence)
    }

    fn warnings(&self) -> Vec<String> {
        self.job.warnings(self.load)
    }

    /// Whether memory ends it, or the largest batch that is of interest.
    const fn limited_by(&self) -> &'static str {
        if self.next.is_some() { "memory" } else { "max" }
    }

    fn json(&self) -> Result<Value> {
        let entry = |load: &Load| {
            json!({
                "batch_size": load.batch(),
                "peak_memory_mib": load.peak_mib(),
                "upper_bound_mib": self.bound(load),
                "fits": load.fits(self.arguments.confidence),
            })
        };
        let gpu = self.load.gpu();
        Ok(json!({
            "file": self.job.file,
            "name": self.job.graph.name(),
            "family": self.job.graph.family(),
            "gpu": { "name": gpu.name, "memory_mib": gpu.memory_mib },
            "setup": self.job.setup(self.load.batch())?,
            "batch_size": self.load.batch(),
            "peak_memory_mib": self.load.peak_mib(),
            "upper_bound_mib": self.bound(self.load),
            "confidence": self.arguments.confidence,
            "multiple_of": self.arguments.multiple_of,
            "limited_by": self.limited_by(),
            "next": self.next.map(entry),
            "tried": self.tried.iter().map(entry).collect::<Vec<_>>(),
            "warnings": self.warnings(),
        }))
    }

    fn words(&self) -> String {
        let (load, capacity) = (self.load, self.load.capacity_mib());
        let multiple = match self.arguments.multiple_of {
            1 => String::new(),
            multiple => format!(" (a multiple of {multiple})"),
        };
        let next = self.next.map_or_else(
            || format!("`--max {}` ends the search", self.arguments.max),
            |next| format!("a batch of {} takes up to {}", next.batch(), gib(self.bound(next))),
        );
        let mut lines = vec![
            self.title.clone(),
            format!("  largest batch {}{multiple}", load.batch()),
            format!(
                "  peak memory   {} of {} ({:.0} %), up to {} with {} % confidence",
                gib(load.peak_mib()),
                gib(capacity),
                100.0 * load.share(),
                gib(self.bound(load)),
                percent(self.arguments.confidence)
            ),
            format!("  limited by    {}: {next}", self.limited_by()),
            format!("  tried         {} batch sizes", self.tried.len()),
        ];
        lines.extend(self.warnings().iter().map(|warning| format!("warning: {warning}")));
        lines.join("\n")
    }
}

/// A probability with as few digits as tell it.
fn percent(ratio: f64) -> String {
    let text = format!("{:.4}", 100.0 * ratio);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
