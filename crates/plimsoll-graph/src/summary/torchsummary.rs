//! Rows as torchsummary prints them: `Conv2d-1    [-1, 64, 112, 112]    9,408`.

use super::cells;
use super::table::{Parameters, Row, malformed};
use crate::error::Result;

/// Whether a line is a row: a class with a running number, then a list.
pub(super) fn is_row(line: &str) -> bool {
    line.split_once('[').is_some_and(|(name, _)| {
        let name = name.trim();
        !name.contains(char::is_whitespace) && class_of(name) != name
    })
}

/// Reads all rows.
pub(super) fn rows(lines: &[(usize, &str)], what: &str) -> Result<Vec<Row>> {
    lines.iter().map(|&(number, line)| row(line).ok_or_else(|| malformed(what, number, EXPECTED, line))).collect()
}

const EXPECTED: &str = "a layer with its number, a list of extents and a parameter count";

fn row(line: &str) -> Option<Row> {
    let start = line.find('[')?;
    let (name, rest) = (line[..start].trim(), &line[start..]);
    let (shape, count) = rest.split_at(cells::list_end(rest)?);
    if !is_row(line) || name.len() > super::MAX_NAME_LENGTH {
        return None;
    }
    let parameters = match cells::number(count.trim())? {
        0 => Parameters::None,
        count => Parameters::Trained(count),
    };
    Some(Row {
        class: class_of(name).into(),
        name: name.into(),
        is_path: false,
        depth: 0,
        is_container: false,
        output: Some(cells::shape(shape)?),
        input: None,
        kernel: Vec::new(),
        parameters,
    })
}

/// The name without its running number.
fn class_of(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((class, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => class,
        _ => name,
    }
}
