//! The drawing: areas on top of each other, parts of the step side by side.

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor};

use super::thin::thin;
use super::{Timeline, TimelineMoment};
use crate::drawing::{Area, Drawn, GRID, INK, SOFT, TEXT, font, for_a_page, stroke, text};
use crate::error::{EvaluationError, Result};
use crate::report::plot::Colour;

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Twice as fine as shown, since Plotters rounds to whole units.
const SIZE: (u32, u32) = (2400, 1180);
/// Room for the legend, right of the chart.
const LEGEND: i32 = 520;
/// Height of a line of the legend.
const LINE: i32 = 54;
/// Points drawn at most.
const MAX_POINTS: usize = 2_000;
/// The GPU's end is drawn if the axis needs to be no longer than this for it, in terms of what is held.
const WITHIN_SIGHT: f64 = 1.6;

/// Behind every second part of a step.
const TINT: RGBColor = RGBColor(245, 247, 250);
const LIMIT: RGBColor = RGBColor(190, 30, 45);

/// Colours of the areas, from the bottom up: greys for what no tensor is in, the rest told apart by colour-blind
/// readers too.
const COLOURS: [Colour; 8] = [
    Colour::rgb_of(150, 156, 165),
    Colour::rgb_of(0, 114, 178),
    Colour::rgb_of(86, 180, 233),
    Colour::rgb_of(0, 158, 115),
    Colour::rgb_of(230, 159, 0),
    Colour::rgb_of(213, 94, 0),
    Colour::rgb_of(204, 121, 167),
    Colour::rgb_of(60, 60, 60),
];

/// The colour of an area.
pub(super) const fn colour(place: usize) -> Colour {
    COLOURS[place % COLOURS.len()]
}

pub(super) fn draw(timeline: &Timeline) -> Result<String> {
    let mut svg = String::new();
    paint(&mut svg, timeline).map_err(|error| EvaluationError::Figure {
        what: "the memory of a training step".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(for_a_page(&svg))
}

fn paint(svg: &mut String, timeline: &Timeline) -> Drawn {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&RGBColor(255, 255, 255))?;
    let scale = Scale::of(timeline);
    let mut chart = ChartBuilder::on(&area)
        .margin_top(70)
        .margin_right(LEGEND)
        .margin_bottom(16)
        .x_label_area_size(60)
        .y_label_area_size(140)
        .build_cartesian_2d(0.0..scale.right, 0.0..scale.top)?;
    bands(&area, &mut chart, &timeline.moments, scale)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .light_line_style(RGBColor(0, 0, 0).mix(0.0))
        .bold_line_style(stroke(GRID, 2))
        .axis_style(stroke(INK, 2))
        .label_style(font())
        .axis_desc_style(font())
        .y_label_formatter(&|value| format!("{value:.digits$}", digits = scale.digits))
        .x_desc("events of a step, in order")
        .y_desc("GiB")
        .draw()?;
    let totals: Vec<f64> = timeline.moments.iter().map(TimelineMoment::total_gib).collect();
    let places = thin(&totals, MAX_POINTS);
    areas(&mut chart, timeline, &places)?;
    let held = places.iter().map(|place| (*place as f64, timeline.moments[*place].reserved_gib));
    chart.draw_series([PathElement::new(held.collect::<Vec<_>>(), stroke(INK, 4))])?;
    if scale.shows_gpu {
        let ends = [(0.0, timeline.gpu_gib), (scale.right, timeline.gpu_gib)];
        chart.draw_series(DashedLineSeries::new(ends, 18, 12, stroke(LIMIT, 4)))?;
    }
    peak(&area, &chart, timeline, &totals, scale)?;
    legend(&area, timeline, scale)?;
    area.present()
}

/// How far the axes reach.
#[derive(Clone, Copy)]
struct Scale {
    right: f64,
    top: f64,
    /// Digits behind the point that tell one tick from the next.
    digits: usize,
    shows_gpu: bool,
}

impl Scale {
    fn of(timeline: &Timeline) -> Self {
        let held = timeline.moments.iter().map(|moment| moment.reserved_gib.max(moment.total_gib()));
        let held = held.fold(1e-3, f64::max);
        let shows_gpu = timeline.gpu_gib > 0.0 && timeline.gpu_gib <= WITHIN_SIGHT * held;
        let highest = if shows_gpu { held.max(timeline.gpu_gib) } else { held };
        // Above the lines is room for the remark on the peak.
        let top = (1.06 * highest).max(1.14 * held);
        Self {
            right: timeline.moments.len().saturating_sub(1).max(1) as f64,
            top,
            digits: (1.0 - top.log10().floor()).clamp(0.0, 3.0) as usize,
            shows_gpu,
        }
    }
}

/// Parts of the step: a tint behind every second, and its name above.
fn bands(area: &Area<'_>, chart: &mut Chart<'_, '_>, moments: &[TimelineMoment], scale: Scale) -> Drawn {
    let mut start = 0;
    for (number, band) in moments.chunk_by(|a, b| a.phase == b.phase).enumerate() {
        let end = start + band.len();
        let ends = (start as f64, (end as f64).min(scale.right));
        if number % 2 == 1 {
            chart.draw_series([Rectangle::new([(ends.0, 0.0), (ends.1, scale.top)], TINT.filled())])?;
        }
        if number > 0 {
            let line = vec![(ends.0, 0.0), (ends.0, scale.top)];
            chart.draw_series([PathElement::new(line, stroke(SOFT, 1))])?;
        }
        let (left, right) = (chart.backend_coord(&(ends.0, scale.top)), chart.backend_coord(&(ends.1, scale.top)));
        // Fonts are not measured, so that room is told by count.
        let width = (band[0].phase.chars().count() as f64 * 0.56 * TEXT) as i32;
        let y = left.1 - 48;
        if right.0 - left.0 > width {
            text(area, band[0].phase, (i32::midpoint(left.0, right.0), y), HPos::Center)?;
        } else if end == moments.len() {
            // The optimiser is often a sliver at the end: its name stands beyond it.
            text(area, band[0].phase, (left.0.max(right.0 - width / 2), y), HPos::Left)?;
        }
        start = end;
    }
    Ok(())
}

/// Each area reaches down to zero and is painted over by those below it: no seams show between them.
fn areas(chart: &mut Chart<'_, '_>, timeline: &Timeline, places: &[usize]) -> Drawn {
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(()) };
    for place in (0..timeline.uses.len()).rev() {
        if !is_used(timeline, place) {
            continue;
        }
        let upper = places.iter().map(|&moment| {
            let used = &timeline.moments[moment].used_gib;
            (moment as f64, used.iter().take(place + 1).sum::<f64>())
        });
        let outline: Vec<_> = [(*first as f64, 0.0)].into_iter().chain(upper).chain([(*last as f64, 0.0)]).collect();
        chart.draw_series([Polygon::new(outline, colour(place).rgb().filled())])?;
    }
    Ok(())
}

fn is_used(timeline: &Timeline, place: usize) -> bool {
    timeline.moments.iter().any(|moment| moment.used_gib.get(place).is_some_and(|bytes| *bytes > 0.0))
}

/// A ring around the moment with the most in use, and the remark above all lines.
fn peak(area: &Area<'_>, chart: &Chart<'_, '_>, timeline: &Timeline, totals: &[f64], scale: Scale) -> Drawn {
    let highest = totals.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
    let Some((place, total)) = highest else { return Ok(()) };
    let at = chart.backend_coord(&(place as f64, *total));
    let line = chart.backend_coord(&(place as f64, total.max(timeline.moments[place].reserved_gib))).1;
    let y = (line - 62).max(chart.backend_coord(&(0.0, scale.top)).1 + 6);
    area.draw(&PathElement::new(vec![at, (at.0, y)], stroke(INK, 2)))?;
    area.draw(&Circle::new(at, 9, RGBColor(255, 255, 255).filled()))?;
    area.draw(&Circle::new(at, 9, stroke(INK, 4)))?;
    let is_right = place as f64 > scale.right / 2.0;
    let (x, anchor) = if is_right { (at.0 - 10, HPos::Right) } else { (at.0 + 10, HPos::Left) };
    text(area, &timeline.peak_remark, (x, y), anchor)
}

/// What colours and lines stand for, in the order in which they are met from above.
fn legend(area: &Area<'_>, timeline: &Timeline, scale: Scale) -> Drawn {
    let left = SIZE.0 as i32 - LEGEND + 36;
    let mut y = 80;
    let place = if scale.shows_gpu { "" } else { " (above)" };
    let lines = [(LIMIT, format!("GPU: {:.1} GiB{place}", timeline.gpu_gib)), (INK, "reserved".to_owned())];
    for (colour, name) in lines {
        area.draw(&PathElement::new(vec![(left, y + 15), (left + 34, y + 15)], stroke(colour, 5)))?;
        text(area, &name, (left + 52, y), HPos::Left)?;
        y += LINE;
    }
    for place in (0..timeline.uses.len()).rev().filter(|place| is_used(timeline, *place)) {
        area.draw(&Rectangle::new([(left, y), (left + 34, y + 30)], colour(place).rgb().filled()))?;
        text(area, &timeline.uses[place], (left + 52, y), HPos::Left)?;
        y += LINE;
    }
    Ok(())
}
