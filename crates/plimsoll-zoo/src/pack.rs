//! Making a container of graph files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_graph::{Graph, GraphError, json};
use serde_json::Value;

use crate::container::{self, Index, IndexEntry, IndexGroup};
use crate::entry::{Library, is_name};
use crate::error::{Result, ZooError};

/// A group is closed before its text grows beyond this, unless one graph is larger: the more variants of an
/// architecture are compressed together the smaller they get, and all of a group is decompressed for one of them.
const GROUP_BYTES: usize = 4 << 20;

/// The file of a folder that says which versions the models were captured from.
const VERSIONS: &str = "versions.json";

/// A packed container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The file's content. The same graphs give the same bytes.
    pub bytes: Vec<u8>,
    /// How many graphs it holds.
    pub graphs: usize,
    /// Length of their texts.
    pub text_bytes: u64,
}

/// Packs the graph files `FOLDER/{timm,torchvision,hf}/NAME.json`.
///
/// Every graph is read and checked. `FOLDER/versions.json`, an object of names and versions, is kept in the index if it
/// is there; whatever else lies in the folders is left alone. `progress` hears how many of how many graphs are done.
///
/// # Errors
/// A folder without graphs; a name that is more than letters, digits, `.`, `_`, `-` and `+`; every graph that
/// [`json::parse`] refuses.
pub fn pack(folder: &Path, mut progress: impl FnMut(usize, usize)) -> Result<Packed> {
    let sources = sources(folder)?;
    if sources.is_empty() {
        let libraries = Library::ALL.map(Library::name).join(", ");
        return Err(ZooError::Source {
            path: folder.into(),
            expected: format!("graphs as NAME.json in folders of the names {libraries}"),
            found: "none".into(),
        });
    }
    let mut packer = Packer::default();
    for (done, source) in sources.iter().enumerate() {
        progress(done, sources.len());
        packer.add(source)?;
    }
    packer.close();
    progress(sources.len(), sources.len());
    let index = Index { versions: versions(&folder.join(VERSIONS))?, groups: packer.index };
    Ok(Packed {
        bytes: container::assemble(&index, &packer.groups),
        graphs: sources.len(),
        text_bytes: packer.text_bytes,
    })
}

/// A graph file.
struct Source {
    library: Library,
    name: String,
    path: PathBuf,
}

/// All graph files, by library and name.
fn sources(folder: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for library in Library::ALL {
        let folder = folder.join(library.name());
        if !folder.is_dir() {
            continue;
        }
        let failed = |source| ZooError::Read { path: folder.clone(), source };
        for file in fs::read_dir(&folder).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if !is_name(&name) {
                return Err(ZooError::Source {
                    path,
                    expected: "a file name of at most 128 letters, digits, `.`, `_`, `-` and `+`".into(),
                    found: "another".into(),
                });
            }
            sources.push(Source { library, name, path });
        }
    }
    sources.sort_by(|a, b| (a.library, &a.name).cmp(&(b.library, &b.name)));
    Ok(sources)
}

/// The versions that a folder names, none if it has no such file.
fn versions(path: &Path) -> Result<BTreeMap<String, String>> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = json::read_text(path, 1 << 20)?;
    serde_json::from_str(&text).map_err(|error| ZooError::Source {
        path: path.into(),
        expected: "an object of names and versions".into(),
        found: error.to_string(),
    })
}

/// Groups being filled.
#[derive(Default)]
struct Packer {
    index: Vec<IndexGroup>,
    groups: Vec<Vec<u8>>,
    entries: Vec<IndexEntry>,
    text: String,
    text_bytes: u64,
}

impl Packer {
    fn add(&mut self, source: &Source) -> Result<()> {
        let (text, graph) = read(&source.path)?;
        if !self.text.is_empty() && self.text.len() + text.len() > GROUP_BYTES {
            self.close();
        }
        self.entries.push(IndexEntry {
            library: source.library,
            name: source.name.clone(),
            family: graph.family(),
            parameters: graph.parameter_count(),
            operators: graph.nodes().len() as u64,
            inputs: graph.inputs().iter().map(|id| graph.tensor(*id).shape.clone()).collect(),
            bytes: text.len() as u64,
        });
        self.text_bytes += text.len() as u64;
        self.text.push_str(&text);
        Ok(())
    }

    fn close(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let bytes = container::compress(self.text.as_bytes());
        self.index.push(IndexGroup {
            bytes: bytes.len() as u64,
            hash: blake3::hash(&bytes).to_hex().to_string(),
            graphs: std::mem::take(&mut self.entries),
        });
        self.groups.push(bytes);
        self.text.clear();
    }
}

/// A graph file's text without blanks between its parts, and the graph.
fn read(path: &Path) -> Result<(String, Graph)> {
    let text = json::read_text(path, json::MAX_FILE_BYTES)?;
    let what = path.display().to_string();
    let graph = json::parse(&text, &what)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let value: Value = serde_json::from_str(text).map_err(|error| GraphError::Malformed {
        what: what.clone(),
        at: format!("line {}, column {}", error.line(), error.column()),
        expected: "JSON".into(),
        found: error.to_string(),
    })?;
    let compact = serde_json::to_string(&value).expect("what was parsed serialises");
    Ok((compact, graph))
}
