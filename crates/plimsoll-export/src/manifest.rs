//! What stands beside a model: everything that its use needs, as JSON.

use std::path::Path;

use plimsoll_dataset::Label;
use plimsoll_features::FeatureSchema;
use plimsoll_model::{Adaptation, Calibration, DataDescription, Settings};
use serde::{Deserialize, Serialize};

use crate::error::{ExportError, Result};
use crate::files;
use crate::gpus::GpuVocabulary;
use crate::interface::Port;

/// Name of the manifest in a folder.
pub const MANIFEST_FILE: &str = "manifest.json";
/// Name of the model in a folder.
pub const MODEL_FILE: &str = "model.onnx";

/// Describes an exported model.
///
/// It says nothing that is not the checkpoint's: label definition, data and settings are the ones the network was
/// fitted under. Token vocabulary and feature names are in the schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format.
    pub plimsoll_manifest: u32,
    /// Version of Plimsoll that wrote it.
    pub plimsoll_version: String,
    /// Name of the estimator, as on leaderboards.
    pub estimator: String,
    /// The model file.
    pub model: ModelFile,
    /// What is fed in, in order.
    pub inputs: Vec<Port>,
    /// What comes out, in order.
    pub outputs: Vec<Port>,
    /// Token vocabulary, and names and order of all features.
    pub schema: FeatureSchema,
    /// Label definitions in the order of the input `label`. Ask for the one that is to be compared with:
    /// `nvidia_smi_device` for whether a job fits a GPU.
    pub labels: Vec<Label>,
    /// Levels of the columns of `peak_memory_quantiles_mib`.
    pub levels: Vec<f64>,
    /// What its bounds were calibrated on, which is part of the model; null where it has none.
    pub calibration: Option<Calibration>,
    /// What was learned of single GPUs after the fit. It is not part of the model: for a job on such a GPU, multiply
    /// `peak_memory_mib` by `scale` and add `offset_mib` (at least 1 MiB is left), multiply the quantiles by what that
    /// changed `peak_memory_mib` by, and then by `exp(log_bounds)` of their level. What `neighbours` add is left out here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adaptations: Vec<Adaptation>,
    /// Known GPUs.
    pub gpus: GpuVocabulary,
    /// What it was fitted to: data, split, label definition and hash.
    pub data: DataDescription,
    /// Network, output and training.
    pub settings: Settings,
    /// Number of weights.
    pub parameters: usize,
    /// How good it is, as the exporting program measured it; null if it did not.
    pub metrics: serde_json::Value,
    /// How near another runtime comes to Plimsoll; null until it was checked.
    pub parity: Option<Parity>,
}

/// The model file that a manifest belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Its name in the manifest's folder.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 hash of its content, hexadecimal.
    pub blake3: String,
    /// Version of the ONNX format.
    pub ir_version: i64,
    /// Version of the ONNX operators.
    pub opset: i64,
}

/// The outcome of a comparison with another runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parity {
    /// Name and version of the runtime.
    pub runtime: String,
    /// Rows that were compared.
    pub rows: usize,
    /// The largest relative difference over all rows and outputs.
    pub max_relative_difference: f64,
}

impl Manifest {
    /// Version of the format that this build writes.
    pub const VERSION: u32 = 3;

    /// Reads the manifest of a folder.
    ///
    /// # Errors
    /// A file that cannot be read, is no manifest, or is of another version.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST_FILE);
        // The version comes first: other versions may differ in everything else.
        let expected = format!("a manifest of version {}", Self::VERSION);
        let value: serde_json::Value = files::read_json(&path, &expected)?;
        let wrong = |found: String| ExportError::Content { path: path.clone(), expected: expected.clone(), found };
        match value.get("plimsoll_manifest").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(Self::VERSION) => {}
            Some(version) => return Err(wrong(format!("version {version}"))),
            None => return Err(wrong("no `plimsoll_manifest` field".into())),
        }
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
    }

    /// Writes the manifest into a folder.
    ///
    /// # Errors
    /// A file that cannot be written; an older one stays.
    pub fn write(&self, folder: &Path) -> Result<()> {
        files::write_json(&folder.join(MANIFEST_FILE), self)
    }

    /// Holds the model file of a folder against the manifest's hash.
    ///
    /// # Errors
    /// A file that cannot be read, and one of other content.
    pub fn check_model(&self, folder: &Path) -> Result<()> {
        let path = folder.join(&self.model.file);
        let bytes =
            std::fs::read(&path).map_err(|source| ExportError::File { action: "read", path: path.clone(), source })?;
        let found = blake3::hash(&bytes).to_hex().to_string();
        if found == self.model.blake3 {
            return Ok(());
        }
        Err(ExportError::Content { path, expected: format!("content with hash {}", self.model.blake3), found })
    }
}
