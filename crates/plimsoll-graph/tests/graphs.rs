//! The captured graphs in `data/graphs` are read, and are the models that they say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plimsoll_graph::{Family, Graph, json};

/// Graph, family and number of parameters, with the heads that `data/README.md` names.
const MODELS: [(&str, Family, u64); 12] = [
    ("vgg16", Family::Cnn, 138_357_544),
    ("resnet50", Family::Cnn, 25_557_032),
    ("mobilenet_v2", Family::Cnn, 3_504_872),
    ("efficientnet_b0", Family::Cnn, 5_288_548),
    ("inception_v3", Family::Cnn, 23_834_568),
    ("xception", Family::Cnn, 22_855_952),
    ("bert-base", Family::Transformer, 109_514_298),
    ("bert-large", Family::Transformer, 335_174_458),
    ("xlnet-base-cased", Family::Transformer, 116_750_336),
    ("xlnet-large-cased", Family::Transformer, 360_300_800),
    ("gpt2-large", Family::Transformer, 774_030_080),
    ("gpt2-xl", Family::Transformer, 1_557_611_200),
];

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data")
}

fn graph(name: &str) -> Graph {
    json::read(&data().join("graphs").join(format!("{name}.json"))).expect("a captured graph is valid")
}

#[test]
fn every_captured_graph_has_the_parameters_of_its_model() {
    for (name, family, parameters) in MODELS {
        let graph = graph(name);
        assert_eq!(graph.name(), name);
        assert_eq!(graph.family(), family, "{name}");
        assert_eq!(graph.parameter_count(), parameters, "{name}");
    }
}

#[test]
fn a_captured_graph_takes_and_gives_batches() {
    for (name, ..) in MODELS {
        let graph = graph(name);
        for id in graph.inputs().iter().chain(graph.outputs()) {
            let tensor = graph.tensor(*id);
            assert!(tensor.shape.scales_with_batch(), "{name}: `{}` is {}", tensor.name, tensor.shape);
        }
        assert_eq!(graph.outputs().len(), 1, "{name}");
    }
}

#[test]
fn only_xlnet_has_unknown_operators_and_they_are_its_sinusoids() {
    for (name, ..) in MODELS {
        let expected: &[&str] = if name.starts_with("xlnet") { &["reciprocal", "sin", "cos"] } else { &[] };
        assert_eq!(graph(name).unknown_operators(), expected, "{name}");
    }
}

#[test]
fn a_captured_graph_survives_a_round_trip() {
    for (name, ..) in MODELS {
        let graph = graph(name);
        assert_eq!(json::parse(&json::write(&graph), name).expect("own text parses"), graph, "{name}");
    }
}

#[test]
fn files_published_figures_and_this_list_name_the_same_models() {
    let expected: BTreeSet<String> = MODELS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let files: BTreeSet<String> = std::fs::read_dir(data().join("graphs"))
        .expect("the directory exists")
        .map(|entry| entry.expect("the directory can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, expected);
    let table = std::fs::read_to_string(data().join("published_real_models.csv")).expect("the table exists");
    let stem = |line: &str| line.strip_prefix("graphs/")?.split(".json,").next().map(str::to_owned);
    let rows: BTreeSet<String> = table.lines().skip(1).filter_map(stem).collect();
    assert_eq!(rows, expected);
}
