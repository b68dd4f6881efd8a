//! What drawings as wide as a page share: their pens, and the files they are written to.

use std::io;
use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::Text;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, IntoFont, RGBColor, ShapeStyle, TextStyle};

use crate::error::{EvaluationError, Result};
use crate::replace_file::replace_text;

/// What is drawn on.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// What drawing gives.
pub(crate) type Drawn<T = ()> = std::result::Result<T, DrawingAreaErrorKind<io::Error>>;

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
