//! What stands in one cell of a table.

use crate::shape::{Dim, Shape};

/// Splits the rest of a row into cells: bracketed lists, and texts without white space.
///
/// `None` if a bracket is not closed.
pub(super) fn split(text: &str) -> Option<Vec<&str>> {
    let mut cells = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end =
            if rest.starts_with('[') { list_end(rest)? } else { rest.find(char::is_whitespace).unwrap_or(rest.len()) };
        let (cell, after) = rest.split_at(end);
        cells.push(cell);
        rest = after.trim_start();
    }
    Some(cells)
}

/// The position after the bracket that closes the one at the start.
pub(super) fn list_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (position, character) in text.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(position + 1);
        }
    }
    None
}

/// A shape; of several outputs the first. A leading -1 is the batch.
pub(super) fn shape(cell: &str) -> Option<Shape> {
    let mut inner = cell.strip_prefix('[')?.strip_suffix(']')?.trim();
    while let Some(nested) = inner.strip_prefix('[') {
        inner = nested.split_once(']')?.0.trim();
    }
    if inner.is_empty() {
        return Some(Shape::default());
    }
    let dims = inner.split(',').enumerate().map(|(axis, item)| match (axis, item.trim()) {
        (0, "-1") => Some(Dim::Batch(1)),
        (_, item) => number(item).map(Dim::Fixed),
    });
    dims.collect::<Option<Vec<_>>>().map(Shape::new)
}

/// Kernel extents, written `3` or `[3, 3]`; empty if there are none.
pub(super) fn kernel(cell: &str) -> Option<Vec<u64>> {
    if cell == "--" {
        return Some(Vec::new());
    }
    match cell.strip_prefix('[') {
        Some(list) => list.strip_suffix(']')?.split(',').map(|item| number(item.trim())).collect(),
        None => number(cell).map(|extent| vec![extent]),
    }
}

/// A whole number with or without thousands separators.
///
/// One that is too large becomes the largest, which no graph accepts, so that the refusal names the layer.
pub(super) fn number(text: &str) -> Option<u64> {
    let fits = text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|character| character.is_ascii_digit() || character == ',');
    fits.then(|| {
        let digits = text.bytes().filter(u8::is_ascii_digit);
        digits.fold(0_u64, |value, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_the_tools_print_them() {
        assert_eq!(shape("[-1, 64, 7, 7]"), Some(Shape::batched(&[64, 7, 7])));
        assert_eq!(shape("[32, 1000]"), Some(Shape::fixed(&[32, 1000])));
        assert_eq!(shape("[[-1, 10, 32], [-1, 2, 32]]"), Some(Shape::batched(&[10, 32])));
        for broken in ["", "[", "[32, -4]", "[32, x]", "[32,, 4]", "32, 4"] {
            assert_eq!(shape(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_saturates() {
        assert_eq!(number("9,408"), Some(9408));
        assert_eq!(number("99,999,999,999,999,999,999"), Some(u64::MAX));
        assert_eq!(number("-3"), None);
        assert_eq!(number(""), None);
    }

    #[test]
    fn cells_end_at_white_space_or_the_closing_bracket() {
        assert_eq!(split(" [1, 2]   9,408  -- "), Some(vec!["[1, 2]", "9,408", "--"]));
        assert_eq!(split("[1, 2"), None);
    }
}
