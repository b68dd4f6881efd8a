//! What an estimator says of a workload.

use crate::bounds::Bounds;

/// An estimate. Quantities that an estimator does not predict are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Estimate {
    /// Peak memory in MiB: the median of what is to be expected.
    pub peak_memory_mib: Option<f64>,
    /// Spread of the logarithm of peak memory (scale of a logistic distribution), where the estimator has one.
    pub log_scale: Option<f64>,
    /// Upper bounds of peak memory, calibrated on rows that the fit had not seen; `None` without such rows.
    pub bounds: Option<Bounds>,
    /// How far the workload lies from everything that was measured: 0 is among it, 1 is far away. Bounds are wider
    /// by it. 0 for estimators that were fitted to nothing.
    pub ood: f64,
    /// Utilisation as ratios in the order of [`UTILISATION`](plimsoll_dataset::UTILISATION).
    pub utilisation: [Option<f64>; 6],
}

impl Estimate {
    /// The memory that is not exceeded with this probability: from the calibrated bounds, or where there are none
    /// from the fitted spread, which nothing calibrates.
    pub fn memory_quantile_mib(&self, probability: f64) -> Option<f64> {
        if let Some(bounds) = self.bounds {
            return Some(bounds.at(probability));
        }
        let (median, scale) = (self.peak_memory_mib?, self.log_scale?);
        Some(median * (scale * (probability / (1.0 - probability)).ln()).exp())
    }

    /// The upper bound for a confidence, which is kept within 0.5 and 0.999.
    pub fn upper_bound_mib(&self, confidence: f64) -> Option<f64> {
        self.memory_quantile_mib(confidence.clamp(0.5, 0.999))
    }

    /// The probability that the job takes at most so many MiB.
    ///
    /// Without bounds or a spread, the estimate itself decides: 1 or 0. `None` without any estimate of memory.
    pub fn probability_fits(&self, capacity_mib: f64) -> Option<f64> {
        let peak = self.peak_memory_mib?;
        Some(match (self.bounds, self.log_scale) {
            (Some(bounds), _) => bounds.probability_within(capacity_mib),
            (None, Some(scale)) if scale > 0.0 && capacity_mib > 0.0 => {
                1.0 / (1.0 + (-(capacity_mib / peak).ln() / scale).exp())
            }
            _ => f64::from(u8::from(peak <= capacity_mib)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_bounds_the_spread_answers_and_without_a_spread_the_estimate() {
        let mut estimate = Estimate { peak_memory_mib: Some(1000.0), log_scale: Some(0.1), ..Estimate::default() };
        assert_eq!(estimate.probability_fits(1000.0), Some(0.5));
        let bound = estimate.upper_bound_mib(0.9).expect("a spread");
        assert!((estimate.probability_fits(bound).expect("a spread") - 0.9).abs() < 1e-9);
        estimate.log_scale = None;
        assert_eq!((estimate.probability_fits(999.0), estimate.probability_fits(1000.0)), (Some(0.0), Some(1.0)));
        assert_eq!(estimate.upper_bound_mib(0.9), None);
        assert_eq!(Estimate::default().probability_fits(1.0), None);
    }

    #[test]
    fn bounds_come_before_the_spread() {
        let bounds = Bounds { p50: 1000.0, p90: 1100.0, p95: 1200.0, p99: 1500.0 };
        let estimate = Estimate {
            peak_memory_mib: Some(990.0),
            log_scale: Some(1.0),
            bounds: Some(bounds),
            ..Estimate::default()
        };
        assert!((estimate.upper_bound_mib(0.95).expect("bounds") - 1200.0).abs() < 1e-6);
        assert!((estimate.probability_fits(1500.0).expect("bounds") - 0.99).abs() < 1e-9);
        assert_eq!(estimate.upper_bound_mib(0.2), estimate.upper_bound_mib(0.5));
    }
}
