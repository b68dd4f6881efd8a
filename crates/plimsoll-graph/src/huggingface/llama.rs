//! Llama and its relatives: Mistral, Qwen2, Qwen3, Gemma and Gemma 2.

use super::Built;
use super::attention::{Attention, Extras};
use super::config::Config;
use super::function::Function;
use super::module::Module;
use super::network::Value;
use super::options::Head;
use super::rotary::Angles;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Binary, Op};
use crate::shape::Dim;

/// Which of the relatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
    Gemma,
    Gemma2,
}

struct Llama {
    kind: Kind,
    head: Head,
    tokens: u64,
    vocabulary: u64,
    width: u64,
    inner: u64,
    function: Function,
    attention: Attention,
    /// Whether query, key and value, the output projection, and the feed-forward half have biases.
    biases: [bool; 3],
    window: Option<u64>,
    /// Whether a layer sees the window only, by layer.
    windowed: Vec<bool>,
    is_output_capped: bool,
    classifier_dropout: f64,
    labels: u64,
    is_tied: bool,
}

pub(super) fn llama(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Llama)
}

pub(super) fn mistral(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Mistral)
}

pub(super) fn qwen2(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Qwen2)
}

pub(super) fn qwen3(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Qwen3)
}

pub(super) fn gemma(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Gemma)
}

pub(super) fn gemma2(config: &Config<'_>, head: Head) -> Result<Built> {
    build(config, head, Kind::Gemma2)
}

fn build(config: &Config<'_>, head: Head, kind: Kind) -> Result<Built> {
    let llama = Llama::read(config, head, kind)?;
    Ok(Built::of_tokens(llama.tokens, |root| llama.construct(root), |root, tokens| llama.forward(root, tokens)))
}

/// What the library's configuration classes say where a file does not.
struct Defaults {
    vocabulary: u64,
    width: u64,
    inner: u64,
    layers: u64,
    heads: u64,
    /// As many as heads if there is nothing.
    kv_heads: Option<u64>,
    /// The width by the heads if there is nothing.
    head_width: Option<u64>,
    positions: u64,
    function: &'static str,
}

impl Kind {
    const fn is_gemma(self) -> bool {
        matches!(self, Self::Gemma | Self::Gemma2)
    }

    const fn defaults(self) -> Defaults {
        let llama = Defaults {
            vocabulary: 32_000,
            width: 4096,
            inner: 11_008,
            layers: 32,
            heads: 32,
            kv_heads: None,
            head_width: None,
            positions: 2048,
            function: "silu",
        };
        let qwen = Defaults { vocabulary: 151_936, inner: 22_016, positions: 32_768, ..llama };
        let gemma = Defaults {
            vocabulary: 256_000,
            head_width: Some(256),
            positions: 8192,
            function: "gelu_pytorch_tanh",
            ..llama
        };
        match self {
            Self::Llama => llama,
            Self::Mistral => Defaults { inner: 14_336, kv_heads: Some(8), positions: 131_072, ..llama },
            Self::Qwen2 => Defaults { kv_heads: Some(32), ..qwen },
            Self::Qwen3 => Defaults { kv_heads: Some(32), head_width: Some(128), ..qwen },
            Self::Gemma => Defaults { width: 3072, inner: 24_576, layers: 28, heads: 16, kv_heads: Some(16), ..gemma },
            Self::Gemma2 => Defaults { width: 2304, inner: 9216, layers: 26, heads: 8, kv_heads: Some(4), ..gemma },
        }
    }
}

impl Llama {
    fn read(config: &Config<'_>, head: Head, kind: Kind) -> Result<Self> {
        config.refuse("use_bidirectional_attention")?;
        let defaults = kind.defaults();
        let width = config.size(&["hidden_size"], defaults.width)?;
        let layers = config.layers(&["num_hidden_layers"], defaults.layers)?;
        let positions = config.size(&["max_position_embeddings"], defaults.positions)?;
        let (window, windowed) = windows(config, kind, layers)?;
        let bias = config.flag("attention_bias", false)?;
        let biases = match kind {
            Kind::Llama => [bias, bias, config.flag("mlp_bias", false)?],
            Kind::Mistral => [false; 3],
            Kind::Qwen2 => [true, false, false],
            Kind::Qwen3 | Kind::Gemma | Kind::Gemma2 => [bias, bias, false],
        };
        let function = if kind == Kind::Gemma2 { "hidden_activation" } else { "hidden_act" };
        Ok(Self {
            kind,
            head,
            tokens: config.tokens(config.options.tokens, Some(positions), None)?,
            vocabulary: config.size(&["vocab_size"], defaults.vocabulary)?,
            width,
            inner: config.size(&["intermediate_size"], defaults.inner)?,
            function: config.function(function, defaults.function)?,
            attention: attention(config, kind, &defaults, width)?,
            biases,
            window,
            windowed,
            is_output_capped: kind == Kind::Gemma2 && config.is_given("final_logit_softcapping")?,
            classifier_dropout: config.classifier_dropout()?,
            labels: config.labels()?,
            is_tied: config.flag("tie_word_embeddings", kind.is_gemma())?,
        })
    }

    const fn prefix(&self) -> &'static str {
        if matches!(self.head, Head::Base) { "" } else { "model" }
    }

    fn construct(&self, root: &mut Module<'_>) {
        let Attention { heads, kv_heads, width, .. } = self.attention;
        let [qkv_bias, output_bias, inner_bias] = self.biases;
        let mut body = root.child(self.prefix());
        body.new_embedding("embed_tokens", self.vocabulary, self.width);
        if self.kind.is_gemma() {
            body.new_buffer("embed_tokens.embed_scale", &[], DType::Float32);
        }
        for layer in 0..self.windowed.len() {
            let mut layer = body.child(&format!("layers.{layer}"));
            let mut own = layer.child("self_attn");
            own.new_linear("q_proj", self.width, heads * width, qkv_bias);
            own.new_linear("k_proj", self.width, kv_heads * width, qkv_bias);
            own.new_linear("v_proj", self.width, kv_heads * width, qkv_bias);
            own.new_linear("o_proj", heads * width, self.width, output_bias);
            if self.kind == Kind::Qwen3 {
                own.new_rms_norm("q_norm", width);
                own.new_rms_norm("k_norm", width);
            }
            let mut inner = layer.child("mlp");
            inner.new_linear("gate_proj", self.width, self.inner, inner_bias);
            inner.new_linear("up_proj", self.width, self.inner, inner_bias);
            inner.new_linear("down_proj", self.inner, self.width, inner_bias);
            layer.new_rms_norm("input_layernorm", self.width);
            layer.new_rms_norm("post_attention_layernorm", self.width);
            if self.kind == Kind::Gemma2 {
                layer.new_rms_norm("pre_feedforward_layernorm", self.width);
                layer.new_rms_norm("post_feedforward_layernorm", self.width);
            }
        }
        body.new_rms_norm("norm", self.width);
        body.new_rotary(width);
        match self.head {
            Head::CausalLm if self.is_tied => root.tie("lm_head.weight", "model.embed_tokens.weight"),
            Head::CausalLm => root.new_linear("lm_head", self.width, self.vocabulary, false),
            Head::SequenceClassification => root.new_linear("score", self.width, self.labels, false),
            Head::TokenClassification => root.new_linear("score", self.width, self.labels, true),
            _ => {}
        }
    }

    fn forward(&self, root: &mut Module<'_>, tokens: Value) -> Vec<Value> {
        let mut body = root.child(self.prefix());
        let mut hidden = body.embedding("embed_tokens", tokens);
        if self.kind.is_gemma() {
            let mut table = body.child("embed_tokens");
            let scale = table.weight("embed_scale");
            let multiply = Op::Binary { function: Binary::Multiply, inplace: false };
            hidden = table.like("mul", multiply, &[hidden], vec![scale]);
        }
        let positions = body.positions(self.tokens);
        let [full, windowed] = self.masks(&mut body);
        let angles = body.rotary(positions, self.attention.width);
        for (index, &is_windowed) in self.windowed.iter().enumerate() {
            let extras = Extras { mask: if is_windowed { windowed } else { full }, bias: None };
            hidden = self.layer(&mut body.child(&format!("layers.{index}")), angles, extras, hidden);
        }
        let hidden = self.norm(&mut body, "norm", hidden);
        match self.head {
            Head::CausalLm => {
                let scores = root.linear("lm_head", hidden);
                vec![if self.is_output_capped { root.capped(scores) } else { scores }]
            }
            Head::SequenceClassification => vec![root.last_token_classes(tokens, hidden)],
            Head::TokenClassification => {
                let dropped = root.dropout("dropout", hidden, self.classifier_dropout);
                vec![root.linear("score", dropped)]
            }
            _ => vec![hidden],
        }
    }

    /// The masks of layers that see everything before a token, and of those that see a window. Mistral makes one for
    /// all layers, the others one of each kind.
    fn masks(&self, body: &mut Module<'_>) -> [Option<Value>; 2] {
        let is_eager = self.attention.is_eager;
        if self.kind == Kind::Mistral {
            return [body.causal_mask(self.tokens, self.window, is_eager); 2];
        }
        let full = body.causal_mask(self.tokens, None, is_eager);
        let is_needed = self.kind == Kind::Gemma2 || self.windowed.contains(&true);
        let windowed = if is_needed { body.causal_mask(self.tokens, self.window, is_eager) } else { None };
        [full, windowed]
    }

    fn norm(&self, module: &mut Module<'_>, name: &str, input: Value) -> Value {
        if self.kind.is_gemma() { module.shifted_rms_norm(name, input) } else { module.rms_norm(name, input) }
    }

    fn layer(&self, layer: &mut Module<'_>, angles: Angles, extras: Extras, hidden: Value) -> Value {
        let is_normed_twice = self.kind == Kind::Gemma2;
        let normed = self.norm(layer, "input_layernorm", hidden);
        let mut attended = self.attend(&mut layer.child("self_attn"), angles, extras, normed);
        if is_normed_twice {
            attended = self.norm(layer, "post_attention_layernorm", attended);
        }
        let hidden = layer.add(hidden, attended);
        let before = if is_normed_twice { "pre_feedforward_layernorm" } else { "post_attention_layernorm" };
        let normed = self.norm(layer, before, hidden);
        let mut inner = layer.child("mlp");
        let gate = inner.linear("gate_proj", normed);
        let gate = inner.activation("act_fn", self.function, gate);
        let up = inner.linear("up_proj", normed);
        let product = inner.multiply(gate, up);
        let mut down = inner.linear("down_proj", product);
        if is_normed_twice {
            down = self.norm(layer, "post_feedforward_layernorm", down);
        }
        layer.add(hidden, down)
    }

    fn attend(&self, own: &mut Module<'_>, angles: Angles, extras: Extras, input: Value) -> Value {
        let Attention { heads, kv_heads, width, .. } = self.attention;
        let [query, key] = [("q", heads), ("k", kv_heads)].map(|(name, heads)| {
            let mut projection = own.linear(&format!("{name}_proj"), input);
            if self.kind == Kind::Qwen3 {
                let dims = [self.tokens, heads, width].map(Dim::Fixed);
                projection = own.view("view", projection, &[&[Dim::Batch(1)], &dims[..]].concat());
                projection = own.rms_norm(&format!("{name}_norm"), projection);
            }
            own.heads(projection, heads, width)
        });
        let value = own.linear("v_proj", input);
        let value = own.heads(value, kv_heads, width);
        let angles = own.for_heads(angles);
        let [query, key] = [query, key].map(|mut part| {
            part.value = own.turn(part.value, angles);
            part
        });
        let attended = own.attend(self.attention, [query, key, value], extras);
        own.linear("o_proj", attended)
    }
}

fn attention(config: &Config<'_>, kind: Kind, defaults: &Defaults, width: u64) -> Result<Attention> {
    let head_width = config.optional_size(&["head_dim"])?.or(defaults.head_width);
    let must_divide = head_width.is_none() || matches!(kind, Kind::Llama | Kind::Gemma2);
    let heads = if must_divide {
        config.heads(&["num_attention_heads"], defaults.heads, width)?
    } else {
        config.size(&["num_attention_heads"], defaults.heads)?
    };
    let kv_heads = config.optional_size(&["num_key_value_heads"])?;
    // Where the file says nothing and the class has a number, that is meant for the class's own number of heads.
    let kv_heads = kv_heads.or(defaults.kv_heads.filter(|_| !config.fields.contains_key("num_key_value_heads")));
    let kv_heads = kv_heads.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        let expected = format!("a divisor of the {heads} attention heads");
        return Err(Config::out_of_range("num_key_value_heads", expected, kv_heads));
    }
    let head_width = head_width.unwrap_or(width / heads);
    if !head_width.is_multiple_of(2) {
        return Err(Config::out_of_range("head_dim", "an even number, half of which turns the other", head_width));
    }
    // Scores that are squashed have no fused kernel, and Gemma 2 takes none even where they are not.
    let is_eager = kind == Kind::Gemma2 || config.is_eager()?;
    Ok(Attention {
        kv_heads,
        is_causal: true,
        is_half: config.options.half_precision,
        is_capped: kind == Kind::Gemma2 && config.is_given("attn_logit_softcapping")?,
        ..Attention::plain(heads, head_width, config.rate("attention_dropout", 0.0)?, is_eager)
    })
}

/// The window, and which layers see nothing else.
fn windows(config: &Config<'_>, kind: Kind, layers: u64) -> Result<(Option<u64>, Vec<bool>)> {
    let every = |is_windowed: &dyn Fn(u64) -> bool| (0..layers).map(is_windowed).collect::<Vec<bool>>();
    match kind {
        Kind::Llama | Kind::Gemma => Ok((None, every(&|_| false))),
        Kind::Mistral => {
            let window = config.nullable_size("sliding_window", 4096)?;
            Ok((window, every(&|_| window.is_some())))
        }
        Kind::Qwen2 | Kind::Qwen3 => {
            let window = config.nullable_size("sliding_window", 4096)?;
            let window = if config.flag("use_sliding_window", false)? { window } else { None };
            let first = config.index("max_window_layers", 28)?;
            let listed = config.windowed_layers(layers)?;
            Ok((window, listed.unwrap_or_else(|| every(&|layer| window.is_some() && layer >= first))))
        }
        Kind::Gemma2 => {
            let window = config.nullable_size("sliding_window", 4096)?;
            let listed = config.windowed_layers(layers)?;
            Ok((window, listed.unwrap_or_else(|| every(&|layer| layer.is_multiple_of(2)))))
        }
    }
}
