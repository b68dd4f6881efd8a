//! How much better an estimator gets with the runs of a GPU that it is shown.

use plimsoll_dataset::{Label, Outcome};
use plimsoll_model::{Adaptation, Reading};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::scores::quantile;

/// Scores after a number of runs. Each is the mean over repeats with other runs drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Measured runs that were shown.
    pub rows: usize,
    /// Measured runs that were judged in each repeat: all but those shown.
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

/// One repeat's scores.
struct Draw {
    median_ape_pct: f64,
    mape_pct: f64,
    coverage: Option<[f64; 3]>,
    over_allocation_95_pct: Option<f64>,
}

/// Shows an estimator more and more runs of one GPU, drawn at random, and judges it on the measured rest.
///
/// `sizes` that leave fewer than ten runs to judge, or are too few to adapt to, have no point; 0 means without any run.
/// The same seed draws the same runs.
pub fn learning_curve(readings: &[Reading], sizes: &[usize], repeats: usize, seed: u64) -> Vec<CurvePoint> {
    let measured: Vec<Reading> =
        readings.iter().filter(|reading| reading.outcome.peak_mib().is_some()).copied().collect();
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
                let pick = |places: &[usize]| places.iter().map(|&place| measured[place]).collect::<Vec<Reading>>();
                draw(&pick(&order[..rows]), &pick(&order[rows..]))
            })
            .collect();
        let draws = draws?;
        let mean = |value: &dyn Fn(&Draw) -> f64| draws.iter().map(value).sum::<f64>() / repeats as f64;
        let has_bounds = draws.iter().all(|draw| draw.coverage.is_some());
        let coverage = |level: usize| mean(&|draw| draw.coverage.map_or(0.0, |coverage| coverage[level]));
        Some(CurvePoint {
            rows,
            judged: measured.len() - rows,
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

/// Scores on `judged` of what was learned from `shown`.
fn draw(shown: &[Reading], judged: &[Reading]) -> Option<Draw> {
    // Names do not matter: whoever calls shows runs of one GPU and one definition.
    let adaptation = (!shown.is_empty()).then(|| Adaptation::fit("", Label::Unknown, shown).ok());
    let estimated = |reading: &Reading| {
        let Outcome::Measured { peak_mib } = reading.outcome else { return None };
        let estimate = match &adaptation {
            None => reading.estimate,
            Some(adaptation) => adaptation.as_ref()?.apply(&reading.estimate),
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
    use plimsoll_model::{Bounds, Estimate};

    use super::*;

    fn readings() -> Vec<Reading> {
        let reading = |row: u32| {
            let mib = 3000.0 + 70.0 * f64::from(row);
            let peak_mib = (mib - 800.0) * (1.0 + 0.004 * (f64::from(row % 5) - 2.0));
            let bounds = Bounds { p50: mib, p90: 1.02 * mib, p95: 1.1 * mib, p99: 1.3 * mib };
            let estimate = Estimate { peak_memory_mib: Some(mib), bounds: Some(bounds), ..Estimate::default() };
            Reading { estimate, outcome: Outcome::Measured { peak_mib } }
        };
        let mut readings: Vec<Reading> = (0..150).map(reading).collect();
        readings.push(Reading { outcome: Outcome::OutOfMemory { above_mib: 16_000.0 }, ..readings[0] });
        readings
    }

    #[test]
    fn more_runs_leave_less_error_and_bounds_hold() {
        let curve = learning_curve(&readings(), &[0, 5, 20, 100], 20, 3);
        assert_eq!(curve.iter().map(|point| point.rows).collect::<Vec<_>>(), [0, 5, 20, 100]);
        assert_eq!((curve[0].judged, curve[1].judged, curve[0].repeats, curve[1].repeats), (150, 145, 1, 20));
        assert!(curve[0].median_ape_pct > 5.0 && curve[1].median_ape_pct < 1.0, "{curve:?}");
        assert!(curve[3].median_ape_pct <= curve[1].median_ape_pct, "{curve:?}");
        let [p90, ..] = curve[3].coverage.expect("bounds");
        assert!((0.85..=0.97).contains(&p90), "{p90}");
        assert_eq!(curve, learning_curve(&readings(), &[0, 5, 20, 100], 20, 3));
    }

    #[test]
    fn sizes_that_leave_nothing_to_judge_have_no_point() {
        let few: Vec<Reading> = readings().into_iter().take(24).collect();
        let curve = learning_curve(&few, &[0, 2, 14, 15, usize::MAX], 2, 0);
        assert_eq!(curve.iter().map(|point| point.rows).collect::<Vec<_>>(), [0, 14]);
    }
}
