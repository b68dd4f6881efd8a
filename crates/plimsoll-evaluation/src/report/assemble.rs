//! What stands where in a report.

use plimsoll_dataset::{Target, UTILISATION};

use super::document::{Block, Cell, Column, Table, Tile};
use super::plot::{Colour, Series};
use super::{DataDescription, Report, Section, figures, row_tables, score_tables, words};
use crate::error::Result;
use crate::leaderboard::ALL_FAMILIES;
use crate::scores::{Scores, by_estimator};

/// The whole page.
pub(super) fn blocks(report: &Report) -> Result<Vec<Block>> {
    let mut blocks = vec![facts(report)];
    let scored: Vec<Scored<'_>> = report.sections.iter().map(Scored::of).collect();
    if !scored.is_empty() {
        blocks.push(heading("At a glance"));
        blocks.push(Block::Table(glance(&scored)));
    }
    if !report.data.is_empty() {
        blocks.push(heading("Data"));
        blocks.extend(data(&report.data));
    }
    for part in &scored {
        blocks.extend(section(part)?);
    }
    if let Some(leaderboard) = report.leaderboard.as_ref().filter(|leaderboard| !leaderboard.is_empty()) {
        blocks.push(heading("Leaderboard"));
        let tables = leaderboard.tables(|row| row.family == ALL_FAMILIES);
        blocks.extend(tables.into_iter().map(Block::Table));
    }
    if !report.config.is_empty() {
        blocks.push(heading("Configuration"));
        blocks.push(Block::Code(report.config.clone()));
    }
    blocks.push(heading("How to read the numbers"));
    blocks.push(Block::Facts(words::GLOSSARY.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec()));
    Ok(blocks)
}

/// A section with its scores.
struct Scored<'a> {
    section: &'a Section,
    series: Vec<Series<'a>>,
    scores: Vec<Scores>,
    origin: String,
}

impl<'a> Scored<'a> {
    fn of(section: &'a Section) -> Self {
        let groups = by_estimator(&section.predictions).into_iter().enumerate();
        let series: Vec<Series<'a>> =
            groups.map(|(place, (name, rows))| Series { name, colour: Colour::of(place), rows }).collect();
        let scores: Vec<Scores> =
            series.iter().map(|series| Scores::of(series.rows.iter().copied(), &section.context)).collect();
        let origin = words::origin(&section.context.data, &section.context.split, &score_tables::labels(&scores));
        Self { section, series, scores, origin }
    }
}

fn heading(text: &str) -> Block {
    Block::Heading { level: 2, text: text.to_owned() }
}

fn facts(report: &Report) -> Block {
    let mut facts = vec![("run".to_owned(), report.run_id.clone())];
    facts.extend(report.created.iter().map(|created| ("created".to_owned(), created.clone())));
    Block::Facts(facts)
}

/// One line for each section and estimator.
fn glance(scored: &[Scored<'_>]) -> Table {
    let metrics = ["n", "median APE %", "MAPE %", "within 10 %", "underestimated %", "margin for 95 %"];
    let mut columns = vec![Column::text("section"), Column::text("estimator")];
    columns.extend(metrics.map(Column::number));
    columns.push(Column::text("data; split; label"));
    let rows = scored.iter().flat_map(|part| {
        part.scores.iter().zip(&part.series).map(|(scores, series)| {
            let memory = scores.memory();
            vec![
                Cell::text(&part.section.title),
                score_tables::estimator(series),
                Cell::text(words::count(memory.n)),
                Cell::text(words::fixed(memory.median_ape_pct, 2)),
                Cell::text(words::fixed(memory.mape_pct, 2)),
                Cell::text(words::share(memory.within_10_pct)),
                Cell::text(words::share(memory.underestimation_rate)),
                Cell::text(words::fixed(memory.margin_95_pct, 1)),
                Cell::text(format!("{}; {}; {}", scores.data, scores.split, scores.label)),
            ]
        })
    });
    let rows = rows.collect();
    Table { caption: "Peak memory in every section; everything but n in percent.".to_owned(), columns, rows }
}

fn data(descriptions: &[DataDescription]) -> Vec<Block> {
    let rows = descriptions.iter().map(|data| {
        vec![
            Cell::text(&data.name),
            Cell::text(words::count(data.accepted)),
            Cell::text(words::count(data.rejected.values().sum())),
            Cell::text(words::count(data.censored)),
            Cell::text(&data.text),
        ]
    });
    let mut blocks = vec![Block::Table(Table {
        caption: "Rows used, rows rejected, and rows used that ran out of memory.".to_owned(),
        columns: vec![
            Column::text("data"),
            Column::number("accepted"),
            Column::number("rejected"),
            Column::number("out of memory"),
            Column::text("what it is"),
        ],
        rows: rows.collect(),
    })];
    let reasons = descriptions.iter().flat_map(|data| {
        data.rejected
            .iter()
            .map(|(reason, rows)| vec![Cell::text(&data.name), Cell::text(words::count(*rows)), Cell::text(reason)])
    });
    let rows: Vec<_> = reasons.collect();
    if !rows.is_empty() {
        blocks.push(Block::Table(Table {
            caption: "Why rows were rejected.".to_owned(),
            columns: vec![Column::text("data"), Column::number("rows"), Column::text("reason")],
            rows,
        }));
    }
    blocks
}

fn section(part: &Scored<'_>) -> Result<Vec<Block>> {
    let (scores, series) = (&part.scores, &part.series);
    let mut blocks = vec![heading(&part.section.title)];
    if !part.section.text.is_empty() {
        blocks.push(Block::Text(part.section.text.clone()));
    }
    if scores.is_empty() {
        blocks.push(Block::Text("There are no predictions.".to_owned()));
        return Ok(blocks);
    }
    if scores.iter().any(|scores| scores.label.contains('+')) {
        blocks.push(Block::Text(
            "Peaks were read in several ways here: errors of differing definitions are mixed.".to_owned(),
        ));
    }
    blocks.push(Block::Text(format!("{}.", part.origin)));
    blocks.push(tiles(part));
    blocks.push(Block::Table(score_tables::accuracy(scores, series)));
    blocks.push(Block::Table(score_tables::placement(scores, series)));
    blocks.extend(score_tables::as_read(scores, series).map(Block::Table));
    blocks.extend(row_tables::doubts(&part.origin, series).map(Block::Table));
    blocks.extend(row_tables::same_rows(&part.origin, series).map(Block::Table));
    blocks.extend(figures::memory(&part.origin, series)?.map(Block::Figures));

    let memory = Target::PeakMemory;
    blocks.push(Block::Table(score_tables::by_group("family", memory, scores, series, |scores| &scores.families)));
    blocks.push(Block::Table(score_tables::by_group("GPU", memory, scores, series, |scores| &scores.gpus)));
    blocks.push(Block::Table(score_tables::by_group("measured peak", memory, scores, series, |scores| &scores.sizes)));
    blocks.extend(utilisation(part)?);
    blocks.extend(row_tables::every_row(&part.origin, series).map(|table| fold("Every row", table)));
    for series in series {
        let table = row_tables::worst_rows(&part.origin, series);
        blocks.extend(table.map(|table| fold(&format!("Largest errors of {}", series.name), table)));
    }
    Ok(blocks)
}

fn fold(summary: &str, table: Table) -> Block {
    Block::Fold { summary: summary.to_owned(), blocks: vec![Block::Table(table)] }
}

/// The leading estimator's numbers.
fn tiles(part: &Scored<'_>) -> Block {
    let memory = part.scores[0].memory();
    let name = part.series[0].name;
    let n = words::count(memory.n);
    let tile = |what: &str, value: String, note: String| Tile { name: what.to_owned(), value, note };
    let pct = |value: Option<f64>, digits| {
        value.map_or_else(|| words::NOTHING.to_owned(), |value| format!("{} %", words::fixed(Some(value), digits)))
    };
    let share = |value: Option<f64>| pct(value.map(|share| share * 100.0), 1);
    let interval = memory.intervals.map_or_else(String::new, |intervals| {
        let interval = intervals.median_ape_pct;
        format!("; 95 % interval {:.2} to {:.2} %", interval.low, interval.high)
    });
    Block::Tiles(vec![
        tile("Median error of peak memory", pct(memory.median_ape_pct, 2), format!("{name}, n = {n}{interval}")),
        tile("Within 10 %", share(memory.within_10_pct), format!("{name}, n = {n}")),
        tile("Underestimated", share(memory.underestimation_rate), format!("{name}, n = {n}")),
        tile(
            "Margin for 95 % of the runs",
            pct(memory.margin_95_pct, 1),
            format!("{name}, n = {n}: to be added to every estimate"),
        ),
    ])
}

fn utilisation(part: &Scored<'_>) -> Result<Vec<Block>> {
    let Some(table) = score_tables::utilisation(&part.scores, &part.series) else { return Ok(Vec::new()) };
    let mut blocks = vec![Block::Heading { level: 3, text: "Utilisation".to_owned() }, Block::Table(table)];
    for (place, series) in part.series.iter().enumerate() {
        let figures = figures::utilisation(&part.origin, series)?;
        if figures.is_empty() {
            continue;
        }
        // The leading estimator's figures are open; those of others are there for who asks.
        blocks.push(if place == 0 {
            Block::Figures(figures)
        } else {
            Block::Fold { summary: format!("Utilisation of {}", series.name), blocks: vec![Block::Figures(figures)] }
        });
    }
    let by_family: Vec<Block> = UTILISATION
        .into_iter()
        .filter(|target| part.series.iter().any(|series| series.count(*target) > 0))
        .map(|target| {
            Block::Table(score_tables::by_group("family", target, &part.scores, &part.series, |scores| {
                &scores.families
            }))
        })
        .collect();
    blocks.push(Block::Fold { summary: "Utilisation by family".to_owned(), blocks: by_family });
    Ok(blocks)
}
