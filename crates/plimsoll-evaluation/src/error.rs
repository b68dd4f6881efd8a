//! What can go wrong while scores are made, kept and shown.

use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = EvaluationError> = std::result::Result<T, E>;

/// Why predictions, leaderboards or reports cannot be read, written or drawn.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
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
    /// A CSV file could not be read or written.
    #[error("cannot {action} {} as CSV: {source}", path.display())]
    Csv {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the CSV reader or writer said, with the line.
        source: csv::Error,
    },
    /// A JSON file could not be written.
    #[error("cannot write {} as JSON: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the writer said.
        source: serde_json::Error,
    },
    /// A file's name says nothing of the format it should have.
    #[error("cannot tell the format of {}: expected {expected}, found {found}", path.display())]
    Extension {
        /// The file.
        path: PathBuf,
        /// Which extensions are known.
        expected: &'static str,
        /// The extension it has.
        found: String,
    },
    /// A file lacks a column, or has it in another type.
    #[error("{} has another layout: expected {expected}, found {found}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The column and its type.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// A value in a file is not one of those allowed.
    #[error("{}, row {row}, column `{column}`: expected {expected}, found {found}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The row, counted from 1, without the heading.
        row: usize,
        /// The column.
        column: &'static str,
        /// What is allowed there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A figure could not be drawn.
    #[error("cannot draw {what}: {reason}")]
    Figure {
        /// The figure.
        what: String,
        /// What the drawing library said.
        reason: String,
    },
}
