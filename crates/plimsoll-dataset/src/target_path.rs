//! Where an output file really goes.
//!
//! Files are written under a temporary name and renamed, and a rename puts a file in place of whatever bears the
//! name: a link, or, for root, a device such as `/dev/null`.

use std::fs::FileType;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Links that are followed to a target that is not there yet. The operating system allows 40.
const MAX_LINKS: usize = 40;

/// The name that a file written to `path` is to be given by a rename: the end of the links, if it is one, whether or
/// not anything is there. The temporary file belongs in the folder of the result.
///
/// # Errors
/// What is there is no regular file, or cannot be looked at.
pub fn output_path(path: &Path) -> Result<PathBuf> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("expected a regular file or a free name, found {}", kind(found.file_type())),
        )),
        // The name as it was given reads better in what comes after, and is enough.
        Ok(_) if !path.is_symlink() => Ok(path.into()),
        Ok(_) => std::fs::canonicalize(path),
        Err(error) if error.kind() == ErrorKind::NotFound => dangling(path),
        Err(error) => Err(error),
    }
}

/// The free name at the end of links.
fn dangling(path: &Path) -> Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..=MAX_LINKS {
        if !path.is_symlink() {
            return Ok(path);
        }
        // A relative link starts from the folder it lies in; joining an absolute one forgets the folder.
        let next = std::fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(Error::new(ErrorKind::InvalidInput, format!("expected at most {MAX_LINKS} links, found more")))
}

fn kind(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        return "a folder";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file_type.is_char_device() || file_type.is_block_device() {
            return "a device";
        }
        if file_type.is_fifo() {
            return "a pipe";
        }
        if file_type.is_socket() {
            return "a socket";
        }
    }
    "something else"
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refusal(path: &Path) -> String {
        output_path(path).expect_err("refused").to_string()
    }

    #[test]
    fn free_names_and_files_stay_as_they_are() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("file");
        assert_eq!(output_path(&file).expect("free"), file);
        std::fs::write(&file, "old").expect("written");
        assert_eq!(output_path(&file).expect("a file"), file);
        let deeper = folder.path().join("no/such/folder");
        assert_eq!(output_path(&deeper).expect("free, whether or not its folder is there"), deeper);
        assert_eq!(output_path(Path::new("no-such-name")).expect("free"), Path::new("no-such-name"));
        assert!(output_path(&file.join("below-a-file")).is_err());
    }

    #[test]
    fn links_lead_to_their_targets() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let root = folder.path().canonicalize().expect("there");
        std::fs::create_dir(root.join("deep")).expect("created");
        let (link, chain, target) = (root.join("link"), root.join("chain"), root.join("deep/file"));
        symlink("deep/file", &link).expect("linked");
        symlink(&link, &chain).expect("linked");
        for path in [&link, &chain] {
            assert_eq!(output_path(path).expect("dangling"), target);
        }
        std::fs::write(&target, "old").expect("written");
        for path in [&link, &chain] {
            assert_eq!(output_path(path).expect("a file"), target);
        }
        symlink("circle", root.join("circle")).expect("linked");
        assert!(output_path(&root.join("circle")).is_err());
    }

    #[test]
    fn what_a_file_must_not_replace_is_refused() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let link = folder.path().join("link");
        assert_eq!(refusal(folder.path()), "expected a regular file or a free name, found a folder");
        symlink(folder.path(), &link).expect("linked");
        assert_eq!(refusal(&link), "expected a regular file or a free name, found a folder");
        // Only looked at: nothing is written.
        let device = "expected a regular file or a free name, found a device";
        assert_eq!(refusal(Path::new("/dev/null")), device);
        std::fs::remove_file(&link).expect("removed");
        symlink("/dev/null", &link).expect("linked");
        assert_eq!(refusal(&link), device);
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        assert_eq!(refusal(&socket), "expected a regular file or a free name, found a socket");
    }
}
