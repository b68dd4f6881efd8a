//! Standard output: data only, and only from here.

use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;

/// Prints text and a line end.
pub(crate) fn line(text: impl AsRef<str>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.as_ref()).context("cannot write to standard output")
}

/// Standard output for many rows.
pub(crate) fn stream() -> impl Write {
    std::io::BufWriter::new(std::io::stdout().lock())
}

/// Prints a value as indented JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<()> {
    line(serde_json::to_string_pretty(value).context("cannot write the result as JSON")?)
}

/// Says something to a person on standard error.
#[expect(clippy::print_stderr, reason = "notes to a person go to standard error, and only through here")]
pub(crate) fn note(text: impl AsRef<str>) {
    eprintln!("{}", text.as_ref());
}

/// Warns a person on standard error.
pub(crate) fn warn(text: impl AsRef<str>) {
    note(format!("warning: {}", text.as_ref()));
}

/// MiB as a person reads it.
pub(crate) fn gib(mib: f64) -> String {
    if mib < 1024.0 { format!("{mib:.0} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}

/// A table with columns padded to their widest cell; numbers to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let is_number: Vec<bool> = (0..header.len())
        .map(|column| {
            let mut cells =
                rows.iter().filter_map(|row| row.get(column)).filter(|cell| cell.as_str() != "-").peekable();
            cells.peek().is_some() && cells.all(|cell| cell.trim_end_matches('%').parse::<f64>().is_ok())
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| {
                let width = widths[column];
                if is_number[column] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            })
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(header.to_vec())];
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}
