//! Published tables of runs in their own layouts, told by their columns.
//!
//! Each names the model of a run, from which the job follows by what its publishers say of their script; the graph is
//! that of the zoo. None has a status column: a whole file is read before its first row leaves, so that its readings
//! can be judged against each other.

mod family;
mod lucid;
mod milabench;
mod published;
mod repeats;
mod run;
mod schedtune;
mod timm;
mod write;

use std::collections::BTreeMap;
use std::path::Path;

use csv::StringRecord;
use plimsoll_graph::{Gpu, GpuCatalogue, TrainingSetup};

use super::columns::{Header, Required};
use super::csv_rows::CsvRows;
use super::format::Format;
use super::intake::Intake;
use super::judge::{Reading, Verdict, judge};
use super::sources::Source;
use super::workloads::{Workloads, ZOO};
use super::{IngestOptions, workloads};
use crate::error::{DatasetError, Result};
use crate::measurement::{Doubt, Label, Measurement, Outcome, Rejection};
use crate::stack::Stack;
use run::Cells;

pub use run::Run;
pub use write::{Converted, convert};

/// A published layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// timm's models on an A100, beside FakeTensor's estimates.
    Timm,
    /// `SchedTune`'s CNNs on several GPUs.
    Schedtune,
    /// milabench's benchmarks over batch sizes.
    Milabench,
    /// The published real models, beside three estimators.
    Published,
    /// Lucid's jobs, each alone.
    Lucid,
}

impl Layout {
    /// Every layout; of two that fit a header, the first is meant.
    pub const ALL: [Self; 5] = [Self::Published, Self::Schedtune, Self::Milabench, Self::Timm, Self::Lucid];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timm => "timm",
            Self::Schedtune => "schedtune",
            Self::Milabench => "milabench",
            Self::Published => "published",
            Self::Lucid => "lucid",
        }
    }

    /// The layout of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// What a header must have.
    pub(super) const fn required(self) -> Required {
        let columns = match self {
            Self::Timm => timm::COLUMNS,
            Self::Schedtune => schedtune::COLUMNS,
            Self::Milabench => milabench::COLUMNS,
            Self::Published => published::COLUMNS,
            Self::Lucid => lucid::COLUMNS,
        };
        Required { format: Format::Layout(self), variant: "", columns }
    }

    /// The layout of a header.
    pub(super) fn of(header: &Header) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| header.missing(layout.required().columns).is_empty())
    }

    /// What the date of a publication tells of its software; none says more.
    fn stack(self, gpu: &Gpu) -> Stack {
        let known = match self {
            // Of 2022: PyTorch 2 came in March 2023.
            Self::Schedtune | Self::Lucid => "pytorch 1",
            // Of early 2025, half a year before ROCm 7.
            Self::Milabench if gpu.vendor == "amd" => "rocm 6",
            _ => "",
        };
        known.parse().expect("a known version or none")
    }

    fn job(self, cells: &Cells<'_>) -> Result<Job, String> {
        match self {
            Self::Timm => timm::job(cells),
            Self::Schedtune => schedtune::job(cells),
            Self::Milabench => milabench::job(cells),
            Self::Published => published::job(cells),
            Self::Lucid => lucid::job(cells),
        }
    }
}

/// What a layout makes of a row, apart from its GPU.
struct Job {
    reference: String,
    model: String,
    variant: String,
    setup: TrainingSetup,
    reading_mib: f64,
    label: Label,
    utilisation: [Option<f64>; 6],
    published_estimates: Vec<(String, f64)>,
    samples_per_s: Option<f64>,
}

impl Job {
    fn new(reference: String, model: &str, setup: TrainingSetup, reading_mib: f64) -> Self {
        Self {
            reference,
            model: model.to_owned(),
            variant: String::new(),
            setup,
            reading_mib,
            label: Label::Unknown,
            utilisation: [None; 6],
            published_estimates: Vec::new(),
            samples_per_s: None,
        }
    }
}

/// A run with what the rules say of its reading.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedRun {
    /// The run.
    pub run: Run,
    /// What is certain of it.
    pub outcome: Outcome,
    /// What speaks against its reading.
    pub doubt: Option<Doubt>,
}

/// Runs of a file with their verdicts, and what could not be read.
pub(super) struct Table {
    pub(super) runs: Vec<JudgedRun>,
    pub(super) rejected: Vec<Rejection>,
    /// Readings that went into a median with others.
    pub(super) merged: usize,
}

/// More rows than this are no published table; all of them are in memory at once.
const MAX_ROWS: usize = 1_000_000;

/// Reads a file and judges its readings.
pub(super) fn read_table(
    path: &Path,
    name: &str,
    layout: Layout,
    options: &IngestOptions,
    catalogue: &GpuCatalogue,
) -> Result<Table> {
    let mut rows = CsvRows::open(path)?;
    let header = rows.header().clone();
    let required = layout.required();
    if !header.missing(required.columns).is_empty() {
        return Err(header.unknown(path, &[&required]));
    }
    let (mut records, mut rejected): (Vec<(u64, StringRecord)>, Vec<Rejection>) = Default::default();
    while let Some((line, record)) = rows.next()? {
        match record {
            Ok(record) => records.push((line, record.clone())),
            Err(broken) => rejected.push(Rejection {
                id: format!("{name}:{line}"),
                reason: broken.reason,
                content: Rejection::shorten(&broken.content),
            }),
        }
        if records.len() > MAX_ROWS {
            return Err(DatasetError::OutOfRange {
                what: format!("the length of {}", path.display()),
                expected: format!("at most {MAX_ROWS} rows"),
                found: "more".into(),
            });
        }
    }
    let gpus = Gpus::new(layout, &header, &records, options, catalogue);
    let mut runs = Vec::with_capacity(records.len());
    for (line, record) in &records {
        let cells = Cells { header: &header, record };
        let content = Rejection::shorten(&record.iter().collect::<Vec<_>>().join(","));
        let id = format!("{name}:{line}");
        match layout.job(&cells).and_then(|job| Ok((gpus.find(&cells)?, job))) {
            Ok((gpu, job)) => runs.push(Run {
                stack: options.stack.unwrap_or_else(|| layout.stack(&gpu)),
                id,
                workload: format!("{ZOO}{}", job.reference),
                shape: family::model_family(&job.model),
                architecture: job.model,
                variant: job.variant,
                gpu,
                setup: job.setup,
                label: options.label.unwrap_or(job.label),
                reading_mib: job.reading_mib,
                spread: 0.0,
                repeats: 1,
                utilisation: job.utilisation,
                published_estimates: job.published_estimates,
                samples_per_s: job.samples_per_s,
                content,
            }),
            Err(reason) => rejected.push(Rejection { id, reason, content }),
        }
    }
    let readings = runs.len();
    let runs = if options.all_repeats { repeats::beside_each_other(runs) } else { repeats::medians(&runs) };
    let merged = readings - runs.len();
    Ok(Table { runs: judged(runs), rejected, merged })
}

/// The GPUs of a file's rows.
struct Gpus<'a> {
    layout: Layout,
    catalogue: &'a GpuCatalogue,
    /// The GPU of rows that name none.
    given: Option<&'a Gpu>,
    /// The most that was read of each GPU of the file, MiB.
    largest: BTreeMap<String, f64>,
}

impl<'a> Gpus<'a> {
    fn new(
        layout: Layout,
        header: &Header,
        records: &[(u64, StringRecord)],
        options: &'a IngestOptions,
        catalogue: &'a GpuCatalogue,
    ) -> Self {
        let mut largest: BTreeMap<String, f64> = BTreeMap::new();
        for (_, record) in records {
            let cells = Cells { header, record };
            if let (Some(name), Ok(mib)) = (cells.text("gpu"), cells.reading("peak_memory_mib")) {
                let most = largest.entry(name.to_owned()).or_default();
                *most = most.max(mib);
            }
        }
        Self { layout, catalogue, given: options.gpu.as_ref(), largest }
    }

    fn find(&self, cells: &Cells<'_>) -> Result<Gpu, String> {
        let known = |name: &str| self.catalogue.find(name).cloned().map_err(|error| error.to_string());
        match (self.layout, cells.text("gpu"), self.given) {
            (Layout::Timm, _, None) => known(timm::GPU),
            (Layout::Schedtune, Some(name), _) => known(name).or_else(|unknown| {
                let largest = self.largest.get(name).copied().unwrap_or_default();
                schedtune::gpu(cells, name, largest).map_err(|reason| format!("{unknown}, and {reason}"))
            }),
            (Layout::Timm | Layout::Lucid, _, Some(gpu)) | (_, None, Some(gpu)) => Ok(gpu.clone()),
            (Layout::Lucid, ..) => Err("the publishers do not name the GPU: give one".into()),
            (_, Some(name), _) => known(name),
            (_, None, None) => Err("`gpu` is empty".into()),
        }
    }
}

/// Runs with what the rules say of them.
fn judged(runs: Vec<Run>) -> Vec<JudgedRun> {
    let jobs: Vec<String> = runs.iter().map(Run::job).collect();
    let readings: Vec<Reading<'_>> = runs
        .iter()
        .zip(&jobs)
        .map(|(run, job)| Reading {
            job,
            gpu: &run.gpu.name,
            capacity_mib: run.gpu.memory_mib as f64,
            batch: run.setup.batch_size,
            mib: run.reading_mib,
            tensors_mib: run.tensors_mib(),
            spread: run.spread,
        })
        .collect();
    let verdicts = judge(&readings);
    let with_verdict = |(run, verdict): (Run, Verdict)| {
        let doubt = |reason: &str| Some(Doubt { reason: reason.to_owned(), reading_mib: run.reading_mib });
        let (outcome, doubt) = match verdict {
            Verdict::Good => (Outcome::Measured { peak_mib: run.reading_mib }, None),
            Verdict::OutOfMemory(reason) => {
                (Outcome::out_of_memory(Some(run.reading_mib), run.gpu.memory_mib as f64), doubt(reason))
            }
            Verdict::Suspect(reason) => (Outcome::Unknown, doubt(reason)),
        };
        JudgedRun { run, outcome, doubt }
    };
    runs.into_iter().zip(verdicts).map(with_verdict).collect()
}

/// Reads a file into measurements. Rows of one workload leave together, so that its graph is read once.
pub(super) fn read(source: &Source, layout: Layout, intake: &mut Intake<'_, '_>) -> Result<()> {
    let table = read_table(&source.path, &source.name, layout, intake.options, intake.catalogue)?;
    intake.merge(table.merged);
    for Rejection { id, reason, content } in table.rejected {
        intake.reject(id, reason, &content)?;
    }
    let folder = source.path.parent().unwrap_or(Path::new(""));
    let mut workloads = Workloads::new(folder, intake.options.graphs.clone());
    for judged in by_workload(table.runs) {
        let (id, content) = (judged.run.id.clone(), judged.run.content.clone());
        match measurement(judged, &mut workloads) {
            Ok(measurement) => intake.accept(measurement)?,
            Err(reason) => intake.reject(id, reason, &content)?,
        }
    }
    Ok(())
}

/// The runs of each workload together, in the order in which workloads first appear.
fn by_workload(runs: Vec<JudgedRun>) -> Vec<JudgedRun> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for judged in &runs {
        let next = places.len();
        places.entry(judged.run.workload.clone()).or_insert(next);
    }
    let mut runs = runs;
    runs.sort_by_key(|judged| places[&judged.run.workload]);
    runs
}

fn measurement(judged: JudgedRun, workloads: &mut Workloads) -> Result<Measurement, String> {
    let JudgedRun { run, outcome, doubt } = judged;
    let graph = workloads.graph(&run.workload)?;
    Ok(Measurement {
        id: run.id,
        architecture: run.architecture,
        shape: run.shape,
        workload: workloads::job(graph, run.setup, &run.gpu)?,
        label: run.label,
        stack: run.stack,
        outcome,
        utilisation: run.utilisation,
        published_estimates: run.published_estimates,
        doubt,
    })
}
