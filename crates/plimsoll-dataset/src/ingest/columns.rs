//! Headers of tables, and which layout they belong to.

use std::path::Path;

use super::format::Format;
use crate::error::{DatasetError, Result};

/// Names of a table's columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Header {
    names: Vec<String>,
}

/// Columns without which a table is not in a layout.
pub(super) struct Required {
    pub(super) format: Format,
    /// Tells layouts of one format apart, such as `of CNNs`; may be empty.
    pub(super) variant: &'static str,
    pub(super) columns: &'static [&'static str],
}

impl Header {
    /// Checks that every name stands once.
    pub(super) fn new<'a>(path: &Path, names: impl Iterator<Item = &'a str>) -> Result<Self> {
        let names: Vec<String> = names.map(|name| name.trim_start_matches('\u{feff}').trim().to_owned()).collect();
        let mut sorted: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DatasetError::Layout {
                path: path.into(),
                expected: "every column once".into(),
                found: format!("`{}` twice", super::cells::short(pair[0])),
            });
        }
        Ok(Self { names })
    }

    /// How many columns there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The names in order.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where a column stands.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|column| column == name)
    }

    /// Whether a column is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Which of these columns are not there.
    pub(super) fn missing<'n>(&self, names: &[&'n str]) -> Vec<&'n str> {
        names.iter().copied().filter(|name| !self.has(name)).collect()
    }

    /// The error for a header that fits none of some layouts: it names what the nearest of them lacks.
    pub(super) fn unknown(&self, path: &Path, layouts: &[&Required]) -> DatasetError {
        let share = |layout: &&&Required| {
            let missing = self.missing(layout.columns).len();
            (layout.columns.len() - missing) as f64 / layout.columns.len() as f64
        };
        let nearest =
            layouts.iter().max_by(|a, b| share(a).total_cmp(&share(b)).then(b.columns.len().cmp(&a.columns.len())));
        let expected = nearest.map_or_else(String::new, |layout| {
            let missing = self.missing(layout.columns).join("`, `");
            let variant = if layout.variant.is_empty() { String::new() } else { format!(" {}", layout.variant) };
            format!("`{missing}` too, which `{}`{variant} needs", layout.format.name())
        });
        let mut names: Vec<String> =
            self.names.iter().take(12).map(|name| format!("`{}`", super::cells::short(name))).collect();
        if self.names.len() > names.len() {
            names.push(format!("{} more", self.names.len() - names.len()));
        }
        DatasetError::Layout { path: path.into(), expected, found: format!("the columns {}", names.join(", ")) }
    }
}
