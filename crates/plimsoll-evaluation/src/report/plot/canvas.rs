//! A chart as an SVG text that fits into a page.

use std::fmt::Write;
use std::io;

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::axis::Axis;
use crate::error::{EvaluationError, Result};

/// A chart being drawn.
pub(super) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// What drawing gives.
pub(super) type Drawn<T = ()> = std::result::Result<T, DrawingAreaErrorKind<io::Error>>;

/// Width and height of every figure: more than twice as fine as shown, since Plotters rounds to whole units.
const SIZE: (u32, u32) = (840, 780);

/// Text and axes.
const INK: RGBColor = RGBColor(51, 51, 51);
/// Lines at ticks.
const GRID: RGBColor = RGBColor(228, 228, 228);
/// Lines and areas to compare with.
pub(super) const GUIDE: RGBColor = RGBColor(110, 110, 110);

/// Draws a chart: axes and lines at their ticks first, then what `body` adds.
pub(super) fn draw(what: &str, (x, y): (Axis, Axis), body: impl FnOnce(&mut Chart<'_, '_>) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    paint(&mut svg, (x, y), body)
        .map_err(|error| EvaluationError::Figure { what: what.to_owned(), reason: error.to_string() })?;
    Ok(compact(&svg))
}

fn paint(svg: &mut String, (x, y): (Axis, Axis), body: impl FnOnce(&mut Chart<'_, '_>) -> Drawn) -> Drawn {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let left = 74 + 16 * y.longest_text() as u32;
    let mut chart = ChartBuilder::on(&area)
        .margin_top(16)
        .margin_right(32)
        .x_label_area_size(96)
        .y_label_area_size(left)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(RGBColor(0, 0, 0).mix(0.0))
        .bold_line_style(ShapeStyle { color: GRID.to_rgba(), filled: false, stroke_width: 2 })
        .axis_style(ShapeStyle { color: INK.to_rgba(), filled: false, stroke_width: 2 })
        .label_style(font(33.0))
        .axis_desc_style(font(35.0))
        .x_label_formatter(&|value| x.text(*value))
        .y_label_formatter(&|value| y.text(*value))
        .x_desc(x.label.clone())
        .y_desc(y.label.clone())
        .draw()?;
    body(&mut chart)?;
    area.present()
}

/// Text of this size in dark ink.
fn font(size: f64) -> TextStyle<'static> {
    TextStyle::from((FontFamily::SansSerif, size).into_font()).color(&INK)
}

/// A line through points.
pub(super) fn line(points: Vec<(f64, f64)>, colour: RGBColor, width: u32) -> PathElement<(f64, f64)> {
    PathElement::new(points, ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: width })
}

/// A shaded area.
pub(super) fn shade(points: Vec<(f64, f64)>, colour: RGBColor, alpha: f64) -> Polygon<(f64, f64)> {
    Polygon::new(points, colour.mix(alpha).filled())
}

/// A remark inside a chart, centred at a point, its upper edge there.
pub(super) fn remark(text: &str, at: (f64, f64)) -> Text<'static, (f64, f64), String> {
    let style = font(31.0).color(&GUIDE).pos(Pos::new(HPos::Center, VPos::Top));
    Text::new(text.to_owned(), at, style)
}

/// Makes the text smaller without changing the picture: circles of one look share their look, and the size is left
/// to the page.
fn compact(svg: &str) -> String {
    let mut text = String::with_capacity(svg.len() / 2);
    let mut open: Option<String> = None;
    for line in svg.lines() {
        let circle = circle(line);
        if let Some(look) = &open
            && circle.as_ref().is_none_or(|(_, other)| other != look)
        {
            text.push_str("</g>");
            open = None;
        }
        match circle {
            Some((place, look)) => {
                if open.is_none() {
                    let _ = write!(text, "<g {look}>");
                    open = Some(look);
                }
                text.push_str(&place);
            }
            None if line.starts_with("<svg ") => {
                let view = line.find("viewBox").map_or("", |start| &line[start..]);
                let _ = writeln!(text, "<svg role=\"img\" {view}");
            }
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// Where a circle is, as an element, and how it looks, as attributes that it can inherit.
fn circle(line: &str) -> Option<(String, String)> {
    let rest = line.strip_prefix("<circle ")?.strip_suffix("/>")?;
    let (place, look) = rest.split_once(" opacity=")?;
    Some((format!("<circle {place}/>"), format!("fill-opacity={look}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_share_their_look() {
        let svg = "<svg width=\"8\" height=\"8\" viewBox=\"0 0 8 8\" xmlns=\"x\">\n\
                   <circle cx=\"1\" cy=\"2\" r=\"3\" opacity=\"0.5\" fill=\"#000000\" stroke=\"none\"/>\n\
                   <circle cx=\"4\" cy=\"5\" r=\"3\" opacity=\"0.5\" fill=\"#000000\" stroke=\"none\"/>\n\
                   <circle cx=\"6\" cy=\"7\" r=\"3\" opacity=\"1\" fill=\"#000000\" stroke=\"none\"/>\n\
                   <line/>\n</svg>\n";
        assert_eq!(
            compact(svg),
            "<svg role=\"img\" viewBox=\"0 0 8 8\" xmlns=\"x\">\n\
             <g fill-opacity=\"0.5\" fill=\"#000000\" stroke=\"none\"><circle cx=\"1\" cy=\"2\" r=\"3\"/>\
             <circle cx=\"4\" cy=\"5\" r=\"3\"/></g>\
             <g fill-opacity=\"1\" fill=\"#000000\" stroke=\"none\"><circle cx=\"6\" cy=\"7\" r=\"3\"/></g>\
             <line/>\n</svg>\n"
        );
    }

    #[test]
    fn text_is_drawn_without_a_font_and_escaped() {
        let axes = (Axis::linear("a < b", 0.0, 1.0), Axis::linear("y", 0.0, 1.0));
        let svg = draw("a chart", axes, |chart| {
            chart.draw_series([remark("here & there", (0.5, 0.5))])?;
            Ok(())
        })
        .expect("known");
        assert!(svg.contains("a &lt; b") && svg.contains("here &amp; there") && svg.contains(">\n0.4\n"), "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
    }
}
