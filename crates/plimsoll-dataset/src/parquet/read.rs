//! Reading a Parquet file one row group at a time.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polars::error::{ErrString, PolarsError, PolarsResult};
use polars::prelude::{DataFrame, FileMetadata, ParallelStrategy, ParquetReader, SerReader};

use super::limits::{Objection, check_group};
use super::seal::Seal;
use crate::error::{DatasetError, Result};

/// The row groups of a file. Only the one asked for is in memory.
pub(crate) struct RowGroups {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// What the pages are still to be compared with.
    seal: Option<Seal>,
    columns: Vec<String>,
    metadata: Arc<FileMetadata>,
    /// The metadata without row groups, which is what each group's own starts from.
    frame: FileMetadata,
    /// Columns to read; all where none are named.
    wanted: Option<Vec<String>>,
    next: usize,
}

impl RowGroups {
    /// Reads the footer of a file. Of a file of ours, it is certain to be what was written.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |source| DatasetError::File { action: "read", path: path.into(), source };
        let mut file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let seal = Seal::find(&file, path)?;
        let opened = guarded(|| {
            let mut reader = ParquetReader::new(&mut file);
            let columns = reader.schema()?.iter_names().map(ToString::to_string).collect();
            PolarsResult::Ok((columns, Arc::clone(reader.get_metadata()?)))
        });
        let failed = |source| DatasetError::Parquet { action: "read", path: path.into(), source };
        let (columns, metadata) = opened.map_err(failed)?;
        let rows = metadata.row_groups.iter().fold(0_usize, |sum, group| sum.saturating_add(group.num_rows()));
        if rows != metadata.num_rows {
            let message = format!("it should have {} rows, but its groups have {rows}", metadata.num_rows);
            return Err(failed(damaged(&message)));
        }
        let frame = FileMetadata { row_groups: Vec::new(), ..FileMetadata::clone(&metadata) };
        Ok(Self { path: path.into(), file, bytes, seal, columns, metadata, frame, wanted: None, next: 0 })
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

    /// Reads these columns alone from now on.
    pub(crate) fn only(mut self, names: &[&str]) -> Self {
        self.wanted = Some(names.iter().map(ToString::to_string).collect());
        self
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
    ///
    /// Before the first, all pages of a file of ours are compared with its seal. Files are also opened only to see what
    /// they are, which does not need that.
    pub(crate) fn next_group(&mut self) -> Option<Result<Chunk>> {
        if let Some(seal) = self.seal.take()
            && let Err(error) = seal.check(&self.file, &self.path)
        {
            self.next = self.metadata.row_groups.len();
            return Some(Err(error));
        }
        let index = self.next;
        let group = self.metadata.row_groups.get(index)?;
        self.next += 1;
        let failed = |source| DatasetError::Parquet { action: "read", path: self.path.clone(), source };
        match check_group(&self.metadata, index, self.bytes) {
            Ok(()) => {}
            Err(Objection::Damaged(message)) => return Some(Err(failed(damaged(&message)))),
            Err(Objection::TooLarge(expected, found)) => {
                return Some(Err(DatasetError::Layout { path: self.path.clone(), expected, found }));
            }
        }
        // A file of this one group, as far as the reader can tell.
        let single = FileMetadata {
            num_rows: group.num_rows(),
            max_row_group_height: group.num_rows(),
            row_groups: vec![group.clone()],
            ..self.frame.clone()
        };
        let (file, wanted) = (&mut self.file, self.wanted.clone());
        let read = guarded(|| {
            let mut reader = ParquetReader::new(file)
                .with_columns(wanted)
                .read_parallel(ParallelStrategy::Columns)
                .set_rechunk(true);
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

/// Damage in the words of Polars, for what it does not find itself.
pub(super) fn damaged(message: &str) -> PolarsError {
    PolarsError::ComputeError(ErrString::from(format!("the file is damaged: {message}")))
}
