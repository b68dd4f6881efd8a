//! A graph from whatever the user has.
//!
//! Another form of graph needs two things here: how [`read`] tells it from the others, by its name or by what the file
//! says, and how it becomes a [`Source`], with doubts if it says less than a graph file does.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use plimsoll_graph::huggingface::{self, Head};
use plimsoll_graph::{Graph, GraphError, Precision, json, summary};
use plimsoll_onnx::{OnnxGraph, ReadOptions};
use plimsoll_zoo::Zoo;

use super::usage;
use crate::cli::{ConfigurationArguments, GraphArguments};
use crate::errors::Hint;

/// What stands before a name of the zoo.
const ZOO: &str = "zoo:";
/// What is to be known of a printed layer summary.
const NO_EDGES: &str = "a layer summary shows no edges: sums, gates and concatenations may be missing";

/// A graph, and what a user should know of the form in which it was there.
pub(crate) struct Source {
    pub(crate) graph: Arc<Graph>,
    pub(crate) doubts: Vec<String>,
}

impl Source {
    /// A graph that lacks nothing.
    fn whole(graph: impl Into<Arc<Graph>>) -> Self {
        Self { graph: graph.into(), doubts: Vec::new() }
    }

    /// A graph that was pieced together from less.
    fn doubted(graph: impl Into<Arc<Graph>>, doubt: &str) -> Self {
        Self { graph: graph.into(), doubts: vec![doubt.to_owned()] }
    }
}

/// The graph that arguments name, for training in a precision.
pub(crate) fn read(arguments: &GraphArguments, precision: Precision) -> Result<Source> {
    let file = arguments.file.as_path();
    let is_onnx = is_onnx(file);
    let is_configuration = is_configuration(file);
    if !arguments.dims.is_empty() && !is_onnx {
        return Err(usage("`--dim` is given, but the graph is no ONNX model", "leave it out"));
    }
    if arguments.configuration != ConfigurationArguments::default() && !is_configuration {
        let what = "tokens, a head or eager attention are asked for, but the graph is no Hugging Face configuration";
        return Err(usage(what, "leave them out"));
    }
    // Told by the name.
    if let Some(name) = file.to_str().and_then(|file| file.strip_prefix(ZOO)) {
        return Ok(Source::whole(zoo(arguments.zoo_file.as_deref())?.graph_by_name(name)?));
    }
    if arguments.zoo_file.is_some() {
        return Err(usage("`--zoo-file` is given, but the graph is not looked up in a zoo", "say `zoo:NAME`"));
    }
    // Told by what the file says.
    if is_onnx {
        let dims = arguments.dims.iter().cloned().collect();
        let OnnxGraph { graph, warnings } = plimsoll_onnx::read_with(file, &ReadOptions { dims })?;
        return Ok(Source { graph: graph.into(), doubts: warnings });
    }
    if is_configuration {
        return Ok(Source::whole(huggingface::read(file, &options(&arguments.configuration, precision)?)?));
    }
    let (text, what) = text(file)?;
    if summary::is_summary(&text) {
        return Ok(Source::doubted(summary::parse(&text, &what)?, NO_EDGES));
    }
    Ok(Source::whole(json::parse(&text, &what)?))
}

/// Whether a file is an ONNX model: by its first bytes, or by its name, so that a damaged one is called by its name too.
pub(super) fn is_onnx(file: &Path) -> bool {
    if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx")) {
        return true;
    }
    let mut start = [0; 3];
    file.is_file()
        && File::open(file).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && plimsoll_onnx::is_onnx(&start)
}

/// Whether a path is a Hugging Face configuration, or a folder that holds one.
pub(super) fn is_configuration(file: &Path) -> bool {
    if file.is_dir() {
        return file.join("config.json").is_file();
    }
    // Configurations are short; graphs are not read twice.
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= huggingface::MAX_FILE_BYTES)
        && std::fs::read_to_string(file).is_ok_and(|text| huggingface::is_config(&text))
}

fn options(arguments: &ConfigurationArguments, precision: Precision) -> Result<huggingface::Options> {
    Ok(huggingface::Options {
        tokens: arguments.tokens,
        target_tokens: arguments.target_tokens,
        head: arguments.head.as_deref().map(Head::from_name).transpose()?,
        eager_attention: arguments.eager_attention,
        half_precision: precision.is_mixed() || precision == Precision::Bf16,
    })
}

/// The zoo of a file, or the one that ships with Plimsoll.
pub(crate) fn zoo(file: Option<&Path>) -> Result<Arc<Zoo>> {
    Ok(match file {
        Some(path) => Zoo::read(path)?.into(),
        None => Zoo::built_in(),
    })
}

/// A file's or standard input's text, and what to call it in errors.
fn text(file: &Path) -> Result<(String, String)> {
    if file != Path::new("-") {
        let text = json::read_text(file, json::MAX_FILE_BYTES).map_err(|error| meant_for_the_zoo(error, file))?;
        return Ok((text, file.display().to_string()));
    }
    let mut text = String::new();
    let limit = json::MAX_FILE_BYTES;
    std::io::stdin().lock().take(limit + 1).read_to_string(&mut text).context("cannot read standard input")?;
    ensure!(text.len() as u64 <= limit, "standard input is too large: expected at most {limit} bytes");
    Ok((text, "standard input".to_owned()))
}

/// A file that is not there may be the name of a model.
fn meant_for_the_zoo(error: GraphError, file: &Path) -> anyhow::Error {
    let is_missing = matches!(&error, GraphError::Read { source, .. } if source.kind() == ErrorKind::NotFound);
    let name = file.to_str().filter(|name| is_missing && Zoo::built_in().find(name).is_ok());
    match name {
        Some(name) => {
            anyhow::Error::new(Hint(format!("the zoo has a model of that name: `{ZOO}{name}`"))).context(error)
        }
        None => error.into(),
    }
}
