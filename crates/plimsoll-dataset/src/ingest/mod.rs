//! Reading measurements in the layouts in which they are met.
//!
//! Every row ends up on one of two sides: as a [`Measurement`], or as a [`Rejection`] with its reason. Nothing is
//! dropped quietly. Rows go to the caller one by one, so that memory stays bounded however long a file is.

mod cells;
mod columns;
mod csv_rows;
mod format;
mod gpumemnet;
mod intake;
mod judge;
mod layout;
mod sources;
mod table;
mod workloads;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_graph::{Gpu, GpuCatalogue, TrainingSetup};

use crate::error::Result;
use crate::measurement::{Label, Measurement, Rejection};
use crate::stack::Stack;
use intake::Intake;

pub use format::Format;
pub use layout::{Converted, JudgedRun, Layout, Run, convert};
pub(crate) use table::ESTIMATE;
pub use workloads::{GraphFolder, GraphSource};

/// What the files do not say, or say wrongly.
#[derive(Debug, Clone, Default)]
pub struct IngestOptions {
    /// The layout of every file; detected from their contents if not given.
    pub format: Option<Format>,
    /// The GPU of rows that name none. The `gpumemnet` layout names none and was measured on an A100 with 40 GB,
    /// which this replaces.
    pub gpu: Option<Gpu>,
    /// How the workloads of files without setup columns are trained, and what tables leave open.
    pub setup: Option<TrainingSetup>,
    /// How peaks were read, for rows that do not say. The `gpumemnet` layout holds device readings of `nvidia-smi`,
    /// which this replaces.
    pub label: Option<Label>,
    /// The software that runs used, for rows that do not say.
    pub stack: Option<Stack>,
    /// Whether utilisation counters that contradict each other are kept. They are masked otherwise.
    pub keeps_contradictions: bool,
    /// Whether each repeat of a run is a row of its own in published layouts. Their median is otherwise.
    pub all_repeats: bool,
    /// The zoo and readers of further files; without, references to them are rejected.
    pub graphs: Option<Arc<dyn GraphSource>>,
}

/// How many rows went which way, and what else a caller should tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IngestCounts {
    /// Files read.
    pub files: usize,
    /// Rows that became measurements.
    pub accepted: usize,
    /// Rows that did not.
    pub rejected: usize,
    /// Readings that went into the median of a row with others.
    pub merged: usize,
    /// Operators of accepted workloads that no rule knows and no record shows: estimates of such workloads are less
    /// certain.
    pub unknown_operators: BTreeSet<String>,
    /// Columns of tables that mean nothing to this reader.
    pub ignored_columns: BTreeSet<String>,
}

/// Where rows go, one by one; an error ends the reading.
pub type Sink<'a> = dyn FnMut(Result<Measurement, Rejection>) -> Result<()> + 'a;

/// Reads files and folders, in order, and hands every row to `sink`.
///
/// A folder is walked in the order of names: first its tables (`.csv`, `.parquet`), then the workload files (`.json`
/// graphs, `.txt` summaries) that no table refers to, each as a workload of which nothing was measured. A stray file
/// in a folder is a rejection; a file that was named itself must be readable.
///
/// # Errors
/// Files that cannot be read, are empty, or are in no known layout, and what `sink` returns.
pub fn ingest(
    paths: &[PathBuf],
    options: &IngestOptions,
    catalogue: &GpuCatalogue,
    sink: &mut Sink<'_>,
) -> Result<IngestCounts> {
    let mut intake = Intake::new(options, catalogue, sink);
    for source in sources::find(paths, options.format)? {
        intake.read(&source)?;
    }
    Ok(intake.finish())
}

/// As [`ingest`], with everything in memory.
///
/// # Errors
/// As [`ingest`].
pub fn ingest_all(
    paths: &[PathBuf],
    options: &IngestOptions,
    catalogue: &GpuCatalogue,
) -> Result<(Vec<Measurement>, Vec<Rejection>, IngestCounts)> {
    let (mut accepted, mut rejected) = (Vec::new(), Vec::new());
    let counts = ingest(paths, options, catalogue, &mut |row| {
        match row {
            Ok(measurement) => accepted.push(measurement),
            Err(rejection) => rejected.push(rejection),
        }
        Ok(())
    })?;
    Ok((accepted, rejected, counts))
}

#[cfg(test)]
mod tests;
