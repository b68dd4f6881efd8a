//! Rows as torchinfo prints them: a tree of modules with columns to choose from.

use super::cells;
use super::table::{Parameters, Row, malformed};
use crate::error::Result;

/// Modules are not nested deeper than this, so a deeper tree is not a table.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Input,
    Output,
    Parameters,
    Share,
    Kernel,
    MultiplyAdds,
    Trainable,
}

const TITLES: [(&str, Column); 7] = [
    ("Input Shape", Column::Input),
    ("Output Shape", Column::Output),
    ("Param #", Column::Parameters),
    ("Param %", Column::Share),
    ("Kernel Shape", Column::Kernel),
    ("Mult-Adds", Column::MultiplyAdds),
    ("Trainable", Column::Trainable),
];

/// What the header says of the rows.
struct Layout {
    columns: Vec<Column>,
    /// Whether module names are printed.
    has_names: bool,
    /// Whether depth and index are printed.
    has_index: bool,
}

/// Reads all rows.
pub(super) fn rows(header: &str, lines: &[(usize, &str)], what: &str) -> Result<Vec<Row>> {
    let mut columns: Vec<(usize, Column)> =
        TITLES.iter().filter_map(|&(title, column)| Some((header.find(title)?, column))).collect();
    columns.sort_unstable_by_key(|&(position, _)| position);
    let columns: Vec<Column> = columns.into_iter().map(|(_, column)| column).collect();
    for (needed, title) in [(Column::Output, "Output Shape"), (Column::Parameters, "Param #")] {
        if !columns.contains(&needed) {
            let line = lines.first().map_or(1, |&(number, _)| number.saturating_sub(2).max(1));
            return Err(malformed(what, line, &format!("a column `{title}` (give the tool an input size)"), header));
        }
    }
    let layout = Layout { columns, has_names: header.contains("var_name"), has_index: header.contains("depth-idx") };
    let mut rows: Vec<Row> = Vec::with_capacity(lines.len());
    let mut path: Vec<String> = Vec::new();
    for &(number, line) in lines {
        let (depth, rest) = tree(line);
        let fail = || malformed(what, number, "a layer with its output shape and parameter count", line);
        if depth > MAX_DEPTH {
            return Err(fail());
        }
        let (class, name, cells) = layout.split(rest, depth).ok_or_else(fail)?;
        let Some(cells) = cells else { continue };
        let mut row = layout.row(&cells).ok_or_else(fail)?;
        path.truncate(depth.saturating_sub(1));
        path.resize(depth, String::new());
        if depth > 0 && layout.has_names {
            path[depth - 1].clone_from(&name);
            row.name = path.join(".");
            row.is_path = row.name.len() <= super::MAX_NAME_LENGTH;
        }
        if !row.is_path {
            row.name = name;
        }
        row.class = class;
        row.depth = depth;
        if let Some(parent) = rows.last_mut() {
            parent.is_container = parent.depth < depth;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Depth in the tree, and the line without the branches before it. Reads the ASCII form too.
fn tree(line: &str) -> (usize, &str) {
    let mut depth = 0;
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(['│', '|']) {
            depth += 1;
            rest = after;
        } else if let Some(after) = rest.strip_prefix(['├', '└', '+']) {
            return (depth + 1, after.trim_start_matches(['─', '-', ' ']));
        } else {
            return (depth, rest);
        }
    }
}

impl Layout {
    /// Class, name and cells; no cells if the row shows one weight of the row above.
    fn split<'a>(&self, text: &'a str, depth: usize) -> Option<(String, String, Option<Vec<&'a str>>)> {
        let end = text.find([' ', '\t', ':']).unwrap_or(text.len());
        let (class, mut rest) = text.split_at(end);
        if class.is_empty() || class.len() > super::MAX_NAME_LENGTH {
            return None;
        }
        let mut name = class.to_owned();
        if let Some(after) = rest.strip_prefix(" (").filter(|_| self.has_names) {
            let (printed, after) = after.split_once(')')?;
            name = Some(printed).filter(|printed| printed.len() <= super::MAX_NAME_LENGTH)?.into();
            rest = after;
        }
        let mut indexed = false;
        if let Some(after) = rest.strip_prefix(':').map(str::trim_start).filter(|_| self.has_index) {
            let end = after.find(|character: char| !character.is_ascii_digit() && character != '-')?;
            if !self.has_names {
                name = format!("{class}:{}", &after[..end]);
            }
            rest = &after[end..];
            indexed = true;
        }
        let cells = cells::split(rest)?;
        let is_weight =
            (self.has_index && depth > 0 && !indexed) || cells.iter().any(|cell| cell.starts_with(['├', '└']));
        Some((class.into(), name, (!is_weight).then_some(cells)))
    }

    fn row(&self, cells: &[&str]) -> Option<Row> {
        if cells.len() != self.columns.len() {
            return None;
        }
        let mut row = Row {
            class: String::new(),
            name: String::new(),
            is_path: false,
            depth: 0,
            is_container: false,
            output: None,
            input: None,
            kernel: Vec::new(),
            parameters: Parameters::None,
        };
        let mut frozen = false;
        for (column, &cell) in self.columns.iter().zip(cells) {
            match column {
                Column::Input if cell != "--" => row.input = Some(cells::shape(cell)?),
                Column::Output if cell != "--" => row.output = Some(cells::shape(cell)?),
                Column::Kernel => row.kernel = cells::kernel(cell)?,
                Column::Parameters => row.parameters = parameters(cell)?,
                Column::Trainable => frozen = cell == "False",
                _ => {}
            }
        }
        if let Parameters::Trained(count) = row.parameters
            && frozen
        {
            row.parameters = Parameters::Frozen(count);
        }
        Some(row)
    }
}

/// `9,408` trains, `(9,408)` does not, `(recursive)` was counted above.
fn parameters(cell: &str) -> Option<Parameters> {
    match cell {
        "--" | "0" => return Some(Parameters::None),
        "(recursive)" => return Some(Parameters::Shared),
        _ => {}
    }
    match cell.strip_prefix('(') {
        Some(inner) => cells::number(inner.strip_suffix(')')?).map(Parameters::Frozen),
        None => cells::number(cell).map(Parameters::Trained),
    }
}
