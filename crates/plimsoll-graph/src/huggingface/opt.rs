//! OPT.

use super::Built;
use super::attention::{Attention, Extras};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::Value;
use super::options::Head;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Binary, Op};
use crate::shape::{Dim, Shape};

#[expect(clippy::struct_excessive_bools, reason = "each is a field of the configuration")]
struct Opt {
    head: Head,
    tokens: u64,
    vocabulary: u64,
    positions: u64,
    /// Width of the embedding, which may differ from that of the layers.
    embedding: u64,
    width: u64,
    layers: u64,
    inner: u64,
    function: Function,
    dropout: f64,
    attention: Attention,
    labels: u64,
    is_tied: bool,
    is_norm_first: bool,
    has_final_norm: bool,
    has_bias: bool,
    has_norm_weights: bool,
}

pub(super) fn build(config: &Config<'_>, head: Head) -> Result<Built> {
    let opt = Opt::read(config, head)?;
    Ok(Built::of_tokens(opt.tokens, |root| opt.construct(root), |root, tokens| opt.forward(root, tokens)))
}

impl Opt {
    /// Positions start here.
    const OFFSET: u64 = 2;

    fn read(config: &Config<'_>, head: Head) -> Result<Self> {
        let width = config.size(&["hidden_size"], 768)?;
        let heads = config.heads(&["num_attention_heads"], 12, width)?;
        let positions = config.size(&["max_position_embeddings"], 2048)?;
        let dropout = config.rate("attention_dropout", 0.0)?;
        let is_norm_first = config.flag("do_layer_norm_before", true)?;
        Ok(Self {
            head,
            tokens: config.tokens(config.options.tokens, None, Some(positions))?,
            vocabulary: config.size(&["vocab_size"], 50_272)?,
            positions,
            embedding: config.optional_size(&["word_embed_proj_dim"])?.unwrap_or(width),
            width,
            layers: config.layers(&["num_hidden_layers"], 12)?,
            inner: config.size(&["ffn_dim"], 3072)?,
            function: config.function("activation_function", "relu")?,
            dropout: config.rate("dropout", 0.1)?,
            attention: Attention {
                is_causal: true,
                ..Attention::plain(heads, width / heads, dropout, config.is_eager()?)
            },
            labels: config.labels()?,
            is_tied: config.flag("tie_word_embeddings", true)?,
            is_norm_first,
            has_final_norm: is_norm_first && !config.flag("_remove_final_layer_norm", false)?,
            has_bias: config.flag("enable_bias", true)?,
            has_norm_weights: config.flag("layer_norm_elementwise_affine", true)?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "decoder" } else { "model.decoder" }
    }

    fn new_norm(&self, module: &mut Module<'_>, name: &str) {
        if self.has_norm_weights {
            module.new_layer_norm(name, self.width);
        }
    }

    fn construct(&self, root: &mut Module<'_>) {
        let mut body = root.child(self.prefix());
        body.new_embedding("embed_tokens", self.vocabulary, self.embedding);
        body.new_embedding("embed_positions", self.positions + Self::OFFSET, self.width);
        if self.embedding != self.width {
            body.new_linear("project_out", self.width, self.embedding, false);
            body.new_linear("project_in", self.embedding, self.width, false);
        }
        if self.has_final_norm {
            self.new_norm(&mut body, "final_layer_norm");
        }
        for layer in 0..self.layers {
            let mut layer = body.child(&format!("layers.{layer}"));
            for projection in ["k_proj", "v_proj", "q_proj", "out_proj"] {
                layer.child("self_attn").new_linear(projection, self.width, self.width, self.has_bias);
            }
            self.new_norm(&mut layer, "self_attn_layer_norm");
            layer.new_linear("fc1", self.width, self.inner, self.has_bias);
            layer.new_linear("fc2", self.inner, self.width, self.has_bias);
            self.new_norm(&mut layer, "final_layer_norm");
        }
        match self.head {
            Head::CausalLm if self.is_tied => root.tie("lm_head.weight", "model.decoder.embed_tokens.weight"),
            Head::CausalLm => root.new_linear("lm_head", self.embedding, self.vocabulary, false),
            Head::SequenceClassification => root.new_linear("score", self.embedding, self.labels, false),
            Head::QuestionAnswering => root.new_linear("qa_outputs", self.embedding, 2, true),
            _ => {}
        }
    }

    fn forward(&self, root: &mut Module<'_>, tokens: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let words = body.embedding("embed_tokens", tokens);
        let places = self.counted_positions(&mut body);
        let mask = body.causal_mask(self.tokens, None, self.attention.is_eager);
        let mut table = body.child("embed_positions");
        let places = table.scalar("", Binary::Add, places);
        let weight = table.weight("weight");
        let shape = Shape::batched(&[self.tokens, self.width]);
        let lookup = Op::Embedding { sparse: false };
        let places = table.node("embedding", lookup, &[places], vec![weight], shape, DType::Float32);
        let is_projected = self.embedding != self.width;
        let words = if is_projected { body.linear("project_in", words) } else { words };
        let mut hidden = body.add(words, places);
        for layer in 0..self.layers {
            hidden = self.layer(&mut body.child(&format!("layers.{layer}")), Extras { mask, bias: None }, hidden);
        }
        if self.has_final_norm {
            hidden = body.layer_norm("final_layer_norm", hidden);
        }
        if is_projected {
            hidden = body.linear("project_out", hidden);
        }
        match self.head {
            Head::CausalLm => vec![root.linear("lm_head", hidden)],
            Head::SequenceClassification => vec![root.last_token_classes(tokens, hidden)],
            Head::QuestionAnswering => root.answer(hidden),
            _ => vec![hidden],
        }
    }

    /// Positions counted over a mask that hides nothing.
    fn counted_positions(&self, body: &mut Module<'_>) -> Value {
        let ones = body.constant("ones", &[Dim::Batch(1), Dim::Fixed(self.tokens)], DType::Float32);
        let counts = body.other("cumsum", "cumsum", ones);
        let counts = body.multiply(counts, ones);
        let counts = body.scalar("sub", Binary::Add, counts);
        body.cast(counts, DType::Int64)
    }

    fn layer(&self, layer: &mut Module<'_>, extras: Extras, hidden: Value) -> Value {
        let input = if self.is_norm_first { layer.layer_norm("self_attn_layer_norm", hidden) } else { hidden };
        let attended = self.attend(&mut layer.child("self_attn"), extras, input);
        let dropped = layer.dropout("dropout", attended, self.dropout);
        let mut hidden = layer.add(hidden, dropped);
        if !self.is_norm_first {
            hidden = layer.layer_norm("self_attn_layer_norm", hidden);
        }
        let hidden = layer.view("view", hidden, &[Dim::Batch(self.tokens), Dim::Fixed(self.width)]);
        let input = if self.is_norm_first { layer.layer_norm("final_layer_norm", hidden) } else { hidden };
        let inner = layer.linear("fc1", input);
        let active = layer.activation("activation_fn", self.function, inner);
        let outer = layer.linear("fc2", active);
        let dropped = layer.dropout("dropout", outer, self.dropout);
        let sum = layer.add(hidden, dropped);
        let sum = layer.view("view", sum, &[Dim::Batch(1), Dim::Fixed(self.tokens), Dim::Fixed(self.width)]);
        if self.is_norm_first { sum } else { layer.layer_norm("final_layer_norm", sum) }
    }

    fn attend(&self, own: &mut Module<'_>, extras: Extras, input: Value) -> Value {
        let Attention { heads, width, .. } = self.attention;
        let query = own.linear("q_proj", input);
        let query = own.scale(query);
        let query = own.heads(query, heads, width);
        let [key, value] = ["k_proj", "v_proj"].map(|name| own.linear(name, input));
        let [key, value] = [key, value].map(|projection| own.heads(projection, heads, width));
        let attended = own.attend(self.attention, [query, key, value], extras);
        own.linear("out_proj", attended)
    }
}
