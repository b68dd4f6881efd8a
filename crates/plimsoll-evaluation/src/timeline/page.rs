//! The page around the drawing.

use super::{Timeline, TimelineTable, chart};
use crate::error::Result;
use crate::report::document::{Block, Cell, Column, Figure, Table, Tile};
use crate::report::html;
use crate::report::plot::Colour;

pub(super) fn html(timeline: &Timeline) -> Result<String> {
    let tiles = timeline.tiles.iter().cloned().map(|[name, value, note]| Tile { name, value, note });
    let mut blocks = vec![
        Block::Tiles(tiles.collect()),
        Block::Heading { level: 2, text: "Over a step".to_owned() },
        Block::Drawing(Figure {
            title: "Memory over the events of a training step".to_owned(),
            caption:
                "Areas are what is in use, from the bottom up. The line above is what the allocator has reserved, \
                      with context and libraries: between it and the areas lies its cache."
                    .to_owned(),
            svg: timeline.svg()?,
            legend: Vec::new(),
        }),
    ];
    for table in &timeline.tables {
        let colour = |name: &str| timeline.uses.iter().position(|known| known == name).map(chart::colour);
        blocks.extend(table_blocks(table, colour));
    }
    Ok(html::page(&timeline.title, &blocks))
}

/// A table under its heading; a first cell may have the colour of something drawn.
pub(crate) fn table_blocks(table: &TimelineTable, colour: impl Fn(&str) -> Option<Colour>) -> [Block; 2] {
    let columns = table.columns.iter().cloned().map(|(name, number)| Column { name, number });
    let rows = table.rows.iter().map(|row| {
        let mut cells: Vec<Cell> = row.iter().map(Cell::text).collect();
        if let Some(first) = cells.first_mut() {
            first.colour = colour(&first.text);
        }
        cells
    });
    let heading = Block::Heading { level: 2, text: table.heading.clone() };
    [heading, Block::Table(Table { caption: table.caption.clone(), columns: columns.collect(), rows: rows.collect() })]
}
