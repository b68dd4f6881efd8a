//! Graphs that tables refer to by name.

use std::sync::Arc;

use plimsoll_dataset::GraphSource;
use plimsoll_graph::Graph;
use plimsoll_zoo::Zoo;

/// The zoo that ships with Plimsoll, for tables of measurements.
pub(crate) fn graphs() -> Arc<dyn GraphSource> {
    Arc::new(BuiltIn)
}

#[derive(Debug)]
struct BuiltIn;

impl GraphSource for BuiltIn {
    fn named(&self, name: &str) -> Result<Arc<Graph>, String> {
        Zoo::built_in().graph_by_name(name).map_err(|error| error.to_string())
    }
}
