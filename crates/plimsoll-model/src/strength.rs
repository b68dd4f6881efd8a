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
use crate::network::labels::QUANTITIES;

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
    /// Share of the fitted logarithms that counts, from 0 to 1.
    pub share: f64,
    /// Logarithm of measured over nominal context, which stands for the rest of the fitted one; without it the fitted one
    /// counts whole, as where GPUs and so their contexts differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_context: Option<f64>,
}

impl Strength {
    /// Everything that was fitted.
    pub const WHOLE: Self = Self { share: 1.0, log_context: None };

    /// What each fitted logarithm is multiplied by, and what is added to it: of reserved, context, live bytes.
    pub const fn line(self) -> [(f64, f64); QUANTITIES] {
        let context = match self.log_context {
            Some(log_context) => (self.share, (1.0 - self.share) * log_context),
            None => (1.0, 0.0),
        };
        [(self.share, 0.0), context, (self.share, 0.0)]
    }

    /// Logarithms of measurement over simulation as they count.
    pub fn of(self, residuals: [f64; QUANTITIES]) -> [f64; QUANTITIES] {
        let line = self.line();
        std::array::from_fn(|quantity| line[quantity].0 * residuals[quantity] + line[quantity].1)
    }

    fn is_sound(self) -> bool {
        (0.0..=1.0).contains(&self.share) && self.log_context.is_none_or(f64::is_finite)
    }
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
    fn a_strength_lies_between_the_fit_and_a_constant_context() {
        let residuals = [0.2, 0.4, -0.1];
        assert_eq!(Strength::WHOLE.of(residuals), residuals);
        let none = Strength { share: 0.0, log_context: Some(0.1) };
        assert_eq!(none.of(residuals), [0.0, 0.1, 0.0]);
        let half = Strength { share: 0.5, log_context: Some(0.2) };
        let halved = half.of(residuals);
        assert!((halved[0] - 0.1).abs() < 1e-12 && (halved[1] - 0.3).abs() < 1e-12);
        let of_gpus = Strength { share: 0.0, log_context: None };
        assert_eq!(of_gpus.of(residuals), [0.0, 0.4, 0.0], "what was learned of contexts stays");
    }

    #[test]
    fn families_without_a_strength_take_the_overall_one() {
        let weak = Strength { share: 0.25, log_context: None };
        let families = BTreeMap::from([(Family::Cnn, Strength::WHOLE)]);
        let strengths = Strengths { overall: weak, families, ..Strengths::default() };
        assert_eq!((strengths.get(Family::Cnn, false), strengths.get(Family::Mlp, false)), (Strength::WHOLE, weak));
        assert_eq!(strengths.get(Family::Cnn, true), weak);
        let absurd = Strengths { overall: Strength { share: f64::NAN, log_context: None }, ..strengths };
        assert!(!absurd.is_sound());
    }
}
