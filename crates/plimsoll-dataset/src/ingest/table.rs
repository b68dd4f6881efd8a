//! Tables of our own: one run a row, the workload as the path of a file or the name of a model.

use std::path::Path;

use csv::StringRecord;
use plimsoll_graph::{Gpu, Optimizer, Precision, TrainingSetup};
use polars::prelude::{AnyValue, Column};

use super::cells;
use super::columns::{Header, Required};
use super::csv_rows::CsvRows;
use super::format::Format;
use super::intake::{Intake, outcome};
use super::sources::Source;
use super::workloads::{Workloads, job};
use crate::error::{DatasetError, Result};
use crate::measurement::{Doubt, Label, Measurement, Outcome};
use crate::parquet::{MAGIC, RowGroups};
use crate::target::{Target, UTILISATION};

/// Columns that every table has.
pub(super) const REQUIRED: Required =
    Required { format: Format::Measurements, variant: "", columns: &["workload", "batch_size"] };

/// Columns that a table may have besides targets and estimates. `family` is the graph's own and only for readers.
const OPTIONAL: [&str; 27] = [
    "gpu",
    "family",
    "architecture",
    "shape",
    "optimizer",
    "precision",
    "loss",
    "sequence_length",
    "input_size",
    "activation_checkpointing",
    "gradient_accumulation",
    "trainable",
    "last_batch",
    "startup_batch",
    "cudnn_benchmark",
    "prefetches",
    "weight_decay",
    "keeps_gradients",
    "expandable_segments",
    "max_split_size_mib",
    "gpu_json",
    "peak_memory_mib",
    "above_mib",
    "label",
    "stack",
    "status",
    "doubt",
];

/// Whether a header can only be meant as one of ours, whatever it lacks: it has many columns that only we have.
pub(super) fn resembles(header: &Header) -> bool {
    OPTIONAL.iter().filter(|name| header.has(name)).count() >= 8
}

/// Columns that are for readers and other programs.
const PASSED_OVER: [&str; 3] = ["samples_per_s", "repeats", "origin"];

/// The end of a column that holds what others estimated: `horus_estimate_mib`.
pub(crate) const ESTIMATE: &str = "_estimate_mib";

/// Reads a CSV or Parquet table.
pub(super) fn read(source: &Source, intake: &mut Intake<'_, '_>) -> Result<()> {
    let folder = source.path.parent().unwrap_or(Path::new(""));
    let is_parquet = std::fs::File::open(&source.path)
        .and_then(|mut file| {
            let mut start = [0; MAGIC.len()];
            std::io::Read::read(&mut file, &mut start).map(|_| start == MAGIC)
        })
        .map_err(|error| DatasetError::File { action: "read", path: source.path.clone(), source: error })?;
    if is_parquet {
        return read_parquet(source, folder, intake);
    }
    let mut rows = CsvRows::open(&source.path)?;
    let mut reader = RowReader::new(&source.path, folder, rows.header(), intake)?;
    while let Some((line, record)) = rows.next()? {
        let id = format!("{}:{line}", source.name);
        match record {
            Ok(record) => {
                let row = reader.measurement(id.clone(), record, intake);
                intake.row(id, row, record)?;
            }
            Err(broken) => intake.reject(id, broken.reason, &broken.content)?,
        }
    }
    Ok(())
}

/// Rows of a Parquet table go through the same checks as CSV, as the text that CSV would have.
fn read_parquet(source: &Source, folder: &Path, intake: &mut Intake<'_, '_>) -> Result<()> {
    let mut groups = RowGroups::open(&source.path)?;
    let header = Header::new(&source.path, groups.columns().iter().map(String::as_str))?;
    let mut reader = RowReader::new(&source.path, folder, &header, intake)?;
    let mut number = 0_u64;
    while let Some(chunk) = groups.next_group() {
        let chunk = chunk?;
        for index in 0..chunk.rows() {
            number += 1;
            let record: StringRecord = chunk.frame().columns().iter().map(|column| cell_text(column, index)).collect();
            let id = format!("{}:{number}", source.name);
            let row = reader.measurement(id.clone(), &record, intake);
            intake.row(id, row, &record)?;
        }
    }
    Ok(())
}

fn cell_text(column: &Column, index: usize) -> String {
    match column.get(index) {
        Ok(AnyValue::Null) | Err(_) => String::new(),
        Ok(AnyValue::Float64(value)) => value.to_string(),
        Ok(AnyValue::Float32(value)) => value.to_string(),
        // Text comes owned or borrowed; what is shown of any other type is its text.
        Ok(other) => other.get_str().map_or_else(|| other.to_string(), str::to_owned),
    }
}

/// Where the columns are.
struct RowReader {
    header: Header,
    workloads: Workloads,
    estimates: Vec<(String, usize)>,
}

impl RowReader {
    fn new(path: &Path, folder: &Path, header: &Header, intake: &mut Intake<'_, '_>) -> Result<Self> {
        if !header.missing(REQUIRED.columns).is_empty() {
            return Err(header.unknown(path, &[&REQUIRED]));
        }
        if intake.options.gpu.is_none() && !header.has("gpu") {
            let (expected, found) = ("a column `gpu`, or a GPU given for all rows".into(), "neither".into());
            return Err(DatasetError::Layout { path: path.into(), expected, found });
        }
        let known: Vec<&str> = REQUIRED
            .columns
            .iter()
            .copied()
            .chain(OPTIONAL)
            .chain(PASSED_OVER)
            .chain(UTILISATION.map(Target::name))
            .collect();
        let mut estimates = Vec::new();
        for (index, name) in header.names().iter().enumerate() {
            if known.contains(&name.as_str()) {
                continue;
            }
            if let Some(estimator) = name.strip_suffix(ESTIMATE).filter(|estimator| !estimator.is_empty()) {
                estimates.push((estimator.to_owned(), index));
            } else if let Some(near) = known.iter().find(|near| is_misspelt(near, name)) {
                // A misspelt column that is ignored would silently give its rows the default.
                let found = format!("`{}`: is `{near}` meant?", cells::short(name));
                return Err(DatasetError::Layout { path: path.into(), expected: "known columns".into(), found });
            } else {
                intake.ignore_column(name);
            }
        }
        let workloads = Workloads::new(folder, intake.options.graphs.clone());
        Ok(Self { header: header.clone(), workloads, estimates })
    }

    fn measurement(
        &mut self,
        id: String,
        record: &StringRecord,
        intake: &mut Intake<'_, '_>,
    ) -> Result<Measurement, String> {
        let options = intake.options;
        let header = &self.header;
        let cell = |name| cells::text(record, header.position(name));
        let reference = cell("workload").ok_or("`workload` is empty")?;
        let batch_size = cells::count("batch_size", cell("batch_size"))?;
        let setup = setup(options.setup.as_ref(), batch_size, &cell)?;
        let own = cell("gpu_json").map(own_gpu).transpose()?;
        let gpu: &Gpu = match (&own, cell("gpu"), &options.gpu) {
            (Some(gpu), ..) => gpu,
            (None, Some(name), _) => intake.catalogue.find(name).map_err(|error| error.to_string())?,
            (None, None, Some(gpu)) => gpu,
            (None, None, None) => return Err("`gpu` is empty".into()),
        };
        let label = match cell("label") {
            Some(name) => Label::from_name(name).ok_or_else(|| {
                format!(
                    "`label` should be one of {}, is `{}`",
                    Label::ALL.map(Label::name).join(", "),
                    cells::short(name)
                )
            })?,
            None => options.label.unwrap_or_default(),
        };
        let stack = match cell("stack") {
            Some(text) => text.parse().map_err(|error| format!("`stack`: {error}"))?,
            None => options.stack.unwrap_or_default(),
        };
        let (outcome, doubt) = table_outcome(&cell, gpu, label)?;
        let mut utilisation = [None; 6];
        for (ratio, target) in utilisation.iter_mut().zip(UTILISATION) {
            *ratio = cells::utilisation(target, target.name(), cell(target.name()))?;
        }
        let mut published_estimates = Vec::new();
        for (estimator, column) in &self.estimates {
            if let Some(estimate) = cells::text(record, Some(*column)) {
                published_estimates.push((estimator.clone(), cells::mib(&header.names()[*column], estimate)?));
            }
        }
        if let Some(path) = self.workloads.path(reference).filter(|_| !self.workloads.knows(reference)) {
            intake.refer_to(&path);
        }
        let graph = self.workloads.graph(reference)?;
        Ok(Measurement {
            id,
            architecture: cell("architecture").unwrap_or(graph.name()).to_owned(),
            shape: cell("shape").unwrap_or_default().to_owned(),
            workload: job(graph, setup, gpu)?,
            label,
            stack,
            outcome,
            utilisation,
            published_estimates,
            doubt,
        })
    }
}

/// Whether a name is a known one with one or two slips. Short names differ too little from each other to tell.
fn is_misspelt(known: &str, name: &str) -> bool {
    strsim::damerau_levenshtein(known, name) <= (known.len() / 4).min(2)
}

/// A GPU outside the catalogue, as the JSON of its entry.
fn own_gpu(text: &str) -> Result<Gpu, String> {
    let gpu: Gpu = serde_json::from_str(text).map_err(|error| format!("`gpu_json` is no GPU: {error}"))?;
    gpu.check().map_err(|error| error.to_string())?;
    Ok(gpu)
}

/// How a row's job was trained: what its cells say, on top of what holds for the table.
fn setup<'r>(
    default: Option<&TrainingSetup>,
    batch_size: u64,
    cell: &impl Fn(&'static str) -> Option<&'r str>,
) -> Result<TrainingSetup, String> {
    let mut setup = default.cloned().unwrap_or_else(|| TrainingSetup::new(batch_size));
    setup.batch_size = batch_size;
    if let Some(name) = cell("optimizer") {
        setup.optimizer = Optimizer::from_name(name).map_err(|error| error.to_string())?;
    }
    if let Some(name) = cell("precision") {
        setup.precision = Precision::from_name(name).map_err(|error| error.to_string())?;
    }
    if let Some(name) = cell("loss") {
        setup.loss = serde_json::from_value(name.into()).map_err(|_| format!("`loss` is not known: `{name}`"))?;
    }
    for (name, field) in [
        ("sequence_length", &mut setup.sequence_length),
        ("input_size", &mut setup.input_size),
        ("last_batch", &mut setup.last_batch),
        ("startup_batch", &mut setup.startup_batch),
        ("max_split_size_mib", &mut setup.max_split_size_mib),
    ] {
        if let Some(text) = cell(name) {
            *field = Some(cells::count(name, Some(text))?);
        }
    }
    for (name, field) in [
        ("activation_checkpointing", &mut setup.activation_checkpointing),
        ("cudnn_benchmark", &mut setup.cudnn_benchmark),
        ("prefetches", &mut setup.prefetches),
        ("weight_decay", &mut setup.weight_decay),
        ("keeps_gradients", &mut setup.keeps_gradients),
        ("expandable_segments", &mut setup.expandable_segments),
    ] {
        if let Some(text) = cell(name) {
            *field = cells::flag(name, text)?;
        }
    }
    if let Some(text) = cell("trainable") {
        setup.trainable = text.split_whitespace().map(str::to_owned).collect();
    }
    if let Some(text) = cell("gradient_accumulation") {
        setup.gradient_accumulation = cells::count("gradient_accumulation", Some(text))?;
    }
    Ok(setup)
}

fn table_outcome<'r>(
    cell: &impl Fn(&'static str) -> Option<&'r str>,
    gpu: &Gpu,
    label: Label,
) -> Result<(Outcome, Option<Doubt>), String> {
    let mib = |name| cell(name).map(|text| cells::mib(name, text)).transpose();
    let (peak, above) = (mib("peak_memory_mib")?, mib("above_mib")?);
    let reading_mib = peak.unwrap_or_default();
    let doubt = |reason: &str| Doubt { reason: reason.to_owned(), reading_mib };
    let outcome = match cell("status") {
        Some("oom") => match above {
            Some(above_mib) if above_mib > 0.0 => Ok(Outcome::OutOfMemory { above_mib }),
            _ => outcome("peak_memory_mib", peak, true, gpu, label),
        },
        Some("ok") if peak.is_none() => Err("`status` is `ok`, but `peak_memory_mib` is empty".into()),
        None | Some("ok") => outcome("peak_memory_mib", peak, false, gpu, label),
        Some("unknown") => Ok(Outcome::Unknown),
        Some("suspect") if reading_mib > 0.0 => {
            let reason = cell("doubt").unwrap_or("the table says so");
            return Ok((Outcome::Unknown, Some(doubt(reason))));
        }
        Some("suspect") => Err("`status` is `suspect`, but `peak_memory_mib` is empty".into()),
        Some(other) => {
            Err(format!("`status` should be `ok`, `oom`, `suspect` or `unknown`, is `{}`", cells::short(other)))
        }
    }?;
    // A run that is said to have run out of memory, by its readings and not by itself.
    let inferred = cell("doubt").filter(|_| outcome.is_censored() && reading_mib > 0.0);
    Ok((outcome, inferred.map(doubt)))
}
