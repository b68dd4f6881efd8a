//! Published tables as measurement tables of our own.

use std::path::Path;

use plimsoll_graph::{GpuCatalogue, Loss, TrainingSetup};

use super::{JudgedRun, Layout, by_workload, read_table};
use crate::error::{DatasetError, Result};
use crate::ingest::csv_rows::CsvRows;
use crate::ingest::{ESTIMATE, IngestOptions};
use crate::measurement::{Outcome, Rejection};
use crate::target::UTILISATION;

/// A published table in our columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The layout that it was in.
    pub layout: Layout,
    /// The runs with what the rules say of them; those of one workload stand together.
    pub runs: Vec<JudgedRun>,
    /// Rows that could not be read, and benchmarks whose model is not known.
    pub rejected: Vec<Rejection>,
    /// Readings that went into a median with others.
    pub merged: usize,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Reads a published table and judges its readings. Graphs are not needed.
///
/// # Errors
/// Files that cannot be read, and those whose columns fit no published layout, or not the one given.
pub fn convert(
    path: &Path,
    layout: Option<Layout>,
    options: &IngestOptions,
    catalogue: &GpuCatalogue,
) -> Result<Converted> {
    let layout = layout.map_or_else(|| detect(path), Ok)?;
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let table = read_table(path, &name, layout, options, catalogue)?;
    let runs = by_workload(table.runs);
    let cells: Vec<Vec<(String, String)>> = runs.iter().map(|judged| cells(judged, catalogue)).collect();
    // A column stands if any row fills it, and where the first row that has it puts it.
    let mut columns: Vec<String> = Vec::new();
    for (name, text) in cells.iter().flatten() {
        if !columns.contains(name) && (!text.is_empty() || NEEDED.contains(&name.as_str())) {
            columns.push(name.clone());
        }
    }
    if columns.is_empty() {
        columns.extend(NEEDED.map(str::to_owned));
    }
    let row = |cells: &Vec<(String, String)>| {
        let cell = |column: &String| cells.iter().find(|(name, _)| name == column).map(|(_, text)| text.clone());
        columns.iter().map(|column| cell(column).unwrap_or_default()).collect()
    };
    let rows = cells.iter().map(row).collect();
    Ok(Converted { layout, runs, rejected: table.rejected, merged: table.merged, columns, rows })
}

/// The layout that a file's columns tell.
fn detect(path: &Path) -> Result<Layout> {
    let rows = CsvRows::open(path)?;
    let required = Layout::ALL.map(Layout::required);
    Layout::of(rows.header()).ok_or_else(|| rows.header().unknown(path, &required.each_ref()))
}

/// Columns that stand in every table.
const NEEDED: [&str; 9] =
    ["workload", "architecture", "shape", "gpu", "batch_size", "optimizer", "precision", "peak_memory_mib", "status"];

impl Converted {
    /// Writes the table as CSV, whole or not at all.
    ///
    /// # Errors
    /// A folder that does not exist or cannot be written to, and a full disk.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failed = |source| DatasetError::File { action: "write", path: path.into(), source };
        let target = crate::target_path::output_path(path).map_err(failed)?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".plimsoll-").suffix(".tmp");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder).map_err(failed)?;
        let mut writer = csv::Writer::from_writer(std::io::BufWriter::new(&file));
        let written = std::iter::once(&self.columns).chain(&self.rows).try_for_each(|row| writer.write_record(row));
        written.map_err(|error| failed(std::io::Error::other(error)))?;
        writer.flush().map_err(failed)?;
        drop(writer);
        file.persist(&target).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// A run's cells under their columns.
fn cells(judged: &JudgedRun, catalogue: &GpuCatalogue) -> Vec<(String, String)> {
    let JudgedRun { run, outcome, doubt } = judged;
    let status = match outcome {
        Outcome::Measured { .. } => "ok",
        Outcome::OutOfMemory { .. } => "oom",
        Outcome::Unknown if doubt.is_some() => "suspect",
        Outcome::Unknown => "unknown",
    };
    let above = match outcome {
        Outcome::OutOfMemory { above_mib } => above_mib.to_string(),
        _ => String::new(),
    };
    let is_known = catalogue.find(&run.gpu.name).is_ok_and(|known| *known == run.gpu);
    let own_gpu = if is_known { String::new() } else { serde_json::to_string(&run.gpu).unwrap_or_default() };
    let mut cells: Vec<(&str, String)> = vec![
        ("workload", run.workload.clone()),
        ("architecture", run.architecture.clone()),
        ("shape", run.shape.clone()),
        ("gpu", run.gpu.name.clone()),
        ("gpu_json", own_gpu),
        ("batch_size", run.setup.batch_size.to_string()),
    ];
    cells.extend(setup(&run.setup));
    cells.extend([
        ("peak_memory_mib", run.reading_mib.to_string()),
        ("label", run.label.name().to_owned()),
        ("stack", run.stack.to_string()),
        ("status", status.to_owned()),
        ("above_mib", above),
        ("doubt", doubt.as_ref().map_or_else(String::new, |doubt| doubt.reason.clone())),
    ]);
    for (ratio, target) in run.utilisation.iter().zip(UTILISATION) {
        cells.push((target.name(), ratio.map_or_else(String::new, |ratio| target.outside(ratio).to_string())));
    }
    cells.extend([
        ("samples_per_s", run.samples_per_s.map_or_else(String::new, |rate| rate.to_string())),
        ("repeats", if run.repeats > 1 { run.repeats.to_string() } else { String::new() }),
        ("origin", run.id.clone()),
    ]);
    let mut cells: Vec<(String, String)> = cells.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    let estimates = run.published_estimates.iter();
    cells.extend(estimates.map(|(estimator, mib)| (format!("{estimator}{ESTIMATE}"), mib.to_string())));
    cells
}

/// A setup's cells; what is as everywhere stays empty.
fn setup(setup: &TrainingSetup) -> [(&'static str, String); 16] {
    let flag = |is_set: bool| if is_set { "true".to_owned() } else { String::new() };
    let count = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
    let loss = match setup.loss {
        Loss::CrossEntropy => "",
        Loss::MeanSquaredError => "mean_squared_error",
        Loss::Own => "own",
    };
    [
        ("optimizer", setup.optimizer.name().to_owned()),
        ("precision", setup.precision.name().to_owned()),
        ("loss", loss.to_owned()),
        ("sequence_length", count(setup.sequence_length)),
        ("input_size", count(setup.input_size)),
        ("activation_checkpointing", flag(setup.activation_checkpointing)),
        ("gradient_accumulation", count(Some(setup.gradient_accumulation).filter(|&steps| steps != 1))),
        ("trainable", setup.trainable.join(" ")),
        ("last_batch", count(setup.last_batch)),
        ("startup_batch", count(setup.startup_batch)),
        ("cudnn_benchmark", flag(setup.cudnn_benchmark)),
        ("prefetches", flag(setup.prefetches)),
        ("weight_decay", flag(setup.weight_decay)),
        ("keeps_gradients", flag(setup.keeps_gradients)),
        ("expandable_segments", flag(setup.expandable_segments)),
        ("max_split_size_mib", count(setup.max_split_size_mib)),
    ]
}
