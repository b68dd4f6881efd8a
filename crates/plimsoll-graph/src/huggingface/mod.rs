//! Networks of Hugging Face's transformers, from a `config.json` alone.
//!
//! A configuration says everything about a network but what is written in the library's code. This module has that
//! part: the constructors and the forward passes of the common families, operator by operator as transformers 5 runs
//! them, which is what `plimsoll_gpu` captures of the same network. Neither Python nor weights are needed, and files of
//! older releases are read too.
//!
//! `model_type` tells the family, `architectures` the head, and [`Options`] what neither tells, such as the tokens of
//! a sample.

mod albert;
mod attention;
mod bert;
mod config;
mod distilbert;
mod function;
mod gpt2;
mod gpt_neox;
mod head;
mod llama;
mod mask;
mod module;
mod network;
mod norm;
mod opt;
mod options;
mod relative;
mod rotary;
mod t5;
mod vit;
mod whisper;
mod xlnet;

use std::path::Path;

use serde_json::{Map, Value as Json};

pub use self::options::{Head, Options};

use self::config::Config;
use self::module::Module;
use self::network::{Network, Value};
use crate::dtype::DType;
use crate::error::{GraphError, Result};
use crate::graph::Graph;
use crate::json::{read_text, without_mark};
use crate::shape::Shape;

/// The largest configuration that is read. Those with the names of 20,000 classes take 2 MB.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// A network that was built, and what the loss sees of it.
struct Built {
    network: Network,
    outputs: Vec<Value>,
}

impl Built {
    /// A network that reads so many tokens of each sample and nothing else.
    fn of_tokens(
        tokens: u64,
        construct: impl FnOnce(&mut Module<'_>),
        forward: impl FnOnce(&mut Module<'_>, Value) -> Vec<Value>,
    ) -> Self {
        let mut network = Network::default();
        construct(&mut network.root());
        let tokens = network.input("input_ids", Shape::batched(&[tokens]), DType::Int64);
        let outputs = forward(&mut network.root(), tokens);
        Self { network, outputs }
    }
}

/// A family of networks.
struct Model {
    /// The value of `model_type`.
    name: &'static str,
    /// What the names of its classes start with.
    class: &'static str,
    /// Heads, the usual one first.
    heads: &'static [Head],
    build: fn(&Config<'_>, Head) -> Result<Built>,
}

const BERT: &[Head] = &[
    Head::MaskedLm,
    Head::CausalLm,
    Head::PreTraining,
    Head::SequenceClassification,
    Head::TokenClassification,
    Head::QuestionAnswering,
    Head::Base,
];
const ROBERTA: &[Head] = &[
    Head::MaskedLm,
    Head::CausalLm,
    Head::SequenceClassification,
    Head::TokenClassification,
    Head::QuestionAnswering,
    Head::Base,
];
const ALBERT: &[Head] = &[
    Head::MaskedLm,
    Head::PreTraining,
    Head::SequenceClassification,
    Head::TokenClassification,
    Head::QuestionAnswering,
    Head::Base,
];
const DISTILBERT: &[Head] =
    &[Head::MaskedLm, Head::SequenceClassification, Head::TokenClassification, Head::QuestionAnswering, Head::Base];
const DECODER: &[Head] = &[Head::CausalLm, Head::SequenceClassification, Head::TokenClassification, Head::Base];
const OPT: &[Head] = &[Head::CausalLm, Head::SequenceClassification, Head::QuestionAnswering, Head::Base];
const NEOX: &[Head] =
    &[Head::CausalLm, Head::SequenceClassification, Head::TokenClassification, Head::QuestionAnswering, Head::Base];
const T5: &[Head] = &[Head::ConditionalGeneration, Head::Encoder, Head::Base];

const fn model(
    name: &'static str,
    class: &'static str,
    heads: &'static [Head],
    build: fn(&Config<'_>, Head) -> Result<Built>,
) -> Model {
    Model { name, class, heads, build }
}

const MODELS: [Model; 21] = [
    model("albert", "Albert", ALBERT, albert::build),
    model("bert", "Bert", BERT, bert::bert),
    model("camembert", "Camembert", ROBERTA, bert::head_first_roberta),
    model("distilbert", "DistilBert", DISTILBERT, distilbert::build),
    model("electra", "Electra", BERT, bert::electra),
    model("gemma", "Gemma", DECODER, llama::gemma),
    model("gemma2", "Gemma2", DECODER, llama::gemma2),
    model("gpt2", "GPT2", DECODER, gpt2::build),
    model("gpt_neox", "GPTNeoX", NEOX, gpt_neox::build),
    model("llama", "Llama", DECODER, llama::llama),
    model("mistral", "Mistral", DECODER, llama::mistral),
    model("mt5", "MT5", T5, t5::mt5),
    model("opt", "OPT", OPT, opt::build),
    model("qwen2", "Qwen2", DECODER, llama::qwen2),
    model("qwen3", "Qwen3", DECODER, llama::qwen3),
    model("roberta", "Roberta", ROBERTA, bert::roberta),
    model("t5", "T5", T5, t5::t5),
    model("vit", "ViT", &[Head::ImageClassification, Head::Base], vit::build),
    model("whisper", "Whisper", &[Head::ConditionalGeneration, Head::Base], whisper::build),
    model("xlm-roberta", "XLMRoberta", ROBERTA, bert::head_first_roberta),
    model("xlnet", "XLNet", DECODER, xlnet::build),
];

/// Reads a configuration: a file, or the `config.json` of a folder.
///
/// # Errors
/// Files that cannot be read or are over [`MAX_FILE_BYTES`], and everything [`parse`] refuses.
pub fn read(path: &Path, options: &Options) -> Result<Graph> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    parse(&read_text(&file, MAX_FILE_BYTES)?, &file.display().to_string(), options)
}

/// Builds the network of a configuration; `what` names the text in errors.
///
/// # Errors
/// JSON that does not parse, families and heads that are not built here, fields of a wrong type or out of range,
/// switches that change a network in a way that is not built here, and everything [`Graph::new`] refuses.
pub fn parse(text: &str, what: &str, options: &Options) -> Result<Graph> {
    let fields: Map<String, Json> =
        serde_json::from_str(without_mark(text)).map_err(|error| GraphError::Malformed {
            what: what.into(),
            at: format!("line {}, column {}", error.line(), error.column()),
            expected: "the configuration of a network, a JSON object".into(),
            found: error.to_string(),
        })?;
    let class = class(&fields);
    let model = model_of(&fields, class, what)?;
    let config = Config { what, model_type: model.name, fields: &fields, options };
    build(model, &config, class).map_err(|error| error.in_document(what))
}

fn build(model: &Model, config: &Config<'_>, class: Option<&str>) -> Result<Graph> {
    config.refuse("quantization_config")?;
    let head = head(model, config, class)?;
    let Built { network, outputs } = (model.build)(config, head)?;
    network.finish(format!("{}-{}", model.name, head.name()), &outputs)
}

/// Whether a text looks like such a configuration (and not like another JSON document).
pub fn is_config(text: &str) -> bool {
    let is_object = without_mark(text).trim_start().starts_with('{');
    let has = |field: &str| text.contains(&format!("\"{field}\""));
    is_object && (has("model_type") || has("architectures")) && !has("plimsoll_graph")
}

/// The class that a file names first.
fn class(fields: &Map<String, Json>) -> Option<&str> {
    fields.get("architectures")?.as_array()?.first()?.as_str()
}

/// The family that a file names; the oldest files name a class only.
fn model_of(fields: &Map<String, Json>, class: Option<&str>, what: &str) -> Result<&'static Model> {
    let model_type = fields.get("model_type").and_then(Json::as_str);
    let found = match (model_type, class) {
        (Some(name), _) => MODELS.iter().find(|model| model.name == name),
        (None, Some(class)) => {
            let matching = MODELS.iter().filter(|model| class.starts_with(model.class));
            matching.max_by_key(|model| model.class.len())
        }
        (None, None) => None,
    };
    found.ok_or_else(|| {
        let nested = ["text_config", "vision_config", "audio_config", "encoder", "decoder"];
        let parts: Vec<&str> =
            nested.into_iter().filter(|part| fields.get(*part).is_some_and(Json::is_object)).collect();
        let name = model_type.or(class).unwrap_or("none");
        let name: String = name.chars().take(60).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(", made of {}", parts.join(" and ")) };
        GraphError::Malformed {
            what: what.into(),
            at: "`model_type`".into(),
            expected: format!(
                "one of {}; any other network can be captured with `python -m plimsoll_gpu.capture hf:PATH`",
                MODELS.each_ref().map(|model| model.name).join(", ")
            ),
            found: format!("`{name}`{parts}"),
        }
    })
}

/// The head that is asked for, or that the file names, or the family's usual one.
fn head(model: &Model, config: &Config<'_>, class: Option<&str>) -> Result<Head> {
    let asked = config.options.head.map(|head| (head, head.name()));
    let named = class.map(|class| (Head::of_class(class), class));
    let (head, found) = match (asked, named) {
        (Some((head, name)), _) => (Some(head), name),
        (None, Some((head, class))) => (head, class),
        (None, None) => (Some(model.heads[0]), ""),
    };
    head.filter(|head| model.heads.contains(head)).ok_or_else(|| GraphError::OutOfRange {
        what: format!("head of {}", model.name),
        expected: format!("one of {}", model.heads.iter().map(|head| head.name()).collect::<Vec<_>>().join(", ")),
        found: found.into(),
    })
}
