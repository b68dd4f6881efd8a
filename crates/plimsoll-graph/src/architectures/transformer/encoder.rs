//! Encoders as `nn.TransformerEncoder` builds them, with a classifier.

use super::TransformerConfig;
use crate::architectures::activate;
use crate::builder::{GraphBuilder, Value};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Binary, Op, Reduction};
use crate::shape::Shape;

impl TransformerConfig {
    pub(super) fn classifier(&self, builder: &mut GraphBuilder) -> Result<Value> {
        let tokens = builder.input("tokens", Shape::batched(&[self.sequence_length]), DType::Int64);
        let embedded = builder.embedding("embedding", tokens, self.vocabulary, self.width);
        let positions = builder.parameter("positional_encoding".into(), &[1, self.sequence_length, self.width]);
        let add = Op::Binary { function: Binary::Add, inplace: false };
        let mut value = builder.same_shape("positional_encoding.add", add, &[embedded], vec![positions]);
        for layer in 0..self.layers {
            value = self.layer(builder, &format!("model.layers.{layer}"), value)?;
        }
        let pooled = Shape::batched(&[self.width]);
        let mean =
            builder.node("mean", Op::Reduce { function: Reduction::Mean }, &[value], vec![], pooled, DType::Float32);
        builder.linear("fc_out", mean, self.classes, true)
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architectures::{LanguageModel, MAX_WIDTH, TransformerShape};
    use crate::op::Activation;

    fn config() -> TransformerConfig {
        TransformerConfig {
            shape: TransformerShape::Encoder,
            vocabulary: 100,
            sequence_length: 12,
            width: 16,
            layers: 2,
            heads: 4,
            feed_forward: 40,
            classes: 5,
            dropout: 0.1,
            activation: Activation::Relu,
            language_model: LanguageModel::default(),
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
    fn it_is_written_and_named_as_before_there_were_other_shapes() {
        let text = r#"{"vocabulary":100,"sequence_length":12,"width":16,"layers":2,"heads":4,"feed_forward":40,"classes":5,"dropout":0.1,"activation":"relu"}"#;
        assert_eq!(serde_json::to_string(&config()).expect("serialises"), text);
        assert_eq!(serde_json::from_str::<TransformerConfig>(text).expect("parses"), config());
        let chosen = LanguageModel { tied: true, packed: true, target_length: 3 };
        for config in [config(), TransformerConfig { language_model: chosen, dropout: 0.0, ..config() }] {
            assert_eq!(
                config.id(),
                "transformer-encoder-vocabulary100-tokens12-width16-layers2-heads4-feedforward40-classes5-relu"
            );
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let good = config();
        for bad in [
            TransformerConfig { heads: 3, ..good.clone() },
            TransformerConfig { classes: 0, ..good.clone() },
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
