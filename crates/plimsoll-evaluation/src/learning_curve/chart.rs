//! The drawing: a line for each GPU that falls with the runs shown.

use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor};

use super::{LearningCurve, LearningCurves};

use crate::drawing::{Drawn, for_a_page, mesh, spread, stroke, text};
use crate::error::{EvaluationError, Result};
use crate::report::plot::Colour;
use crate::report::plot::axis::Axis;

/// Twice as fine as shown, since Plotters rounds to whole units.
const SIZE: (u32, u32) = (2400, 1100);
/// Room for the labels, right of the chart.
const BESIDE: i32 = 760;
/// Height of a label.
const LINE: i32 = 46;
/// Characters of a label at most.
const WIDTH: usize = 42;
/// Labels that fit beside the chart.
const LABELS: usize = 18;
/// Errors below this, percent, end at the axis.
const FLOOR_PCT: f64 = 0.1;

pub(super) fn draw(curves: &LearningCurves) -> Result<String> {
    let mut svg = String::new();
    paint(&mut svg, curves).map_err(|error| EvaluationError::Figure {
        what: "errors against runs shown".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(for_a_page(&svg))
}

fn paint(svg: &mut String, curves: &LearningCurves) -> Drawn {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&RGBColor(255, 255, 255))?;
    // None is a number of runs too, so that they stand at equal steps, as names.
    let points = || curves.curves.iter().flat_map(|curve| &curve.points);
    let mut runs: Vec<usize> = points().map(|point| point.rows).collect();
    runs.sort_unstable();
    runs.dedup();
    let names: Vec<String> = runs.iter().map(ToString::to_string).collect();
    let x = Axis::names("measured runs shown", &names);
    let errors: Vec<f64> = points().map(|point| point.median_ape_pct.max(FLOOR_PCT)).collect();
    let low = errors.iter().copied().reduce(f64::min).unwrap_or(1.0);
    let y = Axis::logarithmic("median APE (%)", low, errors.iter().copied().fold(2.0 * low, f64::max));
    let mut chart = ChartBuilder::on(&area)
        .margin_top(40)
        .margin_right(BESIDE)
        .margin_bottom(16)
        .x_label_area_size(100)
        .y_label_area_size(116)
        .build_cartesian_2d(x.clone(), y.clone())?;
    mesh(&mut chart, &x, &y)?;
    let place = |rows: usize| runs.iter().position(|known| *known == rows).unwrap_or_default() as f64;
    let drawn: Vec<&LearningCurve> = curves.curves.iter().filter(|curve| !curve.points.is_empty()).collect();
    let mut ends = Vec::new();
    for (index, curve) in drawn.iter().enumerate() {
        let colour = Colour::of(index).rgb();
        let line: Vec<(f64, f64)> = curve
            .points
            .iter()
            .map(|point| (place(point.rows), y.inside(point.median_ape_pct.max(FLOOR_PCT))))
            .collect();
        chart.draw_series([PathElement::new(line.clone(), stroke(colour, 5))])?;
        chart.draw_series(line.iter().map(|at| Circle::new(*at, 10, colour.filled())))?;
        ends.extend(line.last().map(|end| (chart.backend_coord(end), colour, curve.name())));
    }
    // From above down, as labels stand.
    ends.sort_by_key(|((_, height), ..)| *height);
    ends.truncate(LABELS);
    let wanted: Vec<i32> = ends.iter().map(|((_, height), ..)| *height).collect();
    let places = spread(&wanted, LINE, 40 + LINE / 2, SIZE.1 as i32 - 116 - LINE / 2);
    let right = SIZE.0 as i32 - BESIDE;
    for ((end, colour, name), to) in ends.into_iter().zip(places) {
        area.draw(&PathElement::new(vec![end, (right + 20, to), (right + 50, to)], stroke(colour, 3)))?;
        let name: String = name.chars().take(WIDTH).collect();
        text(&area, &name, (right + 64, to - 16), HPos::Left)?;
    }
    area.present()
}
