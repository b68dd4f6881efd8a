//! Networks built from a `config.json` against the same networks captured from transformers.
//!
//! `huggingface/` holds configurations of small networks with their captured graphs; `python -m huggingface_configs`
//! writes it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use plimsoll_graph::huggingface::{self, Options};
use plimsoll_graph::{GpuCatalogue, Graph, Optimizer, Precision, TrainingSetup, Workload, json};
use plimsoll_simulate::Simulation;
use serde_json::Value;

/// A network twice: built from its configuration, and captured.
struct Pair {
    name: String,
    built: Graph,
    captured: Graph,
}

fn pairs() -> Vec<Pair> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/huggingface");
    let mut files: Vec<_> = fs::read_dir(folder).expect("fixtures").map(|entry| entry.expect("an entry").path()).collect();
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
    let line = |weight: &plimsoll_graph::Weight| format!("{} {} {:?} {:?}", weight.name, weight.shape, weight.dtype, weight.kind);
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
        let differences = [
            difference(&weights(&captured), &weights(&built)),
            difference(&sketch(&captured), &sketch(&built)),
        ];
        for text in differences.into_iter().flatten() {
            let _ = writeln!(report, "== {name}: {text}");
        }
    }
    assert!(report.is_empty(), "captured above, built below\n{report}");
}
