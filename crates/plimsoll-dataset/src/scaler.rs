//! Means and standard deviations of features, learned from the training part only.

use plimsoll_features::{FeatureSchema, Features};
use serde::{Deserialize, Serialize};

use crate::error::{DatasetError, Result};

/// Brings features to mean 0 and standard deviation 1, each number by itself.
///
/// Values far from anything seen in training are not clipped: a scaled value of 50 tells an estimator that it is
/// asked to extrapolate, and a clipped one would hide it. The arithmetic is `(x - mean) / scale` in `f32`, so that
/// an exported network can repeat it exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaler {
    /// Numbers of a layer.
    pub layer: Standardization,
    /// Numbers of a whole workload.
    pub summary: Standardization,
    /// Numbers of a GPU.
    pub gpu: Standardization,
}

/// Mean and scale of each number of a vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standardization {
    /// What is subtracted.
    pub mean: Vec<f32>,
    /// What is divided by: the standard deviation, or [`Standardization::CONSTANT`] where the training part knows a
    /// single value.
    pub scale: Vec<f32>,
}

impl Scaler {
    /// Learns from features in one pass.
    ///
    /// # Errors
    /// No features at all.
    pub fn fit<'a>(features: impl IntoIterator<Item = &'a Features>) -> Result<Self> {
        let mut fit = ScalerFit::new();
        for features in features {
            fit.add(features);
        }
        fit.finish()
    }

    /// Makes numbers of a layer and of a workload, named by their places, as good as 0 in whatever is scaled: an estimator
    /// under this scaler is not shown them.
    ///
    /// # Panics
    /// A place beyond the numbers.
    pub fn hide(&mut self, layer: &[usize], summary: &[usize]) {
        for (part, places) in [(&mut self.layer, layer), (&mut self.summary, summary)] {
            for &place in places {
                part.scale[place] = Standardization::CONSTANT;
            }
        }
    }

    /// The same of the GPU's descriptor, all of it.
    pub fn hide_gpu(&mut self) {
        self.gpu.scale.fill(Standardization::CONSTANT);
    }

    /// Scales layer numbers in place.
    ///
    /// # Shapes
    /// `[n, f]` row by row, `f` being the number of layer features.
    ///
    /// # Panics
    /// A length that is no multiple of `f`.
    pub fn scale_layers(&self, layers: &mut [f32]) {
        self.layer.apply(layers);
    }

    /// Scales a summary vector in place.
    ///
    /// # Shapes
    /// `[s]`, or `[n, s]` row by row.
    ///
    /// # Panics
    /// A length that is no multiple of `s`.
    pub fn scale_summary(&self, summary: &mut [f32]) {
        self.summary.apply(summary);
    }

    /// Scales a GPU vector in place.
    ///
    /// # Shapes
    /// `[g]`, or `[n, g]` row by row.
    ///
    /// # Panics
    /// A length that is no multiple of `g`.
    pub fn scale_gpu(&self, gpu: &mut [f32]) {
        self.gpu.apply(gpu);
    }

    /// Scaled layers, summary and GPU; everything else as it was.
    pub fn apply(&self, features: &Features) -> Features {
        let mut scaled = features.clone();
        self.scale_layers(&mut scaled.layers);
        self.scale_summary(&mut scaled.summary);
        self.scale_gpu(&mut scaled.gpu);
        scaled
    }

    /// Holds a scaler, which may come from a file, against a schema.
    ///
    /// # Errors
    /// Another number of features, and means or scales that cannot be computed with.
    pub fn check(&self, schema: &FeatureSchema) -> Result<()> {
        for (what, part, expected) in [
            ("layer", &self.layer, schema.layer.len()),
            ("summary", &self.summary, schema.summary.len()),
            ("GPU", &self.gpu, schema.gpu.len()),
        ] {
            let wrong = |expected: String, found: String| {
                Err(DatasetError::OutOfRange { what: format!("the scaler of {what} features"), expected, found })
            };
            if (part.mean.len(), part.scale.len()) != (expected, expected) {
                let found = format!("{} means and {} scales", part.mean.len(), part.scale.len());
                return wrong(format!("{expected} means and as many scales"), found);
            }
            if let Some(mean) = part.mean.iter().find(|mean| !mean.is_finite()) {
                return wrong("finite means".into(), mean.to_string());
            }
            if let Some(scale) = part.scale.iter().find(|&&scale| !(scale.is_finite() && scale > 0.0)) {
                return wrong("finite scales above 0".into(), scale.to_string());
            }
        }
        Ok(())
    }
}

impl Standardization {
    /// The scale of a number that never varied: whatever comes later, it becomes as good as 0. A network was never
    /// taught what it means, so it must not act on it.
    pub const CONSTANT: f32 = 1e30;

    /// Whether the training part knows a single value of a number.
    pub fn is_constant(&self, index: usize) -> bool {
        self.scale[index] >= Self::CONSTANT
    }

    fn apply(&self, values: &mut [f32]) {
        let width = self.mean.len();
        if width == 0 {
            return;
        }
        assert!(values.len().is_multiple_of(width), "{} numbers are no rows of {width}", values.len());
        for row in values.chunks_exact_mut(width) {
            for ((value, mean), scale) in row.iter_mut().zip(&self.mean).zip(&self.scale) {
                *value = (*value - mean) / scale;
            }
        }
    }
}

/// A [`Scaler`] being learned, for features that do not fit into memory at once.
#[derive(Debug, Clone)]
pub struct ScalerFit {
    layer: Moments,
    summary: Moments,
    gpu: Moments,
}

impl Default for ScalerFit {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalerFit {
    /// Nothing seen yet.
    pub fn new() -> Self {
        let schema = FeatureSchema::current();
        Self {
            layer: Moments::new(schema.layer.len()),
            summary: Moments::new(schema.summary.len()),
            gpu: Moments::new(schema.gpu.len()),
        }
    }

    /// Takes one workload in. A workload of many layers weighs more in the layer statistics: each layer is one value.
    pub fn add(&mut self, features: &Features) {
        self.layer.add(&features.layers);
        self.summary.add(&features.summary);
        self.gpu.add(&features.gpu);
    }

    /// The scaler.
    ///
    /// # Errors
    /// Nothing was added.
    pub fn finish(self) -> Result<Scaler> {
        if self.summary.count == 0 {
            return Err(DatasetError::Empty {
                what: "the training part".into(),
                expected: "samples to learn the scale of features from".into(),
            });
        }
        Ok(Scaler { layer: self.layer.finish(), summary: self.summary.finish(), gpu: self.gpu.finish() })
    }
}

/// Welford's running mean and sum of squared deviations: one pass, no cancellation.
#[derive(Debug, Clone)]
struct Moments {
    count: u64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    fn new(width: usize) -> Self {
        Self { count: 0, mean: vec![0.0; width], squares: vec![0.0; width] }
    }

    fn add(&mut self, values: &[f32]) {
        let width = self.mean.len();
        assert!(values.len().is_multiple_of(width), "{} numbers are no rows of {width}", values.len());
        for row in values.chunks_exact(width) {
            self.count += 1;
            let weight = 1.0 / self.count as f64;
            for ((&value, mean), squares) in row.iter().zip(&mut self.mean).zip(&mut self.squares) {
                let value = f64::from(value);
                let delta = value - *mean;
                *mean += delta * weight;
                *squares += delta * (value - *mean);
            }
        }
    }

    fn finish(self) -> Standardization {
        let count = self.count.max(1) as f64;
        let scale = self.mean.iter().zip(&self.squares).map(|(mean, squares)| {
            let deviation = (squares / count).sqrt();
            // Spread within the rounding of f32 is no spread: dividing by it would blow rounding up to signal.
            if deviation <= mean.abs() * f64::from(f32::EPSILON) || deviation < f64::from(f32::MIN_POSITIVE) {
                Standardization::CONSTANT
            } else {
                deviation as f32
            }
        });
        Standardization { scale: scale.collect(), mean: self.mean.iter().map(|&mean| mean as f32).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::sample;

    fn features(count: u64) -> Vec<Features> {
        (1..=count).map(|batch| sample(3, batch).features).collect()
    }

    #[test]
    fn scaled_training_features_have_mean_zero_and_deviation_one_or_are_constant() {
        let training = features(9);
        let scaler = Scaler::fit(&training).expect("not empty");
        scaler.check(&FeatureSchema::current()).expect("fits");
        let scaled: Vec<Features> = training.iter().map(|features| scaler.apply(features)).collect();
        for index in 0..scaled[0].summary.len() {
            let values: Vec<f64> = scaled.iter().map(|features| f64::from(features.summary[index])).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
            // A feature that hardly varies is scaled up to the grain of its numbers.
            assert!(mean.abs() < 0.05, "feature {index} has mean {mean}");
            let constant = training.iter().all(|features| features.summary[index] == training[0].summary[index]);
            let expected = if constant { 0.0 } else { 1.0 };
            assert!((variance - expected).abs() < 1e-2, "feature {index} has variance {variance}");
        }
    }

    #[test]
    fn a_feature_that_never_varied_stays_silent_on_other_data() {
        let training = features(4);
        let scaler = Scaler::fit(&training).expect("not empty");
        assert!((0..scaler.gpu.mean.len()).all(|index| scaler.gpu.is_constant(index)), "one GPU: no spread");
        let mut other = training[0].clone();
        other.gpu[0] += 3.0;
        assert!(scaler.apply(&other).gpu[0].abs() < 1e-20);
    }

    #[test]
    fn values_far_away_are_not_clipped() {
        let training = features(4);
        let scaler = Scaler::fit(&training).expect("not empty");
        let mut far = training[0].clone();
        let varied = (0..far.summary.len()).find(|&index| !scaler.summary.is_constant(index)).expect("batches differ");
        far.summary[varied] = 1e9;
        assert!(scaler.apply(&far).summary[varied] > 1e3);
    }

    #[test]
    fn layers_count_one_by_one() {
        let (short, long) = (sample(1, 8).features, sample(9, 8).features);
        let width = FeatureSchema::current().layer.len();
        let rows: Vec<f64> =
            short.layers.iter().chain(&long.layers).copied().skip(1).step_by(width).map(f64::from).collect();
        let mean = rows.iter().sum::<f64>() / rows.len() as f64;
        let scaler = Scaler::fit([&short, &long]).expect("not empty");
        assert!((f64::from(scaler.layer.mean[1]) - mean).abs() < 1e-4);
    }

    #[test]
    fn a_scaler_survives_a_file_and_a_broken_one_is_noticed() {
        let scaler = Scaler::fit(&features(3)).expect("not empty");
        let text = serde_json::to_string(&scaler).expect("serialises");
        assert_eq!(serde_json::from_str::<Scaler>(&text).expect("own text"), scaler);
        let mut broken = scaler.clone();
        broken.gpu.scale[0] = 0.0;
        assert!(broken.check(&FeatureSchema::current()).is_err());
        let mut short = scaler;
        short.summary.mean.pop();
        assert!(short.check(&FeatureSchema::current()).expect_err("short").to_string().contains("summary"));
    }

    #[test]
    fn nothing_to_learn_from_is_an_error() {
        assert!(matches!(Scaler::fit([]), Err(DatasetError::Empty { .. })));
    }
}
