//! Plimsoll's own graph format: one JSON document a graph.
//!
//! The format is written down in `docs/graph-format.md` and, for programs, in `docs/graph.schema.json`. Tensors
//! are named by the node that writes them, so a file reads top to bottom like the program it came from.

mod raw;
mod raw_step;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{GraphError, Result};
use crate::graph::Graph;

/// The largest graph file that is read. A graph of 100,000 nodes is about 30 MB.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// The format's version, the value of `plimsoll_graph`.
pub const VERSION: u32 = 1;

/// Reads a graph file.
///
/// # Errors
/// Files that cannot be read or are over [`MAX_FILE_BYTES`], and everything [`parse`] refuses.
pub fn read(path: &Path) -> Result<Graph> {
    parse(&read_text(path, MAX_FILE_BYTES)?, &path.display().to_string())
}

/// Reads a graph from text; `what` names the text in errors.
///
/// # Errors
/// JSON that does not parse or does not fit the schema, another version, and everything [`Graph::new`] refuses.
pub fn parse(text: &str, what: &str) -> Result<Graph> {
    let text = without_mark(text);
    let raw: raw::RawGraph = serde_json::from_str(text).map_err(|error| GraphError::Malformed {
        what: what.into(),
        at: format!("line {}, column {}", error.line(), error.column()),
        expected: "a graph as in docs/graph-format.md".into(),
        found: error.to_string(),
    })?;
    raw.check(what).map_err(|error| error.in_document(what))
}

/// The text without a byte order mark, which some editors put before UTF-8 and JSON does not allow.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Writes a graph as compact JSON.
pub fn write(graph: &Graph) -> String {
    serde_json::to_string(&raw::RawGraph::from_graph(graph)).expect("names, numbers and lists always serialise")
}

/// Whether a text looks like a graph of this format (and not like another JSON document).
pub fn is_graph(text: &str) -> bool {
    without_mark(text).trim_start().starts_with('{') && text.contains("\"plimsoll_graph\"")
}

/// A file's text, unless it is larger than a limit or not UTF-8.
///
/// # Errors
/// [`GraphError::Read`], [`GraphError::TooLarge`] or [`GraphError::Malformed`].
pub fn read_text(path: &Path, limit_bytes: u64) -> Result<String> {
    let failed = |source| GraphError::Read { path: path.into(), source };
    let mut file = File::open(path).map_err(failed)?;
    let found_bytes = file.metadata().map_err(failed)?.len();
    if found_bytes > limit_bytes {
        return Err(GraphError::TooLarge { path: path.into(), limit_bytes, found_bytes });
    }
    let mut bytes = Vec::with_capacity(found_bytes as usize);
    // The size of a pipe or device is not known beforehand, so the limit is held while reading too.
    (&mut file).take(limit_bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(GraphError::TooLarge { path: path.into(), limit_bytes, found_bytes: bytes.len() as u64 });
    }
    String::from_utf8(bytes).map_err(|error| GraphError::Malformed {
        what: path.display().to_string(),
        at: format!("byte {}", error.utf8_error().valid_up_to()),
        expected: "text in UTF-8".into(),
        found: "other bytes".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;

    const SMALL: &str = r#"{
        "plimsoll_graph": 1, "name": "small", "family": "cnn",
        "inputs": [{"name": "x", "shape": ["batch", 3, 8, 8], "dtype": "float32"}],
        "weights": [{"name": "w", "shape": [4, 3, 3, 3]}],
        "nodes": [
            {"name": "conv", "op": "conv", "attributes": {"kernel": [3, 3]}, "inputs": ["x"], "weights": ["w"],
             "outputs": [{"name": "conv", "shape": ["batch", 4, 6, 6]}]},
            {"name": "odd", "op": "frobnicate", "attributes": {"level": 11}, "inputs": ["conv"],
             "outputs": [{"name": "odd", "shape": ["batch", 4]}]}
        ],
        "outputs": ["odd"]
    }"#;

    #[test]
    fn a_graph_survives_a_round_trip() {
        let graph = parse(SMALL, "test").expect("valid");
        assert_eq!(parse(&write(&graph), "again").expect("own text parses"), graph);
        assert_eq!(graph.parameter_count(), 108);
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let marked = format!("\u{feff}{SMALL}");
        assert!(is_graph(&marked));
        assert_eq!(parse(&marked, "marked").expect("valid"), parse(SMALL, "plain").expect("valid"));
        assert!(parse(&format!("\u{feff}{marked}"), "marked twice").is_err());
    }

    #[test]
    fn an_unknown_operator_keeps_its_name() {
        let graph = parse(SMALL, "test").expect("valid");
        assert_eq!(graph.nodes()[1].op, Op::Other { name: "frobnicate".into() });
        assert_eq!(graph.unknown_operators(), ["frobnicate"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, word) in [
            ("\"x\"]", "\"y\"]", "`y`"),
            ("[3, 3]}", "[3, -3]}", "conv"),
            ("[3, 3]}", "[3, 0]}", "`kernel` of node `conv`"),
            ("\"conv\"]", "\"odd\"]", "cycle"),
            ("[\"batch\", 4]", "[\"batches\", 4]", "line"),
            ("\"plimsoll_graph\": 1", "\"plimsoll_graph\": 99", "99"),
            ("\"kernel\"", "\"kernal\"", "kernal"),
            ("[4, 3, 3, 3]", "[\"batch\", 3, 3, 3]", "batch"),
            ("\"outputs\": [\"odd\"]", "\"outputs\": [\"even\"]", "even"),
        ] {
            let text = SMALL.replace(from, to);
            assert_ne!(text, SMALL, "{from} must occur");
            let error = parse(&text, "test").expect_err(to).to_string();
            assert!(error.contains(word), "{to}: {error}");
            assert!(error.starts_with("test"), "{to}: {error}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        let text = "[".repeat(1_000_000);
        assert!(parse(&text, "test").is_err());
    }
}
