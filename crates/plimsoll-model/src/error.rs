//! What can go wrong in fitting, saving and loading.

use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;

/// Why an estimator cannot be fitted, saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A setting lies outside what makes sense.
    #[error("setting `{name}` is out of range: expected {expected}, found {found}")]
    Setting {
        /// Dotted name.
        name: String,
        /// The range.
        expected: String,
        /// The value.
        found: String,
    },
    /// The data does not allow a fit.
    #[error("cannot fit to {what}: expected {expected}, found {found}")]
    Data {
        /// Which part.
        what: String,
        /// What a fit needs.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The loss left the numbers.
    #[error("training diverged in epoch {epoch}: the loss is {loss}")]
    Diverged {
        /// The epoch.
        epoch: usize,
        /// The loss.
        loss: f64,
    },
    /// The run was asked to stop.
    #[error("stopped after {epochs} epochs; the checkpoint keeps them")]
    Interrupted {
        /// Finished epochs.
        epochs: usize,
    },
    /// A checkpoint file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A checkpoint is damaged or not one at all.
    #[error("{} is not a usable checkpoint: expected {expected}, found {found}", path.display())]
    Checkpoint {
        /// The folder or file.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A checkpoint was made under another feature schema.
    #[error("{} was made by another version: {source}", path.display())]
    Schema {
        /// The folder.
        path: PathBuf,
        /// What differs.
        source: plimsoll_features::SchemaMismatch,
    },
    /// The data cannot be used.
    #[error(transparent)]
    Dataset(#[from] plimsoll_dataset::DatasetError),
}
