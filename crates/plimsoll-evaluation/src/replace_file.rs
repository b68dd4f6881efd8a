//! Files that are either the old one or the new one, never half of it.

use std::io::{BufWriter, Write};
use std::path::Path;

use plimsoll_dataset::output_path;
use tempfile::NamedTempFile;

use crate::error::{EvaluationError, Result};

/// Writes under a temporary name in the same folder, then renames: whoever reads sees a whole file, and a failure
/// leaves the old one as it was.
pub(crate) fn replace_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut NamedTempFile>) -> Result<()>,
) -> Result<()> {
    let failed = |action, source| EvaluationError::File { action, path: path.to_owned(), source };
    let target = output_path(path).map_err(|source| failed("write", source))?;
    let folder = folder_of(&target);
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
    file.persist(&target).map_err(|error| failed("write", error.error))?;
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_and_its_target_is_replaced() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (link, target) = (folder.path().join("link"), folder.path().join("deep/file"));
        std::os::unix::fs::symlink("deep/file", &link).expect("linked");
        for text in ["free", "there"] {
            replace_text(&link, text).expect("written");
            assert!(link.is_symlink());
            assert_eq!(std::fs::read_to_string(&target).expect("read"), text);
        }
        let error = replace_text(folder.path(), "no").expect_err("a folder").to_string();
        assert!(error.ends_with("expected a regular file or a free name, found a folder"), "{error}");
    }
}
