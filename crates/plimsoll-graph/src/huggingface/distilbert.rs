//! `DistilBERT`.

use super::Built;
use super::attention::{Attention, Extras};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::Value;
use super::options::Head;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Activation;

struct DistilBert {
    head: Head,
    tokens: u64,
    vocabulary: u64,
    positions: u64,
    width: u64,
    layers: u64,
    inner: u64,
    function: Function,
    dropout: f64,
    attention: Attention,
    classifier_dropout: f64,
    answer_dropout: f64,
    labels: u64,
    is_tied: bool,
}

pub(super) fn build(config: &Config<'_>, head: Head) -> Result<Built> {
    let distilbert = DistilBert::read(config, head)?;
    Ok(Built::of_tokens(
        distilbert.tokens,
        |root| distilbert.construct(root),
        |root, tokens| distilbert.forward(root, tokens),
    ))
}

impl DistilBert {
    fn read(config: &Config<'_>, head: Head) -> Result<Self> {
        config.refuse("pruned_heads")?;
        let width = config.size(&["dim", "hidden_size"], 768)?;
        let heads = config.heads(&["n_heads", "num_attention_heads"], 12, width)?;
        let positions = config.size(&["max_position_embeddings"], 512)?;
        let dropout = config.rate("attention_dropout", 0.1)?;
        Ok(Self {
            head,
            tokens: config.tokens(config.options.tokens, None, Some(positions))?,
            vocabulary: config.size(&["vocab_size"], 30_522)?,
            positions,
            width,
            layers: config.layers(&["n_layers", "num_hidden_layers"], 6)?,
            inner: config.size(&["hidden_dim"], 3072)?,
            function: config.function("activation", "gelu")?,
            dropout: config.rate("dropout", 0.1)?,
            attention: Attention::plain(heads, width / heads, dropout, config.is_eager()?),
            classifier_dropout: config.rate("seq_classif_dropout", 0.2)?,
            answer_dropout: config.rate("qa_dropout", 0.1)?,
            labels: config.labels()?,
            is_tied: config.flag("tie_word_embeddings", true)?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "" } else { "distilbert" }
    }

    fn construct(&self, root: &mut Module<'_>) {
        let mut body = root.child(self.prefix());
        let mut embeddings = body.child("embeddings");
        embeddings.new_embedding("word_embeddings", self.vocabulary, self.width);
        embeddings.new_embedding("position_embeddings", self.positions, self.width);
        embeddings.new_layer_norm("LayerNorm", self.width);
        embeddings.new_buffer("position_ids", &[1, self.positions], DType::Int64);
        for layer in 0..self.layers {
            let mut layer = body.child(&format!("transformer.layer.{layer}"));
            for projection in ["q_lin", "k_lin", "v_lin", "out_lin"] {
                layer.child("attention").new_linear(projection, self.width, self.width, true);
            }
            layer.new_layer_norm("sa_layer_norm", self.width);
            layer.new_linear("ffn.lin1", self.width, self.inner, true);
            layer.new_linear("ffn.lin2", self.inner, self.width, true);
            layer.new_layer_norm("output_layer_norm", self.width);
        }
        match self.head {
            Head::MaskedLm => {
                root.new_linear("vocab_transform", self.width, self.width, true);
                root.new_layer_norm("vocab_layer_norm", self.width);
                if self.is_tied {
                    root.tie("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight");
                    root.new_parameter("vocab_projector.bias", &[self.vocabulary]);
                } else {
                    root.new_linear("vocab_projector", self.width, self.vocabulary, true);
                }
            }
            Head::SequenceClassification => {
                root.new_linear("pre_classifier", self.width, self.width, true);
                root.new_linear("classifier", self.width, self.labels, true);
            }
            Head::TokenClassification => root.new_linear("classifier", self.width, self.labels, true),
            Head::QuestionAnswering => root.new_linear("qa_outputs", self.width, 2, true),
            _ => {}
        }
    }

    fn forward(&self, root: &mut Module<'_>, tokens: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let mut hidden = self.embed(&mut body.child("embeddings"), tokens);
        for layer in 0..self.layers {
            hidden = self.layer(&mut body.child(&format!("transformer.layer.{layer}")), hidden);
        }
        match self.head {
            Head::MaskedLm => {
                let dense = root.linear("vocab_transform", hidden);
                let active = root.activation("activation", self.function, dense);
                let normed = root.layer_norm("vocab_layer_norm", active);
                vec![root.linear("vocab_projector", normed)]
            }
            Head::SequenceClassification => {
                let first = root.first_token(hidden);
                let dense = root.linear("pre_classifier", first);
                let active = root.function("relu", Activation::Relu, dense);
                let dropped = root.dropout("dropout", active, self.classifier_dropout);
                vec![root.linear("classifier", dropped)]
            }
            Head::TokenClassification => {
                let dropped = root.dropout("dropout", hidden, self.dropout);
                vec![root.linear("classifier", dropped)]
            }
            Head::QuestionAnswering => {
                let dropped = root.dropout("dropout", hidden, self.answer_dropout);
                root.answer(dropped)
            }
            _ => vec![hidden],
        }
    }

    fn embed(&self, embeddings: &mut Module<'_>, tokens: Value) -> Value {
        let words = embeddings.embedding("word_embeddings", tokens);
        let places = embeddings.listed_positions(self.tokens, self.width);
        let sum = embeddings.add(words, places);
        let normed = embeddings.layer_norm("LayerNorm", sum);
        embeddings.dropout("dropout", normed, self.dropout)
    }

    fn layer(&self, layer: &mut Module<'_>, hidden: Value) -> Value {
        let mut attention = layer.child("attention");
        let qkv = ["q_lin", "k_lin", "v_lin"].map(|name| {
            let projection = attention.linear(name, hidden);
            attention.heads(projection, self.attention.heads, self.attention.width)
        });
        let attended = attention.attend(self.attention, qkv, Extras::default());
        let attended = attention.linear("out_lin", attended);
        let sum = layer.add(attended, hidden);
        let attended = layer.layer_norm("sa_layer_norm", sum);

        let mut feed_forward = layer.child("ffn");
        let inner = feed_forward.linear("lin1", attended);
        let active = feed_forward.activation("activation", self.function, inner);
        let outer = feed_forward.linear("lin2", active);
        let dropped = feed_forward.dropout("dropout", outer, self.dropout);
        let sum = layer.add(dropped, attended);
        layer.layer_norm("output_layer_norm", sum)
    }
}
