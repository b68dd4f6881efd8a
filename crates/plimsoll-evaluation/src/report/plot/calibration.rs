//! Whether quantiles hold what they say.

use plotters::element::Circle;
use plotters::style::Color;

use super::Series;
use super::axis::Axis;
use super::canvas::{GUIDE, draw, line};
use crate::error::Result;
use crate::prediction::Prediction;

/// Nominal quantiles looked at.
const NOMINAL: [f64; 13] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99];

/// The share of runs at or below each quantile of peak memory, against the share that the quantile promises. All rows
/// have a spread ([`Series::with_spread`]). A line above the diagonal is on the safe side.
pub(crate) fn calibration(series: &[Series<'_>]) -> Result<String> {
    let x = Axis::linear("Nominal quantile (%)", 0.0, 100.0);
    let y = Axis::linear("Runs at or below it (%)", 0.0, 100.0);
    draw("calibration", (x, y), |chart| {
        chart.draw_series([line(vec![(0.0, 0.0), (100.0, 100.0)], GUIDE, 2)])?;
        for series in series {
            let (colour, points) = (series.colour.rgb(), coverage(&series.rows));
            chart.draw_series([line(points.clone(), colour, 4)])?;
            chart.draw_series(points.into_iter().map(|at| Circle::new(at, 6, colour.filled())))?;
        }
        Ok(())
    })
}

/// (nominal, observed) in percent.
fn coverage(rows: &[&Prediction]) -> Vec<(f64, f64)> {
    let covered = |row: &Prediction, nominal: f64| {
        let limit = row.estimate.memory_quantile_mib(nominal);
        limit.zip(row.outcome.peak_mib()).is_some_and(|(limit, peak)| peak <= limit)
    };
    let percent = |nominal| rows.iter().filter(|row| covered(row, nominal)).count() as f64 / rows.len() as f64 * 100.0;
    NOMINAL.into_iter().map(|nominal| (nominal * 100.0, percent(nominal))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Colour;
    use super::*;
    use crate::prediction::tests::row;

    #[test]
    fn coverage_is_the_share_of_runs_at_or_below_the_quantile() {
        let mut rows: Vec<_> = (1..=99)
            .map(|place| {
                // Peaks at the quantiles themselves: calibrated exactly.
                let probability = f64::from(place) / 100.0;
                row("a:1", 1000.0 * (0.1 * (probability / (1.0 - probability)).ln()).exp(), 1000.0)
            })
            .collect();
        let without = Series { name: "mlp", colour: Colour::of(0), rows: rows.iter().collect() };
        assert!(without.with_spread().rows.is_empty());
        for row in &mut rows {
            row.estimate.log_scale = Some(0.1);
        }
        let series = Series { name: "mlp", colour: Colour::of(0), rows: rows.iter().collect() }.with_spread();
        assert_eq!(series.rows.len(), 99);
        for (nominal, observed) in coverage(&series.rows) {
            assert!((nominal - observed).abs() < 1.6, "{nominal} {observed}");
        }
    }
}
