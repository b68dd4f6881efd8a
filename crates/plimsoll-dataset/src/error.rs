//! What can be wrong with data.

use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = DatasetError> = std::result::Result<T, E>;

/// Why data cannot be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write` or `create`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A Parquet file could not be read or written.
    #[error("cannot {action} {} as Parquet: {source}", path.display())]
    Parquet {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What Polars said.
        source: polars::error::PolarsError,
    },
    /// A file of our own is not as it was written.
    #[error("{} is damaged: expected {expected}, found {found}; write it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was written.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A file is in no layout that ingest knows, or not in the one it was said to be.
    #[error("{} is not in a known layout: expected {expected}, found {found}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// Which layouts or columns were looked for.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// Rows were rejected under `--strict`.
    #[error("{count} rows were rejected; the first, {}: {}", first.id, first.reason)]
    Rejected {
        /// How many.
        count: usize,
        /// The first of them.
        first: crate::Rejection,
    },
    /// A row of a file of our own is not as it was written.
    #[error("row {row} of {} is damaged: expected {expected}, found {found}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, counted from 1.
        row: usize,
        /// What every row is.
        expected: String,
        /// What this one has.
        found: String,
    },
    /// A number or a file's content lies outside what can be computed with.
    #[error("{what} is out of range: expected {expected}, found {found}")]
    OutOfRange {
        /// The quantity.
        what: String,
        /// The range.
        expected: String,
        /// The value.
        found: String,
    },
    /// There is nothing to work on.
    #[error("{what} is empty: expected {expected}")]
    Empty {
        /// The data set or part.
        what: String,
        /// What is needed.
        expected: String,
    },
    /// A split cannot be made of these rows.
    #[error("cannot split {what}: expected {expected}, found {found}")]
    Split {
        /// By what.
        what: String,
        /// What is needed.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A workload is not usable.
    #[error(transparent)]
    Workload(#[from] plimsoll_graph::GraphError),
    /// Features of a file were made under another schema.
    #[error("{} was featurised differently: {source}", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What differs.
        source: plimsoll_features::SchemaMismatch,
    },
}
