//! Graphs that tables refer to: models of the zoo, and files that are not in our own formats.

use std::path::Path;
use std::sync::Arc;

use plimsoll_dataset::GraphSource;
use plimsoll_graph::{Graph, huggingface};
use plimsoll_zoo::Zoo;

use super::graph::{is_configuration, is_onnx};

/// Where tables of measurements find what they name.
pub(crate) fn graphs() -> Arc<dyn GraphSource> {
    Arc::new(Named)
}

#[derive(Debug)]
struct Named;

impl GraphSource for Named {
    fn named(&self, name: &str) -> Result<Arc<Graph>, String> {
        Zoo::built_in().graph_by_name(name).map_err(|error| error.to_string())
    }

    fn file(&self, path: &Path) -> Option<Result<Arc<Graph>, String>> {
        if is_onnx(path) {
            return Some(plimsoll_onnx::read(path).map(|read| read.graph.into()).map_err(|error| error.to_string()));
        }
        if is_configuration(path) {
            let graph = huggingface::read(path, &huggingface::Options::default());
            return Some(graph.map(Arc::new).map_err(|error| error.to_string()));
        }
        None
    }
}
