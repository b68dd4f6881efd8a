//! BERT and its descendants: `RoBERTa` (XLM-R and `CamemBERT` are `RoBERTa`) and ELECTRA.

mod heads;

use super::Built;
use super::attention::{Attention, Extras};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::{Network, Value};
use super::options::Head;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Activation, Op};
use crate::shape::{Dim, Shape};

/// Which of the descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bert,
    Roberta,
    /// `RoBERTa` in the modules of XLM-R and `CamemBERT`, which have their head before the encoder.
    HeadFirstRoberta,
    Electra,
}

struct Bert {
    kind: Kind,
    head: Head,
    tokens: u64,
    vocabulary: u64,
    positions: u64,
    types: u64,
    embedding: u64,
    width: u64,
    layers: u64,
    inner: u64,
    function: Function,
    dropout: f64,
    attention: Attention,
    classifier_dropout: f64,
    labels: u64,
    is_tied: bool,
}

pub(super) fn bert(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Bert)
}

pub(super) fn roberta(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Roberta)
}

pub(super) fn head_first_roberta(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::HeadFirstRoberta)
}

pub(super) fn electra(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Electra)
}

fn build(config: &Config<'_>, head: Head, kind: Kind) -> Result<Built> {
    let bert = Bert::read(config, head, kind)?;
    let mut network = Network::default();
    if kind == Kind::HeadFirstRoberta {
        bert.new_head(&mut network.root());
        bert.new_body(&mut network.root());
    } else {
        bert.new_body(&mut network.root());
        bert.new_head(&mut network.root());
    }
    let tokens = network.input("input_ids", Shape::batched(&[bert.tokens]), DType::Int64);
    let mut root = network.root();
    let (hidden, pooled) = bert.body(&mut root.child(bert.prefix()), tokens);
    let outputs = bert.outputs(&mut root, hidden, pooled);
    Ok(Built { network, outputs })
}

impl Bert {
    fn read(config: &Config<'_>, head: Head, kind: Kind) -> Result<Self> {
        for switch in ["add_cross_attention", "pruned_heads"] {
            config.refuse(switch)?;
        }
        let (vocabulary, width, heads, inner) = match kind {
            Kind::Roberta => (50_265, 768, 12, 3072),
            Kind::Electra => (30_522, 256, 4, 1024),
            Kind::Bert | Kind::HeadFirstRoberta => (30_522, 768, 12, 3072),
        };
        let width = config.size(&["hidden_size"], width)?;
        let heads = config.heads(&["num_attention_heads"], heads, width)?;
        let positions = config.size(&["max_position_embeddings"], 512)?;
        // RoBERTa's positions start behind that of the padding token.
        let offset = if kind.is_roberta() { config.index("pad_token_id", 1)?.saturating_add(1) } else { 0 };
        let dropout = config.rate("hidden_dropout_prob", 0.1)?;
        let mut attention = Attention::plain(
            heads,
            width / heads,
            config.rate("attention_probs_dropout_prob", 0.1)?,
            config.is_eager()?,
        );
        attention.is_causal = config.flag("is_decoder", false)?;
        Ok(Self {
            kind,
            head,
            tokens: config.tokens(config.options.tokens, None, Some(positions.saturating_sub(offset)))?,
            vocabulary: config.size(&["vocab_size"], vocabulary)?,
            positions,
            types: config.size(&["type_vocab_size"], 2)?,
            embedding: if kind == Kind::Electra { config.size(&["embedding_size"], 128)? } else { width },
            width,
            layers: config.layers(&["num_hidden_layers"], 12)?,
            inner: config.size(&["intermediate_size"], inner)?,
            function: config.function("hidden_act", "gelu")?,
            dropout,
            attention,
            classifier_dropout: config.optional_rate("classifier_dropout")?.unwrap_or(dropout),
            labels: config.labels()?,
            is_tied: config.flag("tie_word_embeddings", true)?,
        })
    }

    const fn prefix(&self) -> &'static str {
        match (self.head, self.kind) {
            (Head::Base, _) => "",
            (_, Kind::Bert) => "bert",
            (_, Kind::Electra) => "electra",
            _ => "roberta",
        }
    }

    const fn is_language_model(&self) -> bool {
        matches!(self.head, Head::MaskedLm | Head::CausalLm)
    }

    const fn has_pooler(&self) -> bool {
        match self.kind {
            Kind::Bert => matches!(self.head, Head::Base | Head::PreTraining | Head::SequenceClassification),
            Kind::Electra => false,
            Kind::Roberta | Kind::HeadFirstRoberta => matches!(self.head, Head::Base),
        }
    }

    fn new_body(&self, root: &mut Module<'_>) {
        let mut body = root.child(self.prefix());
        let mut embeddings = body.child("embeddings");
        let is_declared = self.kind == Kind::HeadFirstRoberta && self.is_language_model() && self.is_tied;
        if is_declared {
            embeddings.tie("word_embeddings.weight", "lm_head.decoder.weight");
        } else {
            embeddings.new_embedding("word_embeddings", self.vocabulary, self.embedding);
        }
        if !self.kind.is_roberta() {
            embeddings.new_embedding("position_embeddings", self.positions, self.embedding);
        }
        embeddings.new_embedding("token_type_embeddings", self.types, self.embedding);
        embeddings.new_layer_norm("LayerNorm", self.embedding);
        if self.kind.is_roberta() {
            embeddings.new_embedding("position_embeddings", self.positions, self.embedding);
        }
        for buffer in ["position_ids", "token_type_ids"] {
            embeddings.new_buffer(buffer, &[1, self.positions], DType::Int64);
        }
        if self.embedding != self.width {
            body.new_linear("embeddings_project", self.embedding, self.width, true);
        }
        for layer in 0..self.layers {
            let mut layer = body.child(&format!("encoder.layer.{layer}"));
            for projection in ["query", "key", "value"] {
                layer.child("attention.self").new_linear(projection, self.width, self.width, true);
            }
            layer.new_linear("attention.output.dense", self.width, self.width, true);
            layer.new_layer_norm("attention.output.LayerNorm", self.width);
            layer.new_linear("intermediate.dense", self.width, self.inner, true);
            layer.new_linear("output.dense", self.inner, self.width, true);
            layer.new_layer_norm("output.LayerNorm", self.width);
        }
        if self.has_pooler() {
            body.child("pooler").new_linear("dense", self.width, self.width, true);
        }
    }

    /// The last hidden state, and what the pooler makes of it.
    fn body(&self, body: &mut Module<'_>, tokens: Value) -> (Value, Option<Value>) {
        let mut hidden = self.embed(&mut body.child("embeddings"), tokens);
        let mut attention = self.attention;
        let mut extras = Extras::default();
        if attention.is_causal {
            extras.mask = body.causal_mask(self.tokens, None, attention.is_eager);
            attention.is_causal = extras.mask.is_none();
        }
        if self.embedding != self.width {
            hidden = body.linear("embeddings_project", hidden);
        }
        for layer in 0..self.layers {
            hidden = self.layer(&mut body.child(&format!("encoder.layer.{layer}")), attention, extras, hidden);
        }
        let pooled = self.has_pooler().then(|| {
            let mut pooler = body.child("pooler");
            let first = pooler.first_token(hidden);
            let dense = pooler.linear("dense", first);
            pooler.function("activation", Activation::Tanh, dense)
        });
        (hidden, pooled)
    }

    fn embed(&self, embeddings: &mut Module<'_>, tokens: Value) -> Value {
        let (types, places) =
            if self.kind.is_roberta() { Self::counted_positions(embeddings, tokens) } else { self.types(embeddings) };
        let words = embeddings.embedding("word_embeddings", tokens);
        let types = embeddings.embedding("token_type_embeddings", types);
        let sum = embeddings.add(words, types);
        let places = match places {
            Some(places) => embeddings.embedding("position_embeddings", places),
            None => embeddings.listed_positions(self.tokens, self.embedding),
        };
        let sum = embeddings.add(sum, places);
        let normed = embeddings.layer_norm("LayerNorm", sum);
        embeddings.dropout("dropout", normed, self.dropout)
    }

    /// Types of the tokens, all alike; positions are a buffer.
    fn types(&self, embeddings: &mut Module<'_>) -> (Value, Option<Value>) {
        let weights = ["token_type_ids", "position_ids"].map(|name| embeddings.weight(name));
        let shape = Shape::fixed(&[1, self.tokens]);
        let types = embeddings.node("gather", Op::Gather, &[], weights.to_vec(), shape, DType::Int64);
        (embeddings.view("expand", types, &[Dim::Batch(1), Dim::Fixed(self.tokens)]), None)
    }

    /// Types of the tokens, and positions counted over what is no padding.
    fn counted_positions(embeddings: &mut Module<'_>, tokens: Value) -> (Value, Option<Value>) {
        let is_token = embeddings.compare("ne", &[tokens]);
        let mask = embeddings.cast(is_token, DType::Int32);
        let shape = embeddings.shape(mask).clone();
        let sums = Op::Other { name: "cumsum".into() };
        let counts = embeddings.node("cumsum", sums, &[mask], vec![], shape.clone(), DType::Int64);
        let counts = embeddings.cast(counts, DType::Int32);
        let counts = embeddings.shift(counts);
        let counts = embeddings.multiply(counts, mask);
        let counts = embeddings.cast(counts, DType::Int64);
        let places = embeddings.shift(counts);
        let types = embeddings.weight("token_type_ids");
        let types = embeddings.node("gather", Op::Gather, &[places], vec![types], shape, DType::Int64);
        (types, Some(places))
    }

    fn layer(&self, layer: &mut Module<'_>, attention: Attention, extras: Extras, hidden: Value) -> Value {
        let mut own = layer.child("attention.self");
        let qkv = ["query", "key", "value"].map(|name| {
            let projection = own.linear(name, hidden);
            own.heads(projection, attention.heads, attention.width)
        });
        let attended = own.attend(attention, qkv, extras);
        let attended = self.output(&mut layer.child("attention.output"), attended, hidden);
        let mut inner = layer.child("intermediate");
        let dense = inner.linear("dense", attended);
        let active = inner.activation("intermediate_act_fn", self.function, dense);
        self.output(&mut layer.child("output"), active, attended)
    }

    fn output(&self, output: &mut Module<'_>, input: Value, residual: Value) -> Value {
        let dense = output.linear("dense", input);
        let dropped = output.dropout("dropout", dense, self.dropout);
        let sum = output.add(dropped, residual);
        output.layer_norm("LayerNorm", sum)
    }
}

impl Kind {
    const fn is_roberta(self) -> bool {
        matches!(self, Self::Roberta | Self::HeadFirstRoberta)
    }
}
