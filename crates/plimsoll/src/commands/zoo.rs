//! Where graphs come from that tables refer to by name.

use std::sync::Arc;

use plimsoll_dataset::{GraphFolder, GraphSource};

/// The variable that names a folder of graphs, `timm/NAME.json` and so on.
const FOLDER: &str = "PLIMSOLL_ZOO";

/// The zoo, if there is one.
pub(crate) fn graphs() -> Option<Arc<dyn GraphSource>> {
    let folder = std::env::var_os(FOLDER)?;
    Some(Arc::new(GraphFolder::new(folder)))
}
