//! Estimates of many jobs in one file, one job a row, written as they come: CSV, JSON Lines or Parquet.

mod columns;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use plimsoll_dataset::{Label, output_path};
use plimsoll_model::Estimate;
use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{DataFrame, ParquetWriter, PolarsResult};
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

use self::columns::{Cell, NAMES, cells, series};
use crate::error::{EvaluationError, Result};
use crate::replace_file::folder_of;

/// One row of a table of jobs: an estimate, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// File name and row.
    pub id: String,
    /// The job, or why the row is none, as one sentence.
    pub job: Result<EstimatedJob, String>,
}

/// A job and what an estimator says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct EstimatedJob {
    /// Name of the network.
    pub architecture: String,
    /// Name of the GPU.
    pub gpu: String,
    /// Memory of the GPU, MiB.
    pub capacity_mib: f64,
    /// Samples per step.
    pub batch_size: u64,
    /// Name of the precision.
    pub precision: &'static str,
    /// Name of the optimiser.
    pub optimizer: &'static str,
    /// How memory is read.
    pub label: Label,
    /// Memory so read, and utilisation.
    pub estimate: Estimate,
    /// Probability that the job fits its GPU.
    pub probability_fits: Option<f64>,
    /// Probability that a convolution takes much more workspace than was replayed.
    pub spike_risk: f64,
    /// What the simulator says, MiB.
    pub simulated_mib: f64,
    /// What to know before trusting the numbers, separated by `; `.
    pub warnings: String,
}

/// How a file of jobs is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFormat {
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object a line.
    JsonLines,
}

/// Rows on their way into a file or a stream.
///
/// A file stands under a temporary name until [`JobWriter::finish`]; dropped before that, it leaves nothing behind.
pub struct JobWriter<'a> {
    path: PathBuf,
    sink: Sink<'a>,
    /// Where the file goes in the end, with the temporary one; nothing for a stream.
    file: Option<(PathBuf, NamedTempFile)>,
}

enum Sink<'a> {
    Csv(Box<csv::Writer<Box<dyn Write + 'a>>>),
    JsonLines(Box<dyn Write + 'a>),
    Parquet(Box<BatchedWriter<File>>),
}

impl<'a> JobWriter<'a> {
    /// Starts a file; its extension says the format.
    ///
    /// # Errors
    /// Any extension but `.csv`, `.jsonl` and `.parquet`, and a file that cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let format = match extension {
            Some("csv") => Some(JobFormat::Csv),
            Some("jsonl") => Some(JobFormat::JsonLines),
            Some("parquet") => None,
            other => {
                return Err(EvaluationError::Extension {
                    path: path.to_owned(),
                    expected: "`.csv`, `.jsonl` or `.parquet`",
                    found: other.map_or_else(|| "none".to_owned(), |extension| format!("`.{extension}`")),
                });
            }
        };
        let failed = |source| EvaluationError::File { action: "create", path: path.to_owned(), source };
        let target = output_path(path).map_err(failed)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".plimsoll-").suffix(".tmp");
        // Temporary files are private by default; results are as readable as any other file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(folder_of(&target)).map_err(failed)?;
        let file = temporary.reopen().map_err(failed)?;
        let sink = if let Some(format) = format {
            Self::stream(Box::new(BufWriter::new(file)), format)?.sink
        } else {
            let failed = |source| EvaluationError::Parquet { action: "create", path: path.to_owned(), source };
            Sink::Parquet(Box::new(parquet(file).map_err(failed)?))
        };
        Ok(Self { path: path.to_owned(), sink, file: Some((target, temporary)) })
    }

    /// Writes to a stream, such as standard output.
    ///
    /// # Errors
    /// A stream that takes no header.
    pub fn stream(stream: Box<dyn Write + 'a>, format: JobFormat) -> Result<Self> {
        let path = PathBuf::from("standard output");
        let sink = match format {
            JobFormat::Csv => {
                let mut writer = Box::new(csv::Writer::from_writer(stream));
                writer.write_record(NAMES.map(|(name, _)| name)).map_err(|source| csv_error(&path, source))?;
                Sink::Csv(writer)
            }
            JobFormat::JsonLines => Sink::JsonLines(stream),
        };
        Ok(Self { path, sink, file: None })
    }

    /// Writes rows; a Parquet file gets them as one row group.
    ///
    /// # Errors
    /// Whatever stops them from being written.
    pub fn write(&mut self, rows: &[JobRow]) -> Result<()> {
        let path = || self.path.clone();
        match &mut self.sink {
            Sink::Csv(writer) => {
                let written = rows.iter().try_for_each(|row| writer.write_record(cells(row).map(|cell| cell.text())));
                written.map_err(|source| csv_error(&self.path, source))
            }
            Sink::JsonLines(writer) => rows
                .iter()
                .try_for_each(|row| writeln!(writer, "{}", object(row)))
                .map_err(|source| EvaluationError::File { action: "write", path: path(), source }),
            Sink::Parquet(writer) => {
                let written = DataFrame::new(rows.len(), series(rows)).and_then(|group| writer.write_batch(&group));
                written.map_err(|source| EvaluationError::Parquet { action: "write", path: path(), source })
            }
        }
    }

    /// Ends the file and gives it its name, in place of what bore it before.
    ///
    /// # Errors
    /// Whatever stops it from being completed; an older file stays.
    pub fn finish(self) -> Result<()> {
        let Self { path, sink, file } = self;
        let failed = |source| EvaluationError::File { action: "write", path: path.clone(), source };
        match sink {
            Sink::Csv(mut writer) => writer.flush().map_err(failed)?,
            Sink::JsonLines(mut writer) => writer.flush().map_err(failed)?,
            Sink::Parquet(writer) => {
                let failed = |source| EvaluationError::Parquet { action: "write", path: path.clone(), source };
                writer.finish().map_err(failed)?;
            }
        }
        if let Some((target, temporary)) = file {
            temporary.persist(&target).map_err(|error| failed(error.error))?;
        }
        Ok(())
    }
}

/// What stopped the stream below is told as such: a reader that closed a pipe has seen enough.
fn csv_error(path: &Path, source: csv::Error) -> EvaluationError {
    let source = match source.into_kind() {
        csv::ErrorKind::Io(source) => source,
        kind => std::io::Error::other(format!("{kind:?}")),
    };
    EvaluationError::File { action: "write", path: path.to_owned(), source }
}

fn parquet(file: File) -> PolarsResult<BatchedWriter<File>> {
    let empty = DataFrame::new(0, series(&[]))?;
    ParquetWriter::new(file).batched(empty.schema())
}

/// A row as one JSON object.
fn object(row: &JobRow) -> Value {
    let fields = NAMES.iter().zip(cells(row));
    let value = |cell: Cell| match cell {
        Cell::Text(text) => Value::from(text),
        Cell::Whole(number) => Value::from(number),
        Cell::Number(number) => Value::from(number),
        Cell::Empty => Value::Null,
    };
    fields.map(|((name, _), cell)| ((*name).to_owned(), value(cell))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests;
