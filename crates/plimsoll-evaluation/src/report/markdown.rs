//! Blocks as Markdown.

use std::fmt::Write;

use super::document::{Block, Cell, Table};

/// A page.
pub(crate) fn page(title: &str, blocks: &[Block]) -> String {
    let mut text = format!("# {}\n", escape(title));
    push_blocks(&mut text, blocks);
    text
}

fn push_blocks(text: &mut String, blocks: &[Block]) {
    for block in blocks {
        text.push('\n');
        push(text, block);
    }
}

fn push(text: &mut String, block: &Block) {
    // Writing into a string cannot fail.
    let _ = match block {
        Block::Heading { level, text: heading } => {
            writeln!(text, "{} {}", "#".repeat(usize::from(*level)), escape(heading))
        }
        Block::Text(paragraph) => writeln!(text, "{}", escape(paragraph)),
        Block::Facts(facts) => {
            facts.iter().try_for_each(|(name, value)| writeln!(text, "- {}: {}", escape(name), escape(value)))
        }
        Block::Tiles(tiles) => tiles.iter().try_for_each(|tile| {
            writeln!(text, "- **{}: {}** ({})", escape(&tile.name), escape(&tile.value), escape(&tile.note))
        }),
        Block::Table(content) => write!(text, "{}", table(content)),
        Block::Figures(figures) => {
            figures.iter().try_for_each(|figure| writeln!(text, "- Figure in `report.html`: {}", escape(&figure.title)))
        }
        Block::Drawing(figure) => writeln!(text, "- Figure in `report.html`: {}", escape(&figure.title)),
        Block::Code(code) => {
            let fence = fence(code);
            writeln!(text, "{fence}text\n{}\n{fence}", code.trim_end())
        }
        Block::Fold { summary, blocks } => {
            let written = writeln!(text, "#### {}", escape(summary));
            push_blocks(text, blocks);
            written
        }
    };
}

/// A table, with its caption above it.
pub(crate) fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("{}\n\n", escape(&table.caption));
    text.push_str(&line(table.columns.iter().map(|column| escape(&column.name)).collect()));
    let rule = table.columns.iter().map(|column| if column.number { "---:" } else { "---" }.to_owned());
    text.push_str(&line(rule.collect()));
    for row in &table.rows {
        text.push_str(&line(row.iter().map(cell).collect()));
    }
    text
}

fn cell(cell: &Cell) -> String {
    let mut text = escape(&cell.text);
    if cell.best {
        text = format!("**{text}**");
    }
    if !cell.note.is_empty() {
        let _ = write!(text, " ({})", escape(&cell.note));
    }
    text
}

/// Text in which nothing is taken for markup, on one line.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '[' | ']' | '|' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// A fence longer than any run of backticks inside.
fn fence(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::Column;

    #[test]
    fn names_cannot_break_out_of_a_table() {
        let content = Table {
            caption: "a <script> b".to_owned(),
            columns: vec![Column::text("name"), Column::number("n")],
            rows: vec![vec![
                Cell { best: true, ..Cell::text("x|y\nz") },
                Cell { note: "of 4".to_owned(), ..Cell::text("3") },
            ]],
        };
        assert_eq!(table(&content), "a &lt;script&gt; b\n\n| name | n |\n| --- | ---: |\n| **x\\|y z** | 3 (of 4) |\n");
    }

    #[test]
    fn code_cannot_end_its_own_fence() {
        let text = page("t", &[Block::Code("a\n```\nb\n".to_owned())]);
        assert_eq!(text, "# t\n\n````text\na\n```\nb\n````\n");
    }
}
