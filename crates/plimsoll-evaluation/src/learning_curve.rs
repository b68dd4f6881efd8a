//! How much better an estimator gets with the runs of a GPU that it is shown.

mod chart;

use std::collections::HashMap;
use std::path::Path;

use plimsoll_dataset::{Label, Outcome, Stack};
use plimsoll_model::{Adaptation, Reading};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::drawing::write_drawing;
use crate::error::Result;
use crate::report::document::{Block, Cell, Column, Figure, Table};
use crate::report::html;
use crate::scores::quantile;

/// Scores after a number of runs. Each is the mean over repeats with other runs drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Measured runs that were shown.
    pub rows: usize,
    /// Measured runs that were judged in each repeat, at least: all but those shown and what is of their groups.
    pub judged: usize,
    /// Draws.
    pub repeats: usize,
    /// Median absolute percentage error.
    pub median_ape_pct: f64,
    /// The largest of the repeats' medians.
    pub worst_median_ape_pct: f64,
    /// Mean absolute percentage error.
    pub mape_pct: f64,
    /// Share of runs within the bounds at 90, 95 and 99 %; `None` without bounds.
    pub coverage: Option<[f64; 3]>,
    /// Mean of `(bound - measured) / measured` at 95 %, percent; `None` without bounds.
    pub over_allocation_95_pct: Option<f64>,
}

/// The learning curve of an estimator on one GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearningCurve {
    /// Name of the GPU.
    pub gpu: String,
    /// How the peaks were read.
    pub label: Label,
    /// The software that the runs used.
    pub stack: Stack,
    /// Scores after more and more runs.
    pub points: Vec<CurvePoint>,
}

/// Learning curves of an estimator on several GPUs, as a drawing and as a page around it.
#[derive(Debug, Clone, PartialEq)]
pub struct LearningCurves {
    /// What is shown: the estimator and the data.
    pub title: String,
    /// One for each GPU, label definition and stack.
    pub curves: Vec<LearningCurve>,
}

impl LearningCurve {
    /// What it is of.
    pub fn name(&self) -> String {
        if self.stack.is_unknown() { self.gpu.clone() } else { format!("{} ({})", self.gpu, self.stack) }
    }
}

impl LearningCurves {
    /// Column heads of [`LearningCurves::rows`].
    pub const COLUMNS: [&'static str; 11] = [
        "GPU",
        "label",
        "runs",
        "judged",
        "median APE %",
        "worst",
        "MAPE %",
        "within 90 %",
        "95 %",
        "99 %",
        "over at 95 %",
    ];

    /// Every point as a row of texts.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share));
        let row = |curve: &LearningCurve, point: &CurvePoint| {
            vec![
                curve.name(),
                curve.label.name().to_owned(),
                point.rows.to_string(),
                point.judged.to_string(),
                format!("{:.2}", point.median_ape_pct),
                format!("{:.2}", point.worst_median_ape_pct),
                format!("{:.2}", point.mape_pct),
                percent(point.coverage.map(|[p90, ..]| p90)),
                percent(point.coverage.map(|[_, p95, _]| p95)),
                percent(point.coverage.map(|[.., p99]| p99)),
                point.over_allocation_95_pct.map_or("-".to_owned(), |over| format!("{over:.1}")),
            ]
        };
        self.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| row(curve, point))).collect()
    }

    /// The drawing, with its labels.
    pub fn svg(&self) -> Result<String> {
        chart::draw(self)
    }

    /// The drawing and all figures as one page that needs no other file.
    pub fn html(&self) -> Result<String> {
        let column = |(place, name): (usize, &&str)| Column { name: (*name).to_owned(), number: place > 1 };
        let table = Table {
            caption: "Means over draws of the runs that are shown; errors are of the runs that are not.".to_owned(),
            columns: Self::COLUMNS.iter().enumerate().map(column).collect(),
            rows: self.rows().iter().map(|row| row.iter().map(Cell::text).collect()).collect(),
        };
        let figure = Figure {
            title: "Error against runs shown".to_owned(),
            caption: "Median absolute percentage error on the runs that the estimator was not shown, mean over draws."
                .to_owned(),
            svg: self.svg()?,
            legend: Vec::new(),
        };
        let heading = Block::Heading { level: 2, text: "What runs of a GPU are worth".to_owned() };
        Ok(html::page(&self.title, &[heading, Block::Drawing(figure), Block::Table(table)]))
    }

    /// Writes the page to `.html`, the drawing alone to `.svg`.
    ///
    /// # Errors
    /// Another extension; a file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_drawing(path, || self.html(), || self.svg())
    }
}

/// One repeat's scores.
struct Draw {
    judged: usize,
    median_ape_pct: f64,
    mape_pct: f64,
    coverage: Option<[f64; 3]>,
    over_allocation_95_pct: Option<f64>,
}

/// Shows an estimator more and more runs of one GPU, drawn at random, and judges it on the measured rest.
///
/// Each run comes with the group that it is drawn in: a run is judged only where none of its group was shown. With groups
/// of their own, runs are drawn one by one.
///
/// `sizes` that leave fewer than ten runs to judge, or are too few to adapt to, have no point; 0 means without any run.
/// The same seed draws the same runs.
pub fn learning_curve(runs: &[(Reading, &str)], sizes: &[usize], repeats: usize, seed: u64) -> Vec<CurvePoint> {
    let measured: Vec<&(Reading, &str)> =
        runs.iter().filter(|(reading, _)| reading.outcome.peak_mib().is_some()).collect();
    let point = |&rows: &usize| {
        if measured.len() < rows.saturating_add(LEAST_JUDGED) || (1..Adaptation::LEAST_ROWS).contains(&rows) {
            return None;
        }
        // Without runs there is nothing to draw.
        let repeats = if rows == 0 { 1 } else { repeats.max(1) };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut order: Vec<usize> = (0..measured.len()).collect();
        let draws: Option<Vec<Draw>> = (0..repeats)
            .map(|_| {
                shuffle(&mut order, &mut rng);
                let drawn: Vec<&(Reading, &str)> = order.iter().map(|&place| measured[place]).collect();
                let (shown, judged) = divide(&drawn, rows);
                draw(&shown, &judged)
            })
            .collect();
        let draws = draws.filter(|draws| draws.iter().all(|draw| draw.judged >= LEAST_JUDGED))?;
        let mean = |value: &dyn Fn(&Draw) -> f64| draws.iter().map(value).sum::<f64>() / repeats as f64;
        let has_bounds = draws.iter().all(|draw| draw.coverage.is_some());
        let coverage = |level: usize| mean(&|draw| draw.coverage.map_or(0.0, |coverage| coverage[level]));
        Some(CurvePoint {
            rows,
            judged: draws.iter().map(|draw| draw.judged).min().unwrap_or_default(),
            repeats,
            median_ape_pct: mean(&|draw| draw.median_ape_pct),
            worst_median_ape_pct: draws.iter().map(|draw| draw.median_ape_pct).fold(0.0, f64::max),
            mape_pct: mean(&|draw| draw.mape_pct),
            coverage: has_bounds.then(|| std::array::from_fn(coverage)),
            over_allocation_95_pct: has_bounds.then(|| mean(&|draw| draw.over_allocation_95_pct.unwrap_or_default())),
        })
    };
    sizes.iter().filter_map(point).collect()
}

/// Fewer runs than this say nothing of an error.
const LEAST_JUDGED: usize = 10;

/// So many runs of the first groups, and all runs of groups that none of these is of.
fn divide(drawn: &[&(Reading, &str)], rows: usize) -> (Vec<Reading>, Vec<Reading>) {
    // Groups in the order in which a run of each was drawn first.
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (_, group) in drawn {
        let next = places.len();
        places.entry(group).or_insert(next);
    }
    let mut by_group = drawn.to_vec();
    by_group.sort_by_key(|(_, group)| places[group]);
    let (shown, rest) = by_group.split_at(rows);
    let last = shown.last().map(|(_, group)| *group);
    let readings = |runs: &[&(Reading, &str)]| runs.iter().map(|(reading, _)| reading.clone()).collect();
    let rest: Vec<_> = rest.iter().filter(|(_, group)| Some(*group) != last).copied().collect();
    (readings(shown), readings(&rest))
}

/// Scores on `judged` of what was learned from `shown`.
fn draw(shown: &[Reading], judged: &[Reading]) -> Option<Draw> {
    // Names do not matter: whoever calls shows runs of one GPU, one definition and one stack.
    let adaptation = (!shown.is_empty()).then(|| Adaptation::fit("", Label::Unknown, Stack::default(), shown).ok());
    let estimated = |reading: &Reading| {
        let Outcome::Measured { peak_mib } = reading.outcome else { return None };
        let estimate = match &adaptation {
            None => reading.estimate,
            Some(adaptation) => adaptation.as_ref()?.apply(&reading.estimate, &reading.place),
        };
        Some((estimate, peak_mib))
    };
    let rows: Vec<_> = judged.iter().map(estimated).collect::<Option<_>>()?;
    let error =
        |(estimate, mib): &(plimsoll_model::Estimate, f64)| Some(100.0 * (estimate.peak_memory_mib? / mib - 1.0).abs());
    let mut errors: Vec<f64> = rows.iter().map(error).collect::<Option<_>>()?;
    errors.sort_by(f64::total_cmp);
    let count = rows.len() as f64;
    let bounds: Option<Vec<_>> = rows.iter().map(|(estimate, mib)| Some((estimate.bounds?, *mib))).collect();
    let share = |level: usize| {
        let bounds = bounds.as_ref()?;
        Some(bounds.iter().filter(|(bounds, mib)| bounds.to_array()[level] >= *mib).count() as f64 / count)
    };
    let over = |bounds: &Vec<(plimsoll_model::Bounds, f64)>| {
        100.0 * bounds.iter().map(|(bounds, mib)| bounds.p95 / mib - 1.0).sum::<f64>() / count
    };
    Some(Draw {
        judged: rows.len(),
        median_ape_pct: quantile(&errors, 0.5)?,
        mape_pct: errors.iter().sum::<f64>() / count,
        coverage: share(1).zip(share(2)).zip(share(3)).map(|((p90, p95), p99)| [p90, p95, p99]),
        over_allocation_95_pct: bounds.as_ref().map(over),
    })
}

/// Fisher and Yates' shuffle.
fn shuffle(order: &mut [usize], rng: &mut ChaCha8Rng) {
    for last in (1..order.len()).rev() {
        let other = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
        order.swap(last, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::{Bounds, Estimate, Place};

    use super::*;

    fn readings() -> Vec<Reading> {
        let reading = |row: u32| {
            let mib = 3000.0 + 70.0 * f64::from(row);
            let peak_mib = (mib - 800.0) * (1.0 + 0.004 * (f64::from(row % 5) - 2.0));
            let bounds = Bounds { p50: mib, p90: 1.02 * mib, p95: 1.1 * mib, p99: 1.3 * mib };
            let estimate = Estimate { peak_memory_mib: Some(mib), bounds: Some(bounds), ..Estimate::default() };
            Reading {
                estimate,
                place: Place::default(),
                architecture: row.to_string(),
                outcome: Outcome::Measured { peak_mib },
            }
        };
        let mut readings: Vec<Reading> = (0..150).map(reading).collect();
        readings.push(Reading { outcome: Outcome::OutOfMemory { above_mib: 16_000.0 }, ..readings[0].clone() });
        readings
    }

    fn grouped<'a>(readings: &[Reading], groups: &'a [String]) -> Vec<(Reading, &'a str)> {
        readings.iter().cloned().zip(groups.iter().map(String::as_str)).collect()
    }

    #[test]
    fn no_group_is_both_shown_and_judged() {
        let readings = readings();
        let groups: Vec<String> = (0..readings.len()).map(|row| (row % 7).to_string()).collect();
        let runs = grouped(&readings, &groups);
        let (shown, judged) = divide(&runs.iter().collect::<Vec<_>>(), 30);
        assert_eq!(shown.len(), 30);
        let group = |reading: &Reading| runs.iter().find(|(known, _)| known == reading).map(|(_, group)| *group);
        assert!(judged.iter().all(|one| shown.iter().all(|other| group(one) != group(other))));
        // The rest of the second group is neither.
        assert_eq!(judged.len(), runs.iter().filter(|(_, group)| !matches!(*group, "0" | "1")).count());
        let curve = learning_curve(&runs, &[0, 30], 4, 3);
        assert_eq!(curve.iter().map(|point| point.judged).collect::<Vec<_>>(), [150, curve[1].judged]);
        assert!((100..=110).contains(&curve[1].judged), "{curve:?}");
        // All runs of one group cannot be divided.
        assert!(learning_curve(&grouped(&readings, &vec![String::new(); 151]), &[20], 4, 3).is_empty());
    }

    #[test]
    fn more_runs_leave_less_error_and_bounds_hold() {
        let readings = readings();
        let ids: Vec<String> = (0..readings.len()).map(|row| row.to_string()).collect();
        let runs = grouped(&readings, &ids);
        let curve = learning_curve(&runs, &[0, 5, 20, 100], 5, 3);
        assert_eq!(curve.iter().map(|point| point.rows).collect::<Vec<_>>(), [0, 5, 20, 100]);
        assert_eq!((curve[0].judged, curve[1].judged, curve[0].repeats, curve[1].repeats), (150, 145, 1, 5));
        assert!(curve[0].median_ape_pct > 5.0 && curve[1].median_ape_pct < 1.0, "{curve:?}");
        assert!(curve[3].median_ape_pct <= curve[1].median_ape_pct, "{curve:?}");
        let [p90, ..] = curve[3].coverage.expect("bounds");
        assert!((0.85..=0.97).contains(&p90), "{p90}");
        assert_eq!(curve, learning_curve(&runs, &[0, 5, 20, 100], 5, 3));
    }

    #[test]
    fn sizes_that_leave_nothing_to_judge_have_no_point() {
        let few: Vec<Reading> = readings().into_iter().take(24).collect();
        let ids: Vec<String> = (0..few.len()).map(|row| row.to_string()).collect();
        let curve = learning_curve(&grouped(&few, &ids), &[0, 2, 14, 15, usize::MAX], 2, 0);
        assert_eq!(curve.iter().map(|point| point.rows).collect::<Vec<_>>(), [0, 14]);
    }
}
