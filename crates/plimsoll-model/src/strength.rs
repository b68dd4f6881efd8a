//! How much of a fitted correction counts, kind by kind of jobs.
//!
//! Where the simulation is exact to a hundredth, what a network learned of other architectures may well be noise; where
//! it lacks what a library did, the same network says a lot. Rows that a fit has not seen tell which it is, of each family
//! with cuDNN's benchmark mode, which picks its plans by their speed, and without.

use std::collections::BTreeMap;

use plimsoll_features::Features;
use plimsoll_graph::Family;
use serde::{Deserialize, Serialize};

use crate::calibration::family_of;

/// The strength of corrections for each kind of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strengths {
    /// Of kinds that were not judged by themselves.
    pub overall: Strength,
    /// Of families in jobs as usual.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub families: BTreeMap<Family, Strength>,
    /// Of families in cuDNN's benchmark mode.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub benchmarked: BTreeMap<Family, Strength>,
}

/// How much of a correction counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strength {
    /// Share of the correction that counts, from 0 to 1.
    pub share: f64,
    /// Size of the correction, as a logarithm of peak memory, up to which it counts as noise. From twice that size on it
    /// counts in full; in between what counts rises twice as fast as the correction.
    #[serde(default)]
    pub threshold: f64,
    /// Logarithm of measured over nominal context, which takes the place of the fitted one in what is corrected; without
    /// it the fitted one does, as where GPUs and so their contexts differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_context: Option<f64>,
}

impl Strength {
    /// Everything that was fitted.
    pub const WHOLE: Self = Self { share: 1.0, threshold: 0.0, log_context: None };

    /// The logarithm of peak memory, from that of the simulation with its context and that of the fit.
    ///
    /// Small corrections are set to nothing and large ones left alone, which is firm thresholding (Gao and Bruce, Waveshrink
    /// with firm shrinkage, 1997): where the simulation is exact to a hundredth, a hundredth is what a network makes up.
    pub fn of(self, log_simulated: f64, log_fitted: f64) -> f64 {
        let correction = log_fitted - log_simulated;
        let size = correction.abs();
        let counted = size.min((2.0 * (size - self.threshold)).max(0.0));
        log_simulated + self.share * counted.copysign(correction)
    }

    fn is_sound(self) -> bool {
        (0.0..=1.0).contains(&self.share)
            && (0.0..=Self::MOST_THRESHOLD).contains(&self.threshold)
            && self.log_context.is_none_or(f64::is_finite)
    }

    /// A correction of more than this is no noise.
    const MOST_THRESHOLD: f64 = 1.0;
}

impl Default for Strengths {
    fn default() -> Self {
        Self { overall: Strength::WHOLE, families: BTreeMap::new(), benchmarked: BTreeMap::new() }
    }
}

impl Strengths {
    /// The strength for a family, in cuDNN's benchmark mode or without.
    pub fn get(&self, family: Family, is_benchmarked: bool) -> Strength {
        let judged = if is_benchmarked { &self.benchmarked } else { &self.families };
        judged.get(&family).copied().unwrap_or(self.overall)
    }

    /// The strength for a workload.
    pub(crate) fn of(&self, features: &Features) -> Strength {
        self.get(family_of(features), features.is_benchmarked())
    }

    /// Whether every number, which may come from a file, can be.
    pub(crate) fn is_sound(&self) -> bool {
        let judged = self.families.values().chain(self.benchmarked.values()).copied();
        judged.chain([self.overall]).all(Strength::is_sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_corrections_are_noise_and_large_ones_count() {
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
        near(Strength::WHOLE.of(9.0, 9.1), 9.1);
        let firm = Strength { threshold: 0.02, ..Strength::WHOLE };
        for (correction, counted) in [(0.0, 0.0), (0.015, 0.0), (0.02, 0.0), (0.03, 0.02), (0.04, 0.04), (0.3, 0.3)] {
            near(firm.of(9.0, 9.0 + correction), 9.0 + counted);
            near(firm.of(9.0, 9.0 - correction), 9.0 - counted);
        }
        near(Strength { share: 0.5, ..firm }.of(9.0, 9.3), 9.15);
        near(Strength { share: 0.0, ..firm }.of(9.0, 9.3), 9.0);
    }

    #[test]
    fn families_without_a_strength_take_the_overall_one() {
        let weak = Strength { share: 0.25, ..Strength::WHOLE };
        let families = BTreeMap::from([(Family::Cnn, Strength::WHOLE)]);
        let strengths = Strengths { overall: weak, families, ..Strengths::default() };
        assert_eq!((strengths.get(Family::Cnn, false), strengths.get(Family::Mlp, false)), (Strength::WHOLE, weak));
        assert_eq!(strengths.get(Family::Cnn, true), weak);
        for absurd in [
            Strength { share: f64::NAN, ..Strength::WHOLE },
            Strength { threshold: -0.1, ..Strength::WHOLE },
            Strength { threshold: f64::INFINITY, ..Strength::WHOLE },
            Strength { log_context: Some(f64::NAN), ..Strength::WHOLE },
        ] {
            assert!(!Strengths { overall: absurd, ..strengths.clone() }.is_sound(), "{absurd:?}");
        }
        assert!(strengths.is_sound());
    }
}
