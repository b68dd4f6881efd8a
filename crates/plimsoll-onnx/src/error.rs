//! Everything that can be wrong with an ONNX file.

use std::path::PathBuf;

use plimsoll_graph::GraphError;

/// The crate's result.
pub type Result<T, E = OnnxError> = std::result::Result<T, E>;

/// Why an ONNX file cannot be read as a forward graph.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The bytes are not those of an ONNX file.
    #[error("{what} is malformed at {at}: expected {expected}, found {found}")]
    Malformed {
        /// Which file.
        what: String,
        /// The byte, or the part of the model.
        at: String,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// More than the reader accepts of something.
    #[error("{what} has too many {of}: expected at most {limit}, found more")]
    TooLarge {
        /// Which file.
        what: String,
        /// What there is too much of.
        of: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The model has an operator set that this reader does not know.
    #[error("{what} uses operator set {found}: expected {oldest} to {newest}")]
    Opset {
        /// Which file.
        what: String,
        /// The oldest that is read.
        oldest: i64,
        /// The newest that is read.
        newest: i64,
        /// The model's.
        found: i64,
    },
    /// A dynamic dimension that is not the batch has no value.
    #[error("{what}: dimension `{dim}` of input `{input}` has no value: expected a number, found a name")]
    Dimension {
        /// Which file.
        what: String,
        /// The input.
        input: String,
        /// The dimension's name.
        dim: String,
    },
    /// An option names a dimension that cannot be set.
    #[error("{what}: no dimension `{dim}` can be set: expected {expected}")]
    UnknownDimension {
        /// Which file.
        what: String,
        /// The name given.
        dim: String,
        /// The names that can be set.
        expected: String,
    },
    /// A node reads a value that nothing before it writes.
    #[error("{what}: node `{node}` ({op}) reads `{value}`, which no node before it writes")]
    Reference {
        /// Which file.
        what: String,
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The value.
        value: String,
    },
    /// An operator got what it cannot work on.
    #[error("{what}: node `{node}` ({op}): expected {expected}, found {found}")]
    Node {
        /// Which file.
        what: String,
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// What the operator needs.
        expected: String,
        /// What it got.
        found: String,
    },
    /// The shape of a value does not follow from the model.
    #[error("{what}: the shape of `{value}` stays unknown: node `{node}` ({op}) {reason}")]
    UnknownShape {
        /// Which file.
        what: String,
        /// The value.
        value: String,
        /// The node that computes it.
        node: String,
        /// Its operator.
        op: String,
        /// Why it stays unknown.
        reason: String,
    },
    /// The graph that was read cannot be used.
    #[error("{what}: {source}")]
    Graph {
        /// Which file.
        what: String,
        /// What is wrong with it.
        source: GraphError,
    },
}

impl OnnxError {
    /// What the user may try, in one line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Dimension { dim, .. } => Some(format!("give it with --dim {dim}=N")),
            Self::UnknownShape { .. } => Some("export with fixed sizes for all dimensions but the batch".into()),
            Self::Opset { .. } => Some("export with opset_version=17".into()),
            _ => None,
        }
    }
}
