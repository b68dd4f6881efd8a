//! Transformer encoders.

use serde::{Deserialize, Serialize};

use super::{MAX_WIDTH, activate, check_activation, check_range, check_rate};
use crate::builder::{GraphBuilder, Value};
use crate::dtype::DType;
use crate::error::{GraphError, Result};
use crate::family::Family;
use crate::graph::Graph;
use crate::op::{Activation, AttentionKernel, Binary, Op};
use crate::shape::Shape;

/// A token classifier: embedding, learned positions, `nn.TransformerEncoder` layers (normalised after each half),
/// mean over the tokens, linear classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// Rows of the embedding.
    pub vocabulary: u64,
    /// Tokens of a sample.
    pub sequence_length: u64,
    /// Width of a token.
    pub width: u64,
    /// Encoder layers.
    pub layers: u64,
    /// Attention heads; they divide the width.
    pub heads: u64,
    /// Width inside the feed-forward half of a layer.
    pub feed_forward: u64,
    /// Number of classes.
    pub classes: u64,
    /// Dropout rate of attention weights, feed-forward and both residual branches.
    pub dropout: f64,
    /// Function of the feed-forward half.
    #[serde(default = "TransformerConfig::default_activation")]
    pub activation: Activation,
}

impl TransformerConfig {
    /// The one shape of this family.
    pub const SHAPE: &'static str = "encoder";

    /// More layers mean a broken or hostile configuration.
    pub const MAX_LAYERS: u64 = 1_000;

    const fn default_activation() -> Activation {
        Activation::Relu
    }

    /// Identifies the architecture; two configurations that differ in dropout rate only have the same.
    pub fn id(&self) -> String {
        let Self { vocabulary, sequence_length, width, layers, heads, feed_forward, classes, .. } = self;
        format!(
            "transformer-{}-vocabulary{vocabulary}-tokens{sequence_length}-width{width}-layers{layers}-heads{heads}\
             -feedforward{feed_forward}-classes{classes}-{}",
            Self::SHAPE,
            self.activation.name()
        )
    }

    fn check(&self) -> Result<()> {
        check_range("size of the vocabulary", self.vocabulary, MAX_WIDTH)?;
        check_range("sequence length", self.sequence_length, MAX_WIDTH)?;
        check_range("embedding width", self.width, MAX_WIDTH)?;
        check_range("number of layers", self.layers, Self::MAX_LAYERS)?;
        check_range("number of heads", self.heads, MAX_WIDTH)?;
        check_range("feed-forward width", self.feed_forward, MAX_WIDTH)?;
        check_range("number of classes", self.classes, MAX_WIDTH)?;
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
        let tokens = builder.input("tokens", Shape::batched(&[self.sequence_length]), DType::Int64);
        let embedded = builder.embedding("embedding", tokens, self.vocabulary, self.width);
        let positions = builder.parameter("positional_encoding".into(), &[1, self.sequence_length, self.width]);
        let add = Op::Binary { function: Binary::Add, inplace: false };
        let mut value = builder.same_shape("positional_encoding.add", add, &[embedded], vec![positions]);
        for layer in 0..self.layers {
            value = self.layer(&mut builder, &format!("model.layers.{layer}"), value)?;
        }
        let pooled = Shape::batched(&[self.width]);
        let mean = builder.node("mean", Op::Reduce, &[value], vec![], pooled, DType::Float32);
        let output = builder.linear("fc_out", mean, self.classes, true)?;
        builder.finish(&[output])
    }

    fn layer(&self, builder: &mut GraphBuilder, path: &str, input: Value) -> Result<Value> {
        let attended = self.attention(builder, &format!("{path}.self_attn"), input)?;
        let dropped = builder.dropout(&format!("{path}.dropout1"), attended, self.dropout);
        let sum = builder.add(&format!("{path}.add1"), input, dropped);
        let normed = builder.layer_norm(&format!("{path}.norm1"), sum)?;

        let inner = builder.linear(&format!("{path}.linear1"), normed, self.feed_forward, true)?;
        let active = activate(builder, &format!("{path}.activation"), inner, self.activation);
        let dropped = builder.dropout(&format!("{path}.dropout"), active, self.dropout);
        let outer = builder.linear(&format!("{path}.linear2"), dropped, self.width, true)?;
        let dropped = builder.dropout(&format!("{path}.dropout2"), outer, self.dropout);
        let sum = builder.add(&format!("{path}.add2"), normed, dropped);
        builder.layer_norm(&format!("{path}.norm2"), sum)
    }

    /// `nn.MultiheadAttention` in training: it works with the tokens first, so it copies its input, the projected
    /// query, key and value, and the result into that order. The shapes here stay batch first.
    fn attention(&self, builder: &mut GraphBuilder, path: &str, input: Value) -> Result<Value> {
        let turned = builder.same_shape(&format!("{path}.transpose"), Op::Copy, &[input], vec![]);
        let packed = builder.linear(&format!("{path}.in_proj"), turned, 3 * self.width, true)?;
        let packed = builder.same_shape(&format!("{path}.in_proj.contiguous"), Op::Copy, &[packed], vec![]);
        let shape = builder.shape(input).clone();
        let qkv = ["query", "key", "value"].map(|part| builder.view(&format!("{path}.{part}"), packed, shape.clone()));
        let attended =
            builder.attention(&format!("{path}.attention"), qkv, self.heads, self.attention_kernel(), self.dropout);
        let turned = builder.same_shape(&format!("{path}.contiguous"), Op::Copy, &[attended], vec![]);
        builder.linear(&format!("{path}.out_proj"), turned, self.width, true)
    }

    /// Fused kernels read rows of sixteen bytes, which are four numbers in fp32.
    const fn attention_kernel(&self) -> AttentionKernel {
        if (self.width / self.heads).is_multiple_of(4) { AttentionKernel::Fused } else { AttentionKernel::Eager }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TransformerConfig {
        TransformerConfig {
            vocabulary: 100,
            sequence_length: 12,
            width: 16,
            layers: 2,
            heads: 4,
            feed_forward: 40,
            classes: 5,
            dropout: 0.1,
            activation: Activation::Relu,
        }
    }

    #[test]
    fn parameters_are_those_of_the_modules() {
        let graph = config().build().expect("valid");
        let layer = (17 * 48) + (17 * 16) + (17 * 40) + (41 * 16) + 4 * 16;
        assert_eq!(graph.parameter_count(), 100 * 16 + 12 * 16 + 2 * layer + 17 * 5);
    }

    #[test]
    fn a_layer_holds_what_the_forward_pass_does() {
        let graph = TransformerConfig { layers: 1, ..config() }.build().expect("valid");
        let tokens: Vec<_> = graph.nodes().iter().map(|node| node.op.token()).collect();
        let attention = ["copy", "linear", "copy", "view", "view", "view", "attention_fused", "copy", "linear"];
        let forward = ["linear", "relu", "dropout", "linear", "dropout", "add", "layer_norm"];
        let expected: Vec<_> = ["embedding", "add"]
            .into_iter()
            .chain(attention)
            .chain(["dropout", "add", "layer_norm"])
            .chain(forward)
            .chain(["reduce", "linear"])
            .collect();
        assert_eq!(tokens, expected);
    }

    #[test]
    fn odd_heads_go_without_a_fused_kernel() {
        let graph = TransformerConfig { heads: 8, ..config() }.build().expect("valid");
        assert!(graph.nodes().iter().any(|node| node.op.token() == "attention_eager"));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let good = config();
        for bad in [
            TransformerConfig { heads: 3, ..good.clone() },
            TransformerConfig { heads: 0, ..good.clone() },
            TransformerConfig { layers: 1_000_000_000, ..good.clone() },
            TransformerConfig { vocabulary: u64::MAX, ..good.clone() },
            TransformerConfig { dropout: -0.1, ..good.clone() },
            TransformerConfig { width: MAX_WIDTH, heads: 1, layers: 1_000, feed_forward: MAX_WIDTH, ..good },
        ] {
            assert!(bad.build().is_err(), "{bad:?}");
        }
    }
}
