//! GPT-2.

use super::Built;
use super::attention::{Attention, Extras};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::Value;
use super::options::Head;
use crate::error::Result;
use crate::shape::Dim;

struct Gpt2 {
    head: Head,
    tokens: u64,
    vocabulary: u64,
    positions: u64,
    width: u64,
    layers: u64,
    inner: u64,
    function: Function,
    embedding_dropout: f64,
    dropout: f64,
    attention: Attention,
    classifier_dropout: f64,
    labels: u64,
    is_tied: bool,
}

pub(super) fn build(config: &Config<'_>, head: Head) -> Result<Built> {
    let gpt2 = Gpt2::read(config, head)?;
    Ok(Built::of_tokens(gpt2.tokens, |root| gpt2.construct(root), |root, tokens| gpt2.forward(root, tokens)))
}

impl Gpt2 {
    fn read(config: &Config<'_>, head: Head) -> Result<Self> {
        for switch in ["add_cross_attention", "pruned_heads", "reorder_and_upcast_attn"] {
            config.refuse(switch)?;
        }
        let width = config.size(&["n_embd", "hidden_size"], 768)?;
        let heads = config.heads(&["n_head", "num_attention_heads"], 12, width)?;
        let positions = config.size(&["n_positions", "max_position_embeddings"], 1024)?;
        let dropout = config.rate("attn_pdrop", 0.1)?;
        Ok(Self {
            head,
            tokens: config.tokens(config.options.tokens, None, Some(positions))?,
            vocabulary: config.size(&["vocab_size"], 50_257)?,
            positions,
            width,
            layers: config.layers(&["n_layer", "num_hidden_layers"], 12)?,
            inner: config.optional_size(&["n_inner"])?.unwrap_or(4 * width),
            function: config.function("activation_function", "gelu_new")?,
            embedding_dropout: config.rate("embd_pdrop", 0.1)?,
            dropout: config.rate("resid_pdrop", 0.1)?,
            attention: Attention {
                is_causal: true,
                ..Attention::plain(heads, width / heads, dropout, config.is_eager()?)
            },
            classifier_dropout: config.classifier_dropout()?,
            labels: config.labels()?,
            is_tied: config.flag("tie_word_embeddings", true)?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "" } else { "transformer" }
    }

    fn construct(&self, root: &mut Module<'_>) {
        let mut body = root.child(self.prefix());
        body.new_embedding("wte", self.vocabulary, self.width);
        body.new_embedding("wpe", self.positions, self.width);
        for layer in 0..self.layers {
            let mut layer = body.child(&format!("h.{layer}"));
            layer.new_layer_norm("ln_1", self.width);
            layer.new_transposed_linear("attn.c_attn", self.width, 3 * self.width);
            layer.new_transposed_linear("attn.c_proj", self.width, self.width);
            layer.new_layer_norm("ln_2", self.width);
            layer.new_transposed_linear("mlp.c_fc", self.width, self.inner);
            layer.new_transposed_linear("mlp.c_proj", self.inner, self.width);
        }
        body.new_layer_norm("ln_f", self.width);
        match self.head {
            Head::CausalLm if self.is_tied => root.tie("lm_head.weight", "transformer.wte.weight"),
            Head::CausalLm => root.new_linear("lm_head", self.width, self.vocabulary, false),
            Head::SequenceClassification => root.new_linear("score", self.width, self.labels, false),
            Head::TokenClassification => root.new_linear("classifier", self.width, self.labels, true),
            _ => {}
        }
    }

    fn forward(&self, root: &mut Module<'_>, tokens: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let words = body.embedding("wte", tokens);
        let places = body.positions(self.tokens);
        let places = body.view("unsqueeze", places, &[Dim::Fixed(1), Dim::Fixed(self.tokens)]);
        let places = body.embedding("wpe", places);
        let sum = body.add(words, places);
        let mask = body.causal_mask(self.tokens, None, self.attention.is_eager);
        let mut hidden = body.dropout("drop", sum, self.embedding_dropout);
        for layer in 0..self.layers {
            hidden = self.layer(&mut body.child(&format!("h.{layer}")), Extras { mask, bias: None }, hidden);
        }
        let hidden = body.layer_norm("ln_f", hidden);
        match self.head {
            Head::CausalLm => vec![root.linear("lm_head", hidden)],
            Head::SequenceClassification => vec![root.last_token_classes(tokens, hidden)],
            Head::TokenClassification => {
                let dropped = root.dropout("dropout", hidden, self.classifier_dropout);
                vec![root.linear("classifier", dropped)]
            }
            _ => vec![hidden],
        }
    }

    fn layer(&self, layer: &mut Module<'_>, extras: Extras, hidden: Value) -> Value {
        let normed = layer.layer_norm("ln_1", hidden);
        let mut own = layer.child("attn");
        let packed = own.transposed_linear("c_attn", normed);
        let parts = own.split(packed, 3, &[Dim::Batch(1), Dim::Fixed(self.tokens), Dim::Fixed(self.width)]);
        let [key, value, query] =
            [1, 2, 0].map(|part| own.heads(parts[part], self.attention.heads, self.attention.width));
        let attended = own.attend(self.attention, [query, key, value], extras);
        let projected = own.transposed_linear("c_proj", attended);
        let dropped = own.dropout("resid_dropout", projected, self.dropout);
        let attended = layer.add(dropped, hidden);

        let normed = layer.layer_norm("ln_2", attended);
        let mut inner = layer.child("mlp");
        let expanded = inner.transposed_linear("c_fc", normed);
        let active = inner.activation("act", self.function, expanded);
        let projected = inner.transposed_linear("c_proj", active);
        let dropped = inner.dropout("dropout", projected, self.dropout);
        layer.add(attended, dropped)
    }
}
