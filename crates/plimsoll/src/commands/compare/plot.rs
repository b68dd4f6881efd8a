//! The answer as a drawing, and as a page around it.

use plimsoll_evaluation::{Comparison, ComparisonLine};

use super::{Answer, Load};

impl Answer {
    /// Everything that the page shows.
    pub(super) fn comparison(&self) -> Comparison {
        let line = |(place, gpu): (usize, &plimsoll_graph::Gpu)| ComparisonLine {
            gpu: gpu.name.clone(),
            capacity_mib: gpu.memory_mib as f64,
            peaks_mib: self.loads(place).map(Load::peak_mib).collect(),
        };
        Comparison {
            title: self.title.clone(),
            batches: self.columns.iter().map(|column| column.batch).collect(),
            lines: self.gpus.iter().enumerate().map(line).collect(),
            tables: vec![self.table()],
        }
    }
}
