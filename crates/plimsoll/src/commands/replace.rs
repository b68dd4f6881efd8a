//! Files that are either the old one or the new one, never half of it.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use plimsoll_dataset::output_path;

/// Writes a file under a temporary name first: whoever reads it sees all of it or the one before.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = || -> std::io::Result<()> {
        let target = output_path(path)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".plimsoll-").suffix(".tmp");
        // Temporary files are private by default; results are as readable as any other file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(folder(&target))?;
        file.write_all(bytes)?;
        file.persist(&target)?;
        Ok(())
    };
    written().with_context(|| cannot_write(path))
}

/// What went wrong, if it did.
pub(super) fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The folder that a file lies in; a bare name lies in the current one.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
