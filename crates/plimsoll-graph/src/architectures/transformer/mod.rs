//! Transformers: an encoder that classifies, and language models of one stack or two.

mod encoder;
mod language;

use serde::{Deserialize, Serialize};

use super::{MAX_WIDTH, check_activation, check_range, check_rate, switches};
use crate::builder::GraphBuilder;
use crate::error::{GraphError, Result};
use crate::family::Family;
use crate::graph::Graph;
use crate::op::{Activation, AttentionKernel};

/// Which stacks of layers there are, and what they end in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransformerShape {
    /// Embedding, learned positions, `nn.TransformerEncoder` layers (normalised after each half), mean over the
    /// tokens, linear classifier.
    #[default]
    Encoder,
    /// A language model of causal layers, normalised before each half, as OPT and GPT-2 are.
    Decoder,
    /// A language model whose decoder also attends to an encoder's output, as mBART and T5 are.
    EncoderDecoder,
}

impl TransformerShape {
    /// Every shape, in order.
    pub const ALL: [Self; 3] = [Self::Encoder, Self::Decoder, Self::EncoderDecoder];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
            Self::EncoderDecoder => "encoder_decoder",
        }
    }

    /// Whether it scores the whole vocabulary for every token.
    pub const fn is_language_model(self) -> bool {
        !matches!(self, Self::Encoder)
    }
}

/// What only language models choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LanguageModel {
    /// Whether the scores are made by the embedding's own table.
    pub tied: bool,
    /// Whether one linear layer makes query, key and value of self-attention, in place of three.
    pub packed: bool,
    /// Tokens of the decoder of an [`TransformerShape::EncoderDecoder`]; 0 means as many as the encoder has.
    pub target_length: u64,
}

impl LanguageModel {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A Transformer over tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// Which stacks there are.
    #[serde(default, skip_serializing_if = "TransformerConfig::is_encoder")]
    pub shape: TransformerShape,
    /// Rows of the embedding.
    pub vocabulary: u64,
    /// Tokens of a sample.
    pub sequence_length: u64,
    /// Width of a token.
    pub width: u64,
    /// Layers of each stack.
    pub layers: u64,
    /// Attention heads; they divide the width.
    pub heads: u64,
    /// Width inside the feed-forward half of a layer.
    pub feed_forward: u64,
    /// Number of classes; a language model makes no use of it.
    #[serde(default, skip_serializing_if = "TransformerConfig::is_zero")]
    pub classes: u64,
    /// Dropout rate of attention weights and residual branches, and in an encoder of the feed-forward half too.
    pub dropout: f64,
    /// Function of the feed-forward half.
    #[serde(default = "TransformerConfig::default_activation")]
    pub activation: Activation,
    /// What language models choose; an encoder makes no use of it.
    #[serde(default, skip_serializing_if = "LanguageModel::is_default")]
    pub language_model: LanguageModel,
}

impl TransformerConfig {
    /// More layers mean a broken or hostile configuration.
    pub const MAX_LAYERS: u64 = 1_000;

    const fn default_activation() -> Activation {
        Activation::Relu
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    const fn is_encoder(shape: &TransformerShape) -> bool {
        matches!(shape, TransformerShape::Encoder)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    const fn is_zero(number: &u64) -> bool {
        *number == 0
    }

    /// Tokens for which a language model is trained to predict the next one.
    pub const fn target_length(&self) -> u64 {
        match (self.shape, self.language_model.target_length) {
            (TransformerShape::EncoderDecoder, 1..) => self.language_model.target_length,
            _ => self.sequence_length,
        }
    }

    /// Identifies the architecture; two configurations that differ in dropout rate only have the same. (A language
    /// model without dropout has no such modules, which is another architecture.)
    pub fn id(&self) -> String {
        let Self { vocabulary, sequence_length, width, layers, heads, feed_forward, .. } = self;
        let targets = match self.shape {
            TransformerShape::EncoderDecoder => format!("-targets{}", self.target_length()),
            _ => String::new(),
        };
        let classes = if self.shape.is_language_model() { String::new() } else { format!("-classes{}", self.classes) };
        let LanguageModel { tied, packed, .. } = self.language_model;
        let choices = match self.shape {
            TransformerShape::Encoder => String::new(),
            _ => switches(&[(tied, "tied"), (packed, "packed"), (self.dropout > 0.0, "dropout")]),
        };
        format!(
            "transformer-{}-vocabulary{vocabulary}-tokens{sequence_length}{targets}-width{width}-layers{layers}\
             -heads{heads}-feedforward{feed_forward}{classes}-{}{choices}",
            self.shape.name(),
            self.activation.name()
        )
    }

    fn check(&self) -> Result<()> {
        check_range("size of the vocabulary", self.vocabulary, MAX_WIDTH)?;
        check_range("sequence length", self.sequence_length, MAX_WIDTH)?;
        check_range("target length", self.target_length(), MAX_WIDTH)?;
        check_range("embedding width", self.width, MAX_WIDTH)?;
        check_range("number of layers", self.layers, Self::MAX_LAYERS)?;
        check_range("number of heads", self.heads, MAX_WIDTH)?;
        check_range("feed-forward width", self.feed_forward, MAX_WIDTH)?;
        if !self.shape.is_language_model() {
            check_range("number of classes", self.classes, MAX_WIDTH)?;
        }
        check_rate(self.dropout)?;
        check_activation(self.activation)?;
        if self.width.is_multiple_of(self.heads) {
            return Ok(());
        }
        Err(GraphError::OutOfRange {
            what: "number of heads".into(),
            expected: format!("a divisor of the embedding width {}", self.width),
            found: self.heads.to_string(),
        })
    }

    /// Builds the graph.
    ///
    /// # Errors
    /// Sizes of zero or over the caps, heads that do not divide the width, a dropout rate outside [0, 1), too many
    /// parameters.
    pub fn build(&self) -> Result<Graph> {
        self.check()?;
        let mut builder = GraphBuilder::new(self.id(), Family::Transformer);
        let output = match self.shape {
            TransformerShape::Encoder => self.classifier(&mut builder)?,
            TransformerShape::Decoder => self.decoder(&mut builder)?,
            TransformerShape::EncoderDecoder => self.encoder_decoder(&mut builder)?,
        };
        builder.finish(&[output])
    }

    /// Fused kernels read rows of sixteen bytes, which are four numbers in fp32.
    const fn attention_kernel(&self) -> AttentionKernel {
        if (self.width / self.heads).is_multiple_of(4) { AttentionKernel::Fused } else { AttentionKernel::Eager }
    }
}
