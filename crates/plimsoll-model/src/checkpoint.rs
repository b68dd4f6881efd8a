//! Fitted estimators on disk.
//!
//! A checkpoint is a folder: `checkpoint.json` (settings, feature schema, scaler, label definition, calibration, hash
//! of the data, history) and `weights.bpk` (Burn's own format; all networks of an ensemble). While training, `training.json` and numbered weights and
//! optimiser states stand beside them, from which an interrupted fit goes on. Every file is written under a
//! temporary name and renamed, `training.json` last, so a kill at any moment leaves the state before. The
//! description holds a hash of the weights, so that files which do not belong together, or are damaged, are told.

mod weights;

use std::io::Write;
use std::path::{Path, PathBuf};

use burn::tensor::{Bytes, Device};
use plimsoll_dataset::{Label, Scaler, Stack, output_path};
use plimsoll_features::{FeatureSchema, Features};
use serde::{Deserialize, Serialize};

use self::weights::{check_hash, hash_of, parse_weights, weight_bytes};
use crate::adaptation::Adaptation;
use crate::calibration::Calibration;
use crate::error::{ModelError, Result};
use crate::events::Epoch;
use crate::familiarity::Familiarity;
use crate::network::{Network, Widths};
use crate::settings::Settings;
use crate::strength::Strengths;

/// The format's version: raised when settings no longer describe the same network.
const VERSION: u32 = 5;
/// Name of the description inside a checkpoint folder.
const DESCRIPTION: &str = "checkpoint.json";
/// Name of the weights inside a checkpoint folder.
const WEIGHTS: &str = "weights.bpk";
/// The largest description that is read.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 20;
/// The largest weight file that is read.
const MAX_WEIGHT_BYTES: u64 = 4 << 30;

/// Standard deviations from the training mean beyond which a feature is unfamiliar.
const FAR: f32 = 8.0;

/// What a fit was made from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DataDescription {
    /// Name of the data set, for people.
    pub name: String,
    /// Which rows of it: the split and the part.
    pub split: String,
    /// How peaks were read.
    pub label: Label,
    /// Hash over the training samples.
    pub hash: String,
    /// Rows that were trained on or calibrated on, censored ones included.
    pub training_rows: usize,
    /// Of those, rows that ran out of memory.
    pub censored_rows: usize,
    /// Names of the GPUs that occur.
    pub gpus: Vec<String>,
    /// Names of the families that occur.
    pub families: Vec<String>,
}

/// Everything about a fitted estimator but its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Version of this format.
    pub plimsoll_checkpoint: u32,
    /// Settings of network and training.
    pub settings: Settings,
    /// Names and order of features.
    pub schema: FeatureSchema,
    /// Means and deviations of the training part.
    pub scaler: Scaler,
    /// What it was fitted to.
    pub data: DataDescription,
    /// Training rows in which each utilisation metric was recorded. One that never was is not estimated.
    pub utilisation_rows: [usize; 6],
    /// How much of the fitted correction rows bore out that the fit had not seen.
    #[serde(default)]
    pub strength: Strengths,
    /// What makes bounds hold; `None` where the fit had too few rows to keep some out.
    pub calibration: Option<Calibration>,
    /// What was learned of single GPUs after the fit, from a few runs each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adaptations: Vec<Adaptation>,
    /// Ranges of what was fitted to: outside of them bounds widen.
    pub familiarity: Familiarity,
    /// Every epoch.
    pub history: Vec<Epoch>,
    /// Number of weights.
    pub parameters: usize,
    /// BLAKE3 of the weight file, written by saving. Checkpoints of before it was kept have none, and are not checked.
    #[serde(default)]
    pub weights_hash: String,
}

impl Description {
    /// Names of the features of a workload that lie far outside what the estimator was fitted to.
    ///
    /// A feature that never varied in training carries nothing: any other value of it is unfamiliar.
    pub fn unfamiliar(&self, features: &Features) -> Vec<&str> {
        let scaled = self.scaler.apply(features);
        let parts = [
            (&self.schema.summary, &features.summary, &scaled.summary, &self.scaler.summary),
            (&self.schema.gpu, &features.gpu, &scaled.gpu, &self.scaler.gpu),
        ];
        let mut names = Vec::new();
        for (schema, raw, scaled, scaler) in parts {
            for (index, name) in schema.iter().enumerate() {
                let is_constant = scaler.is_constant(index);
                let differs = (raw[index] - scaler.mean[index]).abs() > 1e-3 * scaler.mean[index].abs().max(1.0);
                if (is_constant && differs) || scaled[index].abs() > FAR {
                    names.push(name.as_str());
                }
            }
        }
        names
    }

    /// What is known of a GPU beyond the fit, for a label definition on a stack: rather from readings of the same
    /// definition than of one that adds up the same quantities, then of the nearest stack, then what was learned last.
    pub fn adaptation(&self, gpu: &str, label: Label, stack: Stack) -> Option<&Adaptation> {
        let fitting = self.adaptations.iter().filter(|known| known.speaks_for(gpu, label, stack));
        fitting.max_by(|one, other| {
            let is_read_alike = |known: &Adaptation| known.label == label;
            let by_label = is_read_alike(one).cmp(&is_read_alike(other));
            by_label.then_with(|| stack.compare_nearness(one.stack, other.stack))
        })
    }

    /// A description in the current format.
    pub fn new(settings: Settings, scaler: Scaler, data: DataDescription) -> Self {
        Self {
            plimsoll_checkpoint: VERSION,
            settings,
            schema: FeatureSchema::current(),
            scaler,
            data,
            utilisation_rows: [0; 6],
            calibration: None,
            strength: Strengths::default(),
            adaptations: Vec::new(),
            familiarity: Familiarity::default(),
            history: Vec::new(),
            parameters: 0,
            weights_hash: String::new(),
        }
    }
}

/// Writes a finished estimator.
pub(crate) fn save(folder: &Path, description: &Description, network: &Network) -> Result<()> {
    create(folder)?;
    let weights = weight_bytes(network, folder)?;
    let description = Description { weights_hash: hash_of(&weights), ..description.clone() };
    write(&folder.join(WEIGHTS), &weights)?;
    write_json(&folder.join(DESCRIPTION), &description)
}

/// Reads a finished estimator.
pub(crate) fn load(folder: &Path, device: &Device) -> Result<(Description, Network)> {
    let description = read(&folder.join(DESCRIPTION), MAX_DESCRIPTION_BYTES)?;
    // Checked first: a folder of another version should say so, whatever its weights are.
    let description = parse_description(&description, folder)?;
    let weights = read(&folder.join(WEIGHTS), MAX_WEIGHT_BYTES)?;
    let network = network_of(&description, weights, folder, device)?;
    Ok((description, network))
}

/// A finished estimator from the content of its two files; `origin` names them in errors.
pub(crate) fn parse(
    description: &[u8],
    weights: Vec<u8>,
    origin: &Path,
    device: &Device,
) -> Result<(Description, Network)> {
    let description = parse_description(description, origin)?;
    let network = network_of(&description, weights, origin, device)?;
    Ok((description, network))
}

fn parse_description(bytes: &[u8], origin: &Path) -> Result<Description> {
    let damaged = |found: String| ModelError::Checkpoint {
        path: origin.join(DESCRIPTION),
        expected: format!("a description of version {VERSION}"),
        found,
    };
    // Only the version and the schema are looked at first: other versions may differ in everything else.
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    match value.get("plimsoll_checkpoint").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => return Err(damaged(format!("version {version}"))),
        None => return Err(damaged("no `plimsoll_checkpoint` field".into())),
    }
    let schema = value.get("schema").cloned().unwrap_or_default();
    let schema: FeatureSchema = serde_json::from_value(schema).map_err(|error| damaged(error.to_string()))?;
    schema.check().map_err(|source| ModelError::Schema { path: origin.into(), source })?;
    let description: Description = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
    description.settings.check()?;
    description.scaler.check(&description.schema).map_err(|error| damaged(error.to_string()))?;
    if !description.calibration.as_ref().is_none_or(Calibration::is_sound) {
        return Err(damaged("a calibration with an offset that is no number".into()));
    }
    if !description.strength.is_sound() {
        return Err(damaged("a strength of corrections that cannot be".into()));
    }
    if !description.adaptations.iter().all(|known| known.is_sound(description.schema.summary.len())) {
        return Err(damaged("an adaptation to a GPU with a number that cannot be".into()));
    }
    if !description.familiarity.is_sound(description.schema.summary.len() + description.schema.gpu.len()) {
        return Err(damaged("ranges that are not those of the features".into()));
    }
    Ok(description)
}

fn network_of(description: &Description, weights: Vec<u8>, origin: &Path, device: &Device) -> Result<Network> {
    let path = origin.join(WEIGHTS);
    check_hash(&weights, &description.weights_hash, &path)?;
    let network = Network::new(&description.settings, Widths::current(), device);
    parse_weights(weights, &path, network)
}

/// State from which training goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) plimsoll_training: u32,
    pub(crate) settings: Settings,
    pub(crate) schema: FeatureSchema,
    pub(crate) data_hash: String,
    pub(crate) history: Vec<Epoch>,
    pub(crate) best_epoch: usize,
    pub(crate) best_loss: Option<f64>,
    pub(crate) is_finished: bool,
}

impl Progress {
    pub(crate) fn new(settings: &Settings, data_hash: &str) -> Self {
        Self {
            plimsoll_training: VERSION,
            settings: settings.clone(),
            schema: FeatureSchema::current(),
            data_hash: data_hash.into(),
            history: Vec::new(),
            best_epoch: 0,
            best_loss: None,
            is_finished: false,
        }
    }

    /// Epochs that are done.
    pub(crate) fn epochs(&self) -> usize {
        self.history.len()
    }
}

/// The training state inside a checkpoint folder.
#[derive(Debug, Clone)]
pub(crate) struct TrainingFolder {
    folder: PathBuf,
}

impl TrainingFolder {
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        create(folder)?;
        Ok(Self { folder: folder.into() })
    }

    fn progress_path(&self) -> PathBuf {
        self.folder.join("training.json")
    }

    fn weights_path(&self, epoch: usize) -> PathBuf {
        self.folder.join(format!("epoch-{epoch}.bpk"))
    }

    fn optimizer_path(&self, epoch: usize) -> PathBuf {
        self.folder.join(format!("epoch-{epoch}.optimizer.bpk"))
    }

    /// What an earlier fit left, if anything.
    pub(crate) fn progress(&self) -> Result<Option<Progress>> {
        let path = self.progress_path();
        if !path.exists() {
            return Ok(None);
        }
        let bytes = read(&path, MAX_DESCRIPTION_BYTES)?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| ModelError::Checkpoint {
            path,
            expected: "the state of a fit".into(),
            found: error.to_string(),
        })
    }

    /// Keeps the state after an epoch: numbered files first, then the file that names the epoch.
    pub(crate) fn save(&self, progress: &Progress, network: &Network, optimizer: &[u8]) -> Result<()> {
        let epoch = progress.epochs();
        write(&self.weights_path(epoch), &weight_bytes(network, &self.folder)?)?;
        write(&self.optimizer_path(epoch), optimizer)?;
        write_json(&self.progress_path(), progress)?;
        self.remove_all_but(&[epoch, progress.best_epoch]);
        Ok(())
    }

    /// The network after an epoch.
    pub(crate) fn load_weights(&self, epoch: usize, network: Network) -> Result<Network> {
        let path = self.weights_path(epoch);
        parse_weights(read(&path, MAX_WEIGHT_BYTES)?, &path, network)
    }

    /// The optimiser's state after an epoch.
    pub(crate) fn load_optimizer(&self, epoch: usize) -> Result<Bytes> {
        Ok(Bytes::from_bytes_vec(read(&self.optimizer_path(epoch), MAX_WEIGHT_BYTES)?))
    }

    /// Marks the fit as finished and drops what only going on would need.
    pub(crate) fn finish(&self, progress: &mut Progress) -> Result<()> {
        progress.is_finished = true;
        write_json(&self.progress_path(), progress)?;
        self.remove_all_but(&[]);
        Ok(())
    }

    /// Old epochs are only clutter: failing to remove one is no error.
    fn remove_all_but(&self, kept: &[usize]) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("epoch-")) else { continue };
            let number: Option<usize> = rest.split('.').next().and_then(|digits| digits.parse().ok());
            if number.is_some_and(|number| !kept.contains(&number)) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

fn create(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|source| ModelError::File { action: "create", path: folder.into(), source })
}

fn read(path: &Path, limit_bytes: u64) -> Result<Vec<u8>> {
    let failed = |source| ModelError::File { action: "read", path: path.into(), source };
    let found = std::fs::metadata(path).map_err(failed)?.len();
    if found > limit_bytes {
        return Err(ModelError::Checkpoint {
            path: path.into(),
            expected: format!("at most {limit_bytes} bytes"),
            found: format!("{found} bytes"),
        });
    }
    std::fs::read(path).map_err(failed)
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value).expect("descriptions always serialise");
    write(path, &bytes)
}

/// Writes under a temporary name in the same folder, then renames: a full disk or a kill loses nothing.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |source| ModelError::File { action: "write", path: path.into(), source };
    let target = output_path(path).map_err(failed)?;
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}
