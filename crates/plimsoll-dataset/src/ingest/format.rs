//! Which layout a file is in.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use plimsoll_graph::summary;

use super::columns::Header;
use super::csv_rows::CsvRows;
use super::layout::Layout;
use super::{gpumemnet, table};
use crate::error::{DatasetError, Result};
use crate::parquet::{MAGIC, MEASUREMENT_COLUMNS, RowGroups, SAMPLE_COLUMNS};

/// The layouts that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The CSV files of the GPUMemNet measurements: MLPs (two layouts), CNNs, Transformers.
    Gpumemnet,
    /// A table of our own, CSV or Parquet: one run a row, the workload as the path of a file.
    Measurements,
    /// A published table in its own layout.
    Layout(Layout),
    /// One graph in Plimsoll's JSON.
    Graph,
    /// One printed layer summary.
    Summary,
    /// Parquet that [`MeasurementWriter`](crate::MeasurementWriter) wrote: workloads included.
    Parquet,
}

impl Format {
    /// Every layout, in order.
    pub const ALL: [Self; 10] = [
        Self::Gpumemnet,
        Self::Measurements,
        Self::Layout(Layout::Timm),
        Self::Layout(Layout::Schedtune),
        Self::Layout(Layout::Milabench),
        Self::Layout(Layout::Published),
        Self::Layout(Layout::Lucid),
        Self::Graph,
        Self::Summary,
        Self::Parquet,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpumemnet => "gpumemnet",
            Self::Measurements => "measurements",
            Self::Layout(layout) => layout.name(),
            Self::Graph => "graph",
            Self::Summary => "summary",
            Self::Parquet => "parquet",
        }
    }

    /// The layout of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Endings of files that may be in this layout.
    pub(super) const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Gpumemnet | Self::Layout(_) => &["csv"],
            Self::Measurements => &["csv", "parquet"],
            Self::Graph => &["json"],
            Self::Summary => &["txt"],
            Self::Parquet => &["parquet"],
        }
    }

    /// Finds out which layout a file is in, from its first bytes or its header.
    ///
    /// # Errors
    /// Files that cannot be read, are empty or binary, and headers that fit no layout: the error names the columns
    /// that the nearest layout needs.
    pub fn detect(path: &Path) -> Result<Self> {
        let start = first_bytes(path)?;
        let layout = |found: &str| DatasetError::Layout {
            path: path.into(),
            expected: "CSV, Parquet, a JSON graph or a layer summary".into(),
            found: found.into(),
        };
        if start.is_empty() {
            return Err(DatasetError::Empty {
                what: path.display().to_string(),
                expected: "measurements or a workload".into(),
            });
        }
        if start.starts_with(MAGIC) {
            return Self::of_parquet(&RowGroups::open(path)?);
        }
        if start.contains(&0) {
            return Err(layout("binary data, or text that is not UTF-8"));
        }
        // A character may be cut at the end of what was read.
        let text = match std::str::from_utf8(&start) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Err(layout("text that is not UTF-8")),
        };
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.starts_with('{') {
            return Ok(Self::Graph);
        }
        let has_extension = |wanted: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(wanted));
        if has_extension("txt") || (!has_extension("csv") && summary::is_summary(text)) {
            return Ok(Self::Summary);
        }
        let rows = CsvRows::open(path)?;
        let header = rows.header();
        if gpumemnet::LAYOUTS.iter().any(|layout| header.missing(layout.columns).is_empty()) {
            return Ok(Self::Gpumemnet);
        }
        if header.missing(table::REQUIRED.columns).is_empty() {
            return Ok(Self::Measurements);
        }
        if let Some(layout) = Layout::of(header) {
            return Ok(Self::Layout(layout));
        }
        let published = Layout::ALL.map(Layout::required);
        let mut layouts = vec![&table::REQUIRED];
        if !table::resembles(header) {
            layouts.extend(&gpumemnet::LAYOUTS);
            layouts.extend(&published);
        }
        Err(header.unknown(path, &layouts))
    }

    /// The layout of a Parquet file, from its columns.
    pub(super) fn of_parquet(groups: &RowGroups) -> Result<Self> {
        let has = |names: &[&str]| names.iter().all(|name| groups.columns().iter().any(|column| column == name));
        if has(&MEASUREMENT_COLUMNS) {
            return Ok(Self::Parquet);
        }
        if has(&SAMPLE_COLUMNS) {
            return Err(DatasetError::Layout {
                path: groups.path().into(),
                expected: "measurements".into(),
                found: "samples: features without the workloads that they were computed from".into(),
            });
        }
        if has(table::REQUIRED.columns) {
            return Ok(Self::Measurements);
        }
        let header = Header::new(groups.path(), groups.columns().iter().map(String::as_str))?;
        Err(header.unknown(groups.path(), &[&table::REQUIRED]))
    }
}

/// Enough of a file to tell what it is.
fn first_bytes(path: &Path) -> Result<Vec<u8>> {
    const LENGTH: u64 = 64 << 10;
    let failed = |source| DatasetError::File { action: "read", path: path.into(), source };
    let mut start = Vec::new();
    File::open(path).map_err(failed)?.take(LENGTH).read_to_end(&mut start).map_err(failed)?;
    Ok(start)
}
