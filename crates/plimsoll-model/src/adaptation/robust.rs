//! Lines from estimates to measurements that a few wild rows do not bend.

use super::LEAST_MIB;

/// A scale is learned from this many rows on.
const SCALE_ROWS: usize = 20;
/// Rows that count as much as the belief that the scale is 1.
const SCALE_DOUBT: f64 = 10.0;
/// A scale lies within this and its inverse.
const LARGEST_SCALE: f64 = 2.0;
/// Slopes are taken between at most so many rows, evenly picked: their number grows with the square.
const MOST_SLOPE_ROWS: usize = 200;

/// From an estimate to what is to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) scale: f64,
    pub(super) offset_mib: f64,
}

impl Line {
    pub(super) const UNCHANGED: Self = Self { scale: 1.0, offset_mib: 0.0 };

    /// The estimate moved, MiB.
    pub(super) fn at(self, estimate_mib: f64) -> f64 {
        self.scale.mul_add(estimate_mib, self.offset_mib).max(LEAST_MIB)
    }

    /// The logarithm of measurement over moved estimate.
    pub(super) fn log_miss(self, (estimate_mib, mib): (f64, f64)) -> f64 {
        (mib / self.at(estimate_mib)).ln()
    }
}

/// Which numbers of a line are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Unchanged,
    Offset,
    ScaleAndOffset,
}

impl Form {
    /// The simplest first.
    pub(super) const ALL: [Self; 3] = [Self::Unchanged, Self::Offset, Self::ScaleAndOffset];

    pub(super) const fn least_rows(self) -> usize {
        match self {
            Self::Unchanged | Self::Offset => 0,
            Self::ScaleAndOffset => SCALE_ROWS,
        }
    }

    /// The line through pairs of estimate and measurement, MiB.
    pub(super) fn fit(self, pairs: &[(f64, f64)]) -> Line {
        let scale = if self == Self::ScaleAndOffset { scale(pairs) } else { 1.0 };
        match self {
            Self::Unchanged => Line::UNCHANGED,
            _ => Line { scale, offset_mib: offset(pairs, scale) },
        }
    }
}

/// The offset with the least sum of relative errors: a median in which small jobs, for which it is a larger share,
/// count for more.
fn offset(pairs: &[(f64, f64)], scale: f64) -> f64 {
    weighted_median(pairs.iter().map(|&(estimate, mib)| (mib - scale * estimate, 1.0 / mib)).collect()).unwrap_or(0.0)
}

/// The median of the slopes between all rows (Theil and Sen), those between distant rows counting for more, drawn to 1.
fn scale(pairs: &[(f64, f64)]) -> f64 {
    let step = pairs.len().div_ceil(MOST_SLOPE_ROWS).max(1);
    let picked: Vec<(f64, f64)> = pairs.iter().step_by(step).copied().collect();
    let mut slopes = Vec::with_capacity(picked.len() * picked.len().saturating_sub(1) / 2);
    for (index, &(estimate, mib)) in picked.iter().enumerate() {
        for &(other_estimate, other_mib) in &picked[index + 1..] {
            let run = other_estimate - estimate;
            if run.abs() >= 1.0 {
                slopes.push(((other_mib - mib) / run, run.abs() / (mib * other_mib).sqrt()));
            }
        }
    }
    let slope = weighted_median(slopes).unwrap_or(1.0).clamp(LARGEST_SCALE.recip(), LARGEST_SCALE);
    let rows = pairs.len() as f64;
    1.0 + (slope - 1.0) * rows / (rows + SCALE_DOUBT)
}

/// The value at which half of the weight is reached; `None` without values.
fn weighted_median(mut weighted: Vec<(f64, f64)>) -> Option<f64> {
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = weighted.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    weighted.iter().find_map(|&(value, weight)| {
        below += weight;
        (below >= half).then_some(value)
    })
}
