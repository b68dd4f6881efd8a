//! Columns of a Parquet file, checked.

use std::fs::File;
use std::path::Path;

use plimsoll_dataset::UTILISATION;
use polars::prelude::{Column, DataFrame, ParquetReader, SerReader};

use crate::error::{EvaluationError, Result};

/// A frame that knows which file it came from.
pub(super) struct Table<'a> {
    path: &'a Path,
    frame: DataFrame,
}

impl<'a> Table<'a> {
    /// Reads a whole file.
    pub(super) fn read(path: &'a Path) -> Result<Self> {
        let failed = |source| EvaluationError::File { action: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let failed = |source| EvaluationError::Parquet { action: "read", path: path.to_owned(), source };
        let frame = ParquetReader::new(file).finish().map_err(failed)?;
        Ok(Self { path, frame })
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.frame.height()
    }

    fn column(&self, name: &str, kind: &str) -> Result<&Column> {
        self.frame.column(name).map_err(|_| self.layout(name, kind, "no such column"))
    }

    fn layout(&self, name: &str, kind: &str, found: &str) -> EvaluationError {
        EvaluationError::Layout {
            path: self.path.to_owned(),
            expected: format!("a column `{name}` of {kind}"),
            found: found.to_owned(),
        }
    }

    /// The error for a value that is not allowed.
    pub(super) fn refuse(
        &self,
        row: usize,
        column: &'static str,
        expected: &'static str,
        found: &str,
    ) -> EvaluationError {
        EvaluationError::Value {
            path: self.path.to_owned(),
            row: row + 1,
            column,
            expected,
            found: format!("`{found}`"),
        }
    }

    /// A column of text, filled in every row.
    pub(super) fn text(&self, name: &'static str) -> Result<Vec<String>> {
        let column = self.column(name, "text")?;
        let values = column.str().map_err(|_| self.layout(name, "text", &column.dtype().to_string()))?;
        let values = values.iter().enumerate();
        values
            .map(|(row, value)| Ok(value.ok_or_else(|| self.refuse(row, name, "text", "nothing"))?.to_owned()))
            .collect()
    }

    /// A column of whole numbers.
    pub(super) fn whole(&self, name: &str) -> Result<Vec<Option<u64>>> {
        let column = self.column(name, "whole numbers")?;
        let values = column.u64().map_err(|_| self.layout(name, "whole numbers", &column.dtype().to_string()))?;
        Ok(values.iter().collect())
    }

    /// A column of numbers.
    pub(super) fn number(&self, name: &str) -> Result<Vec<Option<f64>>> {
        let column = self.column(name, "numbers")?;
        let values = column.f64().map_err(|_| self.layout(name, "numbers", &column.dtype().to_string()))?;
        Ok(values.iter().collect())
    }

    /// The six utilisation columns with this prefix, as ratios.
    pub(super) fn utilisation(&self, prefix: &str) -> Result<Vec<Vec<Option<f64>>>> {
        let columns = UTILISATION.into_iter().map(|metric| {
            let values = self.number(&format!("{prefix}{metric}"))?.into_iter();
            Ok(values.map(|value| value.map(|value| value / metric.per_ratio())).collect())
        });
        columns.collect()
    }
}
