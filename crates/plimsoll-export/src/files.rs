//! Files that are either the old one or the new one, never half of it.

use std::io::Write;
use std::path::Path;

use plimsoll_dataset::output_path;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ExportError, Result};

/// The largest JSON file that is read.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// Makes a folder, and those above it.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|source| ExportError::File {
        action: "create",
        path: folder.into(),
        source,
    })
}

/// Writes under a temporary name in the same folder, then renames: a full disk or a kill loses nothing.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |source| ExportError::File { action: "write", path: path.into(), source };
    let target = output_path(path).map_err(failed)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".plimsoll-").suffix(".tmp");
    // Temporary files are private by default; results are as readable as any other file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Writes a value as JSON, indented.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("our own types always serialise");
    bytes.push(b'\n');
    write(path, &bytes)
}

/// Reads JSON.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, expected: &str) -> Result<T> {
    let content = |found: String| ExportError::Content { path: path.into(), expected: expected.into(), found };
    let failed = |source| ExportError::File { action: "read", path: path.into(), source };
    let found = std::fs::metadata(path).map_err(failed)?.len();
    if found > MAX_JSON_BYTES {
        return Err(content(format!("{found} bytes")));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    serde_json::from_slice(&bytes).map_err(|error| content(error.to_string()))
}
