//! T5 and mT5, with or without a gate.

use super::attention::{Attention, Extras};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::{Network, Value};
use super::options::Head;
use super::{Built, relative};
use crate::dtype::DType;
use crate::error::Result;
use crate::shape::{Dim, Shape};

pub(super) struct T5 {
    head: Head,
    tokens: u64,
    target_tokens: u64,
    vocabulary: u64,
    width: u64,
    encoder_layers: u64,
    decoder_layers: u64,
    inner: u64,
    function: Function,
    is_gated: bool,
    dropout: f64,
    attention: Attention,
    buckets: u64,
    is_tied: bool,
    /// Whether what the decoder gives is scaled before it is scored.
    is_scaled: bool,
}

/// What attention of one kind is given in every layer.
#[derive(Clone, Copy)]
struct Shared {
    /// What is added to scores: made in the first layer.
    bias: Option<Value>,
    mask: Option<Value>,
}

pub(super) fn t5(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, false)
}

pub(super) fn mt5(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, true)
}

fn build(config: &Config<'_>, head: Head, is_multilingual: bool) -> Result<Built> {
    let t5 = T5::read(config, head, is_multilingual)?;
    let mut network = Network::default();
    t5.construct(&mut network.root());
    let tokens = network.input("input_ids", Shape::batched(&[t5.tokens]), DType::Int64);
    let target = (head != Head::Encoder)
        .then(|| network.input("decoder_input_ids", Shape::batched(&[t5.target_tokens]), DType::Int64));
    let outputs = t5.forward(&mut network.root(), tokens, target);
    Ok(Built { network, outputs })
}

impl T5 {
    fn read(config: &Config<'_>, head: Head, is_multilingual: bool) -> Result<Self> {
        let (vocabulary, inner, layers, heads, feed_forward) =
            if is_multilingual { (250_112, 1024, 8, 6, "gated-gelu") } else { (32_128, 2048, 6, 8, "relu") };
        let layers = config.layers(&["num_layers", "num_hidden_layers"], layers)?;
        let tokens = config.tokens(config.options.tokens, None, None)?;
        let dropout = config.rate("dropout_rate", 0.1)?;
        let name = config.text("feed_forward_proj", feed_forward)?;
        let (is_gated, function) = name.strip_prefix("gated-").map_or((false, name), |function| (true, function));
        // A gated `gelu` is the approximation.
        let function = if name == "gated-gelu" { "gelu_new" } else { function };
        let function = Function::from_name(function).ok_or_else(|| {
            Config::out_of_range(
                "feed_forward_proj",
                format!("{}, or `gated-` and one of these", Function::KNOWN),
                name,
            )
        })?;
        let says_tied = config.flag("tie_word_embeddings", true)?;
        // Newer files of networks whose output layer is their own say so here only.
        let is_scaled = config.flag("scale_decoder_outputs", says_tied)?;
        let heads = config.size(&["num_heads", "num_attention_heads"], heads)?;
        let head_width = config.size(&["d_kv", "head_dim"], 64)?;
        Ok(Self {
            head,
            tokens,
            target_tokens: config.tokens(config.options.target_tokens.or(Some(tokens)), None, None)?,
            vocabulary: config.size(&["vocab_size"], vocabulary)?,
            width: config.size(&["d_model", "hidden_size"], 512)?,
            encoder_layers: layers,
            decoder_layers: config.layers(&["num_decoder_layers"], layers)?,
            inner: config.size(&["d_ff"], inner)?,
            function,
            is_gated,
            dropout,
            attention: Attention::plain(heads, head_width, dropout, config.is_eager()?),
            buckets: config.size(&["relative_attention_num_buckets"], 32)?,
            is_tied: says_tied && is_scaled,
            is_scaled: is_scaled && !is_multilingual,
        })
    }

    fn construct(&self, root: &mut Module<'_>) {
        root.new_embedding("shared", self.vocabulary, self.width);
        self.new_stack(&mut root.child("encoder"), self.encoder_layers, false);
        if self.head == Head::Encoder {
            return;
        }
        self.new_stack(&mut root.child("decoder"), self.decoder_layers, true);
        match self.head {
            Head::ConditionalGeneration if self.is_tied => root.tie("lm_head.weight", "shared.weight"),
            Head::ConditionalGeneration => root.new_linear("lm_head", self.width, self.vocabulary, false),
            _ => {}
        }
    }

    fn new_stack(&self, stack: &mut Module<'_>, layers: u64, is_decoder: bool) {
        stack.tie("embed_tokens.weight", "shared.weight");
        for index in 0..layers {
            let mut block = stack.child(&format!("block.{index}"));
            self.new_attention(&mut block, 0, "SelfAttention", index == 0);
            if is_decoder {
                self.new_attention(&mut block, 1, "EncDecAttention", false);
            }
            let mut layer = block.child(&format!("layer.{}", 1 + u64::from(is_decoder)));
            let mut dense = layer.child("DenseReluDense");
            let inputs: &[&str] = if self.is_gated { &["wi_0", "wi_1"] } else { &["wi"] };
            for input in inputs {
                dense.new_linear(input, self.width, self.inner, false);
            }
            dense.new_linear("wo", self.inner, self.width, false);
            layer.new_rms_norm("layer_norm", self.width);
        }
        stack.new_rms_norm("final_layer_norm", self.width);
    }

    fn new_attention(&self, block: &mut Module<'_>, place: u64, name: &str, has_bias: bool) {
        let heads = self.attention.heads * self.attention.width;
        let mut layer = block.child(&format!("layer.{place}"));
        let mut own = layer.child(name);
        for projection in ["q", "k", "v"] {
            own.new_linear(projection, self.width, heads, false);
        }
        own.new_linear("o", heads, self.width, false);
        if has_bias {
            own.new_embedding("relative_attention_bias", self.buckets, self.attention.heads);
        }
        layer.new_rms_norm("layer_norm", self.width);
    }

    fn forward(&self, root: &mut Module<'_>, tokens: Value, target: Option<Value>) -> Vec<Value> {
        let memory = self.stack(&mut root.child("encoder"), tokens, self.encoder_layers, None);
        let Some(target) = target else { return vec![memory] };
        let mut hidden = self.stack(&mut root.child("decoder"), target, self.decoder_layers, Some(memory));
        if self.head == Head::ConditionalGeneration {
            if self.is_scaled {
                hidden = root.scale(hidden);
            }
            hidden = root.linear("lm_head", hidden);
        }
        vec![hidden, memory]
    }

    fn stack(&self, stack: &mut Module<'_>, tokens: Value, layers: u64, memory: Option<Value>) -> Value {
        let words = stack.embedding("embed_tokens", tokens);
        let count = stack.shape(tokens).last().factor();
        let is_masked = memory.is_some() && self.attention.is_eager;
        let mask = if is_masked { stack.causal_mask(count, None, true) } else { None };
        let mut hidden = stack.dropout("dropout", words, self.dropout);
        let mut own = Shared { bias: None, mask };
        let mut cross = Shared { bias: None, mask: None };
        for block in 0..layers {
            let mut block = stack.child(&format!("block.{block}"));
            hidden = self.self_attention(&mut block.child("layer.0"), hidden, &mut own, memory.is_some());
            if let Some(memory) = memory {
                hidden = self.cross_attention(&mut block.child("layer.1"), hidden, memory, &mut cross);
            }
            let place = if memory.is_some() { "layer.2" } else { "layer.1" };
            hidden = self.feed_forward(&mut block.child(place), hidden);
        }
        let normed = stack.rms_norm("final_layer_norm", hidden);
        stack.dropout("dropout", normed, self.dropout)
    }

    fn self_attention(&self, layer: &mut Module<'_>, hidden: Value, shared: &mut Shared, is_decoder: bool) -> Value {
        let normed = layer.rms_norm("layer_norm", hidden);
        let mut own = layer.child("SelfAttention");
        let qkv = ["q", "k", "v"].map(|name| {
            let projection = own.linear(name, normed);
            own.heads(projection, self.attention.heads, self.attention.width)
        });
        let count = own.shape(normed).dims()[1].factor();
        let make = || relative::bias(&mut own, count, self.attention.heads, is_decoder);
        let bias = *shared.bias.get_or_insert_with(make);
        // The fused kernel gets bias and mask as one tensor.
        let extras = if self.attention.is_eager {
            Extras { bias: Some(bias), mask: shared.mask }
        } else {
            let bias = if is_decoder { relative::hide_later(&mut own, bias, count) } else { bias };
            Extras { bias: Some(own.copy("clone", bias)), mask: None }
        };
        let attended = own.attend(self.attention, qkv, extras);
        let projected = own.linear("o", attended);
        self.residual(layer, hidden, projected)
    }

    fn cross_attention(&self, layer: &mut Module<'_>, hidden: Value, memory: Value, shared: &mut Shared) -> Value {
        let normed = layer.rms_norm("layer_norm", hidden);
        let mut own = layer.child("EncDecAttention");
        let Attention { heads, width, .. } = self.attention;
        let qkv = [("q", normed), ("k", memory), ("v", memory)].map(|(name, input)| {
            let projection = own.linear(name, input);
            own.heads(projection, heads, width)
        });
        // There is no bias between two texts, which is written as zeros.
        let counts = [normed, memory].map(|value| own.shape(value).dims()[1]);
        let dims = [Dim::Fixed(1), Dim::Fixed(heads), counts[0], counts[1]];
        let bias = *shared.bias.get_or_insert_with(|| own.constant("zeros", &dims, DType::Float32));
        let attended = own.attend(self.attention, qkv, Extras { bias: Some(bias), mask: None });
        let projected = own.linear("o", attended);
        self.residual(layer, hidden, projected)
    }

    fn feed_forward(&self, layer: &mut Module<'_>, hidden: Value) -> Value {
        let normed = layer.rms_norm("layer_norm", hidden);
        let mut dense = layer.child("DenseReluDense");
        let inner = dense.linear(if self.is_gated { "wi_0" } else { "wi" }, normed);
        let mut inner = dense.activation("act", self.function, inner);
        if self.is_gated {
            let linear = dense.linear("wi_1", normed);
            inner = dense.multiply(inner, linear);
        }
        let dropped = dense.dropout("dropout", inner, self.dropout);
        let outer = dense.linear("wo", dropped);
        self.residual(layer, hidden, outer)
    }

    fn residual(&self, layer: &mut Module<'_>, hidden: Value, branch: Value) -> Value {
        let dropped = layer.dropout("dropout", branch, self.dropout);
        layer.add(hidden, dropped)
    }
}
