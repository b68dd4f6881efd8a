//! Upper bounds of peak memory at a few levels of confidence, and what follows from them for every other level.

use serde::{Deserialize, Serialize};

/// The levels at which bounds are learned and calibrated: shares of runs that stay below.
pub const LEVELS: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// The least distance between two bounds, as a logarithm: bounds that coincide would make every question about what
/// lies between them a division by zero.
const LEAST_STEP: f64 = 1e-6;

/// The least slope of the tail above the last level: the next ten runs out of a hundred thousand may be anything, and
/// a calibration part that saw no spike does not know that there are none.
const LEAST_TAIL: f64 = 0.01;

/// Upper bounds of peak memory, MiB, each not below the one before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Not exceeded by half of all runs.
    pub p50: f64,
    /// Not exceeded by 90 % of runs.
    pub p90: f64,
    /// Not exceeded by 95 % of runs.
    pub p95: f64,
    /// Not exceeded by 99 % of runs.
    pub p99: f64,
}

impl Bounds {
    /// Bounds from the logarithms of MiB in the order of [`LEVELS`]; one below its predecessor is raised to it.
    pub fn from_logarithms(logarithms: [f64; 4]) -> Self {
        let mut highest = f64::NEG_INFINITY;
        let [p50, p90, p95, p99] = logarithms.map(|logarithm| {
            highest = highest.max(logarithm);
            highest.exp()
        });
        Self { p50, p90, p95, p99 }
    }

    /// The bounds in the order of [`LEVELS`].
    pub const fn to_array(self) -> [f64; 4] {
        [self.p50, self.p90, self.p95, self.p99]
    }

    /// What is not exceeded with a probability, which is kept within 0.001 and 0.9999.
    ///
    /// Between two levels the logarithm of memory is linear in the logarithm of the share that lies above. Beyond the
    /// last level that is a Pareto tail of the slope between the last two, or heavier.
    pub fn at(self, probability: f64) -> f64 {
        let probability = probability.clamp(0.001, 0.9999);
        let knots = self.knots();
        if probability <= LEVELS[0] {
            // As wide below the median as it is above: spikes go up, so this is on the cautious side.
            return (knots[0].1 - self.lower_slope() * (LEVELS[0] / probability).ln()).exp();
        }
        let place = exceedance(probability);
        let (from, slope) = self.segment(|knot| knot.0 < place);
        (from.1 + slope * (place - from.0)).exp()
    }

    /// The probability that a run takes at most so many MiB: the inverse of [`Bounds::at`].
    pub fn probability_within(self, capacity_mib: f64) -> f64 {
        if capacity_mib <= 0.0 {
            return 0.0;
        }
        let capacity = capacity_mib.ln();
        let knots = self.knots();
        if capacity <= knots[0].1 {
            return LEVELS[0] * ((capacity - knots[0].1) / self.lower_slope()).exp();
        }
        let (from, slope) = self.segment(|knot| knot.1 < capacity);
        1.0 - (-(from.0 + (capacity - from.1) / slope)).exp()
    }

    /// Logarithms of the shares that lie above each level, negated, with logarithms of the bounds.
    fn knots(self) -> [(f64, f64); 4] {
        let mut knots = [(0.0, 0.0); 4];
        let mut least = f64::NEG_INFINITY;
        for ((knot, mib), level) in knots.iter_mut().zip(self.to_array()).zip(LEVELS) {
            let logarithm = mib.max(f64::MIN_POSITIVE).ln().max(least);
            *knot = (exceedance(level), logarithm);
            least = logarithm + LEAST_STEP;
        }
        knots
    }

    /// The last knot that lies before a place, with the slope of what follows it.
    fn segment(self, is_before: impl Fn(&(f64, f64)) -> bool) -> ((f64, f64), f64) {
        let knots = self.knots();
        let index = knots.iter().rposition(is_before).unwrap_or(0);
        let slope = |from: usize| (knots[from + 1].1 - knots[from].1) / (knots[from + 1].0 - knots[from].0);
        match index {
            3 => (knots[3], slope(2).max(LEAST_TAIL)),
            _ => (knots[index], slope(index)),
        }
    }

    fn lower_slope(self) -> f64 {
        let knots = self.knots();
        (knots[1].1 - knots[0].1) / (knots[1].0 - knots[0].0)
    }
}

/// Minus the logarithm of the share above: it grows without end as a probability nears 1.
fn exceedance(probability: f64) -> f64 {
    -(1.0 - probability).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { p50: 8000.0, p90: 8200.0, p95: 8600.0, p99: 9500.0 };

    #[test]
    fn the_levels_give_the_bounds_themselves() {
        for (level, bound) in LEVELS.into_iter().zip(BOUNDS.to_array()) {
            assert!((BOUNDS.at(level) / bound - 1.0).abs() < 1e-9, "{level}");
            assert!((BOUNDS.probability_within(bound) - level).abs() < 1e-9, "{level}");
        }
    }

    #[test]
    fn both_directions_grow_and_undo_each_other() {
        let mut before = 0.0;
        for step in 1..999 {
            let probability = f64::from(step) / 1000.0;
            let bound = BOUNDS.at(probability);
            assert!(bound > before, "{probability}");
            assert!((BOUNDS.probability_within(bound) - probability).abs() < 1e-9, "{probability}");
            before = bound;
        }
        assert!(BOUNDS.at(0.999) > BOUNDS.p99 * 1.02, "the tail goes on");
        assert!(BOUNDS.probability_within(1e9) < 1.0 + 1e-12 && BOUNDS.probability_within(1e9) > 0.9999);
    }

    #[test]
    fn bounds_that_coincide_still_answer() {
        let flat = Bounds { p50: 4096.0, p90: 4096.0, p95: 4096.0, p99: 4096.0 };
        assert!(flat.probability_within(4000.0) < 1e-6);
        assert!(flat.probability_within(4200.0) > 0.99);
        assert!(flat.at(0.999).is_finite() && flat.at(0.5).is_finite());
        for capacity in [0.0, -5.0, f64::INFINITY] {
            assert!((0.0..=1.0).contains(&flat.probability_within(capacity)), "{capacity}");
        }
    }

    #[test]
    fn crossing_logarithms_are_raised() {
        let bounds = Bounds::from_logarithms([2.0, 1.0, 3.0, 2.5]);
        assert_eq!(bounds.to_array(), [2.0, 2.0, 3.0, 3.0].map(f64::exp));
    }
}
