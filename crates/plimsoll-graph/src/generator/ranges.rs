//! Ranges of sizes that networks are drawn from.

use serde::{Deserialize, Serialize};

use crate::architectures::{
    CnnShape, Convolution, MAX_DEPTH, MAX_SIDE, MAX_WIDTH, TransformerConfig, TransformerShape,
};
use crate::error::{GraphError, Result};
use crate::setup::TrainingSetup;

/// A range of whole numbers, both ends included. Draws are uniform in the logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Smallest value.
    pub low: u64,
    /// Largest value.
    pub high: u64,
}

impl Span {
    /// The range from one number to another.
    pub const fn new(low: u64, high: u64) -> Self {
        Self { low, high }
    }

    pub(super) fn check(self, what: &str, limit: u64) -> Result<()> {
        if self.low >= 1 && self.low <= self.high && self.high <= limit {
            return Ok(());
        }
        Err(GraphError::OutOfRange {
            what: format!("range of {what}"),
            expected: format!("a low and a high end from 1 to {limit}, in this order"),
            found: format!("{} to {}", self.low, self.high),
        })
    }
}

/// Ranges of fully connected networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MlpRanges {
    /// Features of a sample.
    pub inputs: Span,
    /// Outputs; never more than there are inputs.
    pub outputs: Span,
    /// Hidden layers.
    pub depth: Span,
    /// Samples per step; at least two where there is batch normalisation.
    pub batch: Span,
}

impl Default for MlpRanges {
    fn default() -> Self {
        Self {
            inputs: Span::new(16, 16_384),
            outputs: Span::new(2, 4_096),
            depth: Span::new(1, 32),
            batch: Span::new(2, 65_536),
        }
    }
}

impl MlpRanges {
    pub(super) fn check(&self) -> Result<()> {
        for (what, span, limit) in [
            ("MLP inputs", self.inputs, MAX_WIDTH),
            ("MLP outputs", self.outputs, MAX_WIDTH),
            ("MLP depth", self.depth, MAX_DEPTH - 1),
            ("MLP batch", self.batch, TrainingSetup::MAX_BATCH_SIZE),
        ] {
            span.check(what, limit)?;
        }
        Ok(())
    }

    /// An upper bound for the weights and the activations, at the largest batch.
    pub(super) fn largest_bytes(&self) -> f64 {
        Bound {
            layers: self.depth.high,
            width: self.inputs.high.max(self.outputs.high),
            matrices: 20.0,
            positions: 1.0,
            batch: self.batch.high,
            outputs: real(self.outputs.high),
            table: 0.0,
            scores: 0.0,
        }
        .bytes()
    }
}

/// Ranges of convolutional networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CnnRanges {
    /// Channels from which a shape develops.
    pub base_filters: Span,
    /// Convolutions.
    pub depth: Span,
    /// Side of the input image.
    pub input_size: Span,
    /// Classes.
    pub classes: Span,
    /// Samples per step; at least two where there is batch normalisation.
    pub batch: Span,
    /// Sides of the windows, each as likely as the others: odd numbers, by default 3 only.
    pub kernels: Vec<u64>,
    /// Groups of channels, each as likely as the others: by default 1 only.
    pub groups: Vec<u64>,
    /// Share of networks that begin with a 7x7 convolution and a pooling: by default none.
    pub stem_share: f64,
    /// Share of networks whose convolutions are separable: by default none.
    pub separable_share: f64,
}

impl Default for CnnRanges {
    fn default() -> Self {
        Self {
            base_filters: Span::new(8, 512),
            depth: Span::new(1, 48),
            input_size: Span::new(16, 512),
            classes: Span::new(2, 1_000),
            batch: Span::new(2, 4_096),
            kernels: vec![3],
            groups: vec![1],
            stem_share: 0.0,
            separable_share: 0.0,
        }
    }
}

impl CnnRanges {
    /// The default sizes with every kind of convolution, most of them plain and with windows of 3x3.
    pub fn varied() -> Self {
        Self {
            kernels: vec![3, 3, 3, 3, 3, 1, 5, 7],
            groups: vec![1, 1, 1, 1, 4, 32],
            stem_share: 0.25,
            separable_share: 0.2,
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        for (what, span, limit) in [
            ("base filters", self.base_filters, MAX_WIDTH),
            ("CNN depth", self.depth, MAX_DEPTH),
            ("input size", self.input_size, MAX_SIDE),
            ("CNN classes", self.classes, MAX_WIDTH),
            ("CNN batch", self.batch, TrainingSetup::MAX_BATCH_SIZE),
        ] {
            span.check(what, limit)?;
        }
        check_list("windows", &self.kernels)?;
        check_list("groups of channels", &self.groups)?;
        for (&kernel, &groups) in
            self.kernels.iter().flat_map(|kernel| self.groups.iter().map(move |groups| (kernel, groups)))
        {
            Convolution { kernel, groups, ..Convolution::default() }.check()?;
        }
        check_share("share of stems", self.stem_share)?;
        check_share("share of separable convolutions", self.separable_share)
    }

    /// An upper bound for the weights and the activations, at the largest batch.
    pub(super) fn largest_bytes(&self) -> f64 {
        // A dense network gains a growth rate per layer and starts from a handful of channels.
        let width = (2 * self.base_filters.high).max(CnnShape::MAX_CHANNELS).max(64 + 32 * self.depth.high);
        Bound {
            layers: self.depth.high,
            width,
            // Twice in a block, which has a shortcut too.
            matrices: 2.0 * real(self.kernels.iter().copied().max().unwrap_or(1)).powi(2) + 2.0,
            positions: real(self.input_size.high).powi(2),
            batch: self.batch.high,
            outputs: real(self.classes.high),
            table: 0.0,
            scores: 0.0,
        }
        .bytes()
    }
}

/// Ranges of Transformers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerRanges {
    /// Shapes, each as likely as the others: by default encoders only.
    pub shapes: Vec<TransformerShape>,
    /// Width of a token, rounded down to whole heads.
    pub width: Span,
    /// Layers of each stack.
    pub layers: Span,
    /// Tokens of a sample.
    pub sequence_length: Span,
    /// Tokens of the decoder, where there is an encoder too.
    pub target_length: Span,
    /// Rows of the embedding.
    pub vocabulary: Span,
    /// Classes of an encoder.
    pub classes: Span,
    /// Samples per step.
    pub batch: Span,
    /// Share of language models whose scores are made by the embedding's table: by default half.
    pub tied_share: f64,
    /// Share of language models that make query, key and value by one linear layer: by default half.
    pub packed_share: f64,
}

impl Default for TransformerRanges {
    fn default() -> Self {
        Self {
            shapes: vec![TransformerShape::Encoder],
            width: Span::new(64, 2_048),
            layers: Span::new(1, 48),
            sequence_length: Span::new(16, 4_096),
            target_length: Span::new(16, 1_024),
            vocabulary: Span::new(256, 1_000_000),
            classes: Span::new(2, 1_000),
            batch: Span::new(1, 4_096),
            tied_share: 0.5,
            packed_share: 0.5,
        }
    }
}

impl TransformerRanges {
    /// The default sizes in every shape.
    pub fn varied() -> Self {
        Self { shapes: TransformerShape::ALL.to_vec(), ..Self::default() }
    }

    /// Largest feed-forward width, in widths of a token.
    pub(super) const FEED_FORWARD_RATIO: u64 = 4;

    /// Narrowest head, unless the token itself is narrower.
    pub(super) const SMALLEST_HEAD: u64 = 16;

    pub(super) fn check(&self) -> Result<()> {
        for (what, span, limit) in [
            ("embedding width", self.width, MAX_WIDTH / Self::FEED_FORWARD_RATIO),
            ("layers", self.layers, TransformerConfig::MAX_LAYERS),
            ("sequence length", self.sequence_length, MAX_WIDTH),
            ("target length", self.target_length, MAX_WIDTH),
            ("vocabulary", self.vocabulary, MAX_WIDTH),
            ("Transformer classes", self.classes, MAX_WIDTH),
            ("Transformer batch", self.batch, TrainingSetup::MAX_BATCH_SIZE),
        ] {
            span.check(what, limit)?;
        }
        check_list("shapes of Transformers", &self.shapes)?;
        check_share("share of tied embeddings", self.tied_share)?;
        check_share("share of packed projections", self.packed_share)
    }

    /// An upper bound for the weights and the activations, at the largest batch.
    pub(super) fn largest_bytes(&self) -> f64 {
        let has = |shape| self.shapes.contains(&shape);
        let two_stacks = has(TransformerShape::EncoderDecoder);
        let targets = if two_stacks { self.target_length.high } else { 1 };
        let tokens = self.sequence_length.high.max(targets);
        let outputs = if two_stacks || has(TransformerShape::Decoder) {
            real(self.vocabulary.high) * real(tokens)
        } else {
            real(self.classes.high)
        };
        let width = Self::FEED_FORWARD_RATIO * self.width.high;
        let rows = real(self.vocabulary.high) + real(tokens);
        Bound {
            layers: self.layers.high * if two_stacks { 2 } else { 1 },
            width,
            matrices: 20.0,
            positions: real(tokens),
            batch: self.batch.high,
            outputs,
            table: rows * real(width),
            // A decoder that reads an encoder has two attentions a layer.
            scores: 2.0 * real(self.width.high.div_ceil(Self::SMALLEST_HEAD)) * real(tokens).powi(2),
        }
        .bytes()
    }
}

/// Sizes that no network of some ranges exceeds.
struct Bound {
    layers: u64,
    /// Features or channels of a layer.
    width: u64,
    /// Weights of a layer, in squares of the width.
    matrices: f64,
    /// Pixels or tokens of a sample.
    positions: f64,
    batch: u64,
    /// Outputs of a sample.
    outputs: f64,
    /// Elements of embeddings.
    table: f64,
    /// Scores of attention in a layer, of a sample: they count whether or not a kernel needs them.
    scores: f64,
}

impl Bound {
    fn bytes(&self) -> f64 {
        let (layers, width) = (real(self.layers) + 2.0, real(self.width));
        let weights = self.matrices * layers * width * width + width * self.outputs + self.table;
        // No layer has more than thirty tensors.
        let sample = layers * (30.0 * width * self.positions + self.scores) + 4.0 * self.outputs;
        let activations = real(self.batch) * sample;
        4.0 * weights.max(activations)
    }
}

const fn real(value: u64) -> f64 {
    value as f64
}

pub(super) fn out_of_range(what: String, expected: &str, found: &str) -> GraphError {
    GraphError::OutOfRange { what, expected: expected.into(), found: found.into() }
}

pub(super) fn check_list<T>(what: &str, list: &[T]) -> Result<()> {
    if list.is_empty() { Err(out_of_range(format!("list of {what}"), "at least one entry", "none")) } else { Ok(()) }
}

pub(super) fn check_share(what: &str, share: f64) -> Result<()> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    Err(out_of_range(what.into(), "0 to 1", &share.to_string()))
}
