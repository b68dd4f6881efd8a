//! What can be wrong with a zoo, or with what is asked of it.

use std::path::PathBuf;

use plimsoll_graph::GraphError;

/// The crate's result.
pub type Result<T, E = ZooError> = std::result::Result<T, E>;

/// Why a zoo cannot be read or packed, or a model not be found in it.
#[derive(Debug, thiserror::Error)]
pub enum ZooError {
    /// A file or folder could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A container is damaged, or not one at all.
    #[error("{what} is not a usable zoo: {at}: expected {expected}, found {found}")]
    Damaged {
        /// Which container.
        what: String,
        /// The part of it.
        at: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A folder does not hold what a zoo is packed from.
    #[error("cannot pack {}: expected {expected}, found {found}", path.display())]
    Source {
        /// The file or folder.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A graph is not one.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// No model of that name.
    #[error("the zoo has no model `{name}`{}", did_you_mean(nearest))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The closest known names, the closest first.
        nearest: Vec<String>,
    },
}

fn did_you_mean(nearest: &[String]) -> String {
    let quoted: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => format!(": did you mean {only}?"),
        Some((last, others)) => format!(": did you mean {} or {last}?", others.join(", ")),
    }
}
