//! Measurements as Parquet: whole workloads beside what was measured of them.

use std::collections::HashMap;
use std::path::Path;

use plimsoll_graph::{Gpu, Graph, TrainingSetup, Workload, json};
use polars::prelude::Column;
use rayon::prelude::*;

use super::read::{Chunk, RowGroups};
use super::write::RowGroupWriter;
use super::{doubt_of, outcome_cells, outcome_of};
use crate::error::Result;
use crate::measurement::{Label, Measurement, Rejection};
use crate::target::UTILISATION;

/// The columns, in order.
pub(crate) const COLUMNS: [&str; 22] = [
    "id",
    "family",
    "architecture",
    "shape",
    "gpu",
    "gpu_json",
    "setup_json",
    "graph_json",
    "label",
    "stack",
    "status",
    "peak_memory_mib",
    "above_mib",
    "gputl_pct",
    "gract",
    "smact",
    "smocc",
    "fp32a",
    "drama",
    "published_estimates",
    "doubt",
    "reading_mib",
];

/// Writes measurements to a Parquet file, row group by row group.
///
/// Rows wait in memory until [`MeasurementWriter::MAX_ROWS`] or [`MeasurementWriter::MAX_BYTES`] of them are
/// together. The file gets its name when [`MeasurementWriter::finish`] is called and not before.
pub struct MeasurementWriter {
    file: RowGroupWriter,
    waiting: Waiting,
    rows: u64,
}

#[derive(Default)]
struct Waiting {
    rows: usize,
    bytes: usize,
    texts: [Vec<String>; 13],
    reading: Vec<Option<f64>>,
    peak: Vec<Option<f64>>,
    above: Vec<Option<f64>>,
    utilisation: [Vec<Option<f64>>; 6],
}

/// The text columns, in the order of `Waiting::texts`.
const TEXTS: [&str; 13] = [
    "id",
    "family",
    "architecture",
    "shape",
    "gpu",
    "gpu_json",
    "setup_json",
    "graph_json",
    "label",
    "stack",
    "status",
    "published_estimates",
    "doubt",
];

impl MeasurementWriter {
    /// Most rows of a row group.
    pub const MAX_ROWS: usize = 4_096;

    /// Most bytes of text in a row group before compression, give or take one row.
    pub const MAX_BYTES: usize = 32 << 20;

    /// Starts a file.
    ///
    /// # Errors
    /// A folder that does not exist or cannot be written to.
    pub fn create(path: &Path) -> Result<Self> {
        let waiting = Waiting::default();
        Ok(Self { file: RowGroupWriter::create(path, Waiting::default().columns(), Vec::new())?, waiting, rows: 0 })
    }

    /// Adds a measurement.
    ///
    /// # Errors
    /// A full disk and the like.
    pub fn write(&mut self, measurement: &Measurement) -> Result<()> {
        self.waiting.add(measurement);
        self.rows += 1;
        if self.waiting.rows >= Self::MAX_ROWS || self.waiting.bytes >= Self::MAX_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Ends the file, puts it in its place and returns the number of rows.
    ///
    /// # Errors
    /// As [`MeasurementWriter::write`].
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        self.file.finish()?;
        Ok(self.rows)
    }

    fn flush(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        match waiting.rows {
            0 => Ok(()),
            rows => self.file.write(rows, waiting.columns()),
        }
    }
}

impl Waiting {
    fn add(&mut self, measurement: &Measurement) {
        let workload = &measurement.workload;
        let (status, peak, above) = outcome_cells(measurement.outcome);
        let texts = [
            measurement.id.clone(),
            workload.graph().family().name().to_owned(),
            measurement.architecture.clone(),
            measurement.shape.clone(),
            workload.gpu().name.clone(),
            to_json(workload.gpu()),
            to_json(workload.setup()),
            json::write(workload.graph()),
            measurement.label.name().to_owned(),
            measurement.stack.to_string(),
            status.to_owned(),
            to_json(&measurement.published_estimates),
            measurement.doubt.as_ref().map_or_else(String::new, |doubt| doubt.reason.clone()),
        ];
        self.rows += 1;
        self.bytes += texts.iter().map(String::len).sum::<usize>();
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(text);
        }
        self.reading.push(measurement.doubt.as_ref().map(|doubt| doubt.reading_mib));
        self.peak.push(peak);
        self.above.push(above);
        for ((column, ratio), target) in self.utilisation.iter_mut().zip(measurement.utilisation).zip(UTILISATION) {
            column.push(ratio.map(|ratio| target.outside(ratio)));
        }
    }

    /// The columns, in the order of [`COLUMNS`].
    fn columns(self) -> Vec<Column> {
        let mut columns: HashMap<&str, Column> = HashMap::with_capacity(COLUMNS.len());
        for (name, texts) in TEXTS.into_iter().zip(self.texts) {
            columns.insert(name, Column::new(name.into(), texts));
        }
        columns.insert("peak_memory_mib", Column::new("peak_memory_mib".into(), self.peak));
        columns.insert("reading_mib", Column::new("reading_mib".into(), self.reading));
        columns.insert("above_mib", Column::new("above_mib".into(), self.above));
        for (target, values) in UTILISATION.into_iter().zip(self.utilisation) {
            columns.insert(target.name(), Column::new(target.name().into(), values));
        }
        COLUMNS.iter().map(|name| columns.remove(name).expect("every column is made above")).collect()
    }
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("names, numbers and lists always serialise")
}

/// Opens a Parquet file that [`MeasurementWriter`] wrote.
///
/// # Errors
/// Files that cannot be read, are no Parquet or lack columns.
pub fn read_measurements(path: &Path) -> Result<MeasurementReader> {
    let groups = RowGroups::open(path)?;
    groups.require(&COLUMNS, "Plimsoll's measurements")?;
    Ok(MeasurementReader { groups, row: 0 })
}

/// Measurements of a Parquet file, one row group at a time: each item is a chunk of rows, good and rejected.
pub struct MeasurementReader {
    groups: RowGroups,
    row: usize,
}

impl MeasurementReader {
    /// Number of rows in the file.
    pub fn rows(&self) -> usize {
        self.groups.rows()
    }
}

impl Iterator for MeasurementReader {
    type Item = Result<Vec<Result<Measurement, Rejection>>>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = match self.groups.next_group()? {
            Ok(chunk) => chunk,
            Err(error) => return Some(Err(error)),
        };
        let first = self.row + 1;
        self.row += chunk.rows();
        let file = self.groups.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Some(rows(&chunk, &file, first))
    }
}

/// One row's texts, unchecked.
struct RawRow<'a> {
    number: usize,
    texts: [Option<&'a str>; 13],
    reading: Option<f64>,
    peak: Option<f64>,
    above: Option<f64>,
    utilisation: [Option<f64>; 6],
}

fn rows(chunk: &Chunk, file: &str, first: usize) -> Result<Vec<Result<Measurement, Rejection>>> {
    let texts = TEXTS.map(|name| chunk.text(name)).into_iter().collect::<Result<Vec<_>>>()?;
    let peak = chunk.doubles("peak_memory_mib")?;
    let above = chunk.doubles("above_mib")?;
    let reading = chunk.doubles("reading_mib")?;
    let utilisation = UTILISATION.map(|target| chunk.doubles(target.name())).into_iter().collect::<Result<Vec<_>>>()?;
    let raw: Vec<RawRow<'_>> = (0..chunk.rows())
        .map(|index| RawRow {
            number: first + index,
            texts: std::array::from_fn(|column| texts[column][index]),
            reading: reading[index],
            peak: peak[index],
            above: above[index],
            utilisation: std::array::from_fn(|column| utilisation[column][index]),
        })
        .collect();

    // Rows of one architecture carry the same graph; each is parsed once.
    let distinct: HashMap<&str, usize> =
        raw.iter().filter_map(|row| row.texts[7]).fold(HashMap::new(), |mut seen, text| {
            let next = seen.len();
            seen.entry(text).or_insert(next);
            seen
        });
    let graphs: HashMap<&str, Result<Graph, String>> = distinct
        .into_par_iter()
        .map(|(text, _)| (text, json::parse(text, "graph_json").map_err(|error| error.to_string())))
        .collect();
    Ok(raw
        .into_par_iter()
        .map(|row| {
            row.measurement(&graphs).map_err(|reason| Rejection {
                id: row.texts[0].map_or_else(|| format!("{file}:{}", row.number), str::to_owned),
                reason,
                content: Rejection::shorten(&row.texts.map(Option::unwrap_or_default).join(",")),
            })
        })
        .collect())
}

impl RawRow<'_> {
    fn measurement(&self, graphs: &HashMap<&str, Result<Graph, String>>) -> Result<Measurement, String> {
        let text = |index: usize| self.texts[index].ok_or_else(|| format!("`{}` is empty", TEXTS[index]));
        let gpu: Gpu = from_json(TEXTS[5], text(5)?)?;
        gpu.check().map_err(|error| error.to_string())?;
        let setup: TrainingSetup = from_json(TEXTS[6], text(6)?)?;
        let graph = graphs.get(text(7)?).expect("every graph was parsed").clone()?;
        let label = text(8)?;
        let mut utilisation = self.utilisation;
        for (value, target) in utilisation.iter_mut().zip(UTILISATION) {
            *value = value.map(|value| target.ratio(value));
            if let Some(ratio) = value.filter(|ratio| !(0.0..=1.0).contains(ratio)) {
                return Err(format!("`{target}` should be a ratio of 0 to 1, is {ratio}"));
            }
        }
        Ok(Measurement {
            id: text(0)?.to_owned(),
            architecture: text(2)?.to_owned(),
            shape: text(3)?.to_owned(),
            workload: Workload::new(graph, setup, gpu).map_err(|error| error.to_string())?,
            label: Label::from_name(label).ok_or_else(|| format!("`label` is not known: `{label}`"))?,
            stack: text(9)?.parse().map_err(|error| format!("`stack`: {error}"))?,
            outcome: outcome_of(text(10)?, self.peak, self.above)?,
            utilisation,
            published_estimates: from_json(TEXTS[11], text(11)?)?,
            doubt: doubt_of(text(12)?, self.reading)?,
        })
    }
}

fn from_json<T: serde::de::DeserializeOwned>(column: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("`{column}` is malformed: {error}"))
}
