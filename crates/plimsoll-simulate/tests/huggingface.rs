//! Networks built from a `config.json` against the same networks captured from transformers.
//!
//! `huggingface/` holds configurations of small networks with their captured graphs; `python -m huggingface_configs`
//! writes it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use plimsoll_graph::huggingface::{self, Options};
use plimsoll_graph::{GpuCatalogue, Graph, Precision, TrainingSetup, Weight, Workload, json};
use plimsoll_simulate::Simulation;
use serde_json::{Value, json};

/// A network twice: built from its configuration, and captured.
struct Pair {
    name: String,
    built: Graph,
    captured: Graph,
}

fn pairs() -> Vec<Pair> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/huggingface");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("fixtures").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            let fixture: Value = serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON");
            let options = Options {
                tokens: fixture["tokens"].as_u64(),
                eager_attention: fixture["eager"].as_bool().unwrap_or_default(),
                ..Options::default()
            };
            let built = huggingface::parse(&fixture["config"].to_string(), &name, &options).expect("a configuration");
            let captured = json::parse(&fixture["graph"].to_string(), &name).expect("a graph");
            Pair { name, built, captured }
        })
        .collect()
}

/// Every node in a line: its module, operator, inputs by the place of their writers, weights and outputs.
fn sketch(graph: &Graph) -> Vec<String> {
    let mut places = HashMap::new();
    for &id in graph.inputs() {
        places.insert(id, graph.tensor(id).name.clone());
    }
    let mut lines = Vec::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        let module = node.name.rsplit_once('.').map_or("", |(module, _)| module);
        let mut line = format!("{module} {:?}", node.op);
        for id in &node.inputs {
            let _ = write!(line, " {}", places[id]);
        }
        for id in &node.weights {
            let _ = write!(line, " {}", graph.weight(*id).name);
        }
        for (part, &id) in node.outputs.iter().enumerate() {
            let tensor = graph.tensor(id);
            let _ = write!(line, " -> {} {:?}", tensor.shape, tensor.dtype);
            places.insert(id, format!("#{index}:{part}"));
        }
        lines.push(line);
    }
    let outputs: Vec<&str> = graph.outputs().iter().map(|id| places[id].as_str()).collect();
    lines.push(format!("outputs {}", outputs.join(" ")));
    lines
}

fn weights(graph: &Graph) -> Vec<String> {
    let line = |weight: &Weight| format!("{} {} {:?} {:?}", weight.name, weight.shape, weight.dtype, weight.kind);
    graph.weights().iter().map(line).collect()
}

/// The first lines that differ, for whoever has to find out why.
fn difference(expected: &[String], found: &[String]) -> Option<String> {
    let length = expected.len().max(found.len());
    let at = (0..length).find(|&index| expected.get(index) != found.get(index))?;
    let mut text = format!("{} and {} lines, the first that differs is {at}\n", expected.len(), found.len());
    for index in at.saturating_sub(2)..(at + 6).min(length) {
        let line = |lines: &[String]| lines.get(index).cloned().unwrap_or_default();
        let _ = writeln!(text, "  {}\n  {}\n", line(expected), line(found));
    }
    Some(text)
}

#[test]
fn built_networks_are_those_of_the_library_operator_by_operator() {
    let mut report = String::new();
    for Pair { name, built, captured } in pairs() {
        let differences =
            [difference(&weights(&captured), &weights(&built)), difference(&sketch(&captured), &sketch(&built))];
        for text in differences.into_iter().flatten() {
            let _ = writeln!(report, "== {name}: {text}");
        }
    }
    assert!(report.is_empty(), "captured above, built below\n{report}");
}

/// A configuration of the hub and its captured graph in `data/graphs`.
fn published() -> Vec<Pair> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bert = |width: u64, layers: u64| {
        json!({
            "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": width,
            "num_hidden_layers": layers, "num_attention_heads": width / 64, "intermediate_size": 4 * width,
        })
    };
    let gpt2 = |width: u64, layers: u64, heads: u64| {
        json!({
            "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": width, "n_layer": layers,
            "n_head": heads,
        })
    };
    let xlnet = |width: u64, layers: u64| {
        json!({
            "architectures": ["XLNetLMHeadModel"], "model_type": "xlnet", "d_model": width, "n_layer": layers,
            "n_head": width / 64, "d_inner": 4 * width,
        })
    };
    [
        ("bert-base", bert(768, 12)),
        ("bert-large", bert(1024, 24)),
        ("gpt2-large", gpt2(1280, 36, 20)),
        ("gpt2-xl", gpt2(1600, 48, 25)),
        ("xlnet-base-cased", xlnet(768, 12)),
        ("xlnet-large-cased", xlnet(1024, 24)),
    ]
    .into_iter()
    .map(|(name, config)| Pair {
        name: name.into(),
        built: huggingface::parse(&config.to_string(), name, &Options::default()).expect("a configuration"),
        captured: json::read(&root.join("data/graphs").join(format!("{name}.json"))).expect("a captured graph"),
    })
    .collect()
}

/// Bytes kept for the backward pass, and the peak as a GPU shows it.
fn memory(graph: &Graph, batch: u64, precision: Precision) -> (u64, f64) {
    let gpu = GpuCatalogue::built_in().find("a100-80").expect("a GPU").clone();
    let setup = TrainingSetup { precision, ..TrainingSetup::new(batch) };
    let simulation = Simulation::of(&Workload::new(graph.clone(), setup, gpu).expect("a workload"));
    (simulation.trace.saved_bytes, simulation.peak_mib())
}

#[test]
fn built_networks_take_the_memory_of_captured_ones() {
    for Pair { name, built, captured } in pairs().into_iter().chain(published()) {
        for (batch, precision) in [(1, Precision::Fp32), (7, Precision::Fp32), (32, Precision::AmpFp16)] {
            let (expected, found) = (memory(&captured, batch, precision), memory(&built, batch, precision));
            assert_eq!(found, expected, "{name} at batch {batch} in {}", precision.name());
        }
    }
}

/// Grouped heads are taken apart in fp32 only, where PyTorch has no fused kernel for them.
#[test]
fn grouped_heads_save_scores_only_in_single_precision() {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000,
    });
    let saved = |half_precision| {
        let options = Options { tokens: Some(512), half_precision, ..Options::default() };
        let graph = huggingface::parse(&config.to_string(), "test", &options).expect("a configuration");
        memory(&graph, 4, Precision::AmpBf16).0
    };
    let scores = 2 * 4 * 8 * 512 * 512 * 2;
    assert!(saved(false) > saved(true) + scores, "{} {}", saved(false), saved(true));
}
