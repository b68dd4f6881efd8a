//! What a footer may say of a row group. Only files of other programs can fail here: ours are sealed.

use polars::prelude::FileMetadata;

/// A larger row group than this, uncompressed, is refused: reading it would take the memory that row groups are there
/// to save.
pub(super) const MAX_BYTES: u64 = 4 << 30;

/// A longer row group is refused for the same reason: rows that are all alike take no bytes in a file, but some in
/// memory.
pub(super) const MAX_ROWS: usize = 1 << 28;

/// Why a row group is not read.
pub(super) enum Objection {
    /// It is too large: what is read at most, and what it is.
    TooLarge(String, String),
    /// The footer contradicts the file or itself.
    Damaged(String),
}

/// Compares what the footer says of a row group with the length of the file, with our limits and with itself.
pub(super) fn check_group(metadata: &FileMetadata, index: usize, file_bytes: u64) -> Result<(), Objection> {
    let group = &metadata.row_groups[index];
    let rows = group.num_rows();
    let size = |column: i64| u64::try_from(column).unwrap_or(u64::MAX);
    let columns = group.parquet_columns().iter();
    let in_columns = columns.fold(0_u64, |sum, column| sum.saturating_add(size(column.uncompressed_size())));
    let bytes = in_columns.max(group.total_byte_size() as u64);
    if bytes > MAX_BYTES || rows > MAX_ROWS {
        return Err(Objection::TooLarge(
            format!("row groups of at most {MAX_BYTES} bytes and {MAX_ROWS} rows"),
            format!("one of {bytes} bytes and {rows} rows"),
        ));
    }
    for column in group.parquet_columns() {
        let range = column.byte_range();
        if range.end > file_bytes || range.start > range.end {
            return Err(Objection::Damaged(format!(
                "a column stands at bytes {} to {} of {file_bytes}",
                range.start, range.end
            )));
        }
        let is_flat = column.descriptor().descriptor.max_rep_level == 0;
        if is_flat && usize::try_from(column.num_values()) != Ok(rows) {
            return Err(Objection::Damaged(format!("a column of {} values in {rows} rows", column.num_values())));
        }
    }
    Ok(())
}
