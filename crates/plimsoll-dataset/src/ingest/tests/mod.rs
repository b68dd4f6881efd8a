//! What every layout promises, on small files written here.

mod files;
mod gpumemnet;
mod layouts;
mod table;

use std::path::{Path, PathBuf};

use plimsoll_graph::{GpuCatalogue, json};

use super::{IngestCounts, IngestOptions, ingest_all};
use crate::error::Result;
use crate::fixtures;
use crate::measurement::{Measurement, Rejection};

/// A folder that goes away with the test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("temporary folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("creates");
        std::fs::write(&path, content).expect("writes");
        path
    }

    /// The fixture's graph as a file.
    fn write_graph(&self, name: &str) -> PathBuf {
        self.write(name, json::write(&fixtures::graph(3)))
    }
}

type Rows = (Vec<Measurement>, Vec<Rejection>, IngestCounts);

fn read_with(path: &Path, options: &IngestOptions) -> Result<Rows> {
    let rows = ingest_all(&[path.into()], options, GpuCatalogue::built_in());
    if let Ok((accepted, rejected, counts)) = &rows {
        assert_eq!((accepted.len(), rejected.len()), (counts.accepted, counts.rejected));
        assert!(rejected.iter().all(|rejection| !rejection.reason.is_empty() && !rejection.id.is_empty()));
    }
    rows
}

fn read(path: &Path) -> Result<Rows> {
    read_with(path, &IngestOptions::default())
}

/// The reason of the only row, which is rejected.
fn only_reason(path: &Path) -> String {
    let (accepted, mut rejected, _) = read(path).expect("readable");
    assert_eq!((accepted.len(), rejected.len()), (0, 1), "{rejected:?}");
    rejected.remove(0).reason
}

/// The message of the error that the whole file is.
fn failure(path: &Path) -> String {
    read(path).expect_err("not readable").to_string()
}
