//! The bytes of a leaderboard file, bounded before a CSV reader sees them.
//!
//! A CSV reader keeps one offset a field and one record at a time, so that a device or a file of commas would take
//! many times its size in memory.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The largest file that is read: hundreds of thousands of rows.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The longest line that is read, heading or row; one that this program writes has some hundred bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// How much of a foreign heading an error shows.
const MAX_SHOWN_CHARS: usize = 500;

/// All bytes of a regular file, none of whose lines is too long.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    // Asked before the file is opened: opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        let found = if metadata.is_dir() { "a folder" } else { "a device or pipe" };
        return Err(Error::new(ErrorKind::InvalidInput, format!("expected a regular file, found {found}")));
    }
    check_size(metadata.len())?;
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    // The heading first: a large file of another kind is refused without reading it all.
    (&mut file).take(MAX_LINE_BYTES + 1).read_to_end(&mut bytes)?;
    check_lines(&bytes)?;
    // The file may have grown since it was asked for its size.
    let rest = (MAX_FILE_BYTES + 1).saturating_sub(bytes.len() as u64);
    file.take(rest).read_to_end(&mut bytes)?;
    check_size(bytes.len() as u64)?;
    check_lines(&bytes)?;
    Ok(bytes)
}

/// The text, or its beginning if it is long.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

fn check_size(found: u64) -> Result<()> {
    if found <= MAX_FILE_BYTES {
        return Ok(());
    }
    let text = format!("expected at most {MAX_FILE_BYTES} bytes, found {found}");
    Err(Error::new(ErrorKind::FileTooLarge, text))
}

fn check_lines(bytes: &[u8]) -> Result<()> {
    let mut lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
    if lines.any(|line| line.len() as u64 > MAX_LINE_BYTES) {
        let text = format!("expected lines of at most {MAX_LINE_BYTES} bytes, found a longer one");
        return Err(Error::new(ErrorKind::InvalidData, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_unread() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = read(folder.path()).expect_err("a folder").to_string();
        assert!(error.contains("found a folder"), "{error}");
        if cfg!(unix) {
            let error = read(Path::new("/dev/zero")).expect_err("a device").to_string();
            assert!(error.contains("regular file"), "{error}");
        }
    }

    #[test]
    fn a_file_over_the_limit_is_refused_unread() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("large.csv");
        // Without data: the size alone decides.
        File::create(&path).and_then(|file| file.set_len(MAX_FILE_BYTES + 1)).expect("written");
        let error = read(&path).expect_err("too large").to_string();
        assert!(error.contains("67108864") && error.contains("67108865"), "{error}");
    }

    #[test]
    fn the_longest_line_is_read_and_a_longer_one_is_not() {
        let longest = vec![b','; MAX_LINE_BYTES as usize];
        assert!(check_lines(&longest).is_ok());
        assert!(check_lines(&[&longest[..], b"\n", &longest[..]].concat()).is_ok());
        assert!(check_lines(&[&b"heading\n"[..], &longest[..], b","].concat()).is_err());
    }

    #[test]
    fn long_text_is_shortened_at_a_character() {
        assert_eq!(shortened("é"), "é");
        assert!(shortened(&"é".repeat(1000)).starts_with(&"é".repeat(MAX_SHOWN_CHARS)));
    }
}
