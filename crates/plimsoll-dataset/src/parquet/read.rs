//! Reading a Parquet file one row group at a time.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polars::error::{ErrString, PolarsError, PolarsResult};
use polars::prelude::{DataFrame, FileMetadata, ParallelStrategy, ParquetReader, SerReader};

use crate::error::{DatasetError, Result};

/// The row groups of a file. Only the one asked for is in memory.
pub(crate) struct RowGroups {
    path: PathBuf,
    file: File,
    bytes: u64,
    columns: Vec<String>,
    metadata: Arc<FileMetadata>,
    /// The metadata without row groups, which is what each group's own starts from.
    frame: FileMetadata,
    next: usize,
}

impl RowGroups {
    /// A larger row group than this, uncompressed, is refused: reading it would take the memory that row groups are
    /// there to save.
    pub(crate) const MAX_GROUP_BYTES: u64 = 4 << 30;

    /// Reads the footer of a file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |source| DatasetError::File { action: "read", path: path.into(), source };
        let mut file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let opened = guarded(|| {
            let mut reader = ParquetReader::new(&mut file);
            let columns = reader.schema()?.iter_names().map(ToString::to_string).collect();
            PolarsResult::Ok((columns, Arc::clone(reader.get_metadata()?)))
        });
        let (columns, metadata) =
            opened.map_err(|source| DatasetError::Parquet { action: "read", path: path.into(), source })?;
        let frame = FileMetadata { row_groups: Vec::new(), ..FileMetadata::clone(&metadata) };
        Ok(Self { path: path.into(), file, bytes, columns, metadata, frame, next: 0 })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the columns.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of rows in all groups.
    pub(crate) fn rows(&self) -> usize {
        self.metadata.num_rows
    }

    /// The value of a key in the file's own metadata.
    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        let pairs = self.metadata.key_value_metadata().as_ref()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// Fails unless every one of these columns is there.
    pub(crate) fn require(&self, names: &[&str], what: &str) -> Result<()> {
        let missing: Vec<&str> =
            names.iter().copied().filter(|name| !self.columns.iter().any(|column| column == name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(DatasetError::Layout {
            path: self.path.clone(),
            expected: format!("the columns of {what}"),
            found: format!("no `{}`", missing.join("`, `")),
        })
    }

    /// Where in the file a row group stands.
    #[cfg(test)]
    pub(super) fn group_range(&self, index: usize) -> std::ops::Range<usize> {
        let ranges: Vec<_> = self.metadata.row_groups[index].byte_ranges_iter().collect();
        let start = ranges.iter().map(|range| range.start).min().unwrap_or_default();
        let end = ranges.iter().map(|range| range.end).max().unwrap_or_default();
        start as usize..end as usize
    }

    /// The next row group; `None` after the last.
    pub(crate) fn next_group(&mut self) -> Option<Result<Chunk>> {
        let group = self.metadata.row_groups.get(self.next)?;
        self.next += 1;
        let failed = |source| DatasetError::Parquet { action: "read", path: self.path.clone(), source };
        let size = group.total_byte_size() as u64;
        if size > Self::MAX_GROUP_BYTES {
            return Some(Err(DatasetError::Layout {
                path: self.path.clone(),
                expected: format!("row groups of at most {} bytes", Self::MAX_GROUP_BYTES),
                found: format!("one of {size} bytes"),
            }));
        }
        if let Some(range) = group.byte_ranges_iter().find(|range| range.end > self.bytes || range.start > range.end) {
            let message = format!("a column stands at bytes {} to {} of {}", range.start, range.end, self.bytes);
            return Some(Err(failed(damaged(&message))));
        }
        // A file of this one group, as far as the reader can tell.
        let single = FileMetadata {
            num_rows: group.num_rows(),
            max_row_group_height: group.num_rows(),
            row_groups: vec![group.clone()],
            ..self.frame.clone()
        };
        let file = &mut self.file;
        let read = guarded(|| {
            let mut reader = ParquetReader::new(file).read_parallel(ParallelStrategy::Columns).set_rechunk(true);
            reader.set_metadata(Arc::new(single));
            reader.finish()
        });
        Some(read.map(|frame| Chunk { path: self.path.clone(), frame }).map_err(failed))
    }
}

/// Rows of one group.
pub(crate) struct Chunk {
    path: PathBuf,
    frame: DataFrame,
}

impl Chunk {
    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.frame.height()
    }

    /// The table itself.
    pub(crate) fn frame(&self) -> &DataFrame {
        &self.frame
    }

    /// A column of text.
    pub(crate) fn text(&self, name: &str) -> Result<Vec<Option<&str>>> {
        self.try_column(|frame| Ok(frame.column(name)?.str()?.iter().collect()))
    }

    /// A column of bytes.
    pub(crate) fn binary(&self, name: &str) -> Result<Vec<Option<&[u8]>>> {
        self.try_column(|frame| Ok(frame.column(name)?.binary()?.iter().collect()))
    }

    /// A column of `f64`.
    pub(crate) fn doubles(&self, name: &str) -> Result<Vec<Option<f64>>> {
        self.try_column(|frame| Ok(frame.column(name)?.f64()?.iter().collect()))
    }

    /// A column of `f32`.
    pub(crate) fn singles(&self, name: &str) -> Result<Vec<Option<f32>>> {
        self.try_column(|frame| Ok(frame.column(name)?.f32()?.iter().collect()))
    }

    /// A column of `u64`.
    pub(crate) fn counts(&self, name: &str) -> Result<Vec<Option<u64>>> {
        self.try_column(|frame| Ok(frame.column(name)?.u64()?.iter().collect()))
    }

    fn try_column<'a, T>(&'a self, read: impl FnOnce(&'a DataFrame) -> PolarsResult<T>) -> Result<T> {
        read(&self.frame).map_err(|source| DatasetError::Parquet { action: "read", path: self.path.clone(), source })
    }
}

/// Polars panics on some damaged files where it should fail; to a caller, both are a file that cannot be read.
fn guarded<T>(read: impl FnOnce() -> PolarsResult<T>) -> PolarsResult<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("it does not decode");
        Err(damaged(message))
    })
}

fn damaged(message: &str) -> PolarsError {
    PolarsError::ComputeError(ErrString::from(format!("the file is damaged: {message}")))
}
