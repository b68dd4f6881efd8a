//! The container: one file for all graphs.
//!
//! ```text
//! 0   8 bytes   PLIMZOO and the version of the layout
//! 8   32 bytes  BLAKE3 of the index as it stands in the file
//! 40  4 bytes   length of the index, little-endian
//! 44  4 bytes   length of the index when decompressed
//! 48  index     zstd, JSON: versions, groups, and the entries of each group
//!     groups    zstd, one after the other, each the texts of its graphs one after the other
//! ```
//!
//! Graphs that stand next to each other are variants of one architecture and mostly the same text, so a group is
//! several times smaller than its graphs would be alone. Nothing in the index is an offset: places follow from
//! lengths, so that neither gaps nor overlaps can be written down. The index holds the hash of every group, so its own
//! hash stands for the whole content, and only what is read needs to be hashed.

use std::collections::{BTreeMap, HashSet};

use plimsoll_graph::{Family, Shape, json};
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Library, Place, is_name};
use crate::error::{Result, ZooError};

/// First bytes; the last is the version of the layout.
const MAGIC: [u8; 8] = *b"PLIMZOO\x01";
/// Where the index begins.
const HEADER_BYTES: usize = 48;
/// A longer index means a broken or hostile file: a thousand entries take 200 kB.
const MAX_INDEX_BYTES: usize = 16 << 20;
/// A group is decompressed whole, and a graph of the largest size that is read must fit into one.
const MAX_GROUP_BYTES: u64 = json::MAX_FILE_BYTES;
/// The slowest level: packing happens once, and decompressing does not depend on it.
const LEVEL: i32 = 22;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Index {
    /// Versions of the libraries that models were captured from, by name.
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) groups: Vec<IndexGroup>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexGroup {
    /// Compressed length.
    pub(crate) bytes: u64,
    /// BLAKE3 of the compressed bytes, hexadecimal.
    pub(crate) hash: String,
    pub(crate) graphs: Vec<IndexEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexEntry {
    pub(crate) library: Library,
    pub(crate) name: String,
    pub(crate) family: Family,
    pub(crate) parameters: u64,
    pub(crate) operators: u64,
    pub(crate) inputs: Vec<Shape>,
    /// Length of its text.
    pub(crate) bytes: u64,
}

/// Where a group lies, and what it must be.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    start: usize,
    end: usize,
    /// Length of the text.
    text_bytes: usize,
    hash: blake3::Hash,
}

/// What opening a container gives.
pub(crate) struct Opened {
    pub(crate) hash: blake3::Hash,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) groups: Vec<Group>,
    pub(crate) entries: Vec<Entry>,
}

/// Compresses the texts of a group.
pub(crate) fn compress(text: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(text, LEVEL).expect("compressing in memory cannot fail")
}

/// Puts a container together from its index and its compressed groups.
pub(crate) fn assemble(index: &Index, groups: &[Vec<u8>]) -> Vec<u8> {
    let text = serde_json::to_vec(index).expect("names and numbers always serialise");
    let compressed = compress(&text);
    let mut bytes = MAGIC.to_vec();
    bytes.extend(blake3::hash(&compressed).as_bytes());
    for length in [compressed.len(), text.len()] {
        bytes.extend(u32::try_from(length).expect("a thousand entries take 200 kB").to_le_bytes());
    }
    bytes.extend(compressed);
    bytes.extend(groups.iter().flatten());
    bytes
}

/// Reads the index and checks all that can be checked without the groups; `what` names the container in errors.
pub(crate) fn open(bytes: &[u8], what: &str) -> Result<Opened> {
    let damaged = |at: &str, expected: &str, found: String| ZooError::Damaged {
        what: what.into(),
        at: at.into(),
        expected: expected.into(),
        found,
    };
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES).filter(|(header, _)| header[..7] == MAGIC[..7])
    else {
        return Err(damaged("header", "a file that `plimsoll zoo --pack` wrote", "other content".into()));
    };
    if header[7] != MAGIC[7] {
        return Err(damaged("header", &format!("layout {}", MAGIC[7]), format!("layout {}", header[7])));
    }
    let length = |at: usize| header[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (compressed_bytes, text_bytes) = (length(40), length(44));
    if text_bytes > MAX_INDEX_BYTES {
        return Err(damaged("index", &format!("at most {MAX_INDEX_BYTES} bytes"), text_bytes.to_string()));
    }
    let Some((compressed, _)) = rest.split_at_checked(compressed_bytes) else {
        return Err(damaged("index", &format!("{compressed_bytes} bytes"), format!("{} bytes", rest.len())));
    };
    let hash = blake3::hash(compressed);
    if *hash.as_bytes() != header[8..40] {
        return Err(damaged("index", "the content that was written", "another hash".into()));
    }
    let text = decompress(compressed, text_bytes).map_err(|found| damaged("index", "zstd", found))?;
    let index: Index =
        serde_json::from_slice(&text).map_err(|error| damaged("index", "its layout", error.to_string()))?;
    place(index, hash, HEADER_BYTES + compressed_bytes, bytes.len())
        .map_err(|(at, expected, found)| damaged(&at, &expected, found))
}

/// Turns lengths into places, and holds that they fill the file. An error is its place, what is expected and found.
fn place(index: Index, hash: blake3::Hash, start: usize, end: usize) -> Result<Opened, (String, String, String)> {
    let mut opened = Opened { hash, versions: index.versions, groups: Vec::new(), entries: Vec::new() };
    let mut known = HashSet::new();
    let mut at = start;
    for (number, group) in index.groups.into_iter().enumerate() {
        let here = format!("group {number}");
        let mut text_bytes = 0_u64;
        for graph in group.graphs {
            let IndexEntry { library, name, family, parameters, operators, inputs, bytes } = graph;
            if !is_name(&name) || !known.insert((library, name.clone())) {
                return Err((here, "names of letters and digits, each once".into(), format!("{name:?}")));
            }
            let place = Place { group: number, start: text_bytes as usize, bytes: bytes as usize };
            opened.entries.push(Entry { library, name, family, parameters, operators, inputs, place });
            text_bytes = text_bytes.saturating_add(bytes);
            if text_bytes > MAX_GROUP_BYTES {
                return Err((here, format!("at most {MAX_GROUP_BYTES} bytes of text"), text_bytes.to_string()));
            }
        }
        let rest = (end - at) as u64;
        if group.bytes > rest {
            return Err((here, format!("{} bytes", group.bytes), format!("{rest} bytes")));
        }
        let hash = blake3::Hash::from_hex(&group.hash).map_err(|error| (here, "a hash".into(), error.to_string()))?;
        let group_end = at + group.bytes as usize;
        opened.groups.push(Group { start: at, end: group_end, text_bytes: text_bytes as usize, hash });
        at = group_end;
    }
    if at < end {
        return Err(("end".into(), format!("{at} bytes"), format!("{end} bytes")));
    }
    opened.entries.sort_by(|a, b| (&a.name, a.library).cmp(&(&b.name, b.library)));
    Ok(opened)
}

/// The text of an entry.
pub(crate) fn text(bytes: &[u8], groups: &[Group], entry: &Entry, what: &str) -> Result<String> {
    let damaged = |expected: &str, found: String| ZooError::Damaged {
        what: what.into(),
        at: format!("group {} with {}", entry.place.group, entry.name),
        expected: expected.into(),
        found,
    };
    // Lengths were checked when the container was opened.
    let group = &groups[entry.place.group];
    let compressed = &bytes[group.start..group.end];
    if blake3::hash(compressed) != group.hash {
        return Err(damaged("the content that was written", "another hash".into()));
    }
    let texts = decompress(compressed, group.text_bytes).map_err(|found| damaged("zstd", found))?;
    let text = texts[entry.place.start..][..entry.place.bytes].to_vec();
    String::from_utf8(text).map_err(|error| damaged("text in UTF-8", error.to_string()))
}

/// Exactly so many bytes, or what was found instead. Never takes more memory than that.
fn decompress(compressed: &[u8], bytes: usize) -> Result<Vec<u8>, String> {
    let text = zstd::bulk::decompress(compressed, bytes).map_err(|error| error.to_string())?;
    if text.len() == bytes { Ok(text) } else { Err(format!("{} bytes instead of {bytes}", text.len())) }
}
