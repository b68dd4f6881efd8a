//! What a job takes at several batch sizes, and what several GPUs have, as a drawing and as a page around it.

mod chart;
mod labels;

use std::path::Path;

use crate::drawing::write_drawing;
use crate::error::Result;
use crate::report::document::{Block, Figure};
use crate::report::html;
use crate::timeline::TimelineTable;
use crate::timeline::page::table_blocks;

/// Memory of a job against its batch, on several GPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// What is shown: network, optimiser, precision.
    pub title: String,
    /// Batch sizes, ascending.
    pub batches: Vec<u64>,
    /// One line a GPU.
    pub lines: Vec<ComparisonLine>,
    /// On the page only.
    pub tables: Vec<TimelineTable>,
}

/// The job on one GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ComparisonLine {
    /// Name of the GPU.
    pub gpu: String,
    /// Its memory, MiB.
    pub capacity_mib: f64,
    /// Peak memory of the job at each batch, MiB, as many as [`Comparison::batches`].
    pub peaks_mib: Vec<f64>,
}

impl Comparison {
    /// The drawing, with its labels.
    pub fn svg(&self) -> Result<String> {
        chart::draw(self)
    }

    /// The drawing and its tables as one page that needs no other file.
    pub fn html(&self) -> Result<String> {
        let mut blocks = vec![
            Block::Heading { level: 2, text: "Memory by batch".to_owned() },
            Block::Drawing(Figure {
                title: "Peak memory against batch size".to_owned(),
                caption: "Rising lines are what the job takes, level lines what the GPUs have; equal steps are equal \
                          factors. A dot is the largest of the batch sizes that fits."
                    .to_owned(),
                svg: self.svg()?,
                legend: Vec::new(),
            }),
        ];
        let colour = |name: &str| chart::colour(self, self.lines.iter().position(|line| line.gpu == name)?);
        blocks.extend(self.tables.iter().flat_map(|table| table_blocks(table, colour)));
        Ok(html::page(&self.title, &blocks))
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

    fn comparison(gpus: usize, batches: u32) -> Comparison {
        let line = |place: usize| ComparisonLine {
            gpu: format!("<gpu-{place}>"),
            capacity_mib: 8192.0 * (1.0 + place as f64 / 9.0),
            peaks_mib: (0..batches).map(|power| 2000.0 + 80.0 * f64::from(1_u32 << power)).collect(),
        };
        Comparison {
            title: "<net>".to_owned(),
            batches: (0..batches).map(|power| 1 << power).collect(),
            lines: (0..gpus).map(line).collect(),
            tables: vec![TimelineTable {
                heading: "All".to_owned(),
                caption: "of them".to_owned(),
                columns: vec![("GPU".to_owned(), false)],
                rows: (0..gpus).map(|place| vec![format!("<gpu-{place}>")]).collect(),
            }],
        }
    }

    #[test]
    fn few_gpus_have_a_line_and_a_label_each() {
        let html = comparison(3, 8).html().expect("drawn");
        for text in ["&lt;net&gt;", "&lt;gpu-0&gt;", "&lt;gpu-2&gt;", "8.0 GiB", "of them"] {
            assert!(html.contains(text), "{text}");
        }
        assert!(!html.contains("<gpu") && !html.contains("<script") && !html.contains("NaN"));
    }

    #[test]
    fn many_gpus_share_labels_and_stay_one_drawing() {
        let svg = comparison(90, 12).svg().expect("drawn");
        assert!(svg.starts_with("<svg ") && svg.contains("more") && !svg.contains("NaN"), "{svg}");
        assert!(svg.matches("GiB").count() < 30);
    }

    #[test]
    fn nothing_and_next_to_nothing_are_drawings_too() {
        for (gpus, batches) in [(0, 0), (1, 0), (1, 1), (0, 3)] {
            assert!(!comparison(gpus, batches).svg().expect("drawn").contains("NaN"));
        }
        assert!(comparison(1, 1).write(Path::new("load.png")).is_err());
    }
}
