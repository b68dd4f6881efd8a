//! One row of a published table, whatever its layout.

use plimsoll_graph::{Gpu, TrainingSetup};

use crate::ingest::cells;
use crate::ingest::columns::Header;
use crate::measurement::Label;
use crate::stack::Stack;
use csv::StringRecord;

/// A run as a table published it: the job, by the name of its model, and what was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// File and line of the row, or of the first of its repeats.
    pub id: String,
    /// Where the graph is found, such as `zoo:timm/vit_base_patch16_224`.
    pub workload: String,
    /// Name of the model.
    pub architecture: String,
    /// Tells jobs apart that are alike in all else, such as a benchmark's name; may be empty.
    pub variant: String,
    /// Family of the model, which splits hold out together.
    pub shape: String,
    /// The GPU.
    pub gpu: Gpu,
    /// How the model was trained.
    pub setup: TrainingSetup,
    /// How the peak was read.
    pub label: Label,
    /// The software, as far as the publication tells.
    pub stack: Stack,
    /// What was read, MiB.
    pub reading_mib: f64,
    /// How far the readings behind this one lie apart, as a share of their median.
    pub spread: f64,
    /// How many readings stand behind this one.
    pub repeats: usize,
    /// Utilisation as ratios in the order of [`UTILISATION`](crate::UTILISATION).
    pub utilisation: [Option<f64>; 6],
    /// What others estimated: (estimator, MiB).
    pub published_estimates: Vec<(String, f64)>,
    /// Throughput, where the table has it.
    pub samples_per_s: Option<f64>,
    /// The row as it stood in the file.
    pub content: String,
}

/// PyTorch's `FakeTensor` mode runs a step without data and counts its tensors: what is published of it is the least that
/// a run can take.
const COUNT_OF_TENSORS: &str = "faketensor";

impl Run {
    /// What the job's tensors alone take, MiB, where the table says it; else 0.
    pub(super) fn tensors_mib(&self) -> f64 {
        let mut counts = self.published_estimates.iter().filter(|(name, _)| name == COUNT_OF_TENSORS);
        counts.next().map_or(0.0, |&(_, mib)| mib)
    }

    /// The job apart from its batch: workload, setup and GPU.
    pub(super) fn job(&self) -> String {
        let setup = TrainingSetup { batch_size: 1, last_batch: None, startup_batch: None, ..self.setup.clone() };
        let setup = serde_json::to_string(&setup).unwrap_or_default();
        format!("{} {} {} {setup}", self.workload, self.variant, self.gpu.name)
    }
}

/// The cells of a row, by column.
pub(super) struct Cells<'r> {
    pub(super) header: &'r Header,
    pub(super) record: &'r StringRecord,
}

impl<'r> Cells<'r> {
    /// A cell's text; `None` without the column or where it is empty.
    pub(super) fn text(&self, name: &str) -> Option<&'r str> {
        cells::text(self.record, self.header.position(name))
    }

    /// A cell that must say something.
    pub(super) fn needed(&self, name: &str) -> Result<&'r str, String> {
        self.text(name).ok_or_else(|| format!("`{name}` is empty"))
    }

    /// A whole number of at least 0.
    pub(super) fn count(&self, name: &str) -> Result<u64, String> {
        cells::count(name, self.text(name))
    }

    /// A peak in MiB, over 0.
    pub(super) fn reading(&self, name: &str) -> Result<f64, String> {
        match cells::mib(name, self.needed(name)?)? {
            mib if mib > 0.0 => Ok(mib),
            _ => Err(format!("`{name}` is 0: no memory was recorded")),
        }
    }

    /// Estimates of others: columns and the estimators that they are of. Absurd ones are none.
    pub(super) fn estimates(&self, columns: &[(&str, &str)]) -> Result<Vec<(String, f64)>, String> {
        let estimate = |&(column, estimator): &(&str, &str)| {
            let text = self.text(column)?;
            Some(cells::mib(column, text).map(|mib| (estimator.to_owned(), mib)))
        };
        columns.iter().filter_map(estimate).collect()
    }

    /// A positive number, or none.
    pub(super) fn positive(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
    }

    /// A figure of a data sheet.
    pub(super) fn figure(&self, name: &str) -> Result<f64, String> {
        let text = self.needed(name)?;
        let figure = text.parse().ok().filter(|figure: &f64| figure.is_finite() && *figure >= 0.0);
        figure.ok_or_else(|| format!("`{name}` should be a number of at least 0, is `{}`", cells::short(text)))
    }
}
