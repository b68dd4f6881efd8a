//! Blocks as one HTML page.

use std::fmt::{Arguments, Write};

use super::document::{Block, Cell, Figure, Table, Tile};
use super::plot::Colour;

/// How the page looks; it stands in the page itself.
const STYLE: &str = include_str!("style.css");

/// A page.
pub(crate) fn page(title: &str, blocks: &[Block]) -> String {
    let mut body = Html::default();
    body.blocks(blocks);
    let title = escape(title);
    let mut page = Html::default();
    page.add(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n<nav>\n"
    ));
    for (place, heading) in body.headings.iter().enumerate() {
        page.add(format_args!("<a href=\"#s{place}\">{}</a>\n", escape(heading)));
    }
    page.add(format_args!("</nav>\n</header>\n<main>\n{}</main>\n</body>\n</html>\n", body.text));
    page.text
}

/// A page being written.
#[derive(Default)]
struct Html {
    text: String,
    /// What the contents list, in order.
    headings: Vec<String>,
}

impl Html {
    fn add(&mut self, text: Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = self.text.write_fmt(text);
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading { level: 2, text } => {
                self.add(format_args!("<h2 id=\"s{}\">{}</h2>\n", self.headings.len(), escape(text)));
                self.headings.push(text.clone());
            }
            Block::Heading { level, text } => self.add(format_args!("<h{level}>{}</h{level}>\n", escape(text))),
            Block::Text(text) => self.add(format_args!("<p>{}</p>\n", escape(text))),
            Block::Facts(facts) => {
                self.add(format_args!("<dl>\n"));
                for (name, value) in facts {
                    self.add(format_args!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)));
                }
                self.add(format_args!("</dl>\n"));
            }
            Block::Tiles(tiles) => {
                self.add(format_args!("<div class=\"tiles\">\n"));
                for tile in tiles {
                    self.tile(tile);
                }
                self.add(format_args!("</div>\n"));
            }
            Block::Table(table) => self.table(table),
            Block::Figures(figures) => {
                self.add(format_args!("<div class=\"figures\">\n"));
                for figure in figures {
                    self.figure(figure, "");
                }
                self.add(format_args!("</div>\n"));
            }
            Block::Drawing(figure) => self.figure(figure, " class=\"drawing\""),
            Block::Code(code) => self.add(format_args!("<pre><code>{}</code></pre>\n", escape(code.trim_end()))),
            Block::Fold { summary, blocks } => {
                self.add(format_args!("<details>\n<summary>{}</summary>\n", escape(summary)));
                self.blocks(blocks);
                self.add(format_args!("</details>\n"));
            }
        }
    }

    fn tile(&mut self, tile: &Tile) {
        self.add(format_args!(
            "<div class=\"tile\"><b>{}</b><strong>{}</strong><small>{}</small></div>\n",
            escape(&tile.name),
            escape(&tile.value),
            escape(&tile.note)
        ));
    }

    fn table(&mut self, table: &Table) {
        let caption = escape(&table.caption);
        self.add(format_args!("<div class=\"wide\"><table>\n<caption>{caption}</caption>\n<thead><tr>"));
        for column in &table.columns {
            // A percent sign does not begin a line.
            let name = escape(&column.name).replace(" %", "&nbsp;%");
            self.add(format_args!("<th scope=\"col\"{}>{name}</th>", class(column.number, "")));
        }
        self.add(format_args!("</tr></thead>\n<tbody>\n"));
        let mut previous = None;
        for row in &table.rows {
            // A group's name steps back where it is said again.
            let first = row.first().map(|cell| &cell.text);
            self.add(format_args!("<tr{}>", if first == previous { " class=\"same\"" } else { "" }));
            previous = first;
            for (column, cell) in table.columns.iter().zip(row) {
                self.cell(column.number, cell);
            }
            self.add(format_args!("</tr>\n"));
        }
        self.add(format_args!("</tbody>\n</table></div>\n"));
    }

    fn cell(&mut self, number: bool, cell: &Cell) {
        let swatch = cell.colour.map_or_else(String::new, swatch);
        let (open, close) = if cell.best { ("<b>", "</b>") } else { ("", "") };
        let class = class(number, &cell.text);
        self.add(format_args!("<td{class}>{swatch}{open}{}{close}", escape(&cell.text)));
        if !cell.note.is_empty() {
            self.add(format_args!(" <small>{}</small>", escape(&cell.note)));
        }
        self.add(format_args!("</td>"));
    }

    fn figure(&mut self, figure: &Figure, class: &str) {
        let title = escape(&figure.title);
        // The drawing's own text is axis labels; a reader that cannot see it is told what it is.
        let svg = figure.svg.replacen("<svg ", &format!("<svg aria-label=\"{title}\" "), 1);
        self.add(format_args!("<figure{class}>\n<h4>{title}</h4>\n{svg}<figcaption>"));
        if !figure.legend.is_empty() {
            self.add(format_args!("<div class=\"keys\">"));
            for (colour, name) in &figure.legend {
                self.add(format_args!("<span>{}{}</span>", swatch(*colour), escape(name)));
            }
            self.add(format_args!("</div>"));
        }
        self.add(format_args!("{}</figcaption>\n</figure>\n", escape(&figure.caption)));
    }
}

/// Numbers stand to the right; long texts may be broken into lines.
fn class(number: bool, text: &str) -> &'static str {
    match (number, text.chars().count() > 48) {
        (true, _) => " class=\"n\"",
        (false, true) => " class=\"long\"",
        (false, false) => "",
    }
}

/// A small square of a colour.
fn swatch(colour: Colour) -> String {
    format!("<i style=\"background:{}\"></i>", colour.hex())
}

/// Text in which nothing is taken for markup, in elements and in attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        let blocks = [
            Block::Heading { level: 2, text: "<script>alert(1)</script>".to_owned() },
            Block::Code("a < b & c".to_owned()),
            Block::Figures(vec![Figure {
                title: "a \"b\"".to_owned(),
                caption: String::new(),
                svg: "<svg role=\"img\"></svg>".to_owned(),
                legend: vec![(Colour::of(0), "<i>".to_owned())],
            }]),
        ];
        let html = page("<b>", &blocks);
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
        assert!(html.contains("<title>&lt;b&gt;</title>") && html.contains("a &lt; b &amp; c"), "{html}");
        assert!(html.contains("<svg aria-label=\"a &quot;b&quot;\" role=\"img\">"), "{html}");
        assert!(html.contains("<a href=\"#s0\">") && html.contains("<h2 id=\"s0\">"), "{html}");
    }
}
