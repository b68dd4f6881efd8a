//! What is estimated.

use serde::{Deserialize, Serialize};

/// A quantity that estimators predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Peak device memory, MiB.
    #[serde(rename = "peak_memory_mib")]
    PeakMemory,
    /// GPU utilisation as `nvidia-smi` shows it: share of time in which any kernel runs. Percent at the borders.
    #[serde(rename = "gputl_pct")]
    Gputl,
    /// Graphics engine active, a ratio (DCGM field 1001).
    Gract,
    /// Streaming multiprocessors active, a ratio (DCGM field 1002).
    Smact,
    /// Warps resident against the maximum, a ratio (DCGM field 1003).
    Smocc,
    /// FP32 pipe active, a ratio (DCGM field 1007).
    Fp32a,
    /// Device memory interface active, a ratio (DCGM field 1005).
    Drama,
}

/// The utilisation metrics, in the order in which arrays hold them.
pub const UTILISATION: [Target; 6] =
    [Target::Gputl, Target::Gract, Target::Smact, Target::Smocc, Target::Fp32a, Target::Drama];

impl Target {
    /// Every target: memory first, then [`UTILISATION`].
    pub const ALL: [Self; 7] =
        [Self::PeakMemory, Self::Gputl, Self::Gract, Self::Smact, Self::Smocc, Self::Fp32a, Self::Drama];

    /// The name in files and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PeakMemory => "peak_memory_mib",
            Self::Gputl => "gputl_pct",
            Self::Gract => "gract",
            Self::Smact => "smact",
            Self::Smocc => "smocc",
            Self::Fp32a => "fp32a",
            Self::Drama => "drama",
        }
    }

    /// The name in sentences, as DCGM's users know it.
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::PeakMemory => "peak memory",
            Self::Gputl => "GPUTL",
            Self::Gract => "GRACT",
            Self::Smact => "SMACT",
            Self::Smocc => "SMOCC",
            Self::Fp32a => "FP32A",
            Self::Drama => "DRAMA",
        }
    }

    /// The unit in files and JSON.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::PeakMemory => "MiB",
            Self::Gputl => "percent",
            _ => "ratio",
        }
    }

    /// What one unit of the outside form is inside: arrays hold utilisation as ratios, files show GPUTL in percent.
    pub const fn per_ratio(self) -> f64 {
        match self {
            Self::Gputl => 100.0,
            _ => 1.0,
        }
    }

    /// A ratio in the outside form. [`Target::ratio`] gives the same ratio back: exactly if it came from a value of
    /// the outside form or an `f32`, and to the last digit of an `f64` otherwise.
    pub fn outside(self, ratio: f64) -> f64 {
        let value = ratio * self.per_ratio();
        // Multiplying and dividing by 100 may end one step beside where it began.
        [value, value.next_up(), value.next_down()].into_iter().find(|&near| self.ratio(near) == ratio).unwrap_or(value)
    }

    /// A value in the outside form as a ratio.
    pub fn ratio(self, value: f64) -> f64 {
        value / self.per_ratio()
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_come_back_exactly() {
        for step in 0..10_000 {
            let ratio = Target::Gputl.ratio(f64::from(step) * 100.0 / 9_999.0);
            assert_eq!(Target::Gputl.ratio(Target::Gputl.outside(ratio)), ratio);
            let single = step as f32 / 9_999.0;
            assert_eq!(Target::Gputl.ratio(Target::Gputl.outside(f64::from(single))) as f32, single);
        }
        assert_eq!(Target::Smact.outside(0.25), 0.25);
    }
}
