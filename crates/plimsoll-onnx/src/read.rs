//! From a file or bytes to a graph.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use plimsoll_graph::Graph;

use crate::emit::emit;
use crate::error::{OnnxError, Result};
use crate::interpret::interpret;
use crate::rewrite::rewrite;
use crate::slim::{self, Pass};

/// What a user may decide about a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Extents of dynamic dimensions that are not the batch, by name.
    pub dims: BTreeMap<String, u64>,
}

/// A model that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxGraph {
    /// Its forward graph, with a symbolic batch.
    pub graph: Graph,
    /// What could not be told for certain, a sentence each, for the user to see.
    pub warnings: Vec<String>,
}

/// Reads a model file, all of whose dynamic dimensions are the batch.
///
/// # Errors
/// As [`read_with`].
pub fn read(path: &Path) -> Result<OnnxGraph> {
    read_with(path, &ReadOptions::default())
}

/// Reads a model file. Weights are passed over, so that memory does not grow with them.
///
/// # Errors
/// Files that cannot be read, bytes that are no ONNX, more nodes than are accepted, dimensions without a value, and
/// models whose shapes do not follow from their inputs.
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<OnnxGraph> {
    let failed = |source| OnnxError::Read { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let found = if metadata.is_dir() { "a folder" } else { "something else" };
        return Err(OnnxError::Malformed {
            what: path.display().to_string(),
            at: "its start".into(),
            expected: "a file".into(),
            found: found.into(),
        });
    }
    let name = path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned());
    let mut reader = BufReader::with_capacity(1 << 16, file);
    finish(&mut reader, metadata.len(), &path.display().to_string(), name, options)
}

/// Reads a model from bytes; `name` is what the graph is called.
///
/// # Errors
/// As [`read_with`].
pub fn parse(bytes: &[u8], name: &str) -> Result<OnnxGraph> {
    parse_with(bytes, name, &ReadOptions::default())
}

/// Reads a model from bytes; `name` is what the graph is called.
///
/// # Errors
/// As [`read_with`].
pub fn parse_with(mut bytes: &[u8], name: &str, options: &ReadOptions) -> Result<OnnxGraph> {
    let length = bytes.len() as u64;
    finish(&mut bytes, length, name, name.into(), options)
}

fn finish(reader: &mut impl Pass, length: u64, what: &str, name: String, options: &ReadOptions) -> Result<OnnxGraph> {
    let model = slim::read(reader, length, what)?;
    let mut program = interpret(model, what, options)?;
    rewrite(&mut program);
    let warnings = std::mem::take(&mut program.warnings);
    emit(program, what, name, warnings)
}

/// Whether bytes look like the start of an ONNX file: the version of its format, as every exporter writes it first,
/// and then a field that models have.
///
/// A text, and so any graph file or layer summary, never looks like one.
pub fn is_onnx(bytes: &[u8]) -> bool {
    // Field 1, a number from 3 to 127: the format's version.
    let [0x08, version, key, ..] = bytes else { return false };
    (3..=0x7f).contains(version) && matches!(key, 0x12 | 0x1a | 0x22 | 0x28 | 0x32 | 0x3a | 0x42 | 0x72 | 0xca)
}
