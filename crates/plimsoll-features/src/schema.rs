//! The names behind the numbers.

use serde::{Deserialize, Serialize};

/// Names and order of everything [`featurize`](crate::featurize) yields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSchema {
    /// Raised whenever a feature changes its meaning, place or name.
    pub version: u32,
    /// Token vocabulary: a layer's token is an index into it.
    pub tokens: Vec<String>,
    /// Numbers of a layer.
    pub layer: Vec<String>,
    /// Numbers of a whole workload.
    pub summary: Vec<String>,
    /// Numbers of a GPU.
    pub gpu: Vec<String>,
    /// The longest layer sequence.
    pub max_layers: usize,
}

/// An artefact was made under another feature schema than this build's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the feature schema differs in {field}: expected {expected}, found {found}")]
pub struct SchemaMismatch {
    /// Which part differs.
    pub field: &'static str,
    /// What this build computes.
    pub expected: String,
    /// What the artefact was made with.
    pub found: String,
}

impl FeatureSchema {
    /// Version of the features that this build computes.
    pub const VERSION: u32 = 3;

    /// The schema of this build.
    pub fn current() -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            version: Self::VERSION,
            tokens: owned(&plimsoll_graph::Op::tokens()),
            layer: owned(&crate::layer::NAMES),
            summary: crate::summary::names(),
            gpu: owned(&crate::gpu::NAMES),
            max_layers: crate::MAX_LAYERS,
        }
    }

    /// Places in [`FeatureSchema::summary`] of what only the simulator knows: what a step holds, what the allocator makes
    /// of it, and how long its kernels take. The rest are counts of the graph and the setup.
    pub fn simulated_summary() -> Vec<usize> {
        crate::summary::simulated()
    }

    /// Place in [`FeatureSchema::summary`] of what the roofline says of FP32A, as a ratio.
    pub fn fp32_summary() -> usize {
        crate::summary::fp32()
    }

    /// Place in [`FeatureSchema::summary`] of the flag of cuDNN's benchmark mode.
    pub fn benchmark_summary() -> usize {
        crate::summary::benchmark()
    }

    /// The same as [`FeatureSchema::simulated_summary`] in [`FeatureSchema::layer`].
    pub fn simulated_layer() -> Vec<usize> {
        crate::layer::simulated()
    }

    /// Holds an artefact's schema against this build's.
    ///
    /// # Errors
    /// The first part that differs.
    pub fn check(&self) -> Result<(), SchemaMismatch> {
        let current = Self::current();
        let differs = |field, expected: String, found: String| Err(SchemaMismatch { field, expected, found });
        if self.version != current.version {
            return differs("version", current.version.to_string(), self.version.to_string());
        }
        for (field, ours, theirs) in [
            ("tokens", &current.tokens, &self.tokens),
            ("layer features", &current.layer, &self.layer),
            ("summary features", &current.summary, &self.summary),
            ("GPU features", &current.gpu, &self.gpu),
        ] {
            if ours != theirs {
                let first = ours.iter().zip(theirs).find(|(a, b)| a != b);
                let (expected, found) = first.map_or_else(
                    || (format!("{} names", ours.len()), format!("{} names", theirs.len())),
                    |(a, b)| (format!("`{a}`"), format!("`{b}`")),
                );
                return differs(field, expected, found);
            }
        }
        if self.max_layers != current.max_layers {
            return differs("max_layers", current.max_layers.to_string(), self.max_layers.to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_the_graph_are_told_from_what_is_simulated() {
        let schema = FeatureSchema::current();
        let simulated = FeatureSchema::simulated_summary();
        let is_simulated = |name: &str| {
            let place = schema.summary.iter().position(|known| known == name);
            simulated.contains(&place.unwrap_or_else(|| panic!("no feature `{name}`")))
        };
        for name in [
            "log_activation_bytes",
            "log_live_peak_bytes",
            "log_tensor_sum_bytes",
            "reserved_mib",
            "log_peak_workspaces_larger",
            "spike_risk",
            "log_step_us",
        ] {
            assert!(is_simulated(name), "{name}");
        }
        for name in ["log_parameter_bytes", "parameters_mib", "log_output_bytes", "log_batch_size", "log_count_conv"] {
            assert!(!is_simulated(name), "{name}");
        }
        let layers: Vec<&str> =
            FeatureSchema::simulated_layer().into_iter().map(|place| schema.layer[place].as_str()).collect();
        assert_eq!(layers, ["log_saved_bytes"]);
    }

    #[test]
    fn a_schema_fits_itself_and_no_other() {
        let current = FeatureSchema::current();
        assert_eq!(current.check(), Ok(()));
        let mut older = current.clone();
        older.version = 0;
        assert_eq!(older.check().expect_err("differs").field, "version");
        let mut renamed = current;
        renamed.summary[3] = "something_else".into();
        let error = renamed.check().expect_err("differs").to_string();
        assert!(error.contains("something_else"), "{error}");
    }
}
