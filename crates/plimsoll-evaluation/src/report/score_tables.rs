//! Tables of scores: estimators, or groups and estimators, down; metrics across.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_dataset::{Target, UTILISATION};

use super::document::{Cell, Column, Table};
use super::metric::{self, Better, Metric, memory, pct, share, whole};
use super::plot::Series;
use super::words;
use crate::scores::{Interval, Scores, TargetMap, TargetScores};

/// How near the estimates of memory are.
pub(super) fn accuracy(all: &[Scores], series: &[Series<'_>]) -> Table {
    let mut metrics = vec![
        metric::median_ape(),
        metric::mape(),
        metric::p90_ape(),
        Metric::new("p99 APE %", Better::Lower, |scores| scores.p99_ape_pct, pct),
        Metric::new("within 5 % (% of rows)", Better::Higher, |scores| scores.within_5_pct, share),
        Metric::new("within 10 %", Better::Higher, |scores| scores.within_10_pct, share),
        Metric::new("within 20 %", Better::Higher, |scores| scores.within_20_pct, share),
    ];
    metrics.extend(metric::errors(Target::PeakMemory.unit()));
    by_estimator("Accuracy of peak memory, all rows; in brackets 95 % bootstrap intervals", all, series, &metrics)
}

/// What follows for whoever places jobs.
pub(super) fn placement(all: &[Scores], series: &[Series<'_>]) -> Table {
    let bin_mib = all.first().and_then(|scores| memory(scores.memory())).map(|memory| memory.bin_width_mib);
    let bin = format!("right bin of {} MiB (% of rows)", words::fixed(bin_mib, 0));
    let censored = |scores: &TargetScores| Some(memory(scores)?.censored as f64);
    let above = |scores: &TargetScores| memory(scores)?.censored_above_limit;
    let fit = |scores: &TargetScores| memory(scores)?.fit_accuracy;
    let metrics = vec![
        metric::underestimated(),
        metric::margin_95(),
        Metric::new("margin for 99 % of rows (%)", Better::Neither, |scores| scores.margin_99_pct, pct),
        metric::covered_95(),
        metric::over_allocated_95(),
        metric::decision(),
        Metric::new(bin, Better::Higher, |scores| memory(scores)?.bin_accuracy, share),
        Metric::new("rightly said to fit (% of rows)", Better::Neither, fit, share),
        Metric::new("ran out of memory (rows)", Better::Neither, censored, whole),
        Metric::new("of those rightly above the limit (%)", Better::Neither, above, share),
        Metric::new("without an estimate (rows)", Better::Neither, |scores| Some(scores.missing as f64), whole),
    ];
    by_estimator("Peak memory for placing jobs, all rows", all, series, &metrics)
}

/// How near the estimates are with every reading at its word; `None` where no reading is doubted.
pub(super) fn as_read(all: &[Scores], series: &[Series<'_>]) -> Option<Table> {
    let mut metrics =
        vec![metric::median_ape(), metric::mape(), metric::p90_ape(), metric::within_10(), metric::underestimated()];
    metrics.extend(metric::errors(Target::PeakMemory.unit()));
    let rows: Vec<Row<'_>> = all
        .iter()
        .zip(series)
        .filter_map(|(scores, series)| {
            let scores = scores.as_read.as_ref()?;
            Some(Row { group: None, estimator: estimator(series), target: Target::PeakMemory, scores })
        })
        .collect();
    let doubted = all.iter().map(|scores| scores.doubted).max().unwrap_or_default();
    let what = format!("Peak memory with every reading at its word, {doubted} doubted ones too");
    (!rows.is_empty()).then(|| table(caption(&what, all), None, &rows, &metrics))
}

fn by_estimator(what: &str, all: &[Scores], series: &[Series<'_>], metrics: &[Metric]) -> Table {
    let rows = all.iter().zip(series).map(|(scores, series)| Row {
        group: None,
        estimator: estimator(series),
        target: Target::PeakMemory,
        scores: scores.memory(),
    });
    table(caption(what, all), None, &rows.collect::<Vec<_>>(), metrics)
}

/// Scores of utilisation, one row for each metric and estimator; `None` where no estimator has any.
pub(super) fn utilisation(all: &[Scores], series: &[Series<'_>]) -> Option<Table> {
    let mut rows = Vec::new();
    for target in UTILISATION {
        let group = format!("{} ({})", words::title(target), target.unit());
        rows.extend(group_rows(&group, target, all, series, |scores| Some(&scores.targets)));
    }
    // Units differ from row to row and stand there.
    let mut metrics = metric::errors("");
    metrics.push(metric::median_ape());
    let skipped = |scores: &TargetScores| Some(scores.ape_skipped as f64);
    metrics.push(Metric::new("rows of 0, without APE", Better::Neither, skipped, whole));
    let caption = caption("Utilisation, all rows; MAE, RMSE and bias in the unit named", all);
    (!rows.is_empty()).then(|| table(caption, Some("metric"), &rows, &metrics))
}

/// Scores of one target in each group, one row for each group and estimator.
pub(super) fn by_group<K: Ord + ToString>(
    kind: &str,
    target: Target,
    all: &[Scores],
    series: &[Series<'_>],
    groups: impl Fn(&Scores) -> &BTreeMap<K, TargetMap>,
) -> Table {
    let keys: BTreeSet<&K> = all.iter().flat_map(|scores| groups(scores).keys()).collect();
    let rows = keys
        .into_iter()
        .flat_map(|key| group_rows(&key.to_string(), target, all, series, |scores| groups(scores).get(key)));
    let rows: Vec<Row<'_>> = rows.collect();
    let mut errors = metric::errors(target.unit());
    errors.pop();
    let metrics = if target == Target::PeakMemory {
        let mut metrics = vec![metric::median_ape(), metric::mape(), metric::p90_ape(), metric::within_10()];
        metrics.append(&mut errors);
        metrics.extend([metric::underestimated(), metric::margin_95()]);
        metrics.extend([metric::covered_95(), metric::over_allocated_95()]);
        metrics
    } else {
        errors
    };
    table(caption(&format!("{} by {kind}", words::title(target)), all), Some(kind), &rows, &metrics)
}

/// The rows of those estimators that have the target in a group.
fn group_rows<'a>(
    group: &str,
    target: Target,
    all: &'a [Scores],
    series: &[Series<'_>],
    targets: impl Fn(&'a Scores) -> Option<&'a TargetMap>,
) -> Vec<Row<'a>> {
    let rows = all.iter().zip(series).filter_map(|(scores, series)| {
        let scores = targets(scores)?.get(&target).filter(|scores| scores.n > 0)?;
        Some(Row { group: Some(group.to_owned()), estimator: estimator(series), target, scores })
    });
    rows.collect()
}

/// What a table is over.
fn caption(what: &str, all: &[Scores]) -> String {
    match all.first() {
        Some(scores) => format!("{what}. {}.", words::origin(&scores.data, &scores.split, &labels(all))),
        None => format!("{what}."),
    }
}

/// The label definitions of all estimators; they differ only where predictions were mixed.
pub(super) fn labels(all: &[Scores]) -> String {
    let labels: BTreeSet<&str> = all.iter().flat_map(|scores| scores.label.split('+')).collect();
    labels.into_iter().collect::<Vec<_>>().join("+")
}

/// An estimator's name with its colour.
pub(super) fn estimator(series: &Series<'_>) -> Cell {
    Cell { colour: Some(series.colour), ..Cell::text(series.name) }
}

/// What stands in one line of a table.
struct Row<'a> {
    group: Option<String>,
    estimator: Cell,
    target: Target,
    scores: &'a TargetScores,
}

fn table(caption: String, kind: Option<&str>, rows: &[Row<'_>], metrics: &[Metric]) -> Table {
    let mut columns: Vec<Column> = kind.into_iter().chain(["estimator"]).map(Column::text).collect();
    columns.push(Column::number("n"));
    columns.extend(metrics.iter().map(|metric| Column::number(metric.name.as_str())));
    let groups = rows.chunk_by(|one, other| one.group == other.group);
    let rows = groups.flat_map(|rows| {
        let best = best(rows, metrics);
        let line = move |row: &Row<'_>| line(row, metrics, &best);
        rows.iter().map(line).collect::<Vec<_>>()
    });
    let rows = rows.collect();
    Table { caption, columns, rows }
}

/// The best rank of each metric in a group. Only rows that were scored on equally many measurements are compared.
fn best(rows: &[Row<'_>], metrics: &[Metric]) -> Vec<Option<f64>> {
    let comparable = rows.len() > 1 && rows.iter().all(|row| row.scores.n == rows[0].scores.n);
    let best = |metric: &Metric| rows.iter().filter_map(|row| metric.rank(row.scores)).min_by(f64::total_cmp);
    metrics.iter().map(|metric| best(metric).filter(|_| comparable)).collect()
}

fn line(row: &Row<'_>, metrics: &[Metric], best: &[Option<f64>]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = row.group.iter().map(Cell::text).collect();
    cells.push(row.estimator.clone());
    cells.push(Cell::text(words::count(row.scores.n)));
    cells.extend(metrics.iter().zip(best).map(|(metric, best)| Cell {
        note: (metric.interval)(row.scores).map_or_else(String::new, interval),
        best: best.is_some() && metric.rank(row.scores) == *best,
        ..Cell::text((metric.show)((metric.value)(row.scores), row.target))
    }));
    cells
}

fn interval(interval: Interval) -> String {
    format!("[{}, {}]", words::fixed(Some(interval.low), 2), words::fixed(Some(interval.high), 2))
}
