//! Who is best, among rows that can be compared.

use plimsoll_dataset::Target;

use super::{ALL_FAMILIES, Leaderboard, LeaderboardRow};
use crate::report::document::{Cell, Column, Table};
use crate::report::{markdown, words};

impl Leaderboard {
    /// The rankings as Markdown tables: one for each data set, split, label definition and target over all families,
    /// then those of single families. Memory is ranked by median APE, utilisation by R².
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Leaderboard\n");
        for table in self.tables(|_| true) {
            text.push('\n');
            text.push_str(&markdown::table(&table));
        }
        text
    }

    /// The rankings over those rows that are wanted.
    pub(crate) fn tables(&self, wanted: impl Fn(&LeaderboardRow) -> bool) -> Vec<Table> {
        let rows: Vec<&LeaderboardRow> = self.rows().filter(|row| wanted(row)).collect();
        // Rows are sorted by these, so that what can be compared stands together.
        rows.chunk_by(|one, other| {
            (&one.data, &one.split, &one.label, one.target, &one.family)
                == (&other.data, &other.split, &other.label, other.target, &other.family)
        })
        .map(ranking)
        .collect()
    }
}

/// One table: rows of the same data, split, label, target and family, the best first.
fn ranking(rows: &[&LeaderboardRow]) -> Table {
    let mut ranked = rows.to_vec();
    ranked.sort_by(|one, other| rank_key(one).total_cmp(&rank_key(other)));
    let first = rows[0];
    let memory = first.target == Target::PeakMemory;
    let family =
        if first.family == ALL_FAMILIES { "all families".to_owned() } else { format!("family {}", first.family) };
    let mut caption = format!(
        "{}, {family}. {}. Ranked by {}.",
        words::title(first.target),
        words::origin(&first.data, &first.split, &first.label),
        if memory { "median APE" } else { "R²" },
    );
    if rows.iter().any(|row| row.n != first.n) {
        caption.push_str(" The counts differ: not all estimators have an estimate for every row.");
    }
    let mut columns = vec![Column::number("rank"), Column::text("estimator"), Column::text("run"), Column::number("n")];
    let metrics = metrics(first.target);
    columns.extend(metrics.iter().map(|(name, _)| Column::number(name.clone())));
    columns.push(Column::number("size"));
    columns.push(Column::number("latency ms"));
    let rows = ranked.iter().enumerate().map(|(place, row)| {
        let rank = if rank_key(row).is_finite() { (place + 1).to_string() } else { words::NOTHING.to_owned() };
        let mut cells = vec![Cell::text(rank), Cell::text(&row.estimator), run(row), Cell::text(words::count(row.n))];
        cells.extend(metrics.iter().map(|(_, show)| show(row)));
        cells.push(Cell::text(row.size_bytes.map_or_else(|| words::NOTHING.to_owned(), words::bytes)));
        cells.push(Cell::text(words::fixed(row.latency_ms, 2)));
        cells
    });
    let rows = rows.collect();
    Table { caption, columns, rows }
}

/// Small is good; rows without the metric come last.
pub(super) fn rank_key(row: &LeaderboardRow) -> f64 {
    match row.target {
        Target::PeakMemory => row.median_ape_pct,
        _ => row.r2.map(|r2| -r2),
    }
    .unwrap_or(f64::INFINITY)
}

/// The config, with the run's id in small print; the id alone where the config has no name.
fn run(row: &LeaderboardRow) -> Cell {
    if row.config.is_empty() {
        return Cell::text(&row.run_id);
    }
    Cell { note: row.run_id.clone(), ..Cell::text(&row.config) }
}

/// An error with its interval.
fn with_interval(value: Option<f64>, low: Option<f64>, high: Option<f64>) -> Cell {
    let note = low.zip(high).map_or_else(String::new, |(low, high)| {
        format!("{} to {}", words::fixed(Some(low), 2), words::fixed(Some(high), 2))
    });
    Cell { note, ..Cell::text(words::fixed(value, 2)) }
}

/// A column's heading and what stands in it.
type Metric = (String, fn(&LeaderboardRow) -> Cell);

fn metrics(target: Target) -> Vec<Metric> {
    let unit = target.unit();
    let mut metrics: Vec<Metric> = vec![
        ("median APE %".to_owned(), |row| {
            with_interval(row.median_ape_pct, row.median_ape_low_pct, row.median_ape_high_pct)
        }),
        ("MAPE %".to_owned(), |row| with_interval(row.mape_pct, row.mape_low_pct, row.mape_high_pct)),
        ("p90 APE %".to_owned(), |row| Cell::text(words::fixed(row.p90_ape_pct, 2))),
        ("R²".to_owned(), |row| Cell::text(words::fixed(row.r2, 4))),
        (format!("MAE {unit}"), |row| Cell::text(words::amount(row.mae, row.target))),
        ("underestimated %".to_owned(), |row| Cell::text(words::share(row.underestimation_rate))),
    ];
    if target == Target::PeakMemory {
        metrics.push(("95 % bound holds %".to_owned(), |row| Cell::text(words::share(row.coverage_95))));
        metrics.push(("that bound lies above %".to_owned(), |row| {
            Cell::text(words::fixed(row.over_allocation_95_pct, 1))
        }));
        metrics.push(("margin 95 %".to_owned(), |row| Cell::text(words::fixed(row.margin_95_pct, 1))));
        metrics.push(("right bin %".to_owned(), |row| Cell::text(words::share(row.bin_accuracy))));
    } else {
        // R² and MAE are what utilisation is judged by: they stand first.
        metrics.rotate_left(3);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use crate::leaderboard::{Cost, Leaderboard, LeaderboardRow, RunName};
    use crate::prediction::tests::row;
    use crate::scores::{ScoreContext, Scores};

    #[test]
    fn the_best_comes_first_and_rows_that_cannot_be_compared_stand_apart() {
        let mut leaderboard = Leaderboard::default();
        for (run, estimated, split) in [("r1", 1500.0, "test"), ("r2", 1010.0, "test"), ("r3", 1000.0, "validation")] {
            let scores = Scores::of(&[row("a:1", 1000.0, estimated)], &ScoreContext::new("published", split));
            let cost = Cost { size_bytes: Some(2_500_000), latency_ms: Some(0.5) };
            leaderboard.merge(LeaderboardRow::of(RunName { id: run, config: "" }, &scores, cost));
        }
        insta::assert_snapshot!(leaderboard.markdown());
    }
}
