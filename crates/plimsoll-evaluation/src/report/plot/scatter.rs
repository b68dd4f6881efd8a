//! Estimates against measurements.

use plimsoll_dataset::Target;
use plotters::element::Circle;
use plotters::style::Color;

use super::axis::Axis;
use super::canvas::{GUIDE, draw, line, shade};
use super::{MAX_POINTS, Series, thin};
use crate::error::Result;

/// Points of a utilisation figure at most: there are six of them for each estimator.
const MAX_UTILISATION_POINTS: usize = MAX_POINTS / 4;

/// Estimated against measured peak memory on logarithmic axes from `low` to `high` MiB, with the diagonal and a band
/// of 10 % around it. Several figures over the same range can be compared.
pub(crate) fn memory_scatter(series: &Series<'_>, (low, high): (f64, f64)) -> Result<String> {
    let points = points(series, Target::PeakMemory, MAX_POINTS);
    let x = Axis::memory("Measured peak (GiB, log scale)", low, high);
    let y = Axis::memory("Estimated peak (GiB, log scale)", low, high);
    let ends = x.ends;
    // On logarithmic axes the band is as wide everywhere; it is cut at the frame.
    let steps = (0..=64).map(|step| ends.0 * (ends.1 / ends.0).powf(f64::from(step) / 64.0));
    let kinks = [ends.0 / 0.9, ends.1 / 1.1].map(|kink| kink.clamp(ends.0, ends.1));
    let mut along: Vec<f64> = steps.chain(kinks).collect();
    along.sort_by(f64::total_cmp);
    let edge = |factor: f64| along.iter().map(move |x| (*x, (factor * x).clamp(ends.0, ends.1))).collect::<Vec<_>>();
    let band = edge(1.1).into_iter().chain(edge(0.9).into_iter().rev()).collect();
    draw_scatter(series, "peak memory", (x, y), band, &points)
}

/// Estimated against measured utilisation, with the diagonal and a band of a tenth of the full scale around it.
pub(crate) fn utilisation_scatter(series: &Series<'_>, target: Target) -> Result<String> {
    let points = points(series, target, MAX_UTILISATION_POINTS);
    let full = target.per_ratio();
    let largest = points.iter().flat_map(|(x, y)| [*x, *y]).fold(0.1 * full, f64::max).min(2.0 * full);
    let unit = target.unit();
    let x = Axis::linear(&format!("Measured ({unit})"), 0.0, largest);
    let y = Axis::linear(&format!("Estimated ({unit})"), 0.0, largest);
    let (end, width) = (x.ends.1, 0.1 * full.min(x.ends.1));
    let band = vec![(0.0, 0.0), (0.0, width), (end - width, end), (end, end), (end, end - width), (width, 0.0)];
    draw_scatter(series, target.name(), (x, y), band, &points)
}

/// (measured, estimated) of the rows that have both, few enough to draw.
fn points(series: &Series<'_>, target: Target, limit: usize) -> Vec<(f64, f64)> {
    let pairs = series.rows.iter().filter_map(|row| Some((row.measured(target)?, row.estimated(target)?)));
    thin(pairs.collect(), limit)
}

fn draw_scatter(
    series: &Series<'_>,
    what: &str,
    (x, y): (Axis, Axis),
    band: Vec<(f64, f64)>,
    points: &[(f64, f64)],
) -> Result<String> {
    let name = format!("{what} of {}", series.name);
    // Few points are drawn so that none is missed, many so that it shows where they are dense.
    let (radius, alpha) = if points.len() > 200 { (5, 0.45) } else { (7, 0.8) };
    let style = series.colour.rgb().mix(alpha).filled();
    let (low, high) = x.ends;
    let inside = (x.clone(), y.clone());
    draw(&name, (x, y), |chart| {
        chart.draw_series([shade(band, GUIDE, 0.2)])?;
        chart.draw_series([line(vec![(low, low), (high, high)], GUIDE, 2)])?;
        // Points beyond the frame lie on it: a missing point would be a lie.
        let at = |(measured, estimated): &(f64, f64)| (inside.0.inside(*measured), inside.1.inside(*estimated));
        chart.draw_series(points.iter().map(|point| Circle::new(at(point), radius, style)))?;
        Ok(())
    })
}
