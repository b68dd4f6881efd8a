//! How errors are spread.

use plotters::style::RGBColor;

use super::Series;
use super::axis::Axis;
use super::canvas::{GUIDE, draw, line, remark, shade};
use crate::error::Result;
use crate::scores::quantile;

/// Bins on each side of zero.
const HALF_BINS: i32 = 20;

/// The share of rows by signed relative error of peak memory, one outline an estimator.
///
/// The range holds 98 % of all errors; what lies beyond is in the outermost bins.
pub(crate) fn error_histogram(series: &[Series<'_>]) -> Result<String> {
    let errors: Vec<Vec<f64>> =
        series.iter().map(|series| series.rows.iter().filter_map(|row| row.memory_error_pct()).collect()).collect();
    let limit = limit_pct(&errors);
    let bin_pct = limit / f64::from(HALF_BINS);
    let shares: Vec<Vec<f64>> = errors.iter().map(|errors| shares_pct(errors, bin_pct)).collect();
    let highest = shares.iter().flatten().copied().fold(1.0, f64::max);

    let x = Axis::linear("Error of the estimate (% of the measured peak)", -limit, limit);
    let y = Axis::linear("Share of rows (%)", 0.0, highest * 1.12);
    let (left, right, top) = (x.ends.0, x.ends.1, y.ends.1);
    draw("error histogram", (x, y), |chart| {
        let below = vec![(left, 0.0), (left, top), (0.0, top), (0.0, 0.0)];
        chart.draw_series([shade(below, GUIDE, 0.10)])?;
        chart.draw_series([line(vec![(0.0, 0.0), (0.0, top)], GUIDE, 2)])?;
        chart.draw_series([
            remark("underestimated", (left / 2.0, top * 0.99)),
            remark("overestimated", (right / 2.0, top * 0.99)),
        ])?;
        for (series, shares) in series.iter().zip(&shares) {
            let outline = outline(shares, -limit, bin_pct);
            let colour: RGBColor = series.colour.rgb();
            chart.draw_series([shade(outline.clone(), colour, 0.12)])?;
            chart.draw_series([line(outline, colour, 3)])?;
        }
        Ok(())
    })
}

/// A round limit within which 98 % of all errors lie.
fn limit_pct(errors: &[Vec<f64>]) -> f64 {
    let mut sizes: Vec<f64> = errors.iter().flatten().map(|error| error.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let most = quantile(&sizes, 0.98).unwrap_or(0.0);
    // More than all of it cannot be underestimated, so that a wider range would be empty on one side.
    [5.0, 10.0, 20.0, 40.0, 60.0].into_iter().find(|limit| *limit >= most).unwrap_or(100.0)
}

/// The share of errors in each bin, in percent.
fn shares_pct(errors: &[f64], bin_pct: f64) -> Vec<f64> {
    let mut shares = vec![0.0; 2 * HALF_BINS as usize];
    for error in errors {
        let bin = ((error / bin_pct).floor().clamp(-1e6, 1e6) as i32 + HALF_BINS).clamp(0, 2 * HALF_BINS - 1);
        shares[bin as usize] += 100.0 / errors.len() as f64;
    }
    shares
}

/// The steps along the tops of the bins, down to zero at both ends.
fn outline(shares: &[f64], start: f64, width: f64) -> Vec<(f64, f64)> {
    let mut points = vec![(start, 0.0)];
    for (bin, share) in shares.iter().enumerate() {
        points.push((start + bin as f64 * width, *share));
        points.push((start + (bin + 1) as f64 * width, *share));
    }
    points.push((start + shares.len() as f64 * width, 0.0));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_in_a_bin_and_outliers_in_the_last() {
        let shares = shares_pct(&[-1000.0, -0.1, 0.0, 4.9, 1e300], 1.0);
        assert_eq!(shares.iter().sum::<f64>(), 100.0);
        assert_eq!([shares[0], shares[19], shares[20], shares[24], shares[39]], [20.0; 5]);
    }

    #[test]
    fn the_range_holds_nearly_all_errors() {
        assert_eq!(limit_pct(&[vec![0.5, -3.0]]), 5.0);
        assert_eq!(limit_pct(&[vec![30.0; 100], vec![-1.0; 100]]), 40.0);
        assert_eq!(limit_pct(&[]), 5.0);
        assert_eq!(limit_pct(&[vec![5000.0]]), 100.0);
    }
}
