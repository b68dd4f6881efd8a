//! ALBERT: few layers that run many times, and embeddings narrower than the layers.

use super::Built;
use super::attention::{Attention, Extras};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::Value;
use super::options::Head;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Activation, Op};
use crate::shape::{Dim, Shape};

struct Albert {
    head: Head,
    tokens: u64,
    vocabulary: u64,
    positions: u64,
    types: u64,
    embedding: u64,
    width: u64,
    /// How often a group of layers runs, in all.
    layers: u64,
    groups: u64,
    layers_of_group: u64,
    inner: u64,
    function: Function,
    dropout: f64,
    attention: Attention,
    classifier_dropout: f64,
    labels: u64,
    is_tied: bool,
}

pub(super) fn build(config: &Config<'_>, head: Head) -> Result<Built> {
    let albert = Albert::read(config, head)?;
    Ok(Built::of_tokens(albert.tokens, |root| albert.construct(root), |root, tokens| albert.forward(root, tokens)))
}

impl Albert {
    fn read(config: &Config<'_>, head: Head) -> Result<Self> {
        config.refuse("pruned_heads")?;
        let width = config.size(&["hidden_size"], 4096)?;
        let heads = config.heads(&["num_attention_heads"], 64, width)?;
        let positions = config.size(&["max_position_embeddings"], 512)?;
        let layers = config.layers(&["num_hidden_layers"], 12)?;
        let groups = config.layers(&["num_hidden_groups"], 1)?;
        let layers_of_group = config.layers(&["inner_group_num"], 1)?;
        if groups > layers {
            return Err(Config::out_of_range("num_hidden_groups", format!("at most {layers}, the layers"), groups));
        }
        if layers * layers_of_group > Config::MAX_LAYERS {
            let expected = format!("at most {} layers in all", Config::MAX_LAYERS);
            return Err(Config::out_of_range("inner_group_num", expected, layers_of_group));
        }
        let dropout = config.rate("attention_probs_dropout_prob", 0.0)?;
        Ok(Self {
            head,
            tokens: config.tokens(config.options.tokens, None, Some(positions))?,
            vocabulary: config.size(&["vocab_size"], 30_000)?,
            positions,
            types: config.size(&["type_vocab_size"], 2)?,
            embedding: config.size(&["embedding_size"], 128)?,
            width,
            layers,
            groups,
            layers_of_group,
            inner: config.size(&["intermediate_size"], 16_384)?,
            function: config.function("hidden_act", "gelu_new")?,
            dropout: config.rate("hidden_dropout_prob", 0.0)?,
            attention: Attention::plain(heads, width / heads, dropout, config.is_eager()?),
            classifier_dropout: config.rate("classifier_dropout_prob", 0.1)?,
            labels: config.labels()?,
            is_tied: config.flag("tie_word_embeddings", true)?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "" } else { "albert" }
    }

    const fn has_pooler(&self) -> bool {
        matches!(self.head, Head::Base | Head::PreTraining | Head::SequenceClassification)
    }

    fn construct(&self, root: &mut Module<'_>) {
        let mut body = root.child(self.prefix());
        let mut embeddings = body.child("embeddings");
        embeddings.new_embedding("word_embeddings", self.vocabulary, self.embedding);
        embeddings.new_embedding("position_embeddings", self.positions, self.embedding);
        embeddings.new_embedding("token_type_embeddings", self.types, self.embedding);
        embeddings.new_layer_norm("LayerNorm", self.embedding);
        for buffer in ["position_ids", "token_type_ids"] {
            embeddings.new_buffer(buffer, &[1, self.positions], DType::Int64);
        }
        let mut encoder = body.child("encoder");
        encoder.new_linear("embedding_hidden_mapping_in", self.embedding, self.width, true);
        for group in 0..self.groups {
            for layer in 0..self.layers_of_group {
                let mut layer = encoder.child(&layer_path(group, layer));
                layer.new_layer_norm("full_layer_layer_norm", self.width);
                for projection in ["query", "key", "value", "dense"] {
                    layer.child("attention").new_linear(projection, self.width, self.width, true);
                }
                layer.new_layer_norm("attention.LayerNorm", self.width);
                layer.new_linear("ffn", self.width, self.inner, true);
                layer.new_linear("ffn_output", self.inner, self.width, true);
            }
        }
        if self.has_pooler() {
            body.new_linear("pooler", self.width, self.width, true);
        }
        match self.head {
            Head::MaskedLm => self.new_predictions(root),
            Head::PreTraining => {
                self.new_predictions(root);
                root.new_linear("sop_classifier.classifier", self.width, self.labels, true);
            }
            Head::SequenceClassification | Head::TokenClassification => {
                root.new_linear("classifier", self.width, self.labels, true);
            }
            Head::QuestionAnswering => root.new_linear("qa_outputs", self.width, 2, true),
            _ => {}
        }
    }

    fn new_predictions(&self, root: &mut Module<'_>) {
        let mut head = root.child("predictions");
        head.new_parameter("bias", &[self.vocabulary]);
        head.new_layer_norm("LayerNorm", self.embedding);
        head.new_linear("dense", self.width, self.embedding, true);
        if self.is_tied {
            head.tie("decoder.weight", "albert.embeddings.word_embeddings.weight");
            head.tie("decoder.bias", "predictions.bias");
        } else {
            head.new_linear("decoder", self.embedding, self.vocabulary, true);
        }
    }

    fn forward(&self, root: &mut Module<'_>, tokens: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let embedded = self.embed(&mut body.child("embeddings"), tokens);
        let mut encoder = body.child("encoder");
        let mut hidden = encoder.linear("embedding_hidden_mapping_in", embedded);
        for layer in 0..self.layers {
            // Layers of a group stand together.
            let group = layer * self.groups / self.layers;
            for inner in 0..self.layers_of_group {
                hidden = self.layer(&mut encoder.child(&layer_path(group, inner)), hidden);
            }
        }
        let pooled = self.has_pooler().then(|| {
            let first = body.first_token(hidden);
            let dense = body.linear("pooler", first);
            body.function("pooler_activation", Activation::Tanh, dense)
        });
        match (self.head, pooled) {
            (Head::MaskedLm, _) => vec![self.predictions(root, hidden)],
            (Head::PreTraining, Some(pooled)) => {
                let scores = self.predictions(root, hidden);
                let dropped = root.dropout("sop_classifier.dropout", pooled, self.classifier_dropout);
                vec![scores, root.linear("sop_classifier.classifier", dropped)]
            }
            (Head::SequenceClassification, Some(input)) => self.classes(root, input),
            (Head::TokenClassification, _) => self.classes(root, hidden),
            (Head::QuestionAnswering, _) => root.answer(hidden),
            (_, pooled) => [Some(hidden), pooled].into_iter().flatten().collect(),
        }
    }

    fn classes(&self, root: &mut Module<'_>, input: Value) -> Vec<Value> {
        let dropped = root.dropout("dropout", input, self.classifier_dropout);
        vec![root.linear("classifier", dropped)]
    }

    fn embed(&self, embeddings: &mut Module<'_>, tokens: Value) -> Value {
        let weights = ["token_type_ids", "position_ids"].map(|name| embeddings.weight(name)).to_vec();
        let shape = Shape::fixed(&[1, self.tokens]);
        let types = embeddings.node("gather", Op::Gather, &[], weights, shape, DType::Int64);
        let types = embeddings.view("expand", types, &[Dim::Batch(1), Dim::Fixed(self.tokens)]);
        let words = embeddings.embedding("word_embeddings", tokens);
        let types = embeddings.embedding("token_type_embeddings", types);
        let sum = embeddings.add(words, types);
        let places = embeddings.listed_positions(self.tokens, self.embedding);
        let sum = embeddings.add(sum, places);
        let normed = embeddings.layer_norm("LayerNorm", sum);
        embeddings.dropout("dropout", normed, self.dropout)
    }

    fn layer(&self, layer: &mut Module<'_>, hidden: Value) -> Value {
        let mut attention = layer.child("attention");
        let qkv = ["query", "key", "value"].map(|name| {
            let projection = attention.linear(name, hidden);
            attention.heads(projection, self.attention.heads, self.attention.width)
        });
        let attended = attention.attend(self.attention, qkv, Extras::default());
        let dense = attention.linear("dense", attended);
        let dropped = attention.dropout("output_dropout", dense, self.dropout);
        let sum = attention.add(hidden, dropped);
        let attended = attention.layer_norm("LayerNorm", sum);
        let inner = layer.linear("ffn", attended);
        let active = layer.activation("activation", self.function, inner);
        let outer = layer.linear("ffn_output", active);
        let sum = layer.add(outer, attended);
        layer.layer_norm("full_layer_layer_norm", sum)
    }

    fn predictions(&self, root: &mut Module<'_>, hidden: Value) -> Value {
        let mut head = root.child("predictions");
        let dense = head.linear("dense", hidden);
        let active = head.activation("activation", self.function, dense);
        let normed = head.layer_norm("LayerNorm", active);
        head.linear("decoder", normed)
    }
}

fn layer_path(group: u64, layer: u64) -> String {
    format!("albert_layer_groups.{group}.albert_layers.{layer}")
}
