//! From a fitted network to files that other programs run.

use std::path::Path;

use plimsoll_dataset::Label;
use plimsoll_graph::GpuCatalogue;
use plimsoll_model::{Estimator, LEVELS, Learned};
use prost::Message;

use crate::error::{ExportError, Result};
use crate::files;
use crate::gpus::GpuVocabulary;
use crate::graph;
use crate::interface;
use crate::manifest::{MODEL_FILE, Manifest, ModelFile, Parity};
use crate::metadata::metadata;
use crate::onnx::{IR_VERSION, OPSET};

/// What an export says beyond the network itself.
#[derive(Debug, Clone)]
pub struct ExportSettings<'a> {
    /// The GPUs whose features the manifest lists.
    pub catalogue: &'a GpuCatalogue,
    /// How good the network is, in whatever form; null if not measured.
    pub metrics: serde_json::Value,
    /// The outcome of an earlier parity check, if there is one.
    pub parity: Option<Parity>,
}

impl Default for ExportSettings<'_> {
    fn default() -> Self {
        Self { catalogue: GpuCatalogue::built_in(), metrics: serde_json::Value::Null, parity: None }
    }
}

/// Writes `model.onnx` and `manifest.json` into a folder, which is created where it is missing.
///
/// The same network gives the same bytes. The model is written first and the manifest, with the model's hash, last.
///
/// # Errors
/// An estimator of another base than the simulated step; weights that are not finite; files that cannot be written.
pub fn export(learned: &Learned, folder: &Path, settings: &ExportSettings) -> Result<Manifest> {
    let description = learned.description();
    if !description.settings.base.is_default() {
        return Err(ExportError::Unsupported {
            expected: "an estimator that corrects the simulated step",
            found: format!("{:?}", description.settings.base),
        });
    }
    let bytes = encode(learned, &settings.metrics)?;
    let manifest = Manifest {
        plimsoll_manifest: Manifest::VERSION,
        plimsoll_version: env!("CARGO_PKG_VERSION").into(),
        estimator: learned.name().into(),
        model: ModelFile {
            file: MODEL_FILE.into(),
            bytes: bytes.len() as u64,
            blake3: blake3::hash(&bytes).to_hex().to_string(),
            ir_version: IR_VERSION,
            opset: OPSET,
        },
        inputs: interface::inputs(&description.settings, &description.schema),
        outputs: interface::outputs(description),
        schema: description.schema.clone(),
        labels: Label::ALL.to_vec(),
        levels: LEVELS.to_vec(),
        calibration: description.calibration.clone(),
        adaptations: description.adaptations.clone(),
        gpus: GpuVocabulary::new(&description.data.gpus, settings.catalogue),
        data: description.data.clone(),
        settings: description.settings.clone(),
        parameters: description.parameters,
        metrics: settings.metrics.clone(),
        parity: settings.parity.clone(),
    };
    files::create_folder(folder)?;
    files::write(&folder.join(MODEL_FILE), &bytes)?;
    manifest.write(folder)?;
    Ok(manifest)
}

/// The content of `model.onnx`.
///
/// # Errors
/// Weights that are not finite.
pub fn encode(learned: &Learned, metrics: &serde_json::Value) -> Result<Vec<u8>> {
    let metadata = metadata(learned, learned.name(), metrics);
    Ok(graph::model(learned, metadata)?.encode_to_vec())
}
