//! Drawing networks and batches.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::config::GeneratorConfig;
use super::ranges::{Span, TransformerRanges};
use crate::architectures::{
    CnnConfig, CnnShape, Convolution, LanguageModel, MlpConfig, MlpShape, TransformerConfig, TransformerShape,
};
use crate::error::Result;
use crate::family::Family;
use crate::graph::Graph;
use crate::op::Activation;
use crate::setup::{Precision, TrainingSetup};

/// Functions of MLPs and CNNs.
const ACTIVATIONS: [Activation; 10] = [
    Activation::Relu,
    Activation::LeakyRelu,
    Activation::Prelu,
    Activation::Elu,
    Activation::Selu,
    Activation::Gelu,
    Activation::Tanh,
    Activation::Silu,
    Activation::Softplus,
    Activation::Mish,
];

/// Widths of a head that Transformers have.
const HEAD_WIDTHS: [u64; 5] = [TransformerRanges::SMALLEST_HEAD, 32, 64, 96, 128];

/// A shape of any family.
#[derive(Clone, Copy)]
pub(super) enum ShapeChoice {
    Mlp(MlpShape),
    Cnn(CnnShape),
    Transformer(TransformerShape),
}

impl ShapeChoice {
    pub(super) fn draw(rng: &mut ChaCha8Rng, config: &GeneratorConfig) -> (Family, Self) {
        let family = pick(rng, &config.families);
        let shape = match family {
            Family::Mlp => Self::Mlp(pick(rng, &MlpShape::ALL)),
            Family::Cnn => Self::Cnn(pick(rng, &CnnShape::ALL)),
            _ => Self::Transformer(pick_of_many(rng, &config.transformer.shapes)),
        };
        (family, shape)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Mlp(shape) => shape.name(),
            Self::Cnn(shape) => shape.name(),
            Self::Transformer(shape) => shape.name(),
        }
    }
}

/// A network, and the batches it may get.
pub(super) enum Network {
    Mlp(MlpConfig),
    Cnn(CnnConfig),
    Transformer(TransformerConfig),
}

impl Network {
    pub(super) fn draw(rng: &mut ChaCha8Rng, config: &GeneratorConfig, shape: ShapeChoice) -> Self {
        match shape {
            ShapeChoice::Mlp(shape) => Self::Mlp(mlp(rng, config, shape)),
            ShapeChoice::Cnn(shape) => Self::Cnn(cnn(rng, config, shape)),
            ShapeChoice::Transformer(shape) => Self::Transformer(transformer(rng, config, shape)),
        }
    }

    pub(super) fn build(&self) -> Result<Graph> {
        match self {
            Self::Mlp(network) => network.build(),
            Self::Cnn(network) => network.build(),
            Self::Transformer(network) => network.build(),
        }
    }

    /// Fills in the sizes that a setup repeats.
    pub(super) fn describe(&self, setup: &mut TrainingSetup) {
        match self {
            Self::Mlp(_) => {}
            Self::Cnn(network) => setup.input_size = Some(network.input_size),
            Self::Transformer(network) => setup.sequence_length = Some(network.sequence_length),
        }
    }

    /// Batches that training accepts: normalising over a single sample is an error in PyTorch.
    pub(super) fn batches(&self, config: &GeneratorConfig) -> Span {
        let (span, batch_norm) = match self {
            Self::Mlp(network) => (config.mlp.batch, network.batch_norm),
            Self::Cnn(network) => (config.cnn.batch, network.batch_norm),
            Self::Transformer(_) => (config.transformer.batch, false),
        };
        if batch_norm { Span::new(span.low.max(2), span.high.max(2)) } else { span }
    }
}

fn mlp(rng: &mut ChaCha8Rng, config: &GeneratorConfig, shape: MlpShape) -> MlpConfig {
    let ranges = &config.mlp;
    let inputs = log_uniform(rng, ranges.inputs);
    MlpConfig {
        shape,
        inputs,
        outputs: log_uniform(rng, ranges.outputs).min(inputs),
        depth: log_uniform(rng, ranges.depth),
        activation: pick(rng, &ACTIVATIONS),
        batch_norm: rng.random_bool(0.5),
        dropout: dropout(rng),
        softmax: rng.random_bool(0.5),
    }
}

fn cnn(rng: &mut ChaCha8Rng, config: &GeneratorConfig, shape: CnnShape) -> CnnConfig {
    let ranges = &config.cnn;
    let (input_size, depth) = (log_uniform(rng, ranges.input_size), log_uniform(rng, ranges.depth));
    let intervals = [0, 5, CnnConfig::paced_interval(depth, input_size), rng.random_range(1..=8)];
    let drawn = CnnConfig {
        shape,
        channels: pick(rng, &[1, 3]),
        input_size,
        classes: log_uniform(rng, ranges.classes),
        depth,
        base_filters: log_uniform(rng, ranges.base_filters),
        activation: pick(rng, &ACTIVATIONS),
        batch_norm: rng.random_bool(0.5),
        dropout: dropout(rng),
        pool_every: pick(rng, &intervals),
        transition_every: pick(rng, &intervals[1..]),
        convolution: Convolution {
            kernel: pick_of_many(rng, &ranges.kernels),
            groups: pick_of_many(rng, &ranges.groups),
            stem: chance(rng, ranges.stem_share),
            separable: chance(rng, ranges.separable_share),
        },
    };
    drawn.normalised()
}

fn transformer(rng: &mut ChaCha8Rng, config: &GeneratorConfig, shape: TransformerShape) -> TransformerConfig {
    let ranges = &config.transformer;
    let wanted = log_uniform(rng, ranges.width);
    let head = pick(rng, &HEAD_WIDTHS).min(wanted);
    let width = wanted / head * head;
    let ratio = rng.random_range(1.0..=TransformerRanges::FEED_FORWARD_RATIO as f64);
    TransformerConfig {
        shape,
        vocabulary: log_uniform(rng, ranges.vocabulary),
        sequence_length: log_uniform(rng, ranges.sequence_length),
        width,
        layers: log_uniform(rng, ranges.layers),
        heads: width / head,
        feed_forward: (width as f64 * ratio) as u64,
        classes: if shape.is_language_model() { 0 } else { log_uniform(rng, ranges.classes) },
        dropout: dropout(rng).unwrap_or(0.0),
        activation: pick(rng, &[Activation::Relu, Activation::Gelu]),
        language_model: if shape.is_language_model() {
            LanguageModel {
                tied: chance(rng, ranges.tied_share),
                packed: chance(rng, ranges.packed_share),
                target_length: match shape {
                    TransformerShape::EncoderDecoder => log_uniform(rng, ranges.target_length),
                    _ => 0,
                },
            }
        } else {
            LanguageModel::default()
        },
    }
}

pub(super) fn precision(rng: &mut ChaCha8Rng, config: &GeneratorConfig) -> Precision {
    if rng.random_bool(config.fp32_share) { Precision::Fp32 } else { pick(rng, &config.precisions) }
}

fn dropout(rng: &mut ChaCha8Rng) -> Option<f64> {
    // Two decimals are as much as anyone writes.
    rng.random_bool(0.5).then(|| f64::from(rng.random_range(5..=50_u8)) / 100.0)
}

pub(super) fn pick<T: Copy>(rng: &mut ChaCha8Rng, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())]
}

/// One of a list; without a draw if there is no choice, so that a choice that came later leaves older streams alone.
fn pick_of_many<T: Copy>(rng: &mut ChaCha8Rng, choices: &[T]) -> T {
    if let [only] = choices { *only } else { pick(rng, choices) }
}

/// True with a probability; without a draw if it is zero, for the same reason.
fn chance(rng: &mut ChaCha8Rng, probability: f64) -> bool {
    probability > 0.0 && rng.random_bool(probability)
}

fn log_uniform(rng: &mut ChaCha8Rng, span: Span) -> u64 {
    let (low, high) = (span.low as f64, span.high as f64 + 1.0);
    let value = low * (rng.random::<f64>() * (high / low).ln()).exp();
    (value as u64).clamp(span.low, span.high)
}

/// A logarithm of base two between those of a span's ends.
pub(super) fn log2_between(rng: &mut ChaCha8Rng, span: Span) -> f64 {
    let (low, high) = ((span.low as f64).log2(), (span.high as f64).log2());
    low + rng.random::<f64>() * (high - low)
}
