//! What can go wrong in exporting.

use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = ExportError> = std::result::Result<T, E>;

/// Why an estimator cannot be exported, or what was exported cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write` or `create`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{} is not usable: expected {expected}, found {found}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An estimator whose inputs an exported network does not know.
    #[error("the estimator cannot be exported: expected {expected}, found {found}")]
    Unsupported {
        /// What can be exported.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A weight is not a number that can be computed with.
    #[error("weight `{name}` cannot be exported: expected {expected}, found {found}")]
    Weight {
        /// Its name in the exported graph.
        name: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// Samples cannot serve as inputs.
    #[error("{what} cannot be fed to the network: expected {expected}, found {found}")]
    Inputs {
        /// Which part of which sample.
        what: String,
        /// What the network reads.
        expected: String,
        /// What is there.
        found: String,
    },
}
