//! A graph from whatever the user has.
//!
//! Another form of graph needs two things here: how [`read`] tells it from the others, by its name or by what the file
//! says, and how it becomes a [`Source`], with doubts if it says less than a graph file does.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use plimsoll_graph::{Graph, GraphError, json, summary};
use plimsoll_zoo::Zoo;

use super::usage;
use crate::cli::GraphArguments;
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

/// The graph that arguments name.
pub(crate) fn read(arguments: &GraphArguments) -> Result<Source> {
    let file = arguments.file.as_path();
    // Told by the name.
    if let Some(name) = file.to_str().and_then(|file| file.strip_prefix(ZOO)) {
        return Ok(Source::whole(zoo(arguments.zoo_file.as_deref())?.graph_by_name(name)?));
    }
    if arguments.zoo_file.is_some() {
        return Err(usage("`--zoo-file` is given, but the graph is not looked up in a zoo", "say `zoo:NAME`"));
    }
    // Told by what the file says.
    let (text, what) = text(file)?;
    if summary::is_summary(&text) {
        return Ok(Source::doubted(summary::parse(&text, &what)?, NO_EDGES));
    }
    Ok(Source::whole(json::parse(&text, &what)?))
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
