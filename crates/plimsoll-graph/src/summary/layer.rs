//! What a module's class computes.

use crate::op::{Activation, Op, PadMode, PoolKind, RecurrentCell};

/// How a layer is put into a graph.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Layer {
    Linear,
    Conv {
        /// Spatial dimensions.
        rank: usize,
        transposed: bool,
    },
    BatchNorm,
    /// Another normalisation: scale and shift over channels or last dimensions.
    Norm(Op),
    /// Anything else whose output has its input's shape.
    Elementwise(Op),
    Pool(PoolKind),
    Embedding,
    Recurrent(RecurrentCell),
    Attention,
    /// Reads what there is and gives it another shape.
    Reshape(Op),
    Other,
}

impl Layer {
    /// The layer of a class of PyTorch or of a library built on it.
    pub(super) fn of(class: &str) -> Self {
        let class = class.strip_prefix("Lazy").unwrap_or(class);
        if let Some(layer) = exact(class).or_else(|| sized(class)) {
            return layer;
        }
        let is_a = |suffix| class.ends_with(suffix);
        if is_a("LayerNorm") || class == "LayerNorm2d" {
            return Self::Norm(Op::LayerNorm);
        }
        if is_a("RMSNorm") {
            return Self::Norm(Op::RmsNorm);
        }
        if is_a("Dropout") {
            return dropout();
        }
        if is_a("Embedding") {
            return Self::Embedding;
        }
        if is_a("Attention") {
            return Self::Attention;
        }
        if class == "GLU" {
            return Self::Reshape(Op::Activation { function: Activation::Glu, inplace: false });
        }
        let name = class.strip_suffix("Activation").unwrap_or(class);
        match Activation::from_name(name) {
            Some(function) => Self::Elementwise(Op::Activation { function, inplace: false }),
            None => Self::Other,
        }
    }
}

fn exact(class: &str) -> Option<Layer> {
    Some(match class {
        // GPT-2's `Conv1D` is a linear layer.
        "Linear" | "NonDynamicallyQuantizableLinear" | "LoRACompatibleLinear" | "Conv1D" => Layer::Linear,
        "Conv2dSame" | "Conv2dStaticSamePadding" | "StdConv2d" | "WSConv2d" | "ScaledStdConv2d" => {
            Layer::Conv { rank: 2, transposed: false }
        }
        "SyncBatchNorm" | "FrozenBatchNorm2d" => Layer::BatchNorm,
        // The number of groups is not printed; 32 is what the paper proposes and most models use.
        "GroupNorm" => Layer::Norm(Op::GroupNorm { groups: 32 }),
        "LocalResponseNorm" | "CrossMapLRN2d" => Layer::Elementwise(Op::LocalResponseNorm),
        "Softmax" | "Softmax2d" | "Softmin" => Layer::Elementwise(Op::Softmax),
        "LogSoftmax" => Layer::Elementwise(Op::LogSoftmax),
        "DropPath" | "StochasticDepth" => Layer::Elementwise(Op::StochasticDepth { p: 0.1 }),
        "EmbeddingBag" => Layer::Embedding,
        "MultiHeadAttention" => Layer::Attention,
        "LSTM" | "LSTMCell" => Layer::Recurrent(RecurrentCell::Lstm),
        "GRU" | "GRUCell" => Layer::Recurrent(RecurrentCell::Gru),
        "RNN" | "RNNCell" => Layer::Recurrent(RecurrentCell::Rnn),
        "Flatten" | "Unflatten" | "Identity" | "Permute" | "Rearrange" | "Reshape" | "View" | "Squeeze"
        | "Unsqueeze" | "Transpose" | "QuantStub" | "DeQuantStub" => Layer::Reshape(Op::View),
        "PixelShuffle" | "PixelUnshuffle" | "ChannelShuffle" => Layer::Reshape(Op::Copy),
        "Upsample" | "UpsamplingNearest2d" | "UpsamplingBilinear2d" => Layer::Reshape(Op::Upsample),
        _ => return None,
    })
}

/// Classes that end with their number of spatial dimensions.
fn sized(class: &str) -> Option<Layer> {
    let stem = class.strip_suffix('d')?;
    let rank = match stem.as_bytes().last()? {
        b'1' => 1,
        b'2' => 2,
        b'3' => 3,
        _ => return None,
    };
    let stem = &stem[..stem.len() - 1];
    Some(match stem {
        "Conv" => Layer::Conv { rank, transposed: false },
        "ConvTranspose" => Layer::Conv { rank, transposed: true },
        "BatchNorm" => Layer::BatchNorm,
        "InstanceNorm" => Layer::Norm(Op::InstanceNorm),
        "MaxPool" | "FractionalMaxPool" => Layer::Pool(PoolKind::Max),
        "AvgPool" | "LPPool" => Layer::Pool(PoolKind::Average),
        "AdaptiveMaxPool" => Layer::Pool(PoolKind::AdaptiveMax),
        "AdaptiveAvgPool" => Layer::Pool(PoolKind::AdaptiveAverage),
        _ if stem.ends_with("Dropout") => dropout(),
        _ if stem.ends_with("Pad") => Layer::Reshape(Op::Pad { mode: PadMode::default() }),
        _ => return None,
    })
}

/// PyTorch's default probability, as none is printed.
const fn dropout() -> Layer {
    Layer::Elementwise(Op::Dropout { p: 0.5, inplace: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_frameworks_are_known() {
        for (class, layer) in [
            ("LazyConv2d", Layer::Conv { rank: 2, transposed: false }),
            ("ConvTranspose3d", Layer::Conv { rank: 3, transposed: true }),
            ("NonDynamicallyQuantizableLinear", Layer::Linear),
            ("LlamaRMSNorm", Layer::Norm(Op::RmsNorm)),
            ("ConstantPad1d", Layer::Reshape(Op::Pad { mode: PadMode::default() })),
            ("GELUActivation", Layer::Elementwise(Op::Activation { function: Activation::Gelu, inplace: false })),
            ("Hardswish", Layer::Elementwise(Op::Activation { function: Activation::HardSwish, inplace: false })),
            ("Identity", Layer::Reshape(Op::View)),
            ("Conv2dNormActivation", Layer::Other),
            ("DoubleConv", Layer::Other),
            ("d", Layer::Other),
            ("", Layer::Other),
        ] {
            assert_eq!(Layer::of(class), layer, "{class}");
        }
    }
}
