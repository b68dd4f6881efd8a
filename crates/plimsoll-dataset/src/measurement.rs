//! One measured run.

use plimsoll_graph::Workload;
use plimsoll_graph::generator::Generated;
use serde::{Deserialize, Serialize};

use crate::stack::Stack;

/// How a peak was read. The definition moves the number by more than a gigabyte, so it stays with every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// Used memory of the whole device, as `nvidia-smi` shows it.
    NvidiaSmiDevice,
    /// Memory of the process, as `nvidia-smi` shows it.
    NvidiaSmiProcess,
    /// The caching allocator's reserved bytes.
    Reserved,
    /// The caching allocator's allocated bytes.
    Allocated,
    /// Computed by a simulator or a formula, not measured.
    Simulated,
    /// Not said.
    #[default]
    Unknown,
}

impl Label {
    /// Every definition, in order.
    pub const ALL: [Self; 6] = [
        Self::NvidiaSmiDevice,
        Self::NvidiaSmiProcess,
        Self::Reserved,
        Self::Allocated,
        Self::Simulated,
        Self::Unknown,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NvidiaSmiDevice => "nvidia_smi_device",
            Self::NvidiaSmiProcess => "nvidia_smi_process",
            Self::Reserved => "reserved",
            Self::Allocated => "allocated",
            Self::Simulated => "simulated",
            Self::Unknown => "unknown",
        }
    }

    /// The definition of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.name() == name)
    }
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It ran; its peak in MiB.
    Measured {
        /// Peak memory, MiB.
        peak_mib: f64,
    },
    /// It ran out of memory: its need is above this, by an unknown amount.
    OutOfMemory {
        /// What the GPU could give, MiB.
        above_mib: f64,
    },
    /// Memory was not recorded.
    Unknown,
}

impl Outcome {
    /// The measured peak, if there is one.
    pub const fn peak_mib(self) -> Option<f64> {
        match self {
            Self::Measured { peak_mib } => Some(peak_mib),
            _ => None,
        }
    }

    /// What is known of the run's memory: the measured peak, or the limit that it was above.
    pub const fn known_mib(self) -> Option<f64> {
        match self {
            Self::Measured { peak_mib: mib } | Self::OutOfMemory { above_mib: mib } => Some(mib),
            Self::Unknown => None,
        }
    }

    /// A run that ran out of memory, with the last reading before it did.
    ///
    /// The need is above what the card could give, but how much a process can reach of the card's memory is not known
    /// (a CUDA context, the driver and other processes take their part), so that the capacity itself would claim too
    /// much by some percent. A last reading near it (over nine tenths) is a bound that certainly holds. An earlier
    /// reading only says that the request which failed was large; then the capacity is the better bound.
    pub fn out_of_memory(last_reading_mib: Option<f64>, capacity_mib: f64) -> Self {
        let near = last_reading_mib.filter(|&mib| mib.is_finite() && mib > Self::NEAR_CAPACITY * capacity_mib);
        Self::OutOfMemory { above_mib: near.unwrap_or(capacity_mib) }
    }

    /// The share of a card's memory over which a reading counts as near its capacity.
    const NEAR_CAPACITY: f64 = 0.9;

    /// Whether only a lower bound is known.
    pub const fn is_censored(self) -> bool {
        matches!(self, Self::OutOfMemory { .. })
    }
}

/// Why a reading is not taken at its word.
///
/// The rules that say so look at measurements only, never at an estimate. What is doubted is neither fitted to nor
/// counted as an error; it can be scored apart, every reading at its word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// What speaks against the reading, as one sentence.
    pub reason: String,
    /// The reading, MiB.
    pub reading_mib: f64,
}

/// One run of a workload and what was measured of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// File name and row, such as `mlp_data_step1.csv:17`: unique in a data set.
    pub id: String,
    /// What identifies the architecture apart from batch size, GPU and setup: near-twin rows share it.
    pub architecture: String,
    /// Finer than the family where the source says so (`pyramid`, `residual`, `encoder`); else empty.
    pub shape: String,
    /// The job.
    pub workload: Workload,
    /// How the peak was read.
    pub label: Label,
    /// The software that it ran on, as far as the source tells.
    pub stack: Stack,
    /// What became of it.
    pub outcome: Outcome,
    /// Utilisation as ratios in the order of [`UTILISATION`](crate::UTILISATION); `None` where not recorded.
    pub utilisation: [Option<f64>; 6],
    /// Estimates that others published for this very row: (estimator, MiB).
    pub published_estimates: Vec<(String, f64)>,
    /// Set where the reading is doubted: [`Measurement::outcome`] then says only what is certain.
    pub doubt: Option<Doubt>,
}

impl Measurement {
    /// A job of which nothing was measured.
    pub fn unmeasured(id: String, workload: Workload) -> Self {
        Self {
            id,
            architecture: workload.graph().name().to_owned(),
            shape: String::new(),
            workload,
            label: Label::Unknown,
            stack: Stack::default(),
            outcome: Outcome::Unknown,
            utilisation: [None; 6],
            published_estimates: Vec::new(),
            doubt: None,
        }
    }

    /// A generated job, of which nothing is known yet; what is said of it is simulated.
    pub fn generated(generated: Generated) -> Self {
        let Generated { id, shape, architecture, workload, .. } = generated;
        Self { architecture, shape, label: Label::Simulated, ..Self::unmeasured(id, workload) }
    }
}

/// A row that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// File name and row.
    pub id: String,
    /// Why it is not used, as one sentence.
    pub reason: String,
    /// The row as it stood in the file (shortened to a few hundred characters).
    pub content: String,
}

impl Rejection {
    /// The most characters of a row that are kept.
    pub const MAX_CONTENT: usize = 300;

    /// A row's text, cut to [`Rejection::MAX_CONTENT`] characters.
    pub fn shorten(content: &str) -> String {
        match content.char_indices().nth(Self::MAX_CONTENT) {
            Some((end, _)) => format!("{}...", &content[..end]),
            None => content.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_near_the_capacity_bounds_the_need_and_an_early_one_does_not() {
        let above = |reading| match Outcome::out_of_memory(reading, 40_960.0) {
            Outcome::OutOfMemory { above_mib } => above_mib,
            other => panic!("{other:?}"),
        };
        assert_eq!(above(Some(40_313.0)), 40_313.0);
        assert_eq!(above(Some(33_875.0)), 40_960.0);
        assert_eq!(above(Some(f64::NAN)), 40_960.0);
        assert_eq!(above(None), 40_960.0);
    }

    #[test]
    fn long_rows_are_cut_between_characters() {
        let text = "é".repeat(1_000);
        assert_eq!(Rejection::shorten(&text).chars().count(), Rejection::MAX_CONTENT + 3);
        assert_eq!(Rejection::shorten("short"), "short");
    }
}
