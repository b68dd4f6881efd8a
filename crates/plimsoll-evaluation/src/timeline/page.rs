//! The page around the drawing.

use super::{Timeline, chart};
use crate::error::Result;
use crate::report::document::{Block, Cell, Column, Figure, Table, Tile};
use crate::report::html;

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
        let columns = table.columns.iter().cloned().map(|(name, number)| Column { name, number });
        let rows = table.rows.iter().map(|row| {
            let mut cells: Vec<Cell> = row.iter().map(Cell::text).collect();
            if let Some(first) = cells.first_mut() {
                let place = timeline.uses.iter().position(|name| *name == first.text);
                first.colour = place.map(chart::colour);
            }
            cells
        });
        blocks.push(Block::Heading { level: 2, text: table.heading.clone() });
        blocks.push(Block::Table(Table {
            caption: table.caption.clone(),
            columns: columns.collect(),
            rows: rows.collect(),
        }));
    }
    Ok(html::page(&timeline.title, &blocks))
}
