//! What drawings as wide as a page share: their pens, and the files they are written to.

use std::io;
use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::chart::ChartContext;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::Text;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, IntoFont, RGBColor, ShapeStyle, TextStyle};

use crate::error::{EvaluationError, Result};
use crate::replace_file::replace_text;
use crate::report::plot::axis::Axis;

/// What is drawn on.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// What drawing gives.
pub(crate) type Drawn<T = ()> = std::result::Result<T, DrawingAreaErrorKind<io::Error>>;

/// A chart between two axes.
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// Draws axes, the lines at their ticks and their labels; an empty label is none.
pub(crate) fn mesh(chart: &mut Chart<'_, '_>, x: &Axis, y: &Axis) -> Drawn {
    chart
        .configure_mesh()
        .light_line_style(RGBColor(0, 0, 0).mix(0.0))
        .bold_line_style(stroke(GRID, 2))
        .axis_style(stroke(INK, 2))
        .label_style(font())
        .axis_desc_style(font())
        .x_label_formatter(&|value| x.text(*value))
        .y_label_formatter(&|value| y.text(*value))
        .x_desc(x.label.clone())
        .y_desc(y.label.clone())
        .draw()
}

/// Size of texts.
pub(crate) const TEXT: f64 = 30.0;
/// Text and axes.
pub(crate) const INK: RGBColor = RGBColor(40, 46, 56);
/// What stands back.
pub(crate) const SOFT: RGBColor = RGBColor(110, 118, 128);
/// Lines at ticks.
pub(crate) const GRID: RGBColor = RGBColor(226, 230, 235);

/// Writes a text from its upper edge down.
pub(crate) fn text(area: &Area<'_>, text: &str, at: (i32, i32), anchor: HPos) -> Drawn {
    let style = font().pos(Pos::new(anchor, VPos::Top));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// Text in dark ink.
pub(crate) fn font() -> TextStyle<'static> {
    TextStyle::from((FontFamily::SansSerif, TEXT).into_font()).color(&INK)
}

/// A line of this width.
pub(crate) fn stroke(colour: RGBColor, width: u32) -> ShapeStyle {
    ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: width }
}

/// Places as near as possible to those that are wanted, in the same order and at least `gap` apart, from `first` on
/// and, as long as they all fit there, up to `last`.
pub(crate) fn spread(wanted: &[i32], gap: i32, first: i32, last: i32) -> Vec<i32> {
    let mut places = wanted.to_vec();
    let mut floor = first;
    for place in &mut places {
        *place = (*place).max(floor);
        floor = *place + gap;
    }
    let mut ceiling = last;
    for (at, place) in places.iter_mut().enumerate().rev() {
        *place = (*place).min(ceiling).max(first + gap * at as i32);
        ceiling = *place - gap;
    }
    places
}

/// A drawing whose size is left to the page.
pub(crate) fn for_a_page(svg: &str) -> String {
    let view = svg.find("viewBox").unwrap_or_default();
    format!("<svg role=\"img\" {}", &svg[view..])
}

/// Writes a page to `.html`, a drawing alone to `.svg`.
///
/// # Errors
/// Another extension; a file that cannot be written.
pub(crate) fn write_drawing(
    path: &Path,
    html: impl FnOnce() -> Result<String>,
    svg: impl FnOnce() -> Result<String>,
) -> Result<()> {
    let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    let text = match extension.as_deref() {
        Some("html") => html()?,
        Some("svg") => svg()?,
        other => {
            return Err(EvaluationError::Extension {
                path: path.to_owned(),
                expected: ".html or .svg",
                found: other.map_or_else(|| "none".to_owned(), |other| format!(".{other}")),
            });
        }
    };
    replace_text(path, &text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_keep_their_order_and_distance(mut wanted in prop::collection::vec(0..1000, 0..12)) {
            wanted.sort_unstable();
            let places = spread(&wanted, 50, 0, 1000);
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 50), "{places:?}");
            prop_assert!(places.iter().all(|place| (0..=1000).contains(place)), "{places:?}");
            if wanted.windows(2).all(|pair| pair[1] - pair[0] >= 50) {
                prop_assert_eq!(places, wanted);
            }
        }
    }
}
