//! Everything that can be wrong with a workload that a user hands in.

use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = GraphError> = std::result::Result<T, E>;

/// Why a workload, or a part of it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file is larger than a reader accepts.
    #[error("{} is too large: expected at most {limit_bytes} bytes, found {found_bytes}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The reader's limit.
        limit_bytes: u64,
        /// The file's size.
        found_bytes: u64,
    },
    /// A text is not in the format it claims.
    #[error("{what} is malformed at {at}: expected {expected}, found {found}")]
    Malformed {
        /// Which document or part.
        what: String,
        /// Line, node or field.
        at: String,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A document is well-formed, but what it says cannot be used.
    #[error("{what}: {source}")]
    Document {
        /// Which document.
        what: String,
        /// What is wrong with it.
        source: Box<GraphError>,
    },
    /// A graph names a tensor, weight or node that it does not have, or has twice.
    #[error("node `{node}` {problem} `{name}`")]
    Reference {
        /// The node that refers.
        node: String,
        /// What is wrong with the reference.
        problem: &'static str,
        /// The name referred to.
        name: String,
    },
    /// A graph's nodes depend on each other in a circle.
    #[error("the graph has a cycle through node `{node}`")]
    Cycle {
        /// One node on the cycle.
        node: String,
    },
    /// An operator got shapes that it cannot work on.
    #[error("node `{node}`: shapes do not fit: expected {expected}, found {found}")]
    Shape {
        /// The node.
        node: String,
        /// What the operator needs.
        expected: String,
        /// What it got.
        found: String,
    },
    /// A number lies outside what makes sense.
    #[error("{what} is out of range: expected {expected}, found {found}")]
    OutOfRange {
        /// The quantity.
        what: String,
        /// The range.
        expected: String,
        /// The value.
        found: String,
    },
    /// A size does not fit the arithmetic.
    #[error("{what} is too large to count: {found} overflows")]
    Overflow {
        /// The quantity.
        what: String,
        /// How it was formed.
        found: String,
    },
    /// A name is not in a catalogue.
    #[error("unknown {what} `{name}`{}", nearest.as_ref().map_or(String::new(), |near| format!(": did you mean `{near}`?")))]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name given.
        name: String,
        /// The closest known name, if one is close.
        nearest: Option<String>,
    },
}

impl GraphError {
    /// The error with the name of the document it was found in, unless it says that already.
    pub(crate) fn in_document(self, what: &str) -> Self {
        match self {
            Self::Malformed { .. } | Self::Document { .. } => self,
            other => Self::Document { what: what.into(), source: Box::new(other) },
        }
    }
}

/// The candidate closest to `name`, if it is close enough to be a likely typo.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}
