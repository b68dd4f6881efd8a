//! The one place through which rows leave: it counts, collects warnings and calls the sink.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use plimsoll_graph::{Gpu, GpuCatalogue};

use super::format::Format;
use super::sources::Source;
use super::{IngestCounts, IngestOptions, Sink, gpumemnet, layout, table, workloads};
use crate::error::Result;
use crate::measurement::{Label, Measurement, Outcome, Rejection};
use crate::parquet::read_measurements;

/// What every reader works with.
pub(super) struct Intake<'a, 's> {
    pub(super) options: &'a IngestOptions,
    pub(super) catalogue: &'a GpuCatalogue,
    sink: &'a mut Sink<'s>,
    counts: IngestCounts,
    /// Workload files that tables refer to.
    referenced: BTreeSet<PathBuf>,
    sink_failed: bool,
}

impl<'a, 's> Intake<'a, 's> {
    pub(super) fn new(options: &'a IngestOptions, catalogue: &'a GpuCatalogue, sink: &'a mut Sink<'s>) -> Self {
        let (counts, referenced) = Default::default();
        Self { options, catalogue, sink, counts, referenced, sink_failed: false }
    }

    pub(super) fn finish(self) -> IngestCounts {
        self.counts
    }

    /// Reads one file.
    pub(super) fn read(&mut self, source: &Source) -> Result<()> {
        if source.found && source.is_workload() && self.referenced.contains(&canonical(&source.path)) {
            return Ok(());
        }
        self.counts.files += 1;
        match self.read_file(source) {
            // One stray file does not keep a folder from being read, but it is told.
            Err(error) if source.found && !self.sink_failed => self.reject(source.name.clone(), error.to_string(), ""),
            done => done,
        }
    }

    fn read_file(&mut self, source: &Source) -> Result<()> {
        let format = match self.options.format {
            Some(format) => format,
            None => Format::detect(&source.path)?,
        };
        match format {
            Format::Gpumemnet => gpumemnet::read(source, self),
            Format::Measurements => table::read(source, self),
            Format::Layout(layout) => layout::read(source, layout, self),
            Format::Graph | Format::Summary => workloads::read(source, format, self),
            Format::Parquet => {
                for chunk in read_measurements(&source.path)? {
                    for row in chunk? {
                        match row {
                            Ok(measurement) => self.accept(measurement)?,
                            Err(Rejection { id, reason, content }) => self.reject(id, reason, &content)?,
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Hands a row of a table on: good, or with the reason why not.
    pub(super) fn row(&mut self, id: String, row: Result<Measurement, String>, record: &StringRecord) -> Result<()> {
        match row {
            Ok(measurement) => self.accept(measurement),
            Err(reason) => {
                let cells: Vec<&str> = record.iter().collect();
                self.reject(id, reason, &cells.join(","))
            }
        }
    }

    pub(super) fn accept(&mut self, measurement: Measurement) -> Result<()> {
        self.counts.accepted += 1;
        for name in plimsoll_simulate::guessed_operators(&measurement.workload) {
            if !self.counts.unknown_operators.contains(name) {
                self.counts.unknown_operators.insert(name.to_owned());
            }
        }
        self.send(Ok(measurement))
    }

    pub(super) fn reject(&mut self, id: String, reason: String, content: &str) -> Result<()> {
        self.counts.rejected += 1;
        self.send(Err(Rejection { id, reason, content: Rejection::shorten(content) }))
    }

    fn send(&mut self, row: Result<Measurement, Rejection>) -> Result<()> {
        (self.sink)(row).inspect_err(|_| self.sink_failed = true)
    }

    /// Counts readings that went into medians.
    pub(super) fn merge(&mut self, readings: usize) {
        self.counts.merged += readings;
    }

    pub(super) fn ignore_column(&mut self, name: &str) {
        self.counts.ignored_columns.insert(name.to_owned());
    }

    pub(super) fn refer_to(&mut self, workload: &Path) {
        self.referenced.insert(canonical(workload));
    }
}

/// One spelling of a path, if the file is there.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.into())
}

/// A card shows a few percent more or less memory from one driver to the next; a peak beyond that is of another card.
const CAPACITY_TOLERANCE: f64 = 1.05;

/// The outcome of a run that was measured, or of one that ran out of memory, if the card can have shown its reading.
pub(super) fn outcome(
    name: &str,
    reading: Option<f64>,
    ran_out: bool,
    gpu: &Gpu,
    label: Label,
) -> Result<Outcome, String> {
    let capacity = gpu.memory_mib as f64;
    if let Some(mib) = reading
        && mib > CAPACITY_TOLERANCE * capacity
        && label != Label::Simulated
    {
        return Err(format!("`{name}` is {mib} MiB, more than the {capacity} MiB of GPU `{}`", gpu.name));
    }
    match reading {
        Some(mib) if mib <= 0.0 => Err(format!("`{name}` is 0: no memory was recorded")),
        reading if ran_out => Ok(Outcome::out_of_memory(reading, capacity)),
        Some(peak_mib) => Ok(Outcome::Measured { peak_mib }),
        None => Ok(Outcome::Unknown),
    }
}
