//! Operators of a computation graph.
//!
//! An operator says what is computed; shapes stand on the tensors and sizes on the weights, so nothing is
//! written twice. The set covers what training workloads are made of; anything else is [`Op::Other`], which
//! keeps its name and is treated conservatively.

use serde::{Deserialize, Serialize};

/// What a node computes. In files: `op` names the variant, its fields are the node's `attributes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// `y = x Wᵀ (+ b)` over the last dimension.
    Linear,
    /// Convolution over one to three spatial dimensions, channels first.
    Conv(Conv),
    /// Batch normalisation, training mode.
    BatchNorm,
    /// Layer normalisation.
    LayerNorm,
    /// Root-mean-square normalisation.
    RmsNorm,
    /// Group normalisation.
    GroupNorm {
        /// Number of groups.
        groups: u64,
    },
    /// Instance normalisation.
    InstanceNorm,
    /// Local response normalisation.
    LocalResponseNorm,
    /// An elementwise activation function.
    Activation {
        /// Which one.
        function: Activation,
        /// Whether it overwrites its input.
        #[serde(default)]
        inplace: bool,
    },
    /// Softmax over one dimension.
    Softmax,
    /// Logarithm of softmax over one dimension.
    LogSoftmax,
    /// Dropout of single elements.
    Dropout {
        /// Probability of dropping.
        p: f64,
        /// Whether it overwrites its input.
        #[serde(default)]
        inplace: bool,
    },
    /// Dropout of whole samples in a residual branch.
    StochasticDepth {
        /// Probability of dropping.
        p: f64,
    },
    /// Pooling over spatial dimensions.
    Pool(Pool),
    /// Table look-up by integer index.
    Embedding {
        /// Whether its gradient is sparse.
        #[serde(default)]
        sparse: bool,
    },
    /// Scaled dot-product attention on query, key and value.
    Attention {
        /// Query heads.
        heads: u64,
        /// Key and value heads, fewer than `heads` under grouped-query attention; 0 means the same number.
        #[serde(default)]
        kv_heads: u64,
        /// Whether a fused kernel runs or the score matrix exists.
        #[serde(default)]
        kernel: AttentionKernel,
        /// Whether later positions are masked.
        #[serde(default)]
        causal: bool,
        /// Probability of dropping attention weights.
        #[serde(default)]
        dropout: f64,
    },
    /// Product of two activations.
    MatMul,
    /// Elementwise arithmetic on two tensors, or a tensor and a scalar.
    Binary {
        /// Which operation.
        function: Binary,
        /// Whether it overwrites its first input.
        #[serde(default)]
        inplace: bool,
    },
    /// Concatenation.
    Concat,
    /// Reshape, permute, flatten, slice, expand: shares its input's storage.
    View,
    /// Contiguous copy, clone, roll, cast: new storage, nothing saved.
    Copy,
    /// Padding.
    Pad {
        /// What the border is filled with.
        #[serde(default, skip_serializing_if = "is_default")]
        mode: PadMode,
    },
    /// Mean, sum, maximum or norm over dimensions.
    Reduce {
        /// Which one.
        #[serde(default, skip_serializing_if = "is_default")]
        function: Reduction,
    },
    /// Interpolation to a larger or smaller grid.
    Upsample,
    /// Rows picked by index (gather, index-select, advanced indexing).
    Gather,
    /// A recurrent layer over a sequence.
    Recurrent {
        /// Which cell.
        cell: RecurrentCell,
        /// Width of the state.
        hidden: u64,
        /// Stacked layers.
        layers: u64,
        /// Whether it also runs backwards.
        #[serde(default)]
        bidirectional: bool,
    },
    /// Anything that is not in this list, by the name its source gave it.
    Other {
        /// The source's name.
        name: String,
    },
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Attributes of a convolution; the kernel's length is the number of spatial dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv {
    /// Kernel extents.
    pub kernel: Vec<u64>,
    /// Strides; empty means 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stride: Vec<u64>,
    /// Zero padding on either side; empty means 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub padding: Vec<u64>,
    /// Dilation; empty means 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dilation: Vec<u64>,
    /// Channel groups.
    #[serde(default = "one")]
    pub groups: u64,
    /// Whether it is a transposed convolution.
    #[serde(default)]
    pub transposed: bool,
}

const fn one() -> u64 {
    1
}

/// Attributes of a pooling layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Maximum or average, sliding or adaptive.
    pub kind: PoolKind,
    /// Kernel extents; empty for adaptive pooling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<u64>,
    /// Strides; empty means the kernel's extents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stride: Vec<u64>,
    /// Zero padding on either side; empty means 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub padding: Vec<u64>,
}

/// Kinds of pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolKind {
    /// Maximum in a sliding window.
    Max,
    /// Average in a sliding window.
    Average,
    /// Maximum over cells of a given grid.
    AdaptiveMax,
    /// Average over cells of a given grid.
    AdaptiveAverage,
}

/// Activation functions that PyTorch runs as one kernel each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the function of that name")]
pub enum Activation {
    Identity,
    Relu,
    Relu6,
    LeakyRelu,
    Prelu,
    Elu,
    Selu,
    Gelu,
    Silu,
    Mish,
    Softplus,
    Tanh,
    Sigmoid,
    HardSwish,
    HardSigmoid,
    HardTanh,
    Glu,
}

impl Activation {
    /// Every function, in order.
    pub const ALL: [Self; 17] = [
        Self::Identity,
        Self::Relu,
        Self::Relu6,
        Self::LeakyRelu,
        Self::Prelu,
        Self::Elu,
        Self::Selu,
        Self::Gelu,
        Self::Silu,
        Self::Mish,
        Self::Softplus,
        Self::Tanh,
        Self::Sigmoid,
        Self::HardSwish,
        Self::HardSigmoid,
        Self::HardTanh,
        Self::Glu,
    ];

    /// The name used in files and as a token.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Relu => "relu",
            Self::Relu6 => "relu6",
            Self::LeakyRelu => "leaky_relu",
            Self::Prelu => "prelu",
            Self::Elu => "elu",
            Self::Selu => "selu",
            Self::Gelu => "gelu",
            Self::Silu => "silu",
            Self::Mish => "mish",
            Self::Softplus => "softplus",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::HardSwish => "hard_swish",
            Self::HardSigmoid => "hard_sigmoid",
            Self::HardTanh => "hard_tanh",
            Self::Glu => "glu",
        }
    }

    /// The function of a name as frameworks and papers spell it (`SiLU`, `swish`, `leaky_relu`, `LeakyReLU`).
    pub fn from_name(name: &str) -> Option<Self> {
        let squeezed: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        match squeezed.as_str() {
            "swish" => return Some(Self::Silu),
            "leaky" => return Some(Self::LeakyRelu),
            "none" => return Some(Self::Identity),
            "logistic" => return Some(Self::Sigmoid),
            _ => {}
        }
        Self::ALL.into_iter().find(|function| function.name().replace('_', "") == squeezed)
    }
}

/// Elementwise arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binary {
    /// Sum: backward needs neither input.
    Add,
    /// Difference: the gradient of what is taken away is negated. With one input: that is taken from a number.
    Subtract,
    /// Product: backward needs both inputs.
    Multiply,
    /// Quotient: backward needs both inputs.
    Divide,
    /// Anything else with two inputs.
    Other,
}

/// What a border is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PadMode {
    /// A number: backward needs nothing.
    #[default]
    Constant,
    /// What stands on the other side of the edge.
    Reflect,
    /// The edge itself.
    Replicate,
}

/// What a reduction makes of many elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// The largest or smallest, with its position.
    Max,
    /// The largest or smallest, whose gradient equals share.
    Amax,
    /// Their product.
    Product,
    /// The norm of the vector that they are.
    Norm,
    /// Their standard deviation.
    Std,
    /// Their variance.
    Var,
    /// The logarithm of the sum of their exponentials.
    #[serde(rename = "logsumexp")]
    LogSumExp,
    /// A position, or whether all or any are true: no gradient flows back.
    Index,
}

impl Reduction {
    /// Every function, in order.
    pub const ALL: [Self; 10] = [
        Self::Mean,
        Self::Sum,
        Self::Max,
        Self::Amax,
        Self::Product,
        Self::Norm,
        Self::Std,
        Self::Var,
        Self::LogSumExp,
        Self::Index,
    ];
}

/// How attention is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKernel {
    /// A fused kernel (flash or memory-efficient): no score matrix.
    #[default]
    Fused,
    /// Separate products and a softmax: the score matrix exists and is saved.
    Eager,
}

/// Recurrent cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecurrentCell {
    /// Elman network.
    Rnn,
    /// Gated recurrent unit.
    Gru,
    /// Long short-term memory.
    Lstm,
}

impl Op {
    /// Names of all variants but [`Op::Other`], as files spell them.
    pub const NAMES: [&'static str; 26] = [
        "linear",
        "conv",
        "batch_norm",
        "layer_norm",
        "rms_norm",
        "group_norm",
        "instance_norm",
        "local_response_norm",
        "activation",
        "softmax",
        "log_softmax",
        "dropout",
        "stochastic_depth",
        "pool",
        "embedding",
        "attention",
        "mat_mul",
        "binary",
        "concat",
        "view",
        "copy",
        "pad",
        "reduce",
        "upsample",
        "gather",
        "recurrent",
    ];

    /// The token under which estimators know this operator: finer than the variant where memory differs.
    ///
    /// Every value is in [`Op::tokens`].
    pub const fn token(&self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Conv(conv) if conv.transposed => "conv_transposed",
            Self::Conv(conv) if conv.groups > 1 => "conv_grouped",
            Self::Conv(_) => "conv",
            Self::BatchNorm => "batch_norm",
            Self::LayerNorm => "layer_norm",
            Self::RmsNorm => "rms_norm",
            Self::GroupNorm { .. } => "group_norm",
            Self::InstanceNorm => "instance_norm",
            Self::LocalResponseNorm => "local_response_norm",
            Self::Activation { function, .. } => function.name(),
            Self::Softmax => "softmax",
            Self::LogSoftmax => "log_softmax",
            Self::Dropout { .. } => "dropout",
            Self::StochasticDepth { .. } => "stochastic_depth",
            Self::Pool(pool) => match pool.kind {
                PoolKind::Max | PoolKind::AdaptiveMax => "pool_max",
                PoolKind::Average | PoolKind::AdaptiveAverage => "pool_average",
            },
            Self::Embedding { .. } => "embedding",
            Self::Attention { kernel: AttentionKernel::Fused, .. } => "attention_fused",
            Self::Attention { kernel: AttentionKernel::Eager, .. } => "attention_eager",
            Self::MatMul => "mat_mul",
            // Estimators know a difference as a sum.
            Self::Binary { function: Binary::Add | Binary::Subtract, .. } => "add",
            Self::Binary { function: Binary::Multiply, .. } => "multiply",
            Self::Binary { .. } => "binary",
            Self::Concat => "concat",
            Self::View => "view",
            Self::Copy => "copy",
            Self::Pad { .. } => "pad",
            Self::Reduce { .. } => "reduce",
            Self::Upsample => "upsample",
            Self::Gather => "gather",
            Self::Recurrent { .. } => "recurrent",
            Self::Other { .. } => "other",
        }
    }

    /// Every token, in a fixed order that only ever grows at the end.
    pub fn tokens() -> Vec<&'static str> {
        let mut tokens = vec![
            "other",
            "linear",
            "conv",
            "conv_grouped",
            "conv_transposed",
            "batch_norm",
            "layer_norm",
            "rms_norm",
            "group_norm",
            "instance_norm",
            "local_response_norm",
            "softmax",
            "log_softmax",
            "dropout",
            "stochastic_depth",
            "pool_max",
            "pool_average",
            "embedding",
            "attention_fused",
            "attention_eager",
            "mat_mul",
            "add",
            "multiply",
            "binary",
            "concat",
            "view",
            "copy",
            "pad",
            "reduce",
            "upsample",
            "gather",
            "recurrent",
        ];
        tokens.extend(Activation::ALL.map(Activation::name));
        tokens
    }

    /// Whether the operator writes over its first input's storage.
    pub const fn is_inplace(&self) -> bool {
        matches!(
            self,
            Self::Activation { inplace: true, .. }
                | Self::Dropout { inplace: true, .. }
                | Self::Binary { inplace: true, .. }
        )
    }

    /// Whether its output shares its first input's storage.
    pub const fn shares_storage(&self) -> bool {
        matches!(self, Self::View) || self.is_inplace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_activation_is_found_under_the_spellings_of_frameworks() {
        for function in Activation::ALL {
            assert_eq!(Activation::from_name(function.name()), Some(function));
            assert!(Op::tokens().contains(&Op::Activation { function, inplace: false }.token()));
        }
        for (spelling, function) in [
            ("SiLU", Activation::Silu),
            ("swish", Activation::Silu),
            ("LeakyReLU", Activation::LeakyRelu),
            ("Hardswish", Activation::HardSwish),
            ("ReLU6", Activation::Relu6),
        ] {
            assert_eq!(Activation::from_name(spelling), Some(function), "{spelling}");
        }
    }

    #[test]
    fn tokens_are_unique() {
        let mut tokens = Op::tokens();
        tokens.sort_unstable();
        let count = tokens.len();
        tokens.dedup();
        assert_eq!(tokens.len(), count);
    }
}
