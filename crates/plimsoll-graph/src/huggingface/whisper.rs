//! Whisper.

use super::Built;
use super::attention::{Attention, Extras, Heads};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::{Network, Value};
use super::options::Head;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Activation, Conv, Op};
use crate::shape::{Dim, Shape};

struct Whisper {
    head: Head,
    /// Tokens of the transcript.
    tokens: u64,
    vocabulary: u64,
    mel_bins: u64,
    /// Positions of the encoder, each of two frames.
    source: u64,
    target: u64,
    width: u64,
    encoder: Stack,
    decoder: Stack,
    function: Function,
    dropout: f64,
    inner_dropout: f64,
    is_tied: bool,
}

/// What differs between the two stacks.
#[derive(Clone, Copy)]
struct Stack {
    layers: u64,
    inner: u64,
    attention: Attention,
}

pub(super) fn build(config: &Config<'_>, head: Head) -> Result<Built> {
    let whisper = Whisper::read(config, head)?;
    let mut network = Network::default();
    whisper.construct(&mut network.root());
    let frames = Shape::batched(&[whisper.mel_bins, 2 * whisper.source]);
    let frames = network.input("input_features", frames, DType::Float32);
    let tokens = network.input("decoder_input_ids", Shape::batched(&[whisper.tokens]), DType::Int64);
    let outputs = whisper.forward(&mut network.root(), frames, tokens);
    Ok(Built { network, outputs })
}

impl Whisper {
    fn read(config: &Config<'_>, head: Head) -> Result<Self> {
        config.refuse("apply_spec_augment")?;
        let width = config.size(&["d_model", "hidden_size"], 384)?;
        let target = config.size(&["max_target_positions"], 448)?;
        let dropout = config.rate("attention_dropout", 0.0)?;
        let stack = |name: &str| -> Result<Stack> {
            let heads = config.heads(&[&format!("{name}_attention_heads")], 6, width)?;
            Ok(Stack {
                layers: config.layers(&[&format!("{name}_layers")], 4)?,
                inner: config.size(&[&format!("{name}_ffn_dim")], 1536)?,
                attention: Attention::plain(heads, width / heads, dropout, config.is_eager()?),
            })
        };
        Ok(Self {
            head,
            tokens: config.tokens(config.options.target_tokens.or(config.options.tokens), None, Some(target))?,
            vocabulary: config.size(&["vocab_size"], 51_865)?,
            mel_bins: config.size(&["num_mel_bins"], 80)?,
            source: config.size(&["max_source_positions"], 1500)?,
            target,
            width,
            encoder: stack("encoder")?,
            decoder: stack("decoder")?,
            function: config.function("activation_function", "gelu")?,
            dropout: config.rate("dropout", 0.0)?,
            inner_dropout: config.rate("activation_dropout", 0.0)?,
            is_tied: config.flag("tie_word_embeddings", true)?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "" } else { "model" }
    }

    fn construct(&self, root: &mut Module<'_>) {
        let mut body = root.child(self.prefix());
        let mut encoder = body.child("encoder");
        encoder.new_weights("conv1", &[self.width, self.mel_bins, 3], Some(self.width));
        encoder.new_weights("conv2", &[self.width, self.width, 3], Some(self.width));
        encoder.new_frozen("embed_positions.weight", &[self.source, self.width]);
        self.new_layers(&mut encoder, self.encoder, false);
        let mut decoder = body.child("decoder");
        decoder.new_embedding("embed_tokens", self.vocabulary, self.width);
        decoder.new_embedding("embed_positions", self.target, self.width);
        self.new_layers(&mut decoder, self.decoder, true);
        match self.head {
            Head::ConditionalGeneration if self.is_tied => {
                root.tie("proj_out.weight", "model.decoder.embed_tokens.weight");
            }
            Head::ConditionalGeneration => root.new_linear("proj_out", self.width, self.vocabulary, false),
            _ => {}
        }
    }

    fn new_layers(&self, module: &mut Module<'_>, stack: Stack, is_decoder: bool) {
        for layer in 0..stack.layers {
            let mut layer = module.child(&format!("layers.{layer}"));
            let attentions: &[&str] = if is_decoder { &["self_attn", "encoder_attn"] } else { &["self_attn"] };
            for name in attentions {
                for projection in ["k_proj", "v_proj", "q_proj", "out_proj"] {
                    let has_bias = projection != "k_proj";
                    layer.child(name).new_linear(projection, self.width, self.width, has_bias);
                }
                layer.new_layer_norm(&format!("{name}_layer_norm"), self.width);
            }
            layer.new_linear("fc1", self.width, stack.inner, true);
            layer.new_linear("fc2", stack.inner, self.width, true);
            layer.new_layer_norm("final_layer_norm", self.width);
        }
        module.new_layer_norm("layer_norm", self.width);
    }

    fn forward(&self, root: &mut Module<'_>, frames: Value, tokens: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let memory = self.encode(&mut body.child("encoder"), frames);
        let hidden = self.decode(&mut body.child("decoder"), tokens, memory);
        match self.head {
            Head::ConditionalGeneration => vec![root.linear("proj_out", hidden), memory],
            _ => vec![hidden, memory],
        }
    }

    fn encode(&self, encoder: &mut Module<'_>, frames: Value) -> Value {
        let mut hidden = frames;
        for (name, stride, length) in [("conv1", 1, 2 * self.source), ("conv2", 2, self.source)] {
            let conv = Conv {
                kernel: vec![3],
                stride: if stride > 1 { vec![stride] } else { vec![] },
                padding: vec![1],
                dilation: vec![],
                groups: 1,
                transposed: false,
            };
            let weights = ["weight", "bias"].map(|part| encoder.weight(&format!("{name}.{part}"))).to_vec();
            let shape = Shape::batched(&[self.width, length]);
            hidden = encoder.node(name, Op::Conv(conv), &[hidden], weights, shape, DType::Float32);
            hidden = encoder.function("gelu", Activation::Gelu, hidden);
        }
        let [source, width] = [self.source, self.width].map(Dim::Fixed);
        let hidden = encoder.view("permute", hidden, &[Dim::Batch(1), source, width]);
        let places = encoder.counted(self.source);
        let places = encoder.embedding("embed_positions", places);
        let hidden = encoder.add(hidden, places);
        let mut hidden = encoder.dropout("dropout", hidden, self.dropout);
        for layer in 0..self.encoder.layers {
            let mut layer = encoder.child(&format!("layers.{layer}"));
            hidden = self.attention(&mut layer, "self_attn", self.encoder.attention, hidden, None, Extras::default());
            hidden = self.feed_forward(&mut layer, hidden);
        }
        encoder.layer_norm("layer_norm", hidden)
    }

    fn decode(&self, decoder: &mut Module<'_>, tokens: Value, memory: Value) -> Value {
        let words = decoder.embedding("embed_tokens", tokens);
        let places = decoder.positions(self.tokens);
        let places = decoder.view("unsqueeze", places, &[Dim::Fixed(1), Dim::Fixed(self.tokens)]);
        let shape = Shape::batched(&[self.tokens]);
        let places = decoder.node("repeat", Op::Copy, &[places], vec![], shape, DType::Int64);
        let mut table = decoder.child("embed_positions");
        let weight = table.weight("weight");
        let shape = Shape::batched(&[self.tokens, self.width]);
        let places = table.node("", Op::Gather, &[places], vec![weight], shape, DType::Float32);
        let sum = decoder.add(words, places);
        let mut hidden = decoder.dropout("dropout", sum, self.dropout);
        let Stack { layers, attention, .. } = self.decoder;
        let own = Attention { is_causal: true, ..attention };
        let mask = decoder.causal_mask(self.tokens, None, attention.is_eager);
        for layer in 0..layers {
            let mut layer = decoder.child(&format!("layers.{layer}"));
            hidden = self.attention(&mut layer, "self_attn", own, hidden, None, Extras { mask, bias: None });
            hidden = self.attention(&mut layer, "encoder_attn", attention, hidden, Some(memory), Extras::default());
            hidden = self.feed_forward(&mut layer, hidden);
        }
        decoder.layer_norm("layer_norm", hidden)
    }

    fn attention(
        &self,
        layer: &mut Module<'_>,
        name: &str,
        attention: Attention,
        hidden: Value,
        memory: Option<Value>,
        extras: Extras,
    ) -> Value {
        let normed = layer.layer_norm(&format!("{name}_layer_norm"), hidden);
        let mut own = layer.child(name);
        let query = own.linear("q_proj", normed);
        let query = own.scale(query);
        let query = apart(&mut own, attention, query);
        let [key, value] = ["k_proj", "v_proj"].map(|name| {
            let projection = own.linear(name, memory.unwrap_or(normed));
            apart(&mut own, attention, projection)
        });
        let attended = own.attend(attention, [query, key, value], extras);
        let projected = own.linear("out_proj", attended);
        let dropped = layer.dropout("dropout", projected, self.dropout);
        layer.add(hidden, dropped)
    }

    fn feed_forward(&self, layer: &mut Module<'_>, hidden: Value) -> Value {
        let normed = layer.layer_norm("final_layer_norm", hidden);
        let inner = layer.linear("fc1", normed);
        let active = layer.activation("activation_fn", self.function, inner);
        let dropped = layer.dropout("dropout", active, self.inner_dropout);
        let outer = layer.linear("fc2", dropped);
        let dropped = layer.dropout("dropout", outer, self.dropout);
        layer.add(hidden, dropped)
    }
}

/// Heads copied apart, unless they lie so already.
fn apart(own: &mut Module<'_>, attention: Attention, projection: Value) -> Heads {
    let heads = own.heads(projection, attention.heads, attention.width);
    let is_copied = attention.heads > 1 && own.shape(heads.value).dims()[2] != Dim::Fixed(1);
    let value = if is_copied { own.copy("clone", heads.value) } else { heads.value };
    Heads { value, is_contiguous: true }
}
