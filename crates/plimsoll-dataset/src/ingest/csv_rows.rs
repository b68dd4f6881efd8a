//! CSV, row by row, with a cap on what one row may take.

use std::cell::Cell;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder, StringRecord};

use super::columns::Header;
use crate::error::{DatasetError, Result};
use crate::measurement::Rejection;

/// Rows of a CSV file under its header.
pub(super) struct CsvRows {
    path: PathBuf,
    reader: csv::Reader<Capped>,
    since_row: Rc<Cell<u64>>,
    header: Header,
    bytes: ByteRecord,
    text: StringRecord,
}

/// A row that cannot even be split into cells.
pub(super) struct BrokenRow {
    pub(super) reason: String,
    pub(super) content: String,
}

/// Counts what is read, and stops when one row takes too much: an unclosed quote would swallow the rest of the file.
struct Capped {
    file: File,
    since_row: Rc<Cell<u64>>,
}

impl Read for Capped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_row.get() > CsvRows::MAX_ROW_BYTES {
            return Err(io::Error::other(RowTooLong));
        }
        let count = self.file.read(buffer)?;
        self.since_row.set(self.since_row.get() + count as u64);
        Ok(count)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a row is too long")]
struct RowTooLong;

impl CsvRows {
    /// The longest row that is read.
    const MAX_ROW_BYTES: u64 = 16 << 20;

    /// Opens a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file =
            File::open(path).map_err(|source| DatasetError::File { action: "read", path: path.into(), source })?;
        let since_row = Rc::new(Cell::new(0));
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(Capped { file, since_row: Rc::clone(&since_row) });
        let mut rows = Self {
            path: path.into(),
            reader,
            since_row,
            header: Header::default(),
            bytes: ByteRecord::new(),
            text: StringRecord::new(),
        };
        if !rows.advance()? {
            return Err(DatasetError::Empty { what: path.display().to_string(), expected: "a header and rows".into() });
        }
        let header = StringRecord::from_byte_record_lossy(std::mem::take(&mut rows.bytes));
        rows.header = Header::new(path, header.iter())?;
        Ok(rows)
    }

    /// Names of the columns.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// The next row with the line it starts on.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Result<&StringRecord, BrokenRow>)>> {
        if !self.advance()? {
            return Ok(None);
        }
        let line = self.bytes.position().map_or(0, csv::Position::line);
        let broken = |reason: String, bytes: &ByteRecord| {
            let cells: Vec<_> = bytes.iter().map(String::from_utf8_lossy).collect();
            BrokenRow { reason, content: Rejection::shorten(&cells.join(",")) }
        };
        let (found, expected) = (self.bytes.len(), self.header.len());
        if found != expected {
            let which = if found < expected { "truncated, or of another layout" } else { "of another layout" };
            let reason = format!("the row has {found} fields where the header has {expected}: it is {which}");
            return Ok(Some((line, Err(broken(reason, &self.bytes)))));
        }
        match StringRecord::from_byte_record(std::mem::take(&mut self.bytes)) {
            Ok(text) => {
                self.text = text;
                Ok(Some((line, Ok(&self.text))))
            }
            Err(error) => {
                let column = error.utf8_error().field();
                let name = self.header.names().get(column).map_or("", String::as_str);
                Ok(Some((line, Err(broken(format!("`{name}` is not UTF-8"), &error.into_byte_record())))))
            }
        }
    }

    fn advance(&mut self) -> Result<bool> {
        self.since_row.set(0);
        let line = self.reader.position().line();
        self.reader.read_byte_record(&mut self.bytes).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(source) if source.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<RowTooLong>) => {
                DatasetError::Layout {
                    path: self.path.clone(),
                    expected: format!("rows of at most {} bytes", Self::MAX_ROW_BYTES),
                    found: format!("a longer one from line {line} on (is a quote left open?)"),
                }
            }
            csv::ErrorKind::Io(source) => DatasetError::File { action: "read", path: self.path.clone(), source },
            kind => DatasetError::Layout {
                path: self.path.clone(),
                expected: "CSV".into(),
                found: format!("{kind:?} near line {line}"),
            },
        })
    }
}
