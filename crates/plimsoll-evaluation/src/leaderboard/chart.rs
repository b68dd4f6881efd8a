//! Errors of estimators as bars, the best on top.

use plotters::backend::SVGBackend;
use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::{Color, RGBColor};

use super::LeaderboardRow;
use super::ranking::rank_key;
use crate::drawing::{Chart, Drawn, INK, for_a_page, mesh, stroke};
use crate::error::{EvaluationError, Result};
use crate::report::plot::Colour;
use crate::report::plot::axis::Axis;

/// Twice as fine as shown, since Plotters rounds to whole units.
const WIDTH: u32 = 2400;
/// Room for a bar.
const BAR: u32 = 62;
/// Room for the axis below and what stands above.
const AROUND: u32 = 150;
/// Half the thickness of a bar, as a share of its room.
const HALF: f64 = 0.34;
/// Errors below this, percent, end at the axis.
const FLOOR_PCT: f64 = 0.1;

/// Estimators that were fitted to rows.
const FITTED: Colour = Colour::of(0);
/// Formulas, and what others published.
const OTHERS: Colour = Colour::rgb_of(150, 158, 168);

/// What the colours stand for.
pub(super) fn legend() -> Vec<(Colour, String)> {
    vec![
        (FITTED, "fitted to measurements".to_owned()),
        (OTHERS, "formulas, and estimates that others published".to_owned()),
    ]
}

/// The drawing of rows that can be compared.
pub(super) fn draw(rows: &[&LeaderboardRow]) -> Result<String> {
    let mut ranked: Vec<&LeaderboardRow> = rows.iter().copied().filter(|row| row.median_ape_pct.is_some()).collect();
    // The axis of names counts from below.
    ranked.sort_by(|one, other| rank_key(other).total_cmp(&rank_key(one)));
    let mut svg = String::new();
    paint(&mut svg, &ranked).map_err(|error| EvaluationError::Figure {
        what: "errors by estimator".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(for_a_page(&svg))
}

fn paint(svg: &mut String, rows: &[&LeaderboardRow]) -> Drawn {
    let area = SVGBackend::with_string(svg, (WIDTH, AROUND + BAR * rows.len() as u32)).into_drawing_area();
    area.fill(&RGBColor(255, 255, 255))?;
    let names: Vec<String> = rows.iter().map(|row| name(row, rows)).collect();
    let y = Axis::names("", &names);
    let ends =
        rows.iter().flat_map(|row| [row.median_ape_high_pct, row.mape_high_pct, row.mape_pct, row.median_ape_pct]);
    let highest = ends.flatten().filter(|error| error.is_finite()).fold(2.0 * FLOOR_PCT, f64::max);
    let label = format!("absolute percentage error of peak memory (%), log scale; all below {FLOOR_PCT} stands there");
    let x = Axis::logarithmic(&label, FLOOR_PCT, highest);
    let mut chart = ChartBuilder::on(&area)
        .margin_top(20)
        .margin_right(70)
        .x_label_area_size(110)
        .y_label_area_size(60 + 16 * y.longest_text() as u32)
        .build_cartesian_2d(x.clone(), y.clone())?;
    mesh(&mut chart, &x, &y)?;
    for (place, row) in rows.iter().enumerate() {
        bar(&mut chart, row, place as f64, &x)?;
    }
    area.present()
}

/// A bar to the median, a dot at the mean, and a line over the interval of each.
fn bar(chart: &mut Chart<'_, '_>, row: &LeaderboardRow, place: f64, x: &Axis) -> Drawn {
    let colour = if row.size_bytes.is_some() { FITTED } else { OTHERS };
    let median = x.inside(row.median_ape_pct.unwrap_or(FLOOR_PCT));
    let corners = [(x.ends.0, place - HALF), (median, place + HALF)];
    chart.draw_series([Rectangle::new(corners, colour.rgb().mix(0.75).filled())])?;
    let mut interval = |low: Option<f64>, high: Option<f64>, at: f64| -> Drawn {
        if let Some((low, high)) = low.zip(high) {
            let points = vec![(x.inside(low), at), (x.inside(high), at)];
            chart.draw_series([PathElement::new(points, stroke(INK, 3))])?;
        }
        Ok(())
    };
    interval(row.median_ape_low_pct, row.median_ape_high_pct, place + HALF / 2.0)?;
    interval(row.mape_low_pct, row.mape_high_pct, place - HALF / 2.0)?;
    let mean = row.mape_pct.filter(|mean| mean.is_finite());
    chart.draw_series(mean.map(|mean| Circle::new((x.inside(mean), place - HALF / 2.0), 8, INK.filled())))?;
    Ok(())
}

/// The estimator, with its run where others have one of the same name.
fn name(row: &LeaderboardRow, rows: &[&LeaderboardRow]) -> String {
    let is_shared = rows.iter().filter(|other| other.estimator == row.estimator).count() > 1;
    match (is_shared, row.config.is_empty()) {
        (false, _) => row.estimator.clone(),
        (true, false) => format!("{} of {}", row.estimator, row.config),
        (true, true) => format!("{} of {}", row.estimator, row.run_id),
    }
}
