//! A zoo as its users see it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use plimsoll_graph::{Graph, GraphError, json};

use crate::container::{self, Group, Opened};
use crate::entry::Entry;
use crate::error::{Result, ZooError};
use crate::names;

/// The zoo that is part of the program.
static BUILT_IN: LazyLock<Arc<Zoo>> = LazyLock::new(|| {
    let zoo = Zoo::open(&include_bytes!("../zoo.bin")[..], "the built-in zoo");
    Arc::new(zoo.expect("a test opens every graph of the built-in zoo"))
});

/// A larger container is not read from a file.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Graphs of well-known models, each opened when it is asked for.
#[derive(Debug)]
pub struct Zoo {
    bytes: Cow<'static, [u8]>,
    /// Names the container in errors.
    what: String,
    hash: blake3::Hash,
    versions: BTreeMap<String, String>,
    groups: Vec<Group>,
    /// By name, then library.
    entries: Vec<Entry>,
    /// Graphs that someone still holds: the rows of a table that name one model share its graph.
    held: Mutex<HashMap<String, Weak<Graph>>>,
}

impl Zoo {
    /// The zoo that ships with Plimsoll.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// Opens a container; `what` names it in errors.
    ///
    /// # Errors
    /// [`ZooError::Damaged`]. Groups are checked when they are read.
    pub fn open(bytes: impl Into<Cow<'static, [u8]>>, what: &str) -> Result<Self> {
        let bytes = bytes.into();
        let Opened { hash, versions, groups, entries } = container::open(&bytes, what)?;
        Ok(Self { bytes, what: what.into(), hash, versions, groups, entries, held: Mutex::default() })
    }

    /// Opens a container from a file.
    ///
    /// # Errors
    /// A file that cannot be read or is over 256 MiB, and everything [`Zoo::open`] refuses.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |source| ZooError::Read { path: path.into(), source };
        let mut bytes = Vec::new();
        let mut file = File::open(path).map_err(failed)?.take(MAX_FILE_BYTES + 1);
        file.read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(GraphError::TooLarge {
                path: path.into(),
                limit_bytes: MAX_FILE_BYTES,
                found_bytes: bytes.len() as u64,
            }
            .into());
        }
        Self::open(bytes, &path.display().to_string())
    }

    /// All entries, by name, then library.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Versions of the libraries that the models were captured from, by name, as far as they are known.
    pub const fn versions(&self) -> &BTreeMap<String, String> {
        &self.versions
    }

    /// A hash of the whole content, hexadecimal.
    pub fn hash(&self) -> String {
        self.hash.to_hex().to_string()
    }

    /// Entries that contain every word of a text in their full name or family, in order.
    pub fn search(&self, text: &str) -> Vec<&Entry> {
        names::search(&self.entries, text)
    }

    /// The entry of a name: `torchvision/resnet50`, or `resnet50` alone.
    ///
    /// A name that several libraries have means that of timm, then torchvision's, then Hugging Face's. Capitals, `-`,
    /// `_` and `.` do not matter where that leaves one model.
    ///
    /// # Errors
    /// [`ZooError::Unknown`] with the nearest names.
    pub fn find(&self, name: &str) -> Result<&Entry> {
        names::find(&self.entries, name)
    }

    /// Opens the graph of an entry of this zoo.
    ///
    /// # Errors
    /// A damaged group, and a graph that is not what its entry says.
    pub fn graph(&self, entry: &Entry) -> Result<Graph> {
        let text = container::text(&self.bytes, &self.groups, entry, &self.what)?;
        let graph = json::parse(&text, &format!("{} of {}", entry.full_name(), self.what))?;
        if (graph.parameter_count(), graph.nodes().len() as u64) != (entry.parameters, entry.operators) {
            return Err(ZooError::Damaged {
                what: self.what.clone(),
                at: entry.full_name(),
                expected: format!("{} parameters, {} operators", entry.parameters, entry.operators),
                found: format!("{} and {}", graph.parameter_count(), graph.nodes().len()),
            });
        }
        Ok(graph)
    }

    /// The graph of a name as in [`Zoo::find`], shared with everyone who holds it already.
    ///
    /// # Errors
    /// As [`Zoo::find`] and [`Zoo::graph`].
    pub fn graph_by_name(&self, name: &str) -> Result<Arc<Graph>> {
        let entry = self.find(name)?;
        let key = entry.full_name();
        // Whoever panicked while holding the lock left the map whole.
        let held = || self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(graph) = held().get(&key).and_then(Weak::upgrade) {
            return Ok(graph);
        }
        let graph = Arc::new(self.graph(entry)?);
        held().insert(key, Arc::downgrade(&graph));
        Ok(graph)
    }
}
