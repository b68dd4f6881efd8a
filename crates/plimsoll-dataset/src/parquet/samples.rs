//! Samples as Parquet: features computed once, read many times.

use std::path::Path;

use plimsoll_features::{Analytic, FeatureSchema, Features};
use plimsoll_graph::Family;
use polars::prelude::Column;
use rayon::prelude::*;

use super::read::{Chunk, RowGroups};
use super::write::RowGroupWriter;
use super::{doubt_of, outcome_cells, outcome_of};
use crate::error::{DatasetError, Result};
use crate::measurement::Label;
use crate::sample::Sample;
use crate::target::UTILISATION;

/// The columns, in order. Lists of numbers are little-endian bytes: `u16` tokens, `f32` all else.
pub(crate) const COLUMNS: [&str; 30] = [
    "id",
    "family",
    "architecture",
    "shape",
    "gpu",
    "label",
    "status",
    "published_estimates",
    "capacity_mib",
    "peak_memory_mib",
    "above_mib",
    "gputl_pct",
    "gract",
    "smact",
    "smocc",
    "fp32a",
    "drama",
    "batch_size",
    "reserved_mib",
    "context_mib",
    "live_peak_mib",
    "tensor_sum_mib",
    "torchinfo_mib",
    "tokens",
    "layers",
    "summary",
    "gpu_features",
    "doubt",
    "reading_mib",
    "stack",
];

/// Where in [`COLUMNS`] each type stands.
const TEXTS: std::ops::Range<usize> = 0..8;
const DOUBLES: std::ops::Range<usize> = 8..17;
const BATCH_SIZE: usize = 17;
const SINGLES: std::ops::Range<usize> = 18..23;
const LISTS: std::ops::Range<usize> = 23..27;
const DOUBT: usize = 27;
const READING: usize = 28;
const STACK: usize = 29;

/// The key of the feature schema in the file's metadata.
const SCHEMA_KEY: &str = "plimsoll.feature_schema";

/// Writes samples to a Parquet file, row group by row group, with the feature schema in the file's metadata.
///
/// Rows wait in memory until [`SampleWriter::MAX_ROWS`] or [`SampleWriter::MAX_BYTES`] of them are together. The
/// file gets its name when [`SampleWriter::finish`] is called and not before.
pub struct SampleWriter {
    file: RowGroupWriter,
    waiting: Waiting,
    rows: u64,
}

#[derive(Default)]
struct Waiting {
    rows: usize,
    bytes: usize,
    texts: [Vec<String>; TEXTS.end - TEXTS.start],
    doubles: [Vec<Option<f64>>; DOUBLES.end - DOUBLES.start],
    batch_size: Vec<u64>,
    singles: [Vec<f32>; SINGLES.end - SINGLES.start],
    lists: [Vec<Vec<u8>>; LISTS.end - LISTS.start],
    doubt: Vec<String>,
    reading: Vec<Option<f64>>,
    stack: Vec<String>,
}

impl SampleWriter {
    /// Most rows of a row group.
    pub const MAX_ROWS: usize = 4_096;

    /// Most bytes of features in a row group before compression, give or take one row.
    pub const MAX_BYTES: usize = 32 << 20;

    /// Starts a file.
    ///
    /// # Errors
    /// A folder that does not exist or cannot be written to.
    pub fn create(path: &Path) -> Result<Self> {
        let schema = serde_json::to_string(&FeatureSchema::current()).expect("names and numbers always serialise");
        let metadata = vec![(SCHEMA_KEY.to_owned(), schema)];
        let file = RowGroupWriter::create(path, Waiting::default().columns(), metadata)?;
        Ok(Self { file, waiting: Waiting::default(), rows: 0 })
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// A full disk and the like.
    pub fn write(&mut self, sample: &Sample) -> Result<()> {
        self.waiting.add(sample);
        self.rows += 1;
        if self.waiting.rows >= Self::MAX_ROWS || self.waiting.bytes >= Self::MAX_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Ends the file, puts it in its place and returns the number of rows.
    ///
    /// # Errors
    /// As [`SampleWriter::write`].
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
    fn add(&mut self, sample: &Sample) {
        let features = &sample.features;
        let (status, peak, above) = outcome_cells(sample.outcome);
        let estimates = serde_json::to_string(&sample.published_estimates).expect("names and numbers always serialise");
        let texts = [
            sample.id.clone(),
            sample.family.name().to_owned(),
            sample.architecture.clone(),
            sample.shape.clone(),
            sample.gpu.clone(),
            sample.label.name().to_owned(),
            status.to_owned(),
            estimates,
        ];
        let mut doubles = [Some(sample.capacity_mib), peak, above, None, None, None, None, None, None];
        for ((cell, ratio), target) in doubles[3..].iter_mut().zip(sample.utilisation).zip(UTILISATION) {
            *cell = ratio.map(|ratio| target.outside(f64::from(ratio)));
        }
        let tokens = features.tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        let lists = [tokens, bytes(&features.layers), bytes(&features.summary), bytes(&features.gpu)];
        self.rows += 1;
        self.bytes += texts.iter().map(String::len).sum::<usize>() + lists.iter().map(Vec::len).sum::<usize>();
        self.batch_size.push(sample.batch_size);
        push(&mut self.texts, texts);
        push(&mut self.doubles, doubles);
        push(&mut self.singles, features.analytic.to_array());
        push(&mut self.lists, lists);
        let doubt = sample.doubt.as_ref();
        self.doubt.push(doubt.map_or_else(String::new, |doubt| doubt.reason.clone()));
        self.reading.push(doubt.map(|doubt| doubt.reading_mib));
        self.stack.push(sample.stack.to_string());
    }

    /// The columns, in the order of [`COLUMNS`].
    fn columns(self) -> Vec<Column> {
        let mut columns = Vec::with_capacity(COLUMNS.len());
        let named = |(&name, values): (&&str, _)| Column::new(name.into(), values);
        columns.extend(COLUMNS[TEXTS].iter().zip(self.texts).map(named));
        let named = |(&name, values): (&&str, Vec<Option<f64>>)| Column::new(name.into(), values);
        columns.extend(COLUMNS[DOUBLES].iter().zip(self.doubles).map(named));
        columns.push(Column::new(COLUMNS[BATCH_SIZE].into(), self.batch_size));
        let named = |(&name, values): (&&str, Vec<f32>)| Column::new(name.into(), values);
        columns.extend(COLUMNS[SINGLES].iter().zip(self.singles).map(named));
        let named = |(&name, values): (&&str, Vec<Vec<u8>>)| Column::new(name.into(), values);
        columns.extend(COLUMNS[LISTS].iter().zip(self.lists).map(named));
        columns.push(Column::new(COLUMNS[DOUBT].into(), self.doubt));
        columns.push(Column::new(COLUMNS[READING].into(), self.reading));
        columns.push(Column::new(COLUMNS[STACK].into(), self.stack));
        columns
    }
}

fn push<T, const N: usize>(columns: &mut [Vec<T>; N], row: [T; N]) {
    for (column, cell) in columns.iter_mut().zip(row) {
        column.push(cell);
    }
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Samples of a Parquet file, one row group at a time: each item is a chunk of rows, and no other is in memory.
pub struct SampleReader {
    groups: RowGroups,
    schema: FeatureSchema,
    row: usize,
}

impl SampleReader {
    /// Opens a file that [`SampleWriter`] wrote.
    ///
    /// # Errors
    /// Files that cannot be read, are no Parquet, lack columns, or whose features were computed under another schema.
    pub fn open(path: &Path) -> Result<Self> {
        Self::new(RowGroups::open(path)?)
    }

    pub(crate) fn new(groups: RowGroups) -> Result<Self> {
        groups.require(&COLUMNS, "samples with features")?;
        let layout = |found: String| DatasetError::Layout {
            path: groups.path().into(),
            expected: format!("a feature schema under `{SCHEMA_KEY}`"),
            found,
        };
        let text = groups.metadata(SCHEMA_KEY).ok_or_else(|| layout("none".into()))?;
        let schema: FeatureSchema = serde_json::from_str(text).map_err(|error| layout(error.to_string()))?;
        schema.check().map_err(|source| DatasetError::Schema { path: groups.path().into(), source })?;
        Ok(Self { groups, schema, row: 0 })
    }

    /// Number of samples in the file.
    pub fn rows(&self) -> usize {
        self.groups.rows()
    }
}

impl Iterator for SampleReader {
    type Item = Result<Vec<Sample>>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = match self.groups.next_group()? {
            Ok(chunk) => chunk,
            Err(error) => return Some(Err(error)),
        };
        let first = self.row + 1;
        self.row += chunk.rows();
        Some(self.samples(&chunk, first))
    }
}

impl SampleReader {
    fn samples(&self, chunk: &Chunk, first: usize) -> Result<Vec<Sample>> {
        let columns = Columns {
            texts: COLUMNS[TEXTS].iter().map(|name| chunk.text(name)).collect::<Result<_>>()?,
            doubles: COLUMNS[DOUBLES].iter().map(|name| chunk.doubles(name)).collect::<Result<_>>()?,
            batch_size: chunk.counts(COLUMNS[BATCH_SIZE])?,
            singles: COLUMNS[SINGLES].iter().map(|name| chunk.singles(name)).collect::<Result<_>>()?,
            lists: COLUMNS[LISTS].iter().map(|name| chunk.binary(name)).collect::<Result<_>>()?,
            doubt: chunk.text(COLUMNS[DOUBT])?,
            reading: chunk.doubles(COLUMNS[READING])?,
            stack: chunk.text(COLUMNS[STACK])?,
        };
        let row = |index| {
            columns.sample(index, &self.schema).map_err(|found| DatasetError::Row {
                path: self.groups.path().into(),
                row: first + index,
                expected: "a sample as `SampleWriter` writes it".into(),
                found,
            })
        };
        (0..chunk.rows()).into_par_iter().map(row).collect()
    }
}

/// One chunk, column by column.
struct Columns<'a> {
    texts: Vec<Vec<Option<&'a str>>>,
    doubles: Vec<Vec<Option<f64>>>,
    batch_size: Vec<Option<u64>>,
    singles: Vec<Vec<Option<f32>>>,
    lists: Vec<Vec<Option<&'a [u8]>>>,
    doubt: Vec<Option<&'a str>>,
    reading: Vec<Option<f64>>,
    stack: Vec<Option<&'a str>>,
}

impl Columns<'_> {
    /// A row as a sample, or what is wrong with it.
    fn sample(&self, index: usize, schema: &FeatureSchema) -> Result<Sample, String> {
        let empty = |column: usize| format!("an empty `{}`", COLUMNS[column]);
        let text = |column: usize| self.texts[column][index].ok_or_else(|| empty(column));
        let double = |column: usize| self.doubles[column - DOUBLES.start][index];
        let single = |column: usize| self.singles[column - SINGLES.start][index].ok_or_else(|| empty(column));
        let list = |column: usize| self.lists[column - LISTS.start][index].ok_or_else(|| empty(column));

        let family = text(1)?;
        let label = text(5)?;
        let mut utilisation = [None; 6];
        for (offset, (cell, target)) in utilisation.iter_mut().zip(UTILISATION).enumerate() {
            let ratio = double(DOUBLES.start + 3 + offset).map(|value| target.ratio(value));
            if let Some(ratio) = ratio.filter(|ratio| !(0.0..=1.0).contains(ratio)) {
                return Err(format!("a ratio of {ratio} in `{target}`"));
            }
            *cell = ratio.map(|ratio| ratio as f32);
        }
        let tokens = tokens(list(23)?, schema.tokens.len())?;
        let features = Features {
            layers: numbers(list(24)?, tokens.len() * schema.layer.len(), "layers")?,
            tokens,
            summary: numbers(list(25)?, schema.summary.len(), "summary")?,
            gpu: numbers(list(26)?, schema.gpu.len(), "gpu_features")?,
            analytic: Analytic::from_array([single(18)?, single(19)?, single(20)?, single(21)?, single(22)?]),
        };
        if features.analytic.to_array().iter().any(|mib| !mib.is_finite()) {
            return Err("a size that is no number".into());
        }
        Ok(Sample {
            id: text(0)?.to_owned(),
            family: Family::from_name(family).ok_or_else(|| format!("a family `{family}`"))?,
            architecture: text(2)?.to_owned(),
            shape: text(3)?.to_owned(),
            gpu: text(4)?.to_owned(),
            capacity_mib: double(8).filter(|mib| mib.is_finite() && *mib > 0.0).ok_or_else(|| empty(8))?,
            batch_size: self.batch_size[index].ok_or_else(|| empty(BATCH_SIZE))?,
            label: Label::from_name(label).ok_or_else(|| format!("a label `{label}`"))?,
            stack: self.stack[index].unwrap_or_default().parse().map_err(|error| format!("`stack`: {error}"))?,
            outcome: outcome_of(text(6)?, double(9), double(10))?,
            utilisation,
            published_estimates: serde_json::from_str(text(7)?).map_err(|error| error.to_string())?,
            doubt: doubt_of(self.doubt[index].unwrap_or_default(), self.reading[index])?,
            features,
        })
    }
}

fn tokens(bytes: &[u8], vocabulary: usize) -> Result<Vec<u16>, String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(format!("{} bytes of tokens", bytes.len()));
    }
    let tokens: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    match tokens.iter().find(|&&token| usize::from(token) >= vocabulary) {
        Some(token) => Err(format!("a token {token}, but the vocabulary has {vocabulary}")),
        None => Ok(tokens),
    }
}

fn numbers(bytes: &[u8], count: usize, what: &str) -> Result<Vec<f32>, String> {
    let (quads, rest) = bytes.as_chunks::<4>();
    if quads.len() != count || !rest.is_empty() {
        return Err(format!("{} bytes in `{what}` for {count} numbers", bytes.len()));
    }
    let numbers: Vec<f32> = quads.iter().map(|quad| f32::from_le_bytes(*quad)).collect();
    match numbers.iter().find(|number| !number.is_finite()) {
        Some(number) => Err(format!("{number} in `{what}`")),
        None => Ok(numbers),
    }
}
