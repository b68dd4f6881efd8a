//! What a learned estimator is made of and how it is trained.

use plimsoll_dataset::{Bins, SplitBy};
use plimsoll_features::Analytic;
use serde::{Deserialize, Serialize};

use crate::error::{ModelError, Result};

/// Everything that decides a fit, apart from the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The network.
    pub network: NetworkSettings,
    /// What it is shown of a workload.
    #[serde(default)]
    pub inputs: InputSettings,
    /// What a regressor of memory corrects.
    #[serde(default, skip_serializing_if = "BaseSettings::is_default")]
    pub base: BaseSettings,
    /// The form of the memory output.
    #[serde(default)]
    pub output: OutputSettings,
    /// How it is trained.
    #[serde(default)]
    pub training: TrainingSettings,
    /// How bounds are calibrated.
    #[serde(default)]
    pub calibration: CalibrationSettings,
    /// Networks that are fitted side by side and averaged. Of several each is fitted without another part of the
    /// measured rows, which calibrates.
    #[serde(default = "default_ensemble")]
    pub ensemble: usize,
}

const fn default_ensemble() -> usize {
    1
}

impl Settings {
    /// A single network that predicts a distribution, trained and calibrated by default settings.
    pub fn new(network: NetworkSettings) -> Self {
        Self {
            network,
            inputs: InputSettings::default(),
            base: BaseSettings::default(),
            output: OutputSettings::default(),
            training: TrainingSettings::default(),
            calibration: CalibrationSettings::default(),
            ensemble: default_ensemble(),
        }
    }
}

impl Settings {
    /// Whether utilisation may be told by what the roofline lacks.
    pub fn sees_roofline(&self) -> bool {
        self.inputs != InputSettings::Graph
    }
}

/// Which part of the training rows is kept out of the fit, to make bounds hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CalibrationSettings {
    /// Share of the measured training rows; 0 leaves bounds out. Where it comes to fewer than 20 measured rows, all are
    /// trained on and there are no bounds. An ensemble divides the rows among its networks instead, whatever share is said.
    pub fraction: f64,
    /// What is never shared between this part and what is trained on.
    pub by: SplitBy,
    /// Seed of the division.
    pub seed: u64,
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        Self { fraction: 0.15, by: SplitBy::Architecture, seed: 0 }
    }
}

/// Which network, and its sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum NetworkSettings {
    /// A residual multilayer perceptron over summary and GPU features.
    Mlp {
        /// Width of its layers.
        #[serde(default = "default_hidden")]
        hidden: usize,
        /// Residual blocks of two layers each.
        #[serde(default = "default_blocks")]
        blocks: usize,
        /// Dropout probability.
        #[serde(default)]
        dropout: f64,
    },
    /// A Transformer encoder over the layer sequence, its mean joined with summary and GPU features.
    Transformer {
        /// Width of a layer's embedding.
        #[serde(default = "default_width")]
        width: usize,
        /// Attention heads.
        #[serde(default = "default_heads")]
        heads: usize,
        /// Encoder layers.
        #[serde(default = "default_layers")]
        layers: usize,
        /// Width of the feed-forward part.
        #[serde(default = "default_feed_forward")]
        feed_forward: usize,
        /// Width of the joined part.
        #[serde(default = "default_hidden")]
        hidden: usize,
        /// Residual blocks of the joined part.
        #[serde(default = "default_blocks")]
        blocks: usize,
        /// Dropout probability.
        #[serde(default)]
        dropout: f64,
    },
}

const fn default_hidden() -> usize {
    128
}
const fn default_blocks() -> usize {
    2
}
const fn default_width() -> usize {
    64
}
const fn default_heads() -> usize {
    4
}
const fn default_layers() -> usize {
    2
}
const fn default_feed_forward() -> usize {
    128
}

impl NetworkSettings {
    /// The name on leaderboards.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Mlp { .. } => "mlp",
            Self::Transformer { .. } => "transformer",
        }
    }
}

/// What a network is shown of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSettings {
    /// Every feature.
    #[default]
    All,
    /// Counts of the graph and the setup alone: nothing that a simulated step knows.
    Graph,
    /// Everything but the GPU's descriptor.
    WithoutGpu,
}

/// What a regressor of memory says the measured peak is a multiple of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseSettings {
    /// The simulated step.
    #[default]
    Simulation,
    /// torchinfo's estimated total size, to see what an estimator is worth without a simulator.
    Torchinfo,
}

impl BaseSettings {
    /// Whether it is what estimators usually correct.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The quantities of [`QUANTITIES`](crate::network::labels::QUANTITIES), MiB.
    pub(crate) const fn quantities(self, analytic: Analytic) -> [f32; 3] {
        match self {
            Self::Simulation => [analytic.reserved_mib, analytic.context_mib, analytic.live_peak_mib],
            Self::Torchinfo => [analytic.torchinfo_mib, analytic.context_mib, analytic.torchinfo_mib],
        }
    }
}

/// The form of the memory output.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum OutputSettings {
    /// A distribution over the logarithm of memory, fitted by its likelihood; censored rows count as what they are.
    #[default]
    Regression,
    /// One class per half-open memory bin, as GPUMemNet does it. Censored rows are left out.
    Bins {
        /// Width of a bin, MiB.
        width_mib: f64,
        /// Number of bins; the last is open above.
        count: usize,
        /// What stands for a bin.
        #[serde(default)]
        estimate: BinEstimate,
    },
}

/// The number that a bin says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BinEstimate {
    /// Its middle.
    #[default]
    Middle,
    /// Its upper edge, which a scheduler would reserve.
    Upper,
}

impl BinEstimate {
    /// Where in a bin the number lies, as a share of its width.
    pub const fn share(self) -> f64 {
        match self {
            Self::Middle => 0.5,
            Self::Upper => 1.0,
        }
    }
}

impl OutputSettings {
    /// The bins of a classifier; `None` for a regressor.
    pub fn bins(&self) -> Option<Bins> {
        match *self {
            Self::Regression => None,
            Self::Bins { width_mib, count, .. } => Bins::new(width_mib, count).ok(),
        }
    }
}

/// How a network is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingSettings {
    /// Seed of initialisation, dropout and shuffling.
    pub seed: u64,
    /// Passes over the training part, at most.
    pub epochs: usize,
    /// Rows per step.
    pub batch_size: usize,
    /// Peak learning rate of `AdamW`.
    pub learning_rate: f64,
    /// The schedule ends at this share of the peak.
    pub final_learning_rate: f64,
    /// Share of all steps over which the learning rate rises.
    pub warmup: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Gradients of a tensor are scaled down to this norm.
    pub gradient_clip: f64,
    /// Epochs without improvement on the validation part after which training stops; 0 never stops early.
    pub patience: usize,
    /// Weight of the memory loss.
    pub memory_weight: f64,
    /// Weight of the absolute error of the logarithm of memory beside its likelihood, which alone would give up on rows
    /// that it finds hard.
    pub absolute_weight: f64,
    /// Weight of the utilisation loss.
    pub utilisation_weight: f64,
    /// Weight of the loss of upper quantiles. They have weights of their own, so it moves nothing else; 0 leaves them
    /// untrained.
    pub quantile_weight: f64,
}

impl Default for TrainingSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            epochs: 100,
            batch_size: 64,
            learning_rate: 2e-3,
            final_learning_rate: 0.01,
            warmup: 0.05,
            weight_decay: 1e-3,
            gradient_clip: 1.0,
            patience: 0,
            memory_weight: 1.0,
            absolute_weight: 30.0,
            // Memory's likelihood grows steep as its scale shrinks; with equal weights utilisation would go unheard.
            utilisation_weight: 50.0,
            quantile_weight: 1.0,
        }
    }
}

impl Settings {
    /// Checks every number before any work starts.
    ///
    /// # Errors
    /// The first setting out of range.
    pub fn check(&self) -> Result<()> {
        let training = &self.training;
        check("training.epochs", training.epochs as f64, 1.0, 1e6)?;
        check("training.batch_size", training.batch_size as f64, 1.0, 65_536.0)?;
        check("training.learning_rate", training.learning_rate, 1e-9, 10.0)?;
        check("training.final_learning_rate", training.final_learning_rate, 0.0, 1.0)?;
        check("training.warmup", training.warmup, 0.0, 1.0)?;
        check("training.weight_decay", training.weight_decay, 0.0, 10.0)?;
        check("training.gradient_clip", training.gradient_clip, 1e-6, 1e6)?;
        check("training.memory_weight", training.memory_weight, 0.0, 1e6)?;
        check("training.absolute_weight", training.absolute_weight, 0.0, 1e6)?;
        check("training.utilisation_weight", training.utilisation_weight, 0.0, 1e6)?;
        check("training.quantile_weight", training.quantile_weight, 0.0, 1e6)?;
        check("calibration.fraction", self.calibration.fraction, 0.0, 0.9)?;
        check("ensemble", self.ensemble as f64, 1.0, 32.0)?;
        match self.network {
            NetworkSettings::Mlp { hidden, blocks, dropout } => {
                check("network.hidden", hidden as f64, 1.0, 8192.0)?;
                check("network.blocks", blocks as f64, 0.0, 64.0)?;
                check("network.dropout", dropout, 0.0, 0.95)?;
            }
            NetworkSettings::Transformer { width, heads, layers, feed_forward, hidden, blocks, dropout } => {
                check("network.width", width as f64, 1.0, 4096.0)?;
                check("network.heads", heads as f64, 1.0, 128.0)?;
                check("network.layers", layers as f64, 1.0, 64.0)?;
                check("network.feed_forward", feed_forward as f64, 1.0, 16_384.0)?;
                check("network.hidden", hidden as f64, 1.0, 8192.0)?;
                check("network.blocks", blocks as f64, 0.0, 64.0)?;
                check("network.dropout", dropout, 0.0, 0.95)?;
                if width % heads != 0 {
                    return Err(ModelError::Setting {
                        name: "network.width".into(),
                        expected: format!("a multiple of network.heads = {heads}"),
                        found: width.to_string(),
                    });
                }
            }
        }
        if let OutputSettings::Bins { width_mib, count, .. } = self.output {
            check("output.count", count as f64, 2.0, Bins::MAX_COUNT as f64)?;
            Bins::new(width_mib, count)?;
        }
        Ok(())
    }
}

pub(crate) fn check(name: &str, value: f64, low: f64, high: f64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(ModelError::Setting { name: name.into(), expected: format!("{low} to {high}"), found: value.to_string() })
}
