//! Tables of single rows.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_dataset::{Outcome, Target};

use super::document::{Cell, Column, Table};
use super::plot::Series;
use super::words;
use crate::prediction::Prediction;
use crate::scores::quantile;

/// Sets up to this size are shown row by row.
const MAX_ROWS: usize = 100;

/// How many of the worst rows are shown.
const WORST: usize = 10;

/// More estimators than this do not fit beside each other.
const MAX_BESIDE: usize = 8;

/// Every row with the estimates of all estimators beside each other; `None` for sets that are too large.
pub(super) fn every_row(origin: &str, series: &[Series<'_>]) -> Option<Table> {
    let (mut first, mut order): (BTreeMap<&str, &Prediction>, Vec<&str>) = (BTreeMap::new(), Vec::new());
    for row in series.iter().flat_map(|series| series.rows.iter().copied()) {
        first.entry(&row.id).or_insert_with(|| {
            order.push(&row.id);
            row
        });
    }
    if order.is_empty() || order.len() > MAX_ROWS || series.len() > MAX_BESIDE {
        return None;
    }
    let by_id: Vec<BTreeMap<&str, &Prediction>> = series.iter().map(by_id).collect();
    let mut columns = row_columns();
    columns.extend(series.iter().map(|series| Column::number(format!("{} MiB", series.name))));
    let rows = order.iter().map(|id| {
        let mut cells = row_cells(first[id]);
        cells.extend(by_id.iter().map(|rows| match rows.get(id) {
            Some(row) => Cell {
                note: row.memory_error_pct().map_or_else(String::new, signed_pct),
                ..Cell::text(words::amount(row.estimated(Target::PeakMemory), Target::PeakMemory))
            },
            None => Cell::text(words::NOTHING),
        }));
        cells
    });
    let rows = rows.collect();
    Some(Table { caption: format!("Peak memory, every row. {origin}."), columns, rows })
}

/// The rows with the largest errors of one estimator; `None` where it has no errors.
pub(super) fn worst_rows(origin: &str, series: &Series<'_>) -> Option<Table> {
    let mut errors: Vec<(f64, &Prediction)> =
        series.rows.iter().filter_map(|row| Some((row.memory_error_pct()?, *row))).collect();
    // Ties are broken by id, so that the order of rows does not matter.
    errors.sort_by(|(one, row), (other, other_row)| {
        other.abs().total_cmp(&one.abs()).then_with(|| row.id.cmp(&other_row.id))
    });
    let caption =
        format!("Peak memory: largest errors of {}. {origin}; n = {}.", series.name, words::count(errors.len()));
    errors.truncate(WORST);
    let mut columns = row_columns();
    columns.push(Column::number("simulated MiB"));
    columns.push(Column::number("estimate MiB"));
    columns.push(Column::number("error %"));
    let rows = errors.iter().map(|(error, row)| {
        let mut cells = row_cells(row);
        cells.push(Cell::text(words::amount(row.simulated_mib, Target::PeakMemory)));
        cells.push(Cell::text(words::amount(row.estimated(Target::PeakMemory), Target::PeakMemory)));
        cells.push(Cell::text(words::fixed(Some(*error), 1)));
        cells
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then_some(Table { caption, columns, rows })
}

/// The median error of every estimator on just those rows that another one has; `None` where all have the same rows.
///
/// Published estimates cover some rows only. Compared on all rows, the estimator with the easier ones would look better.
pub(super) fn same_rows(origin: &str, series: &[Series<'_>]) -> Option<Table> {
    let errors: Vec<BTreeMap<&str, f64>> = series
        .iter()
        .map(|series| {
            by_id(series).into_iter().filter_map(|(id, row)| Some((id, row.memory_error_pct()?.abs()))).collect()
        })
        .collect();
    let ids: BTreeSet<Vec<&str>> = errors.iter().map(|errors| errors.keys().copied().collect()).collect();
    if ids.len() < 2 || series.len() > MAX_BESIDE {
        return None;
    }
    let mut columns = vec![Column::text("on the rows of"), Column::number("n")];
    columns.extend(series.iter().map(|series| Column::number(format!("{} median APE %", series.name))));
    let rows = series.iter().zip(&errors).filter(|(_, errors)| !errors.is_empty()).map(|(owner, rows)| {
        let mut cells = vec![super::score_tables::estimator(owner), Cell::text(words::count(rows.len()))];
        cells.extend(errors.iter().map(|errors| {
            let mut common: Vec<f64> = rows.keys().filter_map(|id| errors.get(id).copied()).collect();
            common.sort_unstable_by(f64::total_cmp);
            let note = if common.len() == rows.len() { String::new() } else { format!("n = {}", common.len()) };
            Cell { note, ..Cell::text(words::fixed(quantile(&common, 0.5), 2)) }
        }));
        cells
    });
    let rows = rows.collect();
    Some(Table { caption: format!("Peak memory: estimators on each other's rows. {origin}."), columns, rows })
}

/// Why readings are doubted and how many rows each reason has; `None` where none is.
pub(super) fn doubts(origin: &str, series: &[Series<'_>]) -> Option<Table> {
    let rows: BTreeMap<&str, &Prediction> = series.iter().flat_map(by_id).collect();
    let mut reasons: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in rows.values() {
        if let Some(doubt) = &row.doubt {
            let (all, censored) = reasons.entry(&doubt.reason).or_default();
            *all += 1;
            *censored += usize::from(row.outcome.is_censored());
        }
    }
    let columns = vec![Column::text("doubt"), Column::number("rows"), Column::number("of those out of memory")];
    let rows = reasons.into_iter().map(|(reason, (all, censored))| {
        vec![Cell::text(reason), Cell::text(words::count(all)), Cell::text(words::count(censored))]
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then_some(Table { caption: format!("Readings that are doubted. {origin}."), columns, rows })
}

/// Rows by id; the first of those with the same id.
fn by_id<'a>(series: &Series<'a>) -> BTreeMap<&'a str, &'a Prediction> {
    series.rows.iter().rev().map(|row| (row.id.as_str(), *row)).collect()
}

fn row_columns() -> Vec<Column> {
    vec![
        Column::text("row"),
        Column::text("family"),
        Column::text("architecture"),
        Column::text("GPU"),
        Column::number("batch"),
        Column::number("measured MiB"),
    ]
}

fn row_cells(row: &Prediction) -> Vec<Cell> {
    let measured = match row.outcome {
        Outcome::Measured { peak_mib } => words::amount(Some(peak_mib), Target::PeakMemory),
        Outcome::OutOfMemory { above_mib } => format!("> {}", words::amount(Some(above_mib), Target::PeakMemory)),
        Outcome::Unknown => words::NOTHING.to_owned(),
    };
    let read = row.doubt.as_ref().map(|doubt| words::amount(Some(doubt.reading_mib), Target::PeakMemory));
    vec![
        Cell::text(&row.id),
        Cell::text(row.family.name()),
        Cell::text(&row.architecture),
        Cell::text(&row.gpu),
        Cell::text(row.batch_size.to_string()),
        Cell { note: read.map_or_else(String::new, |read| format!("read {read}")), ..Cell::text(measured) },
    ]
}

fn signed_pct(error: f64) -> String {
    let sign = if error >= 0.05 { "+" } else { "" };
    format!("{sign}{} %", words::fixed(Some(error), 1))
}
