//! The seal of files that Plimsoll writes: a fingerprint of all their bytes, checked before anything is decoded.
//!
//! Polars ends the whole process on some damaged pages, so damage has to be told before it sees them. The seal stands
//! between the last page and the footer. Parquet finds everything by its distance from the start of the file, and all
//! of that lies before the seal, so that other readers pass over it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use blake3::{Hash, Hasher, OUT_LEN};

use super::MAGIC;
use crate::error::{DatasetError, Result};

/// The key in the footer's metadata that says that a seal stands before it. Without it, damage to [`MARK`] would make
/// a file of ours pass for another's.
pub(super) const KEY: &str = "plimsoll.seal";

/// What stands under [`KEY`]: the version of the seal's layout.
pub(super) const VERSION: &str = "1";

/// The last bytes of a seal.
const MARK: [u8; 8] = *b"PLIMHASH";

/// What Polars signs its files with. Other writers take metadata over from the files that they read, [`KEY`] with it.
const WRITER: &[u8] = b"Polars";

/// A seal: BLAKE3 of everything before it, BLAKE3 of everything after it, the number of bytes before it, [`MARK`].
const LENGTH: usize = 2 * OUT_LEN + 8 + MARK.len();

/// The length of the footer, and the magic.
const END: u64 = 4 + MAGIC.len() as u64;

/// [`KEY`] is the last of the metadata, which is nearly the last of the footer.
const WHERE_KEY_IS: u64 = 64 << 10;

/// A larger footer is refused: it would be read into memory whole.
const MAX_FOOTER: u64 = 256 << 20;

/// The seal of a file whose footer is as it was written; the pages are checked by [`Seal::check`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Seal {
    content: Hash,
    length: u64,
}

/// Puts the seal into a finished file. Nothing but the footer moves.
pub(super) fn seal(mut file: &File) -> io::Result<()> {
    let footer = read_footer(file)?.ok_or(io::ErrorKind::InvalidData)?;
    let length = file.metadata()?.len() - footer.len() as u64;
    let content = hash_start(file, length)?;
    file.seek(SeekFrom::Start(length))?;
    file.write_all(content.as_bytes())?;
    file.write_all(blake3::hash(&footer).as_bytes())?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(&MARK)?;
    file.write_all(&footer)
}

impl Seal {
    /// The seal of a file; `None` for a file that has none, which another program wrote.
    ///
    /// # Errors
    /// Files that do not end as Parquet does, and files of ours whose footer or seal is damaged.
    pub(super) fn find(file: &File, path: &Path) -> Result<Option<Self>> {
        let failed = |source| DatasetError::File { action: "read", path: path.into(), source };
        let damaged = |found: &str| DatasetError::Damaged {
            path: path.into(),
            expected: "what its seal was made of".into(),
            found: found.into(),
        };
        let footer = read_footer(file).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let start = footer.as_ref().map_or(0, |footer| size - footer.len() as u64);
        if let (Some(footer), Some(block)) = (&footer, read_block(file, start).map_err(failed)?) {
            let (content, rest) = block.split_at(OUT_LEN);
            let (ending, rest) = rest.split_at(OUT_LEN);
            let length = start - LENGTH as u64;
            if rest[..8] != length.to_le_bytes() {
                return Err(damaged(&format!("{length} bytes before it")));
            }
            if blake3::hash(footer) != *ending {
                return Err(damaged("another footer"));
            }
            let content = Hash::from_slice(content).map_err(|error| damaged(&error.to_string()))?;
            return Ok(Some(Self { content, length }));
        }
        if says_sealed(file, size).map_err(failed)? {
            return Err(damaged("no seal where it should be"));
        }
        if footer.is_none() {
            return Err(DatasetError::Parquet {
                action: "read",
                path: path.into(),
                source: super::read::damaged("it does not end as Parquet does, so it was cut or is something else"),
            });
        }
        Ok(None)
    }

    /// Reads all pages once and compares.
    ///
    /// # Errors
    /// Pages that are not as they were written.
    pub(super) fn check(&self, file: &File, path: &Path) -> Result<()> {
        let found = hash_start(file, self.length).map_err(|source| DatasetError::File {
            action: "read",
            path: path.into(),
            source,
        })?;
        if found == self.content {
            return Ok(());
        }
        let short = |hash: &Hash| hash.to_hex()[..12].to_owned();
        Err(DatasetError::Damaged {
            path: path.into(),
            expected: format!("the content of fingerprint {}", short(&self.content)),
            found: format!("content of fingerprint {}", short(&found)),
        })
    }
}

/// The footer with its length and the magic; `None` if the file does not end like that.
fn read_footer(file: &File) -> io::Result<Option<Vec<u8>>> {
    let size = file.metadata()?.len();
    let Some(end) = size.checked_sub(END) else { return Ok(None) };
    let end = read_range(file, end, END)?;
    let Some((length, MAGIC)) = end.split_first_chunk() else { return Ok(None) };
    let footer = u64::from(u32::from_le_bytes(*length)) + END;
    match size.checked_sub(footer) {
        Some(start) if start >= MAGIC.len() as u64 && footer <= MAX_FOOTER => read_range(file, start, footer).map(Some),
        _ => Ok(None),
    }
}

/// The bytes of the seal that ends at `end`, if one does.
fn read_block(file: &File, end: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(start) = end.checked_sub(LENGTH as u64) else { return Ok(None) };
    Ok(Some(read_range(file, start, LENGTH as u64)?).filter(|block| block.ends_with(&MARK)))
}

/// Whether the end of a file, wherever its parts should be, is of a file with a seal.
fn says_sealed(file: &File, size: u64) -> io::Result<bool> {
    let length = size.min(WHERE_KEY_IS);
    let end = read_range(file, size - length, length)?;
    let has = |text: &[u8]| end.windows(text.len()).any(|window| window == text);
    Ok(has(&MARK) || (has(KEY.as_bytes()) && has(WRITER)))
}

fn read_range(mut file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length as usize);
    file.seek(SeekFrom::Start(start))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The fingerprint of the first bytes of a file.
fn hash_start(mut file: &File, length: u64) -> io::Result<Hash> {
    let mut hasher = Hasher::new();
    file.seek(SeekFrom::Start(0))?;
    hasher.update_reader(file.take(length))?;
    Ok(hasher.finalize())
}
