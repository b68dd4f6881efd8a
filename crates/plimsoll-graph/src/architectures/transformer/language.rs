//! Language models: stacks that are normalised before each part, and scores of the vocabulary for every token.
//!
//! Modules have the names of OPT (one stack) and mBART (two).

use super::TransformerConfig;
use crate::architectures::activate;
use crate::builder::{GraphBuilder, Value};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::WeightId;
use crate::op::{Binary, Op};
use crate::shape::{Dim, Shape};

/// A stack of layers.
#[derive(Clone, Copy)]
struct Stack {
    path: &'static str,
    /// Whether a token sees only those before it.
    causal: bool,
    /// What cross-attention reads: an encoder's output.
    memory: Option<Value>,
}

impl TransformerConfig {
    pub(super) fn decoder(&self, builder: &mut GraphBuilder) -> Result<Value> {
        let tokens = builder.input("tokens", Shape::batched(&[self.sequence_length]), DType::Int64);
        let table = self.table(builder, "model.decoder.embed_tokens");
        let stack = Stack { path: "model.decoder", causal: true, memory: None };
        let value = self.stack(builder, stack, tokens, table)?;
        self.scores(builder, value, table)
    }

    /// Both stacks look their tokens up in one table.
    pub(super) fn encoder_decoder(&self, builder: &mut GraphBuilder) -> Result<Value> {
        let tokens = builder.input("tokens", Shape::batched(&[self.sequence_length]), DType::Int64);
        let targets = builder.input("targets", Shape::batched(&[self.target_length()]), DType::Int64);
        let table = self.table(builder, "model.shared");
        let encoder = Stack { path: "model.encoder", causal: false, memory: None };
        let memory = self.stack(builder, encoder, tokens, table)?;
        let decoder = Stack { path: "model.decoder", causal: true, memory: Some(memory) };
        let value = self.stack(builder, decoder, targets, table)?;
        self.scores(builder, value, table)
    }

    fn table(&self, builder: &mut GraphBuilder, path: &str) -> WeightId {
        builder.parameter(format!("{path}.weight"), &[self.vocabulary, self.width])
    }

    /// Embeds tokens, adds learned positions, runs the layers and normalises what they give.
    fn stack(&self, builder: &mut GraphBuilder, stack: Stack, tokens: Value, table: WeightId) -> Result<Value> {
        let path = stack.path;
        let length = builder.shape(tokens).last().factor();
        let embedded = builder.node(
            &format!("{path}.embed_tokens"),
            Op::Embedding { sparse: false },
            &[tokens],
            vec![table],
            Shape::batched(&[length, self.width]),
            DType::Float32,
        );
        let positions = builder.parameter(format!("{path}.embed_positions.weight"), &[length, self.width]);
        let add = Op::Binary { function: Binary::Add, inplace: false };
        let placed = builder.same_shape(&format!("{path}.embed_positions.add"), add, &[embedded], vec![positions]);
        let mut value = self.drop(builder, &format!("{path}.dropout"), placed);
        for layer in 0..self.layers {
            value = self.stack_layer(builder, &format!("{path}.layers.{layer}"), stack, value)?;
        }
        builder.layer_norm(&format!("{path}.layer_norm"), value)
    }

    fn stack_layer(&self, builder: &mut GraphBuilder, path: &str, stack: Stack, input: Value) -> Result<Value> {
        let part = format!("{path}.self_attn");
        let normed = builder.layer_norm(&format!("{part}_layer_norm"), input)?;
        let qkv = self.projections(builder, &part, normed)?;
        let attended = self.attended(builder, &part, qkv, stack.causal)?;
        let mut value = self.residual(builder, &part, input, attended);

        if let Some(memory) = stack.memory {
            let part = format!("{path}.encoder_attn");
            let normed = builder.layer_norm(&format!("{part}_layer_norm"), value)?;
            let qkv = [
                builder.linear(&format!("{part}.q_proj"), normed, self.width, true)?,
                builder.linear(&format!("{part}.k_proj"), memory, self.width, true)?,
                builder.linear(&format!("{part}.v_proj"), memory, self.width, true)?,
            ];
            let attended = self.attended(builder, &part, qkv, false)?;
            value = self.residual(builder, &part, value, attended);
        }

        let normed = builder.layer_norm(&format!("{path}.final_layer_norm"), value)?;
        let inner = builder.linear(&format!("{path}.fc1"), normed, self.feed_forward, true)?;
        let active = activate(builder, &format!("{path}.activation_fn"), inner, self.activation);
        let outer = builder.linear(&format!("{path}.fc2"), active, self.width, true)?;
        Ok(self.residual(builder, &format!("{path}.fc2"), value, outer))
    }

    /// Query, key and value of the same tokens.
    fn projections(&self, builder: &mut GraphBuilder, path: &str, input: Value) -> Result<[Value; 3]> {
        if self.language_model.packed {
            let packed = builder.linear(&format!("{path}.qkv_proj"), input, 3 * self.width, true)?;
            let shape = builder.shape(input).clone();
            return Ok(
                ["query", "key", "value"].map(|part| builder.view(&format!("{path}.{part}"), packed, shape.clone()))
            );
        }
        Ok([
            builder.linear(&format!("{path}.q_proj"), input, self.width, true)?,
            builder.linear(&format!("{path}.k_proj"), input, self.width, true)?,
            builder.linear(&format!("{path}.v_proj"), input, self.width, true)?,
        ])
    }

    /// Heads come and go by views only, which the shapes here leave out.
    fn attended(&self, builder: &mut GraphBuilder, path: &str, qkv: [Value; 3], causal: bool) -> Result<Value> {
        let op = Op::Attention {
            heads: self.heads,
            kv_heads: 0,
            kernel: self.attention_kernel(),
            causal,
            dropout: self.dropout,
        };
        let attended = builder.same_shape(&format!("{path}.attention"), op, &qkv, vec![]);
        builder.linear(&format!("{path}.out_proj"), attended, self.width, true)
    }

    fn residual(&self, builder: &mut GraphBuilder, path: &str, input: Value, branch: Value) -> Value {
        let dropped = self.drop(builder, &format!("{path}.dropout"), branch);
        builder.add(&format!("{path}.add"), input, dropped)
    }

    /// At a rate of zero PyTorch hands the input on, without a node.
    fn drop(&self, builder: &mut GraphBuilder, name: &str, input: Value) -> Value {
        if self.dropout > 0.0 { builder.dropout(name, input, self.dropout) } else { input }
    }

    /// Scores of the vocabulary, with the tokens of all samples in one row, as the loss takes them.
    fn scores(&self, builder: &mut GraphBuilder, value: Value, table: WeightId) -> Result<Value> {
        let length = self.target_length();
        let scores = if self.language_model.tied {
            let shape = Shape::batched(&[length, self.vocabulary]);
            builder.node("lm_head", Op::Linear, &[value], vec![table], shape, DType::Float32)
        } else {
            builder.linear("lm_head", value, self.vocabulary, false)?
        };
        Ok(builder.view("scores", scores, Shape::new([Dim::Batch(length), Dim::Fixed(self.vocabulary)])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architectures::{LanguageModel, MAX_WIDTH, TransformerShape};
    use crate::op::Activation;

    const UNTIED: LanguageModel = LanguageModel { tied: false, packed: false, target_length: 0 };

    fn config(shape: TransformerShape, language_model: LanguageModel) -> TransformerConfig {
        TransformerConfig {
            shape,
            vocabulary: 100,
            sequence_length: 12,
            width: 16,
            layers: 2,
            heads: 4,
            feed_forward: 40,
            classes: 0,
            dropout: 0.1,
            activation: Activation::Gelu,
            language_model,
        }
    }

    /// Parameters of attention, of the feed-forward half and of a normalisation, at the sizes of [`config`].
    const ATTENTION: u64 = 4 * 17 * 16;
    const FEED_FORWARD: u64 = 17 * 40 + 41 * 16;
    const NORM: u64 = 2 * 16;
    const TABLE: u64 = 100 * 16;

    #[test]
    fn parameters_of_a_decoder_are_those_of_the_modules() {
        let stack = 12 * 16 + 2 * (ATTENTION + FEED_FORWARD + 2 * NORM) + NORM;
        for packed in [false, true] {
            let untied = config(TransformerShape::Decoder, LanguageModel { packed, ..UNTIED });
            assert_eq!(untied.build().expect("valid").parameter_count(), TABLE + stack + TABLE);
            let tied = config(TransformerShape::Decoder, LanguageModel { packed, tied: true, ..UNTIED });
            assert_eq!(tied.build().expect("valid").parameter_count(), TABLE + stack);
        }
    }

    #[test]
    fn parameters_of_an_encoder_decoder_are_those_of_the_modules() {
        let encoder = 12 * 16 + 2 * (ATTENTION + FEED_FORWARD + 2 * NORM) + NORM;
        let decoder = 7 * 16 + 2 * (2 * ATTENTION + FEED_FORWARD + 3 * NORM) + NORM;
        let language_model = LanguageModel { target_length: 7, ..UNTIED };
        let graph = config(TransformerShape::EncoderDecoder, language_model).build().expect("valid");
        assert_eq!(graph.parameter_count(), TABLE + encoder + decoder + TABLE);
        let scores = graph.tensor(graph.outputs()[0]);
        assert_eq!(scores.shape, Shape::new([Dim::Batch(7), Dim::Fixed(100)]));
    }

    #[test]
    fn a_tied_table_is_one_entry() {
        for shape in [TransformerShape::Decoder, TransformerShape::EncoderDecoder] {
            let graph = config(shape, LanguageModel { tied: true, ..UNTIED }).build().expect("valid");
            let tables = graph.weights().iter().filter(|weight| weight.shape == Shape::fixed(&[100, 16])).count();
            assert_eq!(tables, 1);
            let head = graph.nodes().iter().find(|node| node.name == "lm_head").expect("a head");
            let embeddings: Vec<_> = graph.nodes().iter().filter(|node| node.op.token() == "embedding").collect();
            assert!(embeddings.iter().all(|node| node.weights == head.weights), "{shape:?}");
        }
    }

    const SEPARATE: [&str; 6] = ["layer_norm", "linear", "linear", "linear", "attention_fused", "linear"];
    const PACKED: [&str; 7] = ["layer_norm", "linear", "view", "view", "view", "attention_fused", "linear"];
    const FORWARD: [&str; 4] = ["layer_norm", "linear", "gelu", "linear"];

    fn tokens(config: &TransformerConfig) -> Vec<&'static str> {
        let graph = config.build().expect("valid");
        graph.nodes().iter().map(|node| node.op.token()).collect()
    }

    #[test]
    fn a_layer_holds_what_the_forward_pass_does() {
        let (embed, residual, end) =
            (&["embedding", "add", "dropout"][..], &["dropout", "add"][..], &["layer_norm", "linear", "view"][..]);
        for (packed, attention) in [(false, &SEPARATE[..]), (true, &PACKED[..])] {
            let one = TransformerConfig {
                layers: 1,
                ..config(TransformerShape::Decoder, LanguageModel { packed, ..UNTIED })
            };
            assert_eq!(tokens(&one), [embed, attention, residual, &FORWARD, residual, end].concat());

            let two = TransformerConfig { shape: TransformerShape::EncoderDecoder, ..one };
            let encoder = [embed, attention, residual, &FORWARD, residual, &["layer_norm"]].concat();
            let decoder = [embed, attention, residual, &SEPARATE, residual, &FORWARD, residual, end].concat();
            assert_eq!(tokens(&two), [encoder, decoder].concat());
        }
    }

    #[test]
    fn without_dropout_there_are_no_such_nodes() {
        let with = config(TransformerShape::Decoder, UNTIED);
        let without = TransformerConfig { dropout: 0.0, ..with.clone() };
        assert!(!tokens(&without).contains(&"dropout"));
        assert_ne!(with.id(), without.id());
        assert_eq!(with.id(), TransformerConfig { dropout: 0.3, ..with.clone() }.id());
    }

    #[test]
    fn only_a_decoder_s_self_attention_is_causal() {
        let graph = config(TransformerShape::EncoderDecoder, UNTIED).build().expect("valid");
        for node in graph.nodes() {
            if let Op::Attention { causal, .. } = node.op {
                assert_eq!(causal, node.name.starts_with("model.decoder") && node.name.contains("self_attn"));
            }
        }
    }

    #[test]
    fn cross_attention_reads_the_encoder_s_last_output() {
        let language_model = LanguageModel { target_length: 7, ..UNTIED };
        let graph = config(TransformerShape::EncoderDecoder, language_model).build().expect("valid");
        let node = |name: &str| graph.nodes().iter().find(|node| node.name == name).expect("there");
        let memory = node("model.encoder.layer_norm").outputs[0];
        for layer in 0..2 {
            for part in ["k_proj", "v_proj"] {
                assert_eq!(node(&format!("model.decoder.layers.{layer}.encoder_attn.{part}")).inputs, [memory]);
            }
            let attention = node(&format!("model.decoder.layers.{layer}.encoder_attn.attention"));
            let lengths = attention.inputs.iter().map(|&id| graph.tensor(id).shape.dims()[1]);
            assert_eq!(lengths.collect::<Vec<_>>(), [7, 12, 12].map(Dim::Fixed));
        }
    }

    #[test]
    fn a_configuration_survives_a_round_trip() {
        let language_model = LanguageModel { tied: true, packed: true, target_length: 9 };
        for shape in TransformerShape::ALL {
            let config = TransformerConfig { classes: 3, ..config(shape, language_model) };
            let text = serde_json::to_string(&config).expect("serialises");
            assert_eq!(serde_json::from_str::<TransformerConfig>(&text).expect("parses"), config);
        }
    }

    #[test]
    fn as_many_targets_as_tokens_are_the_same_network_written_or_not() {
        let short = config(TransformerShape::EncoderDecoder, UNTIED);
        let long = TransformerConfig { language_model: LanguageModel { target_length: 12, ..UNTIED }, ..short.clone() };
        assert_eq!(short.build().expect("valid"), long.build().expect("valid"));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for shape in [TransformerShape::Decoder, TransformerShape::EncoderDecoder] {
            let good = config(shape, UNTIED);
            for bad in [
                TransformerConfig { heads: 3, ..good.clone() },
                TransformerConfig { layers: TransformerConfig::MAX_LAYERS + 1, ..good.clone() },
                TransformerConfig { vocabulary: 0, ..good.clone() },
                TransformerConfig { sequence_length: u64::MAX, ..good.clone() },
                TransformerConfig { feed_forward: u64::MAX, ..good.clone() },
                TransformerConfig { dropout: f64::NAN, ..good.clone() },
                TransformerConfig { activation: Activation::Glu, ..good.clone() },
                TransformerConfig { width: MAX_WIDTH, heads: 1, layers: 1_000, feed_forward: MAX_WIDTH, ..good },
            ] {
                assert!(bad.build().is_err(), "{bad:?}");
            }
        }
        let long = LanguageModel { target_length: u64::MAX, ..UNTIED };
        assert!(config(TransformerShape::EncoderDecoder, long).build().is_err());
    }
}
