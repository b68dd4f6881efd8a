//! `ViT`: an image as a row of patches.

use super::Built;
use super::attention::{Attention, Extras};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::{Network, Value};
use super::options::Head;
use crate::dtype::DType;
use crate::error::{GraphError, Result};
use crate::op::{Binary, Conv, Op};
use crate::shape::{Dim, Shape};

struct Vit {
    head: Head,
    channels: u64,
    image: [u64; 2],
    patch: [u64; 2],
    width: u64,
    layers: u64,
    inner: u64,
    function: Function,
    dropout: f64,
    attention: Attention,
    has_bias: bool,
    pooled: u64,
    pooler_function: Function,
    labels: u64,
}

pub(super) fn build(config: &Config<'_>, head: Head) -> Result<Built> {
    let vit = Vit::read(config, head)?;
    let mut network = Network::default();
    vit.construct(&mut network.root());
    let [height, width] = vit.image;
    let image = network.input("pixel_values", Shape::batched(&[vit.channels, height, width]), DType::Float32);
    let outputs = vit.forward(&mut network.root(), image);
    Ok(Built { network, outputs })
}

impl Vit {
    fn read(config: &Config<'_>, head: Head) -> Result<Self> {
        config.refuse("pruned_heads")?;
        if let Some(tokens) = config.options.tokens {
            return Err(GraphError::OutOfRange {
                what: "tokens of a sample".into(),
                expected: "none: the size of the image decides".into(),
                found: tokens.to_string(),
            });
        }
        let image = config.sides("image_size", 224)?;
        let patch = config.sides("patch_size", 16)?;
        if patch[0] > image[0] || patch[1] > image[1] {
            let expected = format!("at most the image of {}x{}", image[0], image[1]);
            return Err(Config::out_of_range("patch_size", expected, format!("{}x{}", patch[0], patch[1])));
        }
        let width = config.size(&["hidden_size"], 768)?;
        let heads = config.heads(&["num_attention_heads"], 12, width)?;
        let dropout = config.rate("attention_probs_dropout_prob", 0.0)?;
        Ok(Self {
            head,
            channels: config.size(&["num_channels"], 3)?,
            image,
            patch,
            width,
            layers: config.layers(&["num_hidden_layers"], 12)?,
            inner: config.size(&["intermediate_size"], 3072)?,
            function: config.function("hidden_act", "gelu")?,
            dropout: config.rate("hidden_dropout_prob", 0.0)?,
            attention: Attention::plain(heads, width / heads, dropout, config.is_eager()?),
            has_bias: config.flag("qkv_bias", true)?,
            pooled: config.optional_size(&["pooler_output_size"])?.unwrap_or(width),
            pooler_function: config.function("pooler_act", "tanh")?,
            labels: config.labels()?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "" } else { "vit" }
    }

    fn grid(&self) -> [u64; 2] {
        [self.image[0] / self.patch[0], self.image[1] / self.patch[1]]
    }

    /// Patches, and the token that stands for the whole.
    fn tokens(&self) -> u64 {
        let [rows, columns] = self.grid();
        rows * columns + 1
    }

    fn construct(&self, root: &mut Module<'_>) {
        let mut body = root.child(self.prefix());
        let mut embeddings = body.child("embeddings");
        embeddings.new_parameter("cls_token", &[1, 1, self.width]);
        embeddings.new_parameter("position_embeddings", &[1, self.tokens(), self.width]);
        let filter = [self.width, self.channels, self.patch[0], self.patch[1]];
        embeddings.new_weights("patch_embeddings.projection", &filter, Some(self.width));
        for layer in 0..self.layers {
            let mut layer = body.child(&format!("layers.{layer}"));
            for projection in ["q_proj", "k_proj", "v_proj"] {
                layer.child("attention").new_linear(projection, self.width, self.width, self.has_bias);
            }
            layer.new_linear("attention.o_proj", self.width, self.width, true);
            layer.new_layer_norm("layernorm_before", self.width);
            layer.new_layer_norm("layernorm_after", self.width);
            layer.new_linear("mlp.fc1", self.width, self.inner, true);
            layer.new_linear("mlp.fc2", self.inner, self.width, true);
        }
        body.new_layer_norm("layernorm", self.width);
        match self.head {
            Head::ImageClassification => root.new_linear("classifier", self.width, self.labels, true),
            _ => root.new_linear("pooler.dense", self.width, self.pooled, true),
        }
    }

    fn forward(&self, root: &mut Module<'_>, image: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let mut hidden = self.embed(&mut body.child("embeddings"), image);
        for layer in 0..self.layers {
            hidden = self.layer(&mut body.child(&format!("layers.{layer}")), hidden);
        }
        let hidden = body.layer_norm("layernorm", hidden);
        if self.head == Head::ImageClassification {
            let first = root.first_token(hidden);
            return vec![root.linear("classifier", first)];
        }
        let mut pooler = root.child("pooler");
        let first = pooler.first_token(hidden);
        let dense = pooler.linear("dense", first);
        vec![hidden, pooler.activation("activation", self.pooler_function, dense)]
    }

    fn embed(&self, embeddings: &mut Module<'_>, image: Value) -> Value {
        let [rows, columns] = self.grid();
        let conv = Conv {
            kernel: self.patch.to_vec(),
            stride: if self.patch == [1, 1] { vec![] } else { self.patch.to_vec() },
            padding: vec![],
            dilation: vec![],
            groups: 1,
            transposed: false,
        };
        let mut patches = embeddings.child("patch_embeddings");
        let weights = ["projection.weight", "projection.bias"].map(|name| patches.weight(name)).to_vec();
        let shape = Shape::batched(&[self.width, rows, columns]);
        let projected = patches.node("projection", Op::Conv(conv), &[image], weights, shape, DType::Float32);
        let [count, width] = [rows * columns, self.width].map(Dim::Fixed);
        let flat = patches.view("transpose", projected, &[Dim::Batch(1), count, width]);
        let first = embeddings.weight("cls_token");
        let shape = Shape::batched(&[self.tokens(), self.width]);
        let tokens = embeddings.node("cat", Op::Concat, &[flat], vec![first], shape, DType::Float32);
        let places = embeddings.weight("position_embeddings");
        let add = Op::Binary { function: Binary::Add, inplace: false };
        let placed = embeddings.like("add", add, &[tokens], vec![places]);
        embeddings.dropout("dropout", placed, self.dropout)
    }

    fn layer(&self, layer: &mut Module<'_>, hidden: Value) -> Value {
        let normed = layer.layer_norm("layernorm_before", hidden);
        let mut own = layer.child("attention");
        let qkv = ["q_proj", "k_proj", "v_proj"].map(|name| {
            let projection = own.linear(name, normed);
            own.heads(projection, self.attention.heads, self.attention.width)
        });
        let attended = own.attend(self.attention, qkv, Extras::default());
        let projected = own.linear("o_proj", attended);
        let dropped = layer.dropout("dropout", projected, self.dropout);
        let attended = layer.add(dropped, hidden);

        let normed = layer.layer_norm("layernorm_after", attended);
        let mut inner = layer.child("mlp");
        let expanded = inner.linear("fc1", normed);
        let active = inner.activation("activation_fn", self.function, expanded);
        let projected = inner.linear("fc2", active);
        let dropped = layer.dropout("dropout", projected, self.dropout);
        layer.add(dropped, attended)
    }
}
