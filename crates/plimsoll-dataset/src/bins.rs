//! Memory in steps: what classifiers predict.

use serde::{Deserialize, Serialize};

use crate::error::{DatasetError, Result};

/// Half-open bins of one width that start at 0 MiB: bin `i` holds `i * width <= mib < (i + 1) * width`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawBins")]
pub struct Bins {
    width_mib: f64,
    count: usize,
}

/// [`Bins`] as they stand in a file, before they are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBins {
    width_mib: f64,
    count: usize,
}

impl TryFrom<RawBins> for Bins {
    type Error = DatasetError;

    fn try_from(raw: RawBins) -> Result<Self> {
        Self::new(raw.width_mib, raw.count)
    }
}

impl Bins {
    /// More bins than this make no classifier.
    pub const MAX_COUNT: usize = 1 << 16;

    /// So many bins of so many MiB.
    ///
    /// # Errors
    /// A width that is not above 0 and finite, and a count that is 0 or over [`Bins::MAX_COUNT`].
    pub fn new(width_mib: f64, count: usize) -> Result<Self> {
        if !(width_mib.is_finite() && width_mib > 0.0) {
            return Err(DatasetError::OutOfRange {
                what: "bin width".into(),
                expected: "a number of MiB above 0".into(),
                found: width_mib.to_string(),
            });
        }
        if count == 0 || count > Self::MAX_COUNT {
            return Err(DatasetError::OutOfRange {
                what: "number of bins".into(),
                expected: format!("1 to {}", Self::MAX_COUNT),
                found: count.to_string(),
            });
        }
        Ok(Self { width_mib, count })
    }

    /// The fewest bins of this width that hold everything up to and including `max_mib`.
    ///
    /// # Errors
    /// As [`Bins::new`].
    pub fn covering(width_mib: f64, max_mib: f64) -> Result<Self> {
        // A value on an edge belongs to the bin above it.
        Self::new(width_mib, ((max_mib.max(0.0) / width_mib).floor() as usize).saturating_add(1))
    }

    /// Width of every bin, MiB.
    pub const fn width_mib(self) -> f64 {
        self.width_mib
    }

    /// Number of bins.
    pub const fn count(self) -> usize {
        self.count
    }

    /// The bin that holds a value. What lies below the first bin counts as in it, what lies above the last likewise.
    pub fn index(self, mib: f64) -> usize {
        ((mib.max(0.0) / self.width_mib).floor() as usize).min(self.count - 1)
    }

    /// The middle of a bin, MiB.
    pub fn middle(self, index: usize) -> f64 {
        (index as f64 + 0.5) * self.width_mib
    }

    /// The upper edge of a bin, MiB: the least value that is no longer in it.
    pub fn upper_edge(self, index: usize) -> f64 {
        (index + 1) as f64 * self.width_mib
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_an_edge_belongs_to_the_bin_above() {
        let bins = Bins::new(1024.0, 4).expect("valid");
        for (mib, index) in [(0.0, 0), (1023.999, 0), (1024.0, 1), (4095.0, 3), (4096.0, 3), (1e12, 3), (-5.0, 0)] {
            assert_eq!(bins.index(mib), index, "{mib}");
        }
        assert_eq!((bins.middle(1), bins.upper_edge(1)), (1536.0, 2048.0));
    }

    #[test]
    fn covering_bins_hold_their_maximum() {
        for max in [0.0, 1.0, 2047.9, 2048.0, 40_369.0] {
            let bins = Bins::covering(1024.0, max).expect("valid");
            let index = bins.index(max);
            assert!(max < bins.upper_edge(index) && index == bins.count() - 1, "{max}");
        }
    }

    #[test]
    fn absurd_bins_are_refused_from_files_too() {
        for (width, count) in [(0.0, 3), (-1.0, 3), (f64::NAN, 3), (f64::INFINITY, 3), (1.0, 0), (1.0, usize::MAX)] {
            assert!(Bins::new(width, count).is_err(), "{width} {count}");
        }
        assert!(serde_json::from_str::<Bins>(r#"{"width_mib": 0.0, "count": 1}"#).is_err());
        let bins = Bins::new(512.0, 80).expect("valid");
        let text = serde_json::to_string(&bins).expect("serialises");
        assert_eq!(serde_json::from_str::<Bins>(&text).expect("own text"), bins);
    }
}
