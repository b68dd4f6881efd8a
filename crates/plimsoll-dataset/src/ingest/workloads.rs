//! Workload files: graphs and layer summaries.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_graph::{Dim, Gpu, Graph, TrainingSetup, Workload, json, summary};

use super::format::Format;
use super::intake::Intake;
use super::sources::Source;
use crate::error::Result;
use crate::measurement::{Label, Measurement};

/// Reads a file that holds a workload and no measurement.
pub(super) fn read(source: &Source, format: Format, intake: &mut Intake<'_, '_>) -> Result<()> {
    let id = source.name.clone();
    match unmeasured(source, format, intake)? {
        Ok(measurement) => intake.accept(measurement),
        Err(reason) => intake.reject(id, reason, ""),
    }
}

fn unmeasured(source: &Source, format: Format, intake: &Intake<'_, '_>) -> Result<Result<Measurement, String>> {
    let options = intake.options;
    let graph = match intake.options.graphs.as_ref().and_then(|graphs| graphs.file(&source.path)) {
        Some(Ok(graph)) => graph,
        Some(Err(reason)) => return Ok(Err(reason)),
        None => Arc::new(load(&source.path, format)?),
    };
    let Some(setup) = options.setup.clone() else {
        return Ok(Err("a workload file says no batch size: give one".into()));
    };
    let Some(gpu) = &options.gpu else {
        return Ok(Err("a workload file names no GPU: give one".into()));
    };
    Ok(job(graph, setup, gpu).map(|workload| Measurement {
        label: options.label.unwrap_or(Label::Unknown),
        stack: options.stack.unwrap_or_default(),
        ..Measurement::unmeasured(source.name.clone(), workload)
    }))
}

/// A workload, or why it cannot be one.
pub(super) fn job(graph: Arc<Graph>, setup: TrainingSetup, gpu: &Gpu) -> Result<Workload, String> {
    Workload::new(graph, setup, gpu.clone()).map_err(|error| error.to_string())
}

/// The largest printed summary that is read: a hundred bytes for each of some 600,000 layers.
const MAX_SUMMARY_BYTES: u64 = 64 << 20;

/// The graph of a workload file.
fn load(path: &Path, format: Format) -> plimsoll_graph::Result<Graph> {
    match format {
        Format::Summary => summary::parse(&json::read_text(path, MAX_SUMMARY_BYTES)?, &path.display().to_string()),
        _ => json::read(path),
    }
}

/// Where graphs come from that this crate cannot read itself.
pub trait GraphSource: std::fmt::Debug + Send + Sync {
    /// The graph of a name in the zoo, such as `timm/vit_base_patch16_224`; `@384` at its end asks for an input of that
    /// side or that many tokens.
    ///
    /// # Errors
    /// Why there is none, as one sentence.
    fn named(&self, name: &str) -> Result<Arc<Graph>, String>;

    /// The graph of a file, such as an ONNX model; `None` for files that this source does not read.
    fn file(&self, path: &Path) -> Option<Result<Arc<Graph>, String>> {
        let _ = path;
        None
    }
}

/// A zoo as a folder: `NAME.json` is the graph of a name.
#[derive(Debug, Clone)]
pub struct GraphFolder {
    folder: PathBuf,
}

impl GraphFolder {
    /// Graphs are looked for from this folder on.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }
}

impl GraphSource for GraphFolder {
    fn named(&self, name: &str) -> Result<Arc<Graph>, String> {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', ':']);
        if !name.split('/').all(is_plain) {
            return Err(format!("`{name}` is no name of a model"));
        }
        let path = self.folder.join(format!("{name}.json"));
        if !path.is_file() {
            return Err(format!("the zoo has no model `{name}`"));
        }
        json::read(&path).map(Arc::new).map_err(|error| error.to_string())
    }
}

/// What a reference to a model of the zoo begins with.
pub(super) const ZOO: &str = "zoo:";

/// Graphs that a table refers to, each read once while it is remembered.
pub(super) struct Workloads {
    folder: PathBuf,
    graphs: Option<Arc<dyn GraphSource>>,
    kept: HashMap<String, Result<Arc<Graph>, String>>,
    /// The kept references, the oldest first.
    order: VecDeque<String>,
    nodes: usize,
}

impl Workloads {
    /// So many nodes are kept, some half a kilobyte each; a table of more reads some graphs again.
    const MAX_NODES: usize = 400_000;

    /// So many references are kept, those that lead nowhere among them.
    const MAX_KEPT: usize = 4_096;

    /// Files are looked for from this folder on, models in the zoo.
    pub(super) fn new(folder: &Path, graphs: Option<Arc<dyn GraphSource>>) -> Self {
        Self { folder: folder.into(), graphs, kept: HashMap::new(), order: VecDeque::new(), nodes: 0 }
    }

    /// The file that a reference leads to; `None` for a model of the zoo.
    pub(super) fn path(&self, reference: &str) -> Option<PathBuf> {
        (!reference.starts_with(ZOO)).then(|| self.folder.join(reference))
    }

    /// Whether a reference was followed already.
    pub(super) fn knows(&self, reference: &str) -> bool {
        self.kept.contains_key(reference)
    }

    /// The graph of a reference, or why there is none.
    pub(super) fn graph(&mut self, reference: &str) -> Result<Arc<Graph>, String> {
        if let Some(known) = self.kept.get(reference) {
            return known.clone();
        }
        let graph = match reference.strip_prefix(ZOO) {
            Some(name) => self.of_zoo(name.trim()),
            None => self.of_file(&self.folder.join(reference)),
        };
        self.keep(reference, graph.clone());
        graph
    }

    fn keep(&mut self, reference: &str, graph: Result<Arc<Graph>, String>) {
        let size = |graph: &Result<Arc<Graph>, String>| graph.as_ref().map_or(0, |graph| graph.nodes().len());
        self.nodes += size(&graph);
        self.kept.insert(reference.to_owned(), graph);
        self.order.push_back(reference.to_owned());
        while self.order.len() > 1 && (self.nodes > Self::MAX_NODES || self.order.len() > Self::MAX_KEPT) {
            let Some(forgotten) = self.order.pop_front().and_then(|oldest| self.kept.remove(&oldest)) else { break };
            self.nodes -= size(&forgotten);
        }
    }

    /// A model of the zoo. Where no graph has the size asked for in its name, the plain one will do if it is of that
    /// size.
    fn of_zoo(&self, name: &str) -> Result<Arc<Graph>, String> {
        let graphs = self.graphs.as_ref().ok_or("there is no zoo here to look a model up in")?;
        let Some((plain, size)) = name.rsplit_once('@').and_then(|(plain, size)| Some((plain, size.parse().ok()?)))
        else {
            return graphs.named(name);
        };
        graphs.named(name).or_else(|reason| match graphs.named(plain) {
            Ok(graph) if input_size(&graph) == Some(size) => Ok(graph),
            Ok(graph) => {
                let found = input_size(&graph).map_or_else(|| "another".to_owned(), |size| size.to_string());
                Err(format!("the zoo has `{plain}` for an input of {found}, not of {size}"))
            }
            Err(_) => Err(reason),
        })
    }

    fn of_file(&self, path: &Path) -> Result<Arc<Graph>, String> {
        if let Some(read) = self.graphs.as_ref().and_then(|graphs| graphs.file(path)) {
            return read;
        }
        let is_text = path.extension().is_some_and(|found| found.eq_ignore_ascii_case("txt"));
        let format = if is_text { Format::Summary } else { Format::Graph };
        load(path, format).map(Arc::new).map_err(|error| error.to_string())
    }
}

/// The last extent of a graph's first input: the side of an image, or the number of tokens.
fn input_size(graph: &Graph) -> Option<u64> {
    match graph.tensor(*graph.inputs().first()?).shape.last() {
        Dim::Fixed(size) => Some(size),
        Dim::Batch(_) => None,
    }
}
