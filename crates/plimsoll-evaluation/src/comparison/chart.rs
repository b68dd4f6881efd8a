//! The drawing: loads as lines that rise with the batch, GPUs as levels that they cross.

use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Polygon};
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor};

use super::labels::{each, shared};
use super::{Comparison, ComparisonLine};
use crate::drawing::{Area, Chart, Drawn, INK, SOFT, for_a_page, mesh, spread, stroke, text};
use crate::error::{EvaluationError, Result};
use crate::report::plot::Colour;
use crate::report::plot::axis::Axis;

/// Twice as fine as shown, since Plotters rounds to whole units.
const SIZE: (u32, u32) = (2400, 1180);
/// Room for the labels, right of the chart.
const BESIDE: i32 = 590;
/// How to read it.
const KEY: &str =
    "rising: what the job takes · level: what a GPU has · dot: the largest of these batch sizes that fits";
/// Height of a label.
const LINE: i32 = 46;
/// Labels that fit beside the chart.
const LABELS: usize = 20;
/// Colours that are told apart. With more GPUs the lines are no longer those of single ones.
const COLOURS: usize = 7;

/// Levels that are too many for colours.
const FAINT: RGBColor = RGBColor(170, 177, 186);

/// The colour of a GPU, while there are few enough to tell apart.
pub(super) fn colour(comparison: &Comparison, place: usize) -> Option<Colour> {
    (comparison.lines.len() <= COLOURS).then(|| Colour::of(place))
}

pub(super) fn draw(comparison: &Comparison) -> Result<String> {
    let mut svg = String::new();
    paint(&mut svg, comparison).map_err(|error| EvaluationError::Figure {
        what: "memory against batch size".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(for_a_page(&svg))
}

fn paint(svg: &mut String, comparison: &Comparison) -> Drawn {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&RGBColor(255, 255, 255))?;
    let (x, y) = axes(comparison);
    let mut chart = ChartBuilder::on(&area)
        .margin_top(70)
        .margin_right(BESIDE)
        .margin_bottom(16)
        .x_label_area_size(100)
        .y_label_area_size(116)
        .build_cartesian_2d(x.clone(), y.clone())?;
    mesh(&mut chart, &x, &y)?;
    text(&area, KEY, (122, 18), HPos::Left)?;
    capacities(&mut chart, comparison, &x)?;
    if comparison.lines.len() <= COLOURS {
        for (place, line) in comparison.lines.iter().enumerate() {
            // The job takes about the same on every GPU: the lines lie on each other, and each is narrower than the
            // one below.
            let width = 5 + 4 * (comparison.lines.len() - 1 - place) as u32;
            let course = PathElement::new(course(comparison, line), stroke(Colour::of(place).rgb(), width));
            chart.draw_series([course])?;
        }
    } else {
        band(&mut chart, comparison)?;
    }
    dots(&mut chart, comparison)?;
    labels(&area, &chart, comparison, &y)?;
    area.present()
}

fn axes(comparison: &Comparison) -> (Axis, Axis) {
    let batch = |batch: Option<&u64>| batch.map_or(1.0, |batch| *batch as f64);
    let x = Axis::doubling("batch size", batch(comparison.batches.first()), batch(comparison.batches.last()));
    let peaks = comparison.lines.iter().flat_map(|line| line.peaks_mib.iter().copied());
    let capacities = comparison.lines.iter().map(|line| line.capacity_mib);
    let values: Vec<f64> = peaks.chain(capacities).filter(|mib| *mib > 0.0).collect();
    let low = values.iter().copied().reduce(f64::min).unwrap_or(1024.0);
    (x, Axis::memory("GiB", low, values.iter().copied().fold(low, f64::max)))
}

/// The load of a GPU as points.
fn course(comparison: &Comparison, line: &ComparisonLine) -> Vec<(f64, f64)> {
    comparison.batches.iter().zip(&line.peaks_mib).map(|(batch, peak)| (*batch as f64, peak.max(1.0))).collect()
}

fn capacities(chart: &mut Chart<'_, '_>, comparison: &Comparison, x: &Axis) -> Drawn {
    for (place, line) in comparison.lines.iter().enumerate() {
        let level = [(x.ends.0, line.capacity_mib.max(1.0)), (x.ends.1, line.capacity_mib.max(1.0))];
        match colour(comparison, place) {
            Some(colour) => {
                chart.draw_series(DashedLineSeries::new(level, 18, 12, stroke(colour.rgb(), 4)))?;
            }
            // Dashes are elements of their own, and many.
            None => {
                chart.draw_series([PathElement::new(level, stroke(FAINT, 2))])?;
            }
        }
    }
    Ok(())
}

/// From the lowest load of any GPU to the highest, and the middle between.
fn band(chart: &mut Chart<'_, '_>, comparison: &Comparison) -> Drawn {
    let ends: Vec<(f64, f64, f64)> = comparison
        .batches
        .iter()
        .enumerate()
        .filter_map(|(at, batch)| {
            let peaks = || comparison.lines.iter().filter_map(|line| line.peaks_mib.get(at)).map(|peak| peak.max(1.0));
            Some((*batch as f64, peaks().reduce(f64::min)?, peaks().reduce(f64::max)?))
        })
        .collect();
    let below = ends.iter().map(|(batch, low, _)| (*batch, *low));
    let above = ends.iter().rev().map(|(batch, _, high)| (*batch, *high));
    let colour = Colour::of(0).rgb();
    chart.draw_series([Polygon::new(below.chain(above).collect::<Vec<_>>(), colour.mix(0.3).filled())])?;
    let middle: Vec<_> = ends.iter().map(|(batch, low, high)| (*batch, (low * high).sqrt())).collect();
    chart.draw_series([PathElement::new(middle, stroke(colour, 6))])?;
    Ok(())
}

/// The largest batch that fits on each GPU.
fn dots(chart: &mut Chart<'_, '_>, comparison: &Comparison) -> Drawn {
    for (place, line) in comparison.lines.iter().enumerate() {
        let fits = course(comparison, line).into_iter().rfind(|(_, peak)| *peak <= line.capacity_mib);
        let colour = colour(comparison, place).map_or(INK, Colour::rgb);
        let dots = fits.iter().flat_map(|at| {
            [Circle::new(*at, 13, RGBColor(255, 255, 255).filled()), Circle::new(*at, 10, colour.filled())]
        });
        chart.draw_series(dots)?;
    }
    Ok(())
}

/// What the levels are, beside their ends.
fn labels(area: &Area<'_>, chart: &Chart<'_, '_>, comparison: &Comparison, y: &Axis) -> Drawn {
    let is_few = comparison.lines.len() <= COLOURS;
    let labels = if is_few { each(&comparison.lines) } else { shared(&comparison.lines, LABELS) };
    let right = SIZE.0 as i32 - BESIDE;
    let level = |mib: f64| chart.backend_coord(&(1.0, y.inside(mib.max(1.0)))).1;
    let wanted: Vec<i32> = labels.iter().map(|label| level(label.mib)).collect();
    let places = spread(&wanted, LINE, 70 + LINE / 2, SIZE.1 as i32 - 116 - LINE / 2);
    for ((label, from), to) in labels.iter().zip(wanted).zip(places) {
        let colour = label.place.map_or(SOFT, |place| Colour::of(place).rgb());
        let pen = stroke(colour, if is_few { 4 } else { 2 });
        area.draw(&PathElement::new(vec![(right, from), (right + 36, to), (right + 60, to)], pen))?;
        text(area, &label.text, (right + 74, to - 16), HPos::Left)?;
    }
    Ok(())
}
