//! How a graph is trained.

use serde::{Deserialize, Serialize};

use crate::error::{GraphError, Result};

/// The optimiser, by what it keeps per parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the optimiser of that name")]
pub enum Optimizer {
    Sgd,
    /// SGD with momentum: one state per parameter.
    SgdMomentum,
    #[default]
    Adam,
    #[serde(rename = "adamw")]
    AdamW,
    Adafactor,
    #[serde(rename = "adam8bit")]
    Adam8bit,
    RmsProp,
}

impl Optimizer {
    /// Every optimiser, in order.
    pub const ALL: [Self; 7] =
        [Self::Sgd, Self::SgdMomentum, Self::Adam, Self::AdamW, Self::Adafactor, Self::Adam8bit, Self::RmsProp];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::SgdMomentum => "sgd_momentum",
            Self::Adam => "adam",
            Self::AdamW => "adamw",
            Self::Adafactor => "adafactor",
            Self::Adam8bit => "adam8bit",
            Self::RmsProp => "rms_prop",
        }
    }

    /// Bytes of state kept per trained fp32 parameter.
    ///
    /// Adafactor keeps one row and one column of factors per matrix, which is counted as nothing here; the
    /// eight-bit Adam keeps two bytes and a scale per block.
    pub const fn state_bytes_per_parameter(self) -> u64 {
        match self {
            Self::Sgd | Self::Adafactor => 0,
            Self::SgdMomentum | Self::RmsProp => 4,
            Self::Adam | Self::AdamW => 8,
            Self::Adam8bit => 2,
        }
    }

    /// The optimiser of a name.
    ///
    /// # Errors
    /// A name that is not in [`Optimizer::ALL`]; the error proposes the nearest.
    pub fn from_name(name: &str) -> Result<Self> {
        named("optimizer", name, Self::ALL, Self::name)
    }
}

/// The numeric precision of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// IEEE single precision. Convolutions may use TF32, as PyTorch lets them by default.
    #[default]
    Fp32,
    /// Single-precision storage, TF32 in matrix products too.
    Tf32,
    /// Automatic mixed precision with fp16: fp32 weights, fp16 activations, a loss scaler.
    AmpFp16,
    /// Automatic mixed precision with bf16.
    AmpBf16,
    /// Everything in bf16, weights and optimiser too.
    Bf16,
}

impl Precision {
    /// Every precision, in order.
    pub const ALL: [Self; 5] = [Self::Fp32, Self::Tf32, Self::AmpFp16, Self::AmpBf16, Self::Bf16];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::AmpFp16 => "amp_fp16",
            Self::AmpBf16 => "amp_bf16",
            Self::Bf16 => "bf16",
        }
    }

    /// The precision of a name; `amp` means `amp_fp16`.
    ///
    /// # Errors
    /// A name that is not in [`Precision::ALL`]; the error proposes the nearest.
    pub fn from_name(name: &str) -> Result<Self> {
        if name == "amp" {
            return Ok(Self::AmpFp16);
        }
        named("precision", name, Self::ALL, Self::name)
    }

    /// Whether weights stay fp32 while activations are half as wide.
    pub const fn is_mixed(self) -> bool {
        matches!(self, Self::AmpFp16 | Self::AmpBf16)
    }
}

/// What the outputs are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Log-softmax and negative log-likelihood over the last dimension.
    #[default]
    CrossEntropy,
    /// Mean squared error.
    MeanSquaredError,
    /// The graph computes its own loss.
    Own,
}

/// How a graph is trained: everything about a job that is neither its graph nor its GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the framework, on or off")]
pub struct TrainingSetup {
    /// Samples per step and GPU.
    pub batch_size: u64,
    /// Optimiser.
    #[serde(default)]
    pub optimizer: Optimizer,
    /// Precision.
    #[serde(default)]
    pub precision: Precision,
    /// Loss.
    #[serde(default)]
    pub loss: Loss,
    /// Tokens per sample, where the workload has them. The graph's shapes already contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_length: Option<u64>,
    /// Side of the square input image, where the workload has one. The graph's shapes already contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_size: Option<u64>,
    /// Whether activations are recomputed in the backward pass (one checkpoint per block).
    #[serde(default)]
    pub activation_checkpointing: bool,
    /// Micro-batches whose gradients are summed before a step; 1 means none.
    #[serde(default = "one")]
    pub gradient_accumulation: u64,
    /// Only weights whose name starts with one of these train; empty means all that the graph says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trainable: Vec<String>,
    /// Whether gradients are zeroed in place instead of dropped between steps (`zero_grad(set_to_none=False)`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_gradients: bool,
    /// Whether the optimiser has a weight decay. SGD, Adam and `RMSprop` then add it to a copy of all gradients.
    #[serde(default, skip_serializing_if = "is_false")]
    pub weight_decay: bool,
    /// Batch of a forward pass before training, as tools that print a model's layers run one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_batch: Option<u64>,
    /// Batch of an epoch's last step, where the samples do not divide evenly and the rest is not dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_batch: Option<u64>,
    /// Whether cuDNN tries all algorithms for each new shape (`torch.backends.cudnn.benchmark`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub cudnn_benchmark: bool,
    /// Whether the next batch is copied to the GPU, on a stream of its own, while a step runs, as timm's loader does.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prefetches: bool,
    /// Whether the allocator grows segments in place (`expandable_segments:True`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub expandable_segments: bool,
    /// Blocks of this size and more are not split (`max_split_size_mb`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_split_size_mib: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

const fn one() -> u64 {
    1
}

impl TrainingSetup {
    /// A larger batch than any job has means a broken file.
    pub const MAX_BATCH_SIZE: u64 = 1 << 32;

    /// Adam, fp32, cross-entropy, nothing saved: the setup of the published measurements.
    pub const fn new(batch_size: u64) -> Self {
        Self {
            batch_size,
            optimizer: Optimizer::Adam,
            precision: Precision::Fp32,
            loss: Loss::CrossEntropy,
            sequence_length: None,
            input_size: None,
            activation_checkpointing: false,
            gradient_accumulation: 1,
            trainable: Vec::new(),
            keeps_gradients: false,
            weight_decay: false,
            startup_batch: None,
            last_batch: None,
            cudnn_benchmark: false,
            prefetches: false,
            expandable_segments: false,
            max_split_size_mib: None,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// A batch or accumulation of zero, or over [`TrainingSetup::MAX_BATCH_SIZE`]; a split size that PyTorch refuses.
    pub fn check(&self) -> Result<()> {
        if let Some(size) = self.max_split_size_mib
            && !(21..=Self::MAX_BATCH_SIZE).contains(&size)
        {
            return Err(GraphError::OutOfRange {
                what: "max_split_size_mib".into(),
                expected: "more than 20, as PyTorch does".into(),
                found: size.to_string(),
            });
        }
        if let Some(last) = self.last_batch
            && last > self.batch_size
        {
            return Err(GraphError::OutOfRange {
                what: "last batch".into(),
                expected: format!("at most the batch of {}", self.batch_size),
                found: last.to_string(),
            });
        }
        let (startup, last) = (self.startup_batch.unwrap_or(1), self.last_batch.unwrap_or(1));
        for (what, value) in [
            ("batch size", self.batch_size),
            ("gradient accumulation", self.gradient_accumulation),
            ("startup batch", startup),
            ("last batch", last),
        ] {
            if value == 0 || value > Self::MAX_BATCH_SIZE {
                return Err(GraphError::OutOfRange {
                    what: what.into(),
                    expected: format!("1 to {}", Self::MAX_BATCH_SIZE),
                    found: value.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Whether a parameter of this name trains, as far as the setup decides.
    pub fn trains(&self, weight: &str) -> bool {
        self.trainable.is_empty() || self.trainable.iter().any(|prefix| weight.starts_with(prefix.as_str()))
    }
}

fn named<T: Copy, const N: usize>(
    what: &'static str,
    name: &str,
    all: [T; N],
    name_of: fn(T) -> &'static str,
) -> Result<T> {
    all.into_iter().find(|value| name_of(*value) == name).ok_or_else(|| GraphError::Unknown {
        what,
        name: name.into(),
        nearest: crate::error::nearest(name, all.map(name_of)),
    })
}
