//! The answer for people, and the table that the page shows too.

use plimsoll_evaluation::TimelineTable;

use super::{Answer, Load};
use crate::output;

impl Answer {
    /// Lines of text.
    pub(super) fn words(&self) -> String {
        let table = self.table();
        let header: Vec<&str> = table.columns.iter().map(|column| column.0.as_str()).collect();
        let text = output::table(&header, &table.rows);
        let mut lines = vec![format!("{}; peak memory by batch size, GiB and share of the GPU's", self.title)];
        lines.extend(text.lines().map(|line| format!("  {line}")));
        lines.extend(self.warnings().iter().map(|warning| format!("warning: {warning}")));
        lines.join("\n")
    }

    /// GPUs by batch sizes.
    pub(super) fn table(&self) -> TimelineTable {
        let mut columns = vec![("GPU".to_owned(), false), ("GiB".to_owned(), true), ("fits up to".to_owned(), true)];
        for column in &self.columns {
            columns.push((column.batch.to_string(), true));
            columns.push((String::new(), true));
        }
        let row = |(place, gpu): (usize, &plimsoll_graph::Gpu)| {
            let largest = self.largest(place).map_or_else(|| "-".to_owned(), |batch| batch.to_string());
            let mut cells = vec![gpu.name.clone(), gib(gpu.memory_mib as f64), largest];
            cells.extend(self.loads(place).flat_map(|load| [gib(load.peak_mib()), share(load)]));
            cells
        };
        TimelineTable {
            heading: "GPUs and batch sizes".into(),
            caption: "Estimated peak memory at each batch size, in GiB and as a share of what the GPU has. A job of \
                      more than 100 % does not fit."
                .into(),
            columns,
            rows: self.gpus.iter().enumerate().map(row).collect(),
        }
    }
}

/// A table is for comparing: one unit, few digits.
fn gib(mib: f64) -> String {
    format!("{:.2}", mib / 1024.0)
}

/// The share of the GPU, rounded up above its end, so that what does not fit never reads 100 %.
fn share(load: &Load) -> String {
    let percent = 100.0 * load.share();
    let shown = if percent > 100.0 { percent.ceil() } else { percent.floor() };
    format!("{shown:.0}%")
}
