//! A printed table as rows, whichever tool printed it.

use std::collections::HashMap;

use super::{cells, torchinfo, torchsummary};
use crate::error::{GraphError, Result};
use crate::shape::{Dim, Shape};

/// A table and its footer.
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// The footer's number of parameters.
    pub(super) total: Option<u64>,
    /// Bytes of one sample of the input, at least and at most, from the footer's rounded megabytes.
    pub(super) input_bytes: Option<(f64, f64)>,
    /// Whether a block's own row stands after its layers and looks like a layer.
    pub(super) blocks_follow: bool,
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    /// Name of the module's class.
    pub(super) class: String,
    /// Path of the module if it is printed, else what identifies the row.
    pub(super) name: String,
    /// Whether `name` is the module's path, which a module that runs twice keeps.
    pub(super) is_path: bool,
    /// How deep the module is nested.
    pub(super) depth: usize,
    /// Whether rows of the module's own layers follow.
    pub(super) is_container: bool,
    /// Shape of the (first) output.
    pub(super) output: Option<Shape>,
    /// Shape of the (first) input, if it is printed.
    pub(super) input: Option<Shape>,
    /// Kernel extents, if they are printed.
    pub(super) kernel: Vec<u64>,
    /// Parameters of the module itself.
    pub(super) parameters: Parameters,
}

/// What the column of parameter counts says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameters {
    /// Nothing.
    None,
    /// So many that train.
    Trained(u64),
    /// So many that do not.
    Frozen(u64),
    /// Those of a row above.
    Shared,
}

/// Whether a line is a table's header.
pub(super) fn is_header(line: &str) -> bool {
    line.contains("Layer (type")
}

/// Reads the first table of a text.
pub(super) fn read(text: &str, what: &str) -> Result<Table> {
    let mut lines = text.lines().map(str::trim).enumerate().map(|(index, line)| (index + 1, line));
    let Some((_, header)) = lines.by_ref().find(|(_, line)| is_header(line)) else {
        return Err(malformed(what, 1, "a header with `Layer (type)`", "none"));
    };
    let mut body = Vec::new();
    let mut closed = false;
    for (number, line) in lines.by_ref() {
        if line.is_empty() {
            continue;
        }
        if !line.chars().all(|character| character == '=') {
            body.push((number, line));
        } else if !body.is_empty() {
            closed = true;
            break;
        }
    }
    if !closed {
        let end = body.last().map_or(1, |&(number, _)| number);
        return Err(malformed(
            what,
            end,
            "rows of layers and a line of `=` that closes the table",
            "the end of the text",
        ));
    }
    let blocks_follow = torchsummary::is_row(body[0].1);
    let mut rows = if blocks_follow { torchsummary::rows(&body, what)? } else { torchinfo::rows(header, &body, what)? };
    let batch = make_batch_symbolic(&mut rows);
    let mut table = Table { rows, total: None, input_bytes: None, blocks_follow };
    for (number, line) in lines {
        if let Some(value) = line.strip_prefix("Total params:") {
            let Some(total) = cells::number(value.trim()) else {
                return Err(malformed(what, number, "a number of parameters", value.trim()));
            };
            table.total = table.total.or(Some(total));
        }
        if let Some(value) = line.strip_prefix("Input size (MB):") {
            // torchsummary means 2^20 bytes of one sample, torchinfo 10^6 bytes of a batch.
            let unit = if blocks_follow { f64::from(1 << 20) } else { 1e6 / batch as f64 };
            let megabytes = value.trim().parse().ok().filter(|&value: &f64| value.is_finite() && value >= 0.1);
            table.input_bytes = megabytes.map(|value| ((value - 0.005) * unit, (value + 0.005) * unit));
        }
    }
    Ok(table)
}

/// The error of a line; what it says is cut to a readable length.
pub(super) fn malformed(what: &str, line: usize, expected: &str, found: &str) -> GraphError {
    let found = match found.char_indices().nth(80) {
        Some((end, _)) => format!("`{}...`", &found[..end]),
        None => format!("`{found}`"),
    };
    GraphError::Malformed { what: what.into(), at: format!("line {line}"), expected: expected.into(), found }
}

/// Replaces the concrete batch where it leads a shape, and tells it.
///
/// The batch is what leads the model's own output if any layer's output shares it, else what leads most outputs.
/// A table whose shapes say -1 has its batch already.
fn make_batch_symbolic(rows: &mut [Row]) -> u64 {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for row in rows.iter() {
        match row.output.as_ref().and_then(|shape| shape.dims().first()) {
            Some(&Dim::Fixed(extent)) => *counts.entry(extent).or_default() += 1,
            Some(Dim::Batch(_)) => return 1,
            None => {}
        }
    }
    let root = rows.first().and_then(leading).filter(|extent| counts.get(extent).is_some_and(|&count| count > 1));
    let most = counts.values().copied().max();
    let common = || rows.iter().filter_map(leading).find(|extent| counts.get(extent).copied() == most);
    let Some(batch) = root.or_else(common).filter(|&batch| batch > 0) else { return 1 };
    for row in rows {
        for shape in [&mut row.output, &mut row.input].into_iter().flatten() {
            if shape.dims().first() == Some(&Dim::Fixed(batch)) {
                *shape = Shape::new([Dim::Batch(1)].into_iter().chain(shape.dims()[1..].iter().copied()));
            }
        }
    }
    batch
}

fn leading(row: &Row) -> Option<u64> {
    row.output.as_ref()?.dims().first().map(|dim| dim.factor())
}
