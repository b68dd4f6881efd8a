//! Weights out of Burn's modules, as plain numbers. No other file of this crate names a type of Burn.

use burn::module::Param;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderLayer};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor};
use plimsoll_model::network::{Dense, Heads, Member, Network, QuantileHead};

/// A tensor of weights.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weight {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
}

/// A linear layer, `x W + b` with `W` as `[in, out]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Affine {
    pub(crate) weight: Weight,
    pub(crate) bias: Option<Weight>,
}

/// A layer normalisation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Norm {
    pub(crate) scale: Weight,
    pub(crate) bias: Option<Weight>,
}

/// A stack of residual blocks: norm, first and second layer each.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stack {
    pub(crate) input: Affine,
    pub(crate) blocks: Vec<(Norm, Affine, Affine)>,
}

/// Both heads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeadWeights {
    pub(crate) memory: (Affine, Affine),
    /// What label definitions add to the hidden layer of memory.
    pub(crate) label: Weight,
    /// What software adds to the same.
    pub(crate) stack: Affine,
    pub(crate) utilisation: (Affine, Affine),
}

/// The head for upper quantiles.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantileWeights {
    pub(crate) trunk: Stack,
    /// What label definitions add to the trunk's output.
    pub(crate) label: Weight,
    pub(crate) output: Affine,
}

/// One layer of the encoder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncoderLayer {
    pub(crate) attention_norm: Norm,
    pub(crate) query: Affine,
    pub(crate) key: Affine,
    pub(crate) value: Affine,
    pub(crate) output: Affine,
    pub(crate) feed_forward_norm: Norm,
    pub(crate) feed_forward: (Affine, Affine),
}

/// The part of a network that reads the layer sequence.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reader {
    pub(crate) tokens: Weight,
    pub(crate) numbers: Affine,
    pub(crate) heads: usize,
    /// What a score is set to where the key is padding.
    pub(crate) masked_score: f32,
    pub(crate) layers: Vec<EncoderLayer>,
    pub(crate) norm: Norm,
}

/// One network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weights {
    pub(crate) reader: Option<Reader>,
    pub(crate) trunk: Stack,
    pub(crate) utilisation_trunk: Stack,
    pub(crate) heads: HeadWeights,
    pub(crate) quantiles: Option<QuantileWeights>,
}

impl Weights {
    pub(crate) fn of(member: &Member) -> Self {
        match member {
            Member::Mlp(network) => Self {
                reader: None,
                trunk: stack(&network.trunk),
                utilisation_trunk: stack(&network.utilisation_trunk),
                heads: heads(&network.heads),
                quantiles: network.quantiles.as_ref().map(quantiles),
            },
            Member::Transformer(network) => {
                let reader = Reader {
                    tokens: weight(&network.token.weight),
                    numbers: affine(&network.numbers),
                    heads: network.encoder.n_heads,
                    masked_score: masked_score(&network.encoder),
                    layers: network.encoder.layers.iter().map(encoder_layer).collect(),
                    norm: norm(&network.norm),
                };
                Self {
                    reader: Some(reader),
                    trunk: stack(&network.trunk),
                    utilisation_trunk: stack(&network.utilisation_trunk),
                    heads: heads(&network.heads),
                    quantiles: network.quantiles.as_ref().map(quantiles),
                }
            }
        }
    }
}

/// Where the weights of a network lie.
pub(crate) fn device(network: &Network) -> Device {
    let heads = match network.members.first().expect("at least one network") {
        Member::Mlp(network) => &network.heads,
        Member::Transformer(network) => &network.heads,
    };
    heads.memory.output.weight.val().device()
}

fn weight<const D: usize>(parameter: &Param<Tensor<D>>) -> Weight {
    let tensor = parameter.val();
    let shape = tensor.dims().to_vec();
    Weight { shape, numbers: tensor.into_data().iter::<f32>().collect() }
}

fn affine(linear: &Linear) -> Affine {
    Affine { weight: weight(&linear.weight), bias: linear.bias.as_ref().map(weight) }
}

fn norm(norm: &LayerNorm) -> Norm {
    Norm { scale: weight(&norm.gamma), bias: norm.beta.as_ref().map(weight) }
}

fn stack(dense: &Dense) -> Stack {
    let blocks = dense.blocks.iter().map(|block| (norm(&block.norm), affine(&block.first), affine(&block.second)));
    Stack { input: affine(&dense.input), blocks: blocks.collect() }
}

fn heads(heads: &Heads) -> HeadWeights {
    HeadWeights {
        memory: (affine(&heads.memory.hidden), affine(&heads.memory.output)),
        label: weight(&heads.memory.label.weight),
        stack: affine(&heads.memory.stack),
        utilisation: (affine(&heads.utilisation_hidden), affine(&heads.utilisation_output)),
    }
}

fn quantiles(head: &QuantileHead) -> QuantileWeights {
    QuantileWeights { trunk: stack(&head.trunk), label: weight(&head.label.weight), output: affine(&head.output) }
}

fn encoder_layer(layer: &TransformerEncoderLayer) -> EncoderLayer {
    EncoderLayer {
        // Burn applies its second norm first where norms come first.
        attention_norm: norm(&layer.norm_2),
        query: affine(&layer.mha.query),
        key: affine(&layer.mha.key),
        value: affine(&layer.mha.value),
        output: affine(&layer.mha.output),
        feed_forward_norm: norm(&layer.norm_1),
        feed_forward: (affine(&layer.pwff.linear_inner), affine(&layer.pwff.linear_outer)),
    }
}

fn masked_score(encoder: &TransformerEncoder) -> f32 {
    assert!(
        encoder.norm_first && !encoder.quiet_softmax,
        "the exported graph puts norms first and uses the plain softmax, as the network does"
    );
    encoder.layers.first().map_or(0.0, |layer| layer.mha.min_float as f32)
}
