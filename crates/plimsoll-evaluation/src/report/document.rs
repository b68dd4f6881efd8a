//! A report as blocks, before it becomes Markdown or HTML.

use super::plot::Colour;

/// A piece of a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// A heading; level 2 is listed in the contents.
    Heading { level: u8, text: String },
    /// A paragraph.
    Text(String),
    /// Names and values, in two columns.
    Facts(Vec<(String, String)>),
    /// The few numbers to look at first.
    Tiles(Vec<Tile>),
    /// A table.
    Table(Table),
    /// Figures side by side.
    Figures(Vec<Figure>),
    /// A figure as wide as the page, with its legend in the drawing.
    Drawing(Figure),
    /// Text as it stood in a file.
    Code(String),
    /// Blocks that are folded away until asked for.
    Fold { summary: String, blocks: Vec<Block> },
}

/// One number that stands out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tile {
    /// What it is.
    pub(crate) name: String,
    /// The number with its unit.
    pub(crate) value: String,
    /// What to know about it.
    pub(crate) note: String,
}

/// A table with a caption that says which rows it is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) caption: String,
    /// Its columns.
    pub(crate) columns: Vec<Column>,
    /// Its rows, as wide as the columns.
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// The heading of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Name and unit.
    pub(crate) name: String,
    /// Whether it holds numbers, which stand to the right.
    pub(crate) number: bool,
}

impl Column {
    pub(crate) fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), number: false }
    }

    pub(crate) fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), number: true }
    }
}

/// What stands in a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Cell {
    /// The text.
    pub(crate) text: String,
    /// Said in small print after it, such as an interval.
    pub(crate) note: String,
    /// The colour that the estimator has in figures.
    pub(crate) colour: Option<Colour>,
    /// Whether it is the best of its column.
    pub(crate) best: bool,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A drawing with what is needed to read it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// What it shows.
    pub(crate) title: String,
    /// Which rows, and how to read it.
    pub(crate) caption: String,
    /// The drawing.
    pub(crate) svg: String,
    /// Colours and what they stand for.
    pub(crate) legend: Vec<(Colour, String)>,
}
