//! Writing a Parquet file in row groups, whole or not at all.

use std::fs::File;
use std::path::{Path, PathBuf};

use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{Column, DataFrame, KeyValueMetadata, ParquetCompression, ParquetWriter, StatisticsOptions};
use tempfile::NamedTempFile;

use super::seal::{KEY, VERSION, seal};
use crate::error::{DatasetError, Result};
use crate::target_path::output_path;

/// A Parquet file in the making. It stands under a temporary name until [`RowGroupWriter::finish`] puts it in its
/// place, so that a reader never meets half a file; dropped before that, it leaves nothing behind.
pub(super) struct RowGroupWriter {
    path: PathBuf,
    /// Where `path` leads: another name if it is a link.
    target: PathBuf,
    temporary: NamedTempFile,
    writer: BatchedWriter<File>,
}

impl RowGroupWriter {
    /// Starts a file with the columns of `empty`, which has no rows.
    pub(super) fn create(path: &Path, empty: Vec<Column>, mut metadata: Vec<(String, String)>) -> Result<Self> {
        let failed = |source| DatasetError::File { action: "create", path: path.into(), source };
        let target = output_path(path).map_err(failed)?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".plimsoll-").suffix(".tmp");
        // Temporary files are private by default; this one becomes a file like any other.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(folder).map_err(failed)?;
        let file = temporary.reopen().map_err(failed)?;
        // The last, so that it stands near the end of the file.
        metadata.push((KEY.to_owned(), VERSION.to_owned()));
        let start = || {
            let empty = DataFrame::new(0, empty)?;
            ParquetWriter::new(file)
                .with_compression(ParquetCompression::Zstd(None))
                // Nothing here is looked up by value.
                .with_statistics(StatisticsOptions::empty())
                .with_key_value_metadata(Some(KeyValueMetadata::from_static(metadata)))
                .batched(empty.schema())
        };
        let writer = start().map_err(|source| DatasetError::Parquet { action: "write", path: path.into(), source })?;
        Ok(Self { path: path.into(), target, temporary, writer })
    }

    /// Writes one row group.
    pub(super) fn write(&mut self, rows: usize, columns: Vec<Column>) -> Result<()> {
        let written = DataFrame::new(rows, columns).and_then(|group| self.writer.write_batch(&group));
        written.map_err(|source| DatasetError::Parquet { action: "write", path: self.path.clone(), source })
    }

    /// Ends the file, seals it and gives it its name, in place of what bore it before.
    pub(super) fn finish(self) -> Result<()> {
        let Self { path, target, temporary, writer } = self;
        writer.finish().map_err(|source| DatasetError::Parquet { action: "write", path: path.clone(), source })?;
        let failed = |source| DatasetError::File { action: "write", path: path.clone(), source };
        seal(temporary.as_file()).map_err(failed)?;
        temporary.as_file().sync_all().map_err(failed)?;
        temporary.persist(&target).map_err(|error| failed(error.error))?;
        Ok(())
    }
}
