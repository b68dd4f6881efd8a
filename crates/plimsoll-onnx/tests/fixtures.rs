//! Real exports of both of PyTorch's exporters against PyTorch's own capture of the same networks.

use std::path::{Path, PathBuf};

use plimsoll_graph::{Activation, GpuCatalogue, Graph, Op, TrainingSetup, Workload, json};
use plimsoll_simulate::Simulation;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Names of the exports of a network.
fn exports(network: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("fixtures");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with(network) && path.extension().is_some_and(|extension| extension == "onnx")
    });
    paths.sort();
    assert!(paths.len() > 4, "{network}: {paths:?}");
    paths
}

fn saved_bytes(graph: Graph) -> u64 {
    let gpu = GpuCatalogue::built_in().find("a100-40").expect("a GPU").clone();
    let workload = Workload::new(graph, TrainingSetup::new(32), gpu).expect("a workload");
    Simulation::of(&workload).trace.saved_bytes
}

fn count(graph: &Graph, wanted: impl Fn(&Op) -> bool) -> usize {
    graph.nodes().iter().filter(|node| wanted(&node.op)).count()
}

#[test]
fn every_export_saves_what_pytorch_saves() {
    for network in ["convolutions", "tokens"] {
        let captured = json::read(&folder().join(format!("{network}.json"))).expect("a graph");
        for path in exports(network) {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let graph = plimsoll_onnx::read(&path).unwrap_or_else(|error| panic!("{name}: {error}")).graph;
            // An export in evaluation mode has lost its dropout; the newer exporter may drop biases that are zero.
            let lost_parameters = captured.parameter_count() - graph.parameter_count();
            assert!(lost_parameters <= if name.contains("dynamo") { 40 } else { 0 }, "{name}: {lost_parameters}");
            if name.ends_with("train") {
                let (found, wanted) = (saved_bytes(graph) as f64, saved_bytes(captured.clone()) as f64);
                assert!((found / wanted - 1.0).abs() < 0.02, "{name}: {found} of {wanted}");
            }
        }
    }
}

#[test]
fn layers_are_recognised_whatever_the_exporter() {
    for path in exports("convolutions") {
        let name = path.display().to_string();
        let graph = plimsoll_onnx::read(&path).expect("a model").graph;
        assert_eq!(count(&graph, |op| *op == Op::BatchNorm), 2, "{name}");
        assert_eq!(count(&graph, |op| matches!(op, Op::GroupNorm { groups: 2 })), 1, "{name}");
        for function in [Activation::Relu, Activation::HardSwish, Activation::Silu, Activation::Mish] {
            let found = count(&graph, |op| matches!(op, Op::Activation { function: found, .. } if *found == function));
            assert_eq!(found, 1, "{name}: {function:?}");
        }
        let dropout = usize::from(name.contains("train"));
        assert_eq!(
            count(&graph, |op| matches!(op, Op::Dropout { p, .. } if (p - 0.2).abs() < 1e-6)),
            dropout,
            "{name}"
        );
        assert!(graph.unknown_operators().is_empty(), "{name}");
    }
    for path in exports("tokens") {
        let name = path.display().to_string();
        let graph = plimsoll_onnx::read(&path).expect("a model").graph;
        assert_eq!(count(&graph, |op| matches!(op, Op::Attention { heads: 2, .. })), 1, "{name}");
        assert_eq!(count(&graph, |op| *op == Op::LayerNorm), 2, "{name}");
        assert_eq!(count(&graph, |op| *op == Op::Linear), 5, "{name}");
        let dropped = usize::from(name.contains("train"));
        let depth = count(&graph, |op| matches!(op, Op::StochasticDepth { p } if (p - 0.1).abs() < 1e-6));
        assert_eq!(depth, dropped, "{name}");
    }
}

#[test]
fn names_are_module_paths() {
    for path in exports("tokens") {
        let graph = plimsoll_onnx::read(&path).expect("a model").graph;
        let names: Vec<&str> = graph.nodes().iter().map(|node| node.name.as_str()).collect();
        for wanted in ["embed", "block.norm1", "block.attn.qkv", "block.fc1", "head"] {
            assert!(names.contains(&wanted), "{}: {wanted} in {names:?}", path.display());
        }
        assert!(graph.weights().iter().any(|weight| weight.name == "block.attn.qkv.weight"), "{}", path.display());
    }
}

#[test]
fn folded_norms_are_put_back_and_said() {
    let read = plimsoll_onnx::read(&folder().join("convolutions-script-17-eval.onnx")).expect("a model");
    assert!(read.warnings.iter().any(|warning| warning.starts_with("2 batch normalisations")), "{:?}", read.warnings);
    let captured = json::read(&folder().join("convolutions.json")).expect("a graph");
    assert_eq!(read.graph.parameter_count(), captured.parameter_count());
}

#[test]
fn a_fixture_is_told_from_other_files() {
    for network in ["convolutions", "tokens"] {
        for path in exports(network) {
            assert!(plimsoll_onnx::is_onnx(&std::fs::read(&path).expect("bytes")), "{}", path.display());
        }
        let text = std::fs::read(folder().join(format!("{network}.json"))).expect("bytes");
        assert!(!plimsoll_onnx::is_onnx(&text));
    }
    for other in [&b""[..], b"\x08", b"\x89PNG\r\n\x1a\n", b"PK\x03\x04", b"Layer (type)", b"\x08\x00\x12"] {
        assert!(!plimsoll_onnx::is_onnx(other), "{other:?}");
    }
}
