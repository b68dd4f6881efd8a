//! The two traits that everything on the leaderboard implements.

use plimsoll_dataset::Sample;

use crate::estimate::Estimate;

/// Many samples in, one estimate each out. Object-safe: learned, analytic and published estimators share it.
///
/// An estimate never depends on the other samples of a call.
pub trait Estimator {
    /// Name on the leaderboard.
    fn name(&self) -> &str;

    /// One estimate for each sample, in order. Targets of the samples are not looked at.
    fn estimate(&self, samples: &[&Sample]) -> Vec<Estimate>;
}

/// Settings that, given data, make a new fitted estimator.
pub trait Fit {
    /// What fitting makes.
    type Fitted: Estimator;
    /// Why it may fail.
    type Error;

    /// Fits to the training samples; the validation samples only decide when to stop.
    fn fit(&self, training: &[&Sample], validation: &[&Sample]) -> Result<Self::Fitted, Self::Error>;
}
