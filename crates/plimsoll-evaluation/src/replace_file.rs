//! Files that are either the old one or the new one, never half of it.

use std::io::{BufWriter, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::error::{EvaluationError, Result};

/// Writes under a temporary name in the same folder, then renames: whoever reads sees a whole file, and a failure
/// leaves the old one as it was.
pub(crate) fn replace_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut NamedTempFile>) -> Result<()>,
) -> Result<()> {
    let failed = |action, source| EvaluationError::File { action, path: path.to_owned(), source };
    let folder = folder_of(path);
    std::fs::create_dir_all(folder).map_err(|source| failed("create", source))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".plimsoll-").suffix(".tmp");
    // Temporary files are private by default; results are as readable as any other file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(|source| failed("create", source))?;
    let mut writer = BufWriter::new(&mut file);
    write(&mut writer)?;
    writer.flush().map_err(|source| failed("write", source))?;
    drop(writer);
    file.persist(path).map_err(|error| failed("write", error.error))?;
    Ok(())
}

/// The folder that a file lies in; a bare name lies in the current one.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Writes a text whole.
pub(crate) fn replace_text(path: &Path, text: &str) -> Result<()> {
    replace_file(path, |writer| {
        writer.write_all(text.as_bytes()).map_err(|source| EvaluationError::File {
            action: "write",
            path: path.to_owned(),
            source,
        })
    })
}
