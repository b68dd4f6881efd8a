//! Errors of small and large jobs.

use std::collections::BTreeMap;

use plotters::element::Circle;
use plotters::series::DashedLineSeries;
use plotters::style::{Color, ShapeStyle};

use super::axis::Axis;
use super::canvas::{draw, line};
use super::{Colour, Series};
use crate::error::Result;
use crate::scores::{SizeClass, quantile};

/// The smallest error that a logarithmic axis shows, percent.
const FLOOR_PCT: f64 = 0.1;

/// Median (solid) and 90 % quantile (dashed) of the absolute percentage error of peak memory in each size class.
pub(crate) fn error_by_size(series: &[Series<'_>]) -> Result<String> {
    let curves: Vec<Curve> = series.iter().map(Curve::of).collect();
    let mut classes: Vec<SizeClass> = curves.iter().flat_map(|curve| curve.errors.keys().copied()).collect();
    classes.sort_unstable();
    classes.dedup();
    let names: Vec<String> = classes.iter().map(|class| short_name(*class)).collect();
    let values = || curves.iter().flat_map(|curve| curve.errors.values()).flat_map(|(median, p90)| [*median, *p90]);
    let highest = values().fold(FLOOR_PCT, f64::max);
    let lowest = values().fold(highest, f64::min).max(FLOOR_PCT);

    let x = Axis::names("Measured peak (GiB)", &names);
    let label = "Absolute error (%)";
    // Errors of a few percent cannot be read beside errors of hundreds on equal steps.
    let y = if highest > 12.0 * lowest {
        Axis::logarithmic(&format!("{label}, log scale"), lowest, highest)
    } else {
        Axis::linear(label, 0.0, highest)
    };
    let frame = y.clone();
    draw("error by size", (x, y), |chart| {
        for curve in &curves {
            let place = |class: &SizeClass| classes.binary_search(class).unwrap_or_default() as f64;
            let points = |get: fn(&(f64, f64)) -> f64| -> Vec<(f64, f64)> {
                curve.errors.iter().map(|(class, both)| (place(class), frame.inside(get(both)))).collect()
            };
            let (medians, p90s) = (points(|both| both.0), points(|both| both.1));
            let colour = curve.colour.rgb();
            let style = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: 3 };
            chart.draw_series(DashedLineSeries::new(p90s.clone(), 10, 8, style))?;
            chart.draw_series([line(medians.clone(), colour, 4)])?;
            chart.draw_series(medians.into_iter().map(|at| Circle::new(at, 7, colour.filled())))?;
            chart.draw_series(p90s.into_iter().map(|at| Circle::new(at, 5, colour.filled())))?;
        }
        Ok(())
    })
}

/// Median and 90 % quantile of an estimator in each class that it has rows in.
struct Curve {
    colour: Colour,
    errors: BTreeMap<SizeClass, (f64, f64)>,
}

impl Curve {
    fn of(series: &Series<'_>) -> Self {
        let mut groups: BTreeMap<SizeClass, Vec<f64>> = BTreeMap::new();
        for row in &series.rows {
            if let (Some(peak_mib), Some(error_pct)) = (row.outcome.peak_mib(), row.memory_error_pct()) {
                groups.entry(SizeClass::of(peak_mib)).or_default().push(error_pct.abs());
            }
        }
        let errors = groups.into_iter().filter_map(|(class, mut errors)| {
            errors.sort_unstable_by(f64::total_cmp);
            Some((class, (quantile(&errors, 0.5)?, quantile(&errors, 0.9)?)))
        });
        Self { colour: series.colour, errors: errors.collect() }
    }
}

/// The class without its unit, which the axis names.
fn short_name(class: SizeClass) -> String {
    match class {
        SizeClass::Below512 => "< 0.5".to_owned(),
        SizeClass::From65536 => "≥ 64".to_owned(),
        _ => class.name().trim_end_matches(" GiB").replace('-', "–"),
    }
}
