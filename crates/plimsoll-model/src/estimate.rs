//! What an estimator says of a workload.

/// An estimate. Quantities that an estimator does not predict are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Estimate {
    /// Peak memory in MiB: the median of what is to be expected.
    pub peak_memory_mib: Option<f64>,
    /// Spread of the logarithm of peak memory (scale of a logistic distribution), where the estimator has one.
    pub log_scale: Option<f64>,
    /// Utilisation as ratios in the order of [`UTILISATION`](plimsoll_dataset::UTILISATION).
    pub utilisation: [Option<f64>; 6],
}

impl Estimate {
    /// The memory that is not exceeded with this probability, if the estimator knows its spread.
    ///
    /// The spread is a fitted likelihood's, not yet calibrated on held-out data.
    pub fn memory_quantile_mib(&self, probability: f64) -> Option<f64> {
        let (median, scale) = (self.peak_memory_mib?, self.log_scale?);
        Some(median * (scale * (probability / (1.0 - probability)).ln()).exp())
    }
}
