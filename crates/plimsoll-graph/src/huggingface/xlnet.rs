//! `XLNet`: attention relative to positions, in separate products, with the tokens before the batch.

use super::Built;
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::Value;
use super::options::Head;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Activation, Binary, Op};
use crate::shape::{Dim, Shape};

struct XlNet {
    head: Head,
    tokens: u64,
    vocabulary: u64,
    width: u64,
    layers: u64,
    heads: u64,
    inner: u64,
    function: Function,
    dropout: f64,
    is_causal: bool,
    /// Whether positions are clamped to a range.
    is_clamped: bool,
    summary: Summary,
    labels: u64,
    is_tied: bool,
}

/// How a sample's tokens become one vector.
struct Summary {
    has_projection: bool,
    is_active: bool,
    dropout: f64,
}

pub(super) fn build(config: &Config<'_>, head: Head) -> Result<Built> {
    let xlnet = XlNet::read(config, head)?;
    Ok(Built::of_tokens(xlnet.tokens, |root| xlnet.construct(root), |root, tokens| xlnet.forward(root, tokens)))
}

impl XlNet {
    fn read(config: &Config<'_>, head: Head) -> Result<Self> {
        for switch in ["bi_data", "use_mems_train", "same_length"] {
            config.refuse(switch)?;
        }
        let width = config.size(&["d_model", "hidden_size"], 1024)?;
        let heads = config.heads(&["n_head", "num_attention_heads"], 16, width)?;
        let attention = config.text("attn_type", "bi")?;
        if !["bi", "uni"].contains(&attention) {
            return Err(Config::out_of_range("attn_type", "`bi` or `uni`", attention));
        }
        let summary = config.text("summary_type", "last")?;
        if !["first", "last"].contains(&summary) {
            return Err(Config::out_of_range("summary_type", "`first` or `last`", summary));
        }
        Ok(Self {
            head,
            tokens: config.tokens(config.options.tokens, None, None)?,
            vocabulary: config.size(&["vocab_size", "n_token"], 32_000)?,
            width,
            layers: config.layers(&["n_layer", "num_hidden_layers"], 24)?,
            heads,
            inner: config.size(&["d_inner"], 4096)?,
            function: config.function("ff_activation", "gelu")?,
            dropout: config.rate("dropout", 0.1)?,
            is_causal: attention == "uni",
            is_clamped: config.fields.get("clamp_len").and_then(serde_json::Value::as_i64).is_some_and(|len| len > 0),
            summary: Summary {
                has_projection: config.flag("summary_use_proj", true)?,
                is_active: config.text("summary_activation", "tanh")? == "tanh",
                dropout: config.rate("summary_last_dropout", 0.1)?,
            },
            labels: config.labels()?,
            is_tied: config.flag("tie_word_embeddings", true)?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "" } else { "transformer" }
    }

    fn construct(&self, root: &mut Module<'_>) {
        let head_width = self.width / self.heads;
        let mut body = root.child(self.prefix());
        body.new_parameter("mask_emb", &[1, 1, self.width]);
        body.new_embedding("word_embedding", self.vocabulary, self.width);
        for layer in 0..self.layers {
            let mut layer = body.child(&format!("layer.{layer}"));
            let mut own = layer.child("rel_attn");
            for projection in ["q", "k", "v", "o", "r"] {
                own.new_parameter(projection, &[self.width, self.heads, head_width]);
            }
            for bias in ["r_r_bias", "r_s_bias", "r_w_bias"] {
                own.new_parameter(bias, &[self.heads, head_width]);
            }
            own.new_parameter("seg_embed", &[2, self.heads, head_width]);
            own.new_layer_norm("layer_norm", self.width);
            let mut feed_forward = layer.child("ff");
            feed_forward.new_layer_norm("layer_norm", self.width);
            feed_forward.new_linear("layer_1", self.width, self.inner, true);
            feed_forward.new_linear("layer_2", self.inner, self.width, true);
        }
        match self.head {
            Head::CausalLm if self.is_tied => {
                root.tie("lm_loss.weight", "transformer.word_embedding.weight");
                root.new_parameter("lm_loss.bias", &[self.vocabulary]);
            }
            Head::CausalLm => root.new_linear("lm_loss", self.width, self.vocabulary, true),
            Head::SequenceClassification => {
                if self.summary.has_projection {
                    root.new_linear("sequence_summary.summary", self.width, self.width, true);
                }
                root.new_linear("logits_proj", self.width, self.labels, true);
            }
            Head::TokenClassification => root.new_linear("classifier", self.width, self.labels, true),
            _ => {}
        }
    }

    fn forward(&self, root: &mut Module<'_>, tokens: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let turned = body.view("transpose", tokens, &[Dim::Fixed(self.tokens), Dim::Batch(1)]);
        let turned = body.copy("clone", turned);
        let mask = if self.is_causal { Some(self.mask(&mut body)) } else { None };
        let words = body.embedding("word_embedding", turned);
        let mut hidden = body.dropout("dropout", words, self.dropout);
        let positions = self.positions(&mut body);
        for layer in 0..self.layers {
            let mut layer = body.child(&format!("layer.{layer}"));
            hidden = self.attention(&mut layer.child("rel_attn"), hidden, positions, mask);
            hidden = self.feed_forward(&mut layer.child("ff"), hidden);
        }
        let hidden = body.dropout("dropout", hidden, self.dropout);
        let dims = [Dim::Batch(1), Dim::Fixed(self.tokens), Dim::Fixed(self.width)];
        let hidden = body.view("permute", hidden, &dims);
        let hidden = body.copy("clone", hidden);
        match self.head {
            Head::CausalLm => vec![root.linear("lm_loss", hidden)],
            Head::SequenceClassification => {
                let summary = self.summarise(&mut root.child("sequence_summary"), hidden);
                vec![root.linear("logits_proj", summary)]
            }
            Head::TokenClassification => vec![root.linear("classifier", hidden)],
            _ => vec![hidden],
        }
    }

    /// One where a token may not look.
    fn mask(&self, body: &mut Module<'_>) -> Value {
        let (one, all) = (Dim::Fixed(1), Dim::Fixed(self.tokens));
        let later = body.constant("ones", &[all, all], DType::Float32);
        let later = body.other("triu", "triu_", later);
        let later = body.view("unsqueeze", later, &[all, all, one, one]);
        let later = body.compare("gt", &[later]);
        let later = body.cast(later, DType::Float32);
        let own = body.constant("eye", &[all, all], DType::Float32);
        let own = body.other("neg", "neg", own);
        let own = body.view("unsqueeze", own, &[all, all, one, one]);
        let mask = body.add(later, own);
        let mask = body.compare("gt", &[mask]);
        body.cast(mask, DType::Float32)
    }

    /// Sinusoids of the distances between a query and the keys, (distances, batch, width).
    fn positions(&self, body: &mut Module<'_>) -> Value {
        let distances = self.distances();
        let frequencies = body.counted(self.width.div_ceil(2));
        let frequencies = body.cast(frequencies, DType::Float32);
        let frequencies = body.scalar("div", Binary::Divide, frequencies);
        let frequencies = body.scalar("pow", Binary::Other, frequencies);
        let frequencies = body.other("reciprocal", "reciprocal", frequencies);
        let frequencies = body.scale(frequencies);
        let places = body.counted(distances);
        let mut places = body.cast(places, DType::Float32);
        if self.is_clamped {
            places = body.other("clamp", "clamp", places);
        }
        let places = body.view("unsqueeze", places, &[Dim::Fixed(distances), Dim::Fixed(1)]);
        let angles = body.multiply(places, frequencies);
        let waves = ["sin", "cos"].map(|name| body.other(name, name, angles));
        let places = body.concat(&waves, 1);
        let width = body.shape(places).last();
        let places = body.view("expand", places, &[Dim::Fixed(distances), Dim::Batch(1), width]);
        body.dropout("dropout", places, self.dropout)
    }

    /// How many distances there are: to both sides, or backwards with one for the token itself.
    const fn distances(&self) -> u64 {
        if self.is_causal { self.tokens + 1 } else { 2 * self.tokens }
    }

    /// A projection onto all heads: one matrix product with a weight of three dimensions.
    fn project(&self, own: &mut Module<'_>, name: &str, input: Value) -> Value {
        let rows = own.shape(input).dims()[0].factor();
        let dims = [Dim::Fixed(1), Dim::Batch(rows), Dim::Fixed(self.width)];
        let flat = own.view("view", input, &dims);
        let weight = own.weight(name);
        own.like("bmm", Op::Linear, &[flat], vec![weight])
    }

    fn attention(&self, own: &mut Module<'_>, hidden: Value, positions: Value, mask: Option<Value>) -> Value {
        let (batch, tokens, heads) = (Dim::Batch(1), Dim::Fixed(self.tokens), Dim::Fixed(self.heads));
        let (matrices, width) = (Dim::Batch(self.heads), Dim::Fixed(self.width / self.heads));
        let query = self.project(own, "q", hidden);
        let query = own.view("view", query, &[tokens, batch, heads, width]);
        let key = self.project(own, "k", hidden);
        let value = self.project(own, "v", hidden);
        let positions = self.repeated(own, positions);
        let place = self.project(own, "r", positions);

        let content = self.biased(own, query, "r_w_bias");
        let key = own.view("view", key, &[matrices, width, tokens]);
        let content = own.mat_mul(content, key);
        let content = own.view("view", content, &[batch, heads, tokens, tokens]);
        let distances = self.distances();
        let relative = self.biased(own, query, "r_r_bias");
        let place = own.view("view", place, &[matrices, width, Dim::Fixed(distances)]);
        let relative = own.mat_mul(relative, place);
        let relative = self.shifted(own, relative);

        let scores = own.add(content, relative);
        let scores = own.shift(scores);
        let mut scores = own.scale(scores);
        if let Some(mask) = mask {
            let one = Dim::Fixed(1);
            let mask = own.view("permute", mask, &[one, one, tokens, tokens]);
            let mask = own.scale(mask);
            scores = own.binary("sub", Binary::Add, scores, mask);
        }
        let weights = own.like("softmax", Op::Softmax, &[scores], vec![]);
        let weights = own.dropout("dropout", weights, self.dropout);
        let weights = own.view("view", weights, &[matrices, tokens, tokens]);
        let value = own.view("view", value, &[matrices, tokens, width]);
        let attended = own.mat_mul(weights, value);
        let attended = self.projected(own, attended);
        let dropped = own.dropout("dropout", attended, self.dropout);
        let sum = own.add(dropped, hidden);
        own.layer_norm("layer_norm", sum)
    }

    /// Positions once for each sample, which without a dropout before are the same storage for all: then every layer
    /// copies them.
    fn repeated(&self, own: &mut Module<'_>, positions: Value) -> Value {
        if self.dropout > 0.0 {
            return positions;
        }
        let mut dims = own.shape(positions).dims().to_vec();
        dims.extend([Dim::Fixed(1); 2]);
        let wide = own.view("permute", positions, &dims);
        own.copy("clone", wide)
    }

    /// A query with a bias of its heads, as matrices.
    fn biased(&self, own: &mut Module<'_>, query: Value, name: &str) -> Value {
        let bias = own.weight(name);
        let add = Op::Binary { function: Binary::Add, inplace: false };
        let sum = own.like("add", add, &[query], vec![bias]);
        let dims = [Dim::Batch(self.heads), Dim::Fixed(self.tokens), Dim::Fixed(self.width / self.heads)];
        own.view("view", sum, &dims)
    }

    /// Scores by distance, brought to their keys.
    fn shifted(&self, own: &mut Module<'_>, relative: Value) -> Value {
        let (batch, heads, tokens) = (Dim::Batch(1), Dim::Fixed(self.heads), Dim::Fixed(self.tokens));
        let behind = Dim::Fixed(self.distances() - 1);
        let relative = own.view("view", relative, &[batch, heads, tokens, behind]);
        let keys = own.counted(self.tokens);
        let shape = Shape::new([batch, heads, tokens, tokens]);
        own.node("index_select", Op::Gather, &[relative, keys], vec![], shape, DType::Float32)
    }

    /// The output projection, whose weight is copied for the product.
    fn projected(&self, own: &mut Module<'_>, attended: Value) -> Value {
        let (batch, tokens, one) = (Dim::Batch(1), Dim::Fixed(self.tokens), Dim::Fixed(1));
        let (heads, head_width, width) =
            (Dim::Fixed(self.heads), Dim::Fixed(self.width / self.heads), Dim::Fixed(self.width));
        let attended = own.view("permute", attended, &[tokens, batch, head_width, heads, one]);
        let attended = own.copy("clone", attended);
        let attended = own.view("view", attended, &[one, Dim::Batch(self.tokens), width]);
        let weight = own.weight("o");
        let shape = Shape::new([head_width, heads, width, one, one]);
        let weight = own.node("clone", Op::Copy, &[], vec![weight], shape, DType::Float32);
        let weight = own.view("view", weight, &[one, width, width]);
        let result = own.mat_mul(attended, weight);
        own.view("view", result, &[tokens, batch, width])
    }

    fn feed_forward(&self, own: &mut Module<'_>, hidden: Value) -> Value {
        let inner = own.linear("layer_1", hidden);
        let active = own.activation("activation_function", self.function, inner);
        let dropped = own.dropout("dropout", active, self.dropout);
        let outer = own.linear("layer_2", dropped);
        let dropped = own.dropout("dropout", outer, self.dropout);
        let sum = own.add(dropped, hidden);
        own.layer_norm("layer_norm", sum)
    }

    fn summarise(&self, summary: &mut Module<'_>, hidden: Value) -> Value {
        let mut result = summary.first_token(hidden);
        if self.summary.has_projection {
            result = summary.linear("summary", result);
        }
        if self.summary.is_active {
            result = summary.function("activation", Activation::Tanh, result);
        }
        summary.dropout("last_dropout", result, self.summary.dropout)
    }
}
