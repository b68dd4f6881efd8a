//! What a GPU holds in the course of a training step, as a drawing and as a page around it.

mod chart;
pub(crate) mod page;
mod thin;

use std::path::Path;

use crate::drawing::write_drawing;
use crate::error::Result;

/// Memory over the moments of a training step, and what a page says beside the drawing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// What is shown: network, batch, GPU.
    pub title: String,
    /// What memory is used for, as areas on top of each other, from the bottom up.
    pub uses: Vec<String>,
    /// The moments, in order.
    pub moments: Vec<TimelineMoment>,
    /// What is said of the moment with the most in use.
    pub peak_remark: String,
    /// Memory of the GPU, GiB.
    pub gpu_gib: f64,
    /// On the page only: the numbers to look at first, each with its name and a note.
    pub tiles: Vec<[String; 3]>,
    /// On the page only.
    pub tables: Vec<TimelineTable>,
}

/// One moment of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimelineMoment {
    /// Part of the step: moments that follow each other in the same part share its label.
    pub phase: &'static str,
    /// GiB of each use, as many as [`Timeline::uses`].
    pub used_gib: Vec<f64>,
    /// GiB held from the GPU, used or not.
    pub reserved_gib: f64,
}

impl TimelineMoment {
    fn total_gib(&self) -> f64 {
        self.used_gib.iter().sum()
    }
}

/// A table of the page. A first cell that is one of [`Timeline::uses`] gets the colour of its area.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimelineTable {
    /// The heading over it.
    pub heading: String,
    /// What it shows.
    pub caption: String,
    /// Names of its columns, and whether they hold numbers.
    pub columns: Vec<(String, bool)>,
    /// Its rows, as wide as the columns.
    pub rows: Vec<Vec<String>>,
}

impl Timeline {
    /// The drawing, with its legend.
    pub fn svg(&self) -> Result<String> {
        chart::draw(self)
    }

    /// The drawing and its tables as one page that needs no other file.
    pub fn html(&self) -> Result<String> {
        page::html(self)
    }

    /// Writes the page to `.html`, the drawing alone to `.svg`.
    ///
    /// # Errors
    /// Another extension; a file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_drawing(path, || self.html(), || self.svg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(moments: usize) -> Timeline {
        let moment = |place: usize| TimelineMoment {
            phase: if 2 * place < moments { "forward" } else { "backward" },
            used_gib: vec![1.0, place.min(moments - place) as f64 / 100.0],
            reserved_gib: 1.0 + moments as f64 / 100.0,
        };
        Timeline {
            title: "<net>".to_owned(),
            uses: vec!["weights".to_owned(), "activations".to_owned()],
            moments: (0..moments).map(moment).collect(),
            peak_remark: "the peak & more".to_owned(),
            gpu_gib: 80.0,
            tiles: vec![["peak".to_owned(), "7 GiB".to_owned(), "fits".to_owned()]],
            tables: vec![TimelineTable {
                heading: "Parts".to_owned(),
                caption: "All of them".to_owned(),
                columns: vec![("part".to_owned(), false), ("MiB".to_owned(), true)],
                rows: vec![vec!["weights".to_owned(), "12".to_owned()]],
            }],
        }
    }

    #[test]
    fn the_page_needs_no_other_file_and_names_are_no_markup() {
        let html = timeline(300).html().expect("drawn");
        for text in ["&lt;net&gt;", "the peak &amp; more", "forward", "backward", "activations", "7 GiB", "All of them"]
        {
            assert!(html.contains(text), "{text}");
        }
        assert!(
            !html.contains("<net>") && !html.contains("<script") && !html.contains("src=") && !html.contains("NaN")
        );
        assert_eq!(html.matches("http").count(), html.matches("http://www.w3.org/2000/svg").count());
    }

    #[test]
    fn long_steps_make_no_heavy_drawing() {
        let long = timeline(100_000).svg().expect("drawn");
        assert!(long.len() < 200_000, "{}", long.len());
        // No moments, one moment and no memory are drawings too.
        for mut timeline in [timeline(0), timeline(1), Timeline::default()] {
            timeline.gpu_gib = 0.0;
            assert!(!timeline.svg().expect("drawn").contains("NaN"));
        }
    }

    #[test]
    fn the_name_says_which_kind_of_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        timeline(9).write(&path("a.html")).expect("written");
        timeline(9).write(&path("a.SVG")).expect("written");
        let read = |name: &str| std::fs::read_to_string(path(name)).expect("there");
        assert!(read("a.html").starts_with("<!DOCTYPE html>") && read("a.SVG").starts_with("<svg "));
        let error = timeline(9).write(&path("a.png")).expect_err("unknown").to_string();
        assert!(error.contains("a.png") && error.contains(".html or .svg") && error.contains(".png"), "{error}");
        assert!(timeline(9).write(&path("none")).is_err());
    }
}
