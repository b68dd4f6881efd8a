//! Workload files: graphs and layer summaries.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use plimsoll_graph::{Gpu, Graph, TrainingSetup, Workload, json, summary};

use super::format::Format;
use super::intake::Intake;
use super::sources::Source;
use crate::error::Result;
use crate::measurement::{Label, Measurement};

/// Reads a file that holds a workload and no measurement.
pub(super) fn read(source: &Source, format: Format, intake: &mut Intake<'_, '_>) -> Result<()> {
    let id = source.name.clone();
    match unmeasured(source, format, intake)? {
        Ok(measurement) => intake.accept(measurement),
        Err(reason) => intake.reject(id, reason, ""),
    }
}

fn unmeasured(source: &Source, format: Format, intake: &Intake<'_, '_>) -> Result<Result<Measurement, String>> {
    let options = intake.options;
    let graph = load(&source.path, format)?;
    let Some(setup) = options.setup.clone() else {
        return Ok(Err("a workload file says no batch size: give one".into()));
    };
    let Some(gpu) = &options.gpu else {
        return Ok(Err("a workload file names no GPU: give one".into()));
    };
    Ok(job(graph, setup, gpu).map(|workload| Measurement {
        label: options.label.unwrap_or(Label::Unknown),
        stack: options.stack.clone().unwrap_or_default(),
        ..Measurement::unmeasured(source.name.clone(), workload)
    }))
}

/// A workload, or why it cannot be one.
pub(super) fn job(graph: Graph, setup: TrainingSetup, gpu: &Gpu) -> Result<Workload, String> {
    Workload::new(graph, setup, gpu.clone()).map_err(|error| error.to_string())
}

/// The largest printed summary that is read: a hundred bytes for each of some 600,000 layers.
const MAX_SUMMARY_BYTES: u64 = 64 << 20;

/// The graph of a workload file.
fn load(path: &Path, format: Format) -> plimsoll_graph::Result<Graph> {
    match format {
        Format::Summary => summary::parse(&json::read_text(path, MAX_SUMMARY_BYTES)?, &path.display().to_string()),
        _ => json::read(path),
    }
}

/// Graphs of the files that a table refers to, each read once.
pub(super) struct Workloads {
    folder: PathBuf,
    graphs: HashMap<PathBuf, Result<Graph, String>>,
}

impl Workloads {
    /// So many graphs are kept; a table of more files than this reads some of them again.
    const MAX_KEPT: usize = 256;

    /// Files are looked for from this folder on.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.into(), graphs: HashMap::new() }
    }

    /// Where a table's reference leads.
    pub(super) fn resolve(&self, reference: &str) -> PathBuf {
        self.folder.join(reference)
    }

    /// Whether a file was read already.
    pub(super) fn knows(&self, path: &Path) -> bool {
        self.graphs.contains_key(path)
    }

    /// The graph of a file, or why there is none.
    pub(super) fn graph(&mut self, path: &Path) -> &Result<Graph, String> {
        if self.graphs.len() >= Self::MAX_KEPT && !self.graphs.contains_key(path) {
            self.graphs.clear();
        }
        self.graphs.entry(path.into()).or_insert_with(|| {
            let is_text = path.extension().is_some_and(|found| found.eq_ignore_ascii_case("txt"));
            let format = if is_text { Format::Summary } else { Format::Graph };
            load(path, format).map_err(|error| error.to_string())
        })
    }
}
