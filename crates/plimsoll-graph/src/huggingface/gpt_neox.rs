//! GPT-NeoX, and with it Pythia.

use super::Built;
use super::attention::{Attention, Extras, Heads};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::Value;
use super::options::Head;
use super::rotary::Angles;
use crate::error::Result;
use crate::shape::Dim;

struct GptNeoX {
    head: Head,
    tokens: u64,
    vocabulary: u64,
    width: u64,
    layers: u64,
    inner: u64,
    function: Function,
    dropout: f64,
    attention: Attention,
    /// Numbers of a head that are turned.
    turned: u64,
    classifier_dropout: f64,
    labels: u64,
    is_tied: bool,
    is_parallel: bool,
    has_attention_bias: bool,
}

pub(super) fn build(config: &Config<'_>, head: Head) -> Result<Built> {
    let neox = GptNeoX::read(config, head)?;
    Ok(Built::of_tokens(neox.tokens, |root| neox.construct(root), |root, tokens| neox.forward(root, tokens)))
}

impl GptNeoX {
    fn read(config: &Config<'_>, head: Head) -> Result<Self> {
        let width = config.size(&["hidden_size"], 6144)?;
        let heads = config.heads(&["num_attention_heads"], 64, width)?;
        let positions = config.size(&["max_position_embeddings"], 2048)?;
        let dropout = config.rate("attention_dropout", 0.0)?;
        let turned = ((width / heads) as f64 * config.rotary_share("rotary_pct", 0.25)?) as u64;
        let turned = turned.next_multiple_of(2);
        if !(2..=width / heads).contains(&turned) {
            let expected = format!("an even number of a head's {} numbers", width / heads);
            return Err(Config::out_of_range("rotary_pct", expected, turned));
        }
        Ok(Self {
            head,
            tokens: config.tokens(config.options.tokens, Some(positions), None)?,
            vocabulary: config.size(&["vocab_size"], 50_432)?,
            width,
            layers: config.layers(&["num_hidden_layers"], 44)?,
            inner: config.size(&["intermediate_size"], 24_576)?,
            function: config.function("hidden_act", "gelu")?,
            dropout: config.rate("hidden_dropout", 0.0)?,
            attention: Attention {
                is_causal: true,
                ..Attention::plain(heads, width / heads, dropout, config.is_eager()?)
            },
            turned,
            classifier_dropout: config.rate("classifier_dropout", 0.1)?,
            labels: config.labels()?,
            is_tied: config.flag("tie_word_embeddings", false)?,
            is_parallel: config.flag("use_parallel_residual", true)?,
            has_attention_bias: config.flag("attention_bias", true)?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "" } else { "gpt_neox" }
    }

    fn construct(&self, root: &mut Module<'_>) {
        let mut body = root.child(self.prefix());
        body.new_embedding("embed_in", self.vocabulary, self.width);
        for layer in 0..self.layers {
            let mut layer = body.child(&format!("layers.{layer}"));
            layer.new_layer_norm("input_layernorm", self.width);
            layer.new_layer_norm("post_attention_layernorm", self.width);
            layer.new_linear("attention.query_key_value", self.width, 3 * self.width, self.has_attention_bias);
            layer.new_linear("attention.dense", self.width, self.width, self.has_attention_bias);
            layer.new_linear("mlp.dense_h_to_4h", self.width, self.inner, true);
            layer.new_linear("mlp.dense_4h_to_h", self.inner, self.width, true);
        }
        body.new_layer_norm("final_layer_norm", self.width);
        body.new_rotary(self.turned);
        match self.head {
            Head::CausalLm if self.is_tied => root.tie("lm_head.weight", "gpt_neox.embed_in.weight"),
            Head::CausalLm => root.new_linear("lm_head", self.width, self.vocabulary, false),
            Head::SequenceClassification => root.new_linear("score", self.width, self.labels, false),
            Head::TokenClassification => root.new_linear("classifier", self.width, self.labels, true),
            Head::QuestionAnswering => root.new_linear("qa_outputs", self.width, 2, true),
            _ => {}
        }
    }

    fn forward(&self, root: &mut Module<'_>, tokens: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let words = body.embedding("embed_in", tokens);
        let positions = body.positions(self.tokens);
        let mask = body.causal_mask(self.tokens, None, self.attention.is_eager);
        let mut hidden = body.dropout("emb_dropout", words, self.dropout);
        let angles = body.rotary(positions, self.turned);
        let extras = Extras { mask, bias: None };
        for layer in 0..self.layers {
            hidden = self.layer(&mut body.child(&format!("layers.{layer}")), angles, extras, hidden);
        }
        let hidden = body.layer_norm("final_layer_norm", hidden);
        match self.head {
            Head::CausalLm => vec![root.linear("lm_head", hidden)],
            Head::SequenceClassification => vec![root.last_token_classes(tokens, hidden)],
            Head::TokenClassification => {
                let dropped = root.dropout("dropout", hidden, self.classifier_dropout);
                vec![root.linear("classifier", dropped)]
            }
            Head::QuestionAnswering => root.answer(hidden),
            _ => vec![hidden],
        }
    }

    fn layer(&self, layer: &mut Module<'_>, angles: Angles, extras: Extras, hidden: Value) -> Value {
        let normed = layer.layer_norm("input_layernorm", hidden);
        let attended = self.attend(&mut layer.child("attention"), angles, extras, normed);
        let attended = layer.dropout("post_attention_dropout", attended, self.dropout);
        if self.is_parallel {
            let projected = self.feed_forward(layer, hidden);
            let sum = layer.add(projected, attended);
            return layer.add(sum, hidden);
        }
        let attended = layer.add(attended, hidden);
        let projected = self.feed_forward(layer, attended);
        layer.add(projected, attended)
    }

    fn feed_forward(&self, layer: &mut Module<'_>, hidden: Value) -> Value {
        let normed = layer.layer_norm("post_attention_layernorm", hidden);
        let mut inner = layer.child("mlp");
        let expanded = inner.linear("dense_h_to_4h", normed);
        let active = inner.activation("act", self.function, expanded);
        let projected = inner.linear("dense_4h_to_h", active);
        layer.dropout("post_mlp_dropout", projected, self.dropout)
    }

    fn attend(&self, own: &mut Module<'_>, angles: Angles, extras: Extras, input: Value) -> Value {
        let Attention { heads, width, .. } = self.attention;
        let packed = own.linear("query_key_value", input);
        let dims = [Dim::Batch(1), Dim::Fixed(heads), Dim::Fixed(self.tokens), Dim::Fixed(width)];
        let parts = own.split(packed, 3, &dims);
        let angles = own.for_heads(angles);
        let [query, key] = [parts[0], parts[1]].map(|whole| {
            // A slice that leaves nothing out is the whole.
            let turned = if self.turned == width { whole } else { own.slice(whole, self.turned) };
            (turned, own.slice(whole, width - self.turned))
        });
        let [first, second] = [query.0, key.0].map(|part| own.turn(part, angles));
        let [query, key] = [(first, query.1), (second, key.1)]
            .map(|(turned, rest)| Heads { value: own.concat(&[turned, rest], 3), is_contiguous: true });
        let value = Heads { value: parts[2], is_contiguous: false };
        let attended = own.attend(self.attention, [query, key, value], extras);
        own.linear("dense", attended)
    }
}
