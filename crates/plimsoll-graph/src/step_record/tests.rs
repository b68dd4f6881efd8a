use crate::error::Result;
use crate::graph::Graph;
use crate::json;

/// A linear layer and its step: the batch and targets arrive, logits, a loss, a gradient of the weight.
const GRAPH: &str = r#"{
    "plimsoll_graph": 1, "name": "small", "inputs": [{"name": "x", "shape": ["batch", 4]}],
    "weights": [{"name": "w", "shape": [2, 4]}, {"name": "state", "shape": [2], "kind": "buffer"}],
    "nodes": [
        {"name": "later", "op": "copy", "inputs": ["y"], "outputs": [{"name": "z", "shape": ["batch", 2]}]},
        {"name": "layer", "op": "linear", "inputs": ["x"], "weights": ["w"],
         "outputs": [{"name": "y", "shape": ["batch", 2]}]}
    ],
    "outputs": ["z"],
    "steps": [{"precision": "fp32", "loss": "cross_entropy",
        "sizes": [[0, 16], [0, 8], [4, 0], [32, 0]],
        "events": [[0, 0], [0, 1], [7, 0], [7, 1], [8],
                   [2, 1], [0, 1], [5], [2, 0], [0, 1], [9], [7, 3], [0, 2], [7, 4],
                   [2], [10], [0, 2], [1, 2], [2, 1], [6, 2, 3], [0, 3], [1, 5], [3, 6, 0]]}]
}"#;

fn read(text: &str) -> Result<Graph> {
    json::parse(text, "test")
}

#[test]
fn a_record_survives_a_round_trip_and_follows_its_nodes() {
    let graph = read(GRAPH).expect("valid");
    assert_eq!(graph.nodes()[0].name, "layer", "put in execution order");
    let again = read(&json::write(&graph)).expect("own text");
    assert_eq!(again.step_records(), graph.step_records());
    assert_eq!(again.nodes()[0].name, "layer");
    assert_eq!(graph.step_records()[0].sizes[0].at(8), Some(128));
}

#[test]
fn what_is_wrong_with_a_record_is_said_with_its_place() {
    for (from, to, words) in [
        ("[1, 2], [2, 1]", "[1, 2], [1, 2], [2, 1]", &["event 18", "buffer that is alive", "2, which is freed"][..]),
        ("[1, 2], [2, 1]", "[1, 99], [2, 1]", &["event 17", "99, which is not allocated yet"]),
        ("[1, 2], [2, 1]", "[1, 0], [2, 1]", &["event 17", "held by the loop"]),
        ("[1, 2], [2, 1]", "[2, 1]", &["end", "buffer 2"]),
        ("[1, 5], [3, 6, 0]", "[1, 5], [3, 6, 0], [1, 6]", &["event 23", "is a gradient"]),
        ("[3, 6, 0]", "[3, 6, 1]", &["event 22", "`state`"]),
        ("[3, 6, 0]", "[3, 6, 7]", &["event 22", "weight 7"]),
        ("[0, 3], [1, 5]", "[0, 4], [1, 5]", &["event 20", "a size below 4"]),
        ("[6, 2, 3]", "[6, 2, 4]", &["event 19", "a size below 4"]),
        ("[2, 1], [0, 1], [5]", "[2, 2], [0, 1], [5]", &["event 5", "a node below 2"]),
        ("[5]", "[4, 0]", &["event 7", "a convolution at work", "linear"]),
        ("[5]", "[4, 3]", &["event 7", "[4, 3]"]),
        ("[5]", "[12]", &["event 7", "[12]"]),
        ("[5]", "[11, 0, 0, 0]", &["event 7", "an allocation after it"]),
        ("[5]", "[11, 0, 0, 9]", &["event 7", "a size below 4"]),
        ("[5]", "[5, 1, 1, 1, 1]", &["line"]),
        ("[5]", "[-1]", &["line"]),
        ("[9], ", "", &["event 14", "the loss", "the backward pass"]),
        ("[8],", "[8], [8],", &["event 5", "the loss", "`zero_grad`"]),
        ("[0, 16]", "[18446744073709551615, 16]", &["overflow"]),
        ("\"fp32\"", "\"fp31\"", &["fp31"]),
        ("\"events\"", "\"exact\": 1, \"events\"", &["line"]),
    ] {
        let text = GRAPH.replace(from, to);
        assert_ne!(text, GRAPH, "{from} must occur");
        let error = read(&text).expect_err(to).to_string();
        for word in words {
            assert!(error.contains(word), "{to}: {word}: {error}");
        }
    }
}

#[test]
fn two_records_of_a_precision_are_refused() {
    let start = GRAPH.find("{\"precision\"").expect("a record");
    let end = GRAPH.rfind("]\n}").expect("an end");
    let text = format!("{}, {}]}}", &GRAPH[..end], &GRAPH[start..end]);
    let error = read(&text).expect_err("twice").to_string();
    assert!(error.contains("two of fp32"), "{error}");
}
