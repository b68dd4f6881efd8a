//! `plimsoll explain` as scripts and people meet it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const GRAPH: &str = "data/graphs/resnet50.json";

fn plimsoll(arguments: &[&str]) -> Output {
    let repository: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).current_dir(repository).args(arguments).output().expect("runs")
}

/// Standard output of a command that must succeed.
fn good(arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Standard error of a command that must fail with exit code 1, one error, and nothing on standard output.
fn bad(arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(output.stdout.is_empty() && error.matches("error: ").count() == 1, "{error}");
    error
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(&[&["explain"], arguments, &["--json"]].concat())).expect("one JSON value")
}

#[test]
fn words_say_what_the_peak_is_made_of_and_who_holds_it() {
    let words = good(&["explain", GRAPH, "--batch", "64", "--gpu", "a100-40", "--top", "3"]);
    for text in ["simulated peak", "fits", "most allocated", "optimiser states", "cache", "largest of", "└forward", "█"]
    {
        assert!(words.contains(text), "{text} is missing from\n{words}");
    }
    assert!(words.contains("fc.weight") || words.contains("conv"), "{words}");
}

#[test]
fn parts_in_json_add_up_to_the_peak() {
    let answer = json(&[GRAPH, "--batch", "64", "--gpu", "a100-40", "--top", "4"]);
    for moment in ["allocated_peak", "reserved_peak"] {
        let parts = answer[moment]["parts"].as_object().expect("an object");
        assert_eq!(
            parts.values().filter_map(Value::as_u64).sum::<u64>(),
            answer["peak_bytes"].as_u64().expect("bytes")
        );
        assert!(answer[moment]["moment"]["phase"].is_string() && answer[moment]["moment"]["step"].is_u64());
    }
    let layers = answer["layers"].as_array().expect("a list");
    assert_eq!((layers.len(), answer["weights"].as_array().map(Vec::len)), (4, Some(4)));
    assert!(layers.is_sorted_by_key(|layer| std::cmp::Reverse(layer["bytes"].as_u64())));
    assert_eq!(layers[0]["output"][0], 64);
    assert_eq!((answer["fits"].as_bool(), answer["out_of_memory"].is_null()), (Some(true), true));
}

#[test]
fn a_job_that_does_not_fit_names_the_layer_at_which_it_ends() {
    let arguments = [GRAPH, "--batch", "512", "--gpu", "t4"];
    let answer = json(&arguments);
    assert_eq!(answer["fits"], false);
    assert!(answer["out_of_memory"]["moment"]["layer"].is_string(), "{}", answer["out_of_memory"]);
    let words = good(&[&["explain"], &arguments[..]].concat());
    assert!(words.contains("does not fit") && words.contains("runs out in"), "{words}");
}

#[test]
fn a_plot_is_one_file_of_its_kind() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let explain = |plot: &str| {
        plimsoll(&["explain", GRAPH, "--batch", "8", "--gpu", "a100-40", "--optimizer", "sgd", "--plot", plot])
    };
    for (name, start) in [("step.html", "<!DOCTYPE html>"), ("step.svg", "<svg ")] {
        let output = explain(&path(name));
        assert!(output.status.success());
        // Where the file went is for a person, the answer for whoever reads standard output.
        assert!(String::from_utf8_lossy(&output.stderr).contains(name));
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("resnet50"));
        let text = std::fs::read_to_string(path(name)).expect("written");
        assert!(text.starts_with(start) && text.len() < 1_000_000, "{}", text.len());
        assert!(text.contains("gradients of activations") && !text.contains("NaN"));
    }
    let error = bad(&["explain", GRAPH, "--batch", "8", "--gpu", "t4", "--plot", &path("step.png")]);
    assert!(error.contains("step.png") && error.contains(".html or .svg"), "{error}");
    assert!(!Path::new(&path("step.png")).exists());
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    for (given, missing) in [(["--gpu", "t4"], "--batch"), (["--batch", "1"], "--gpu")] {
        let usage = plimsoll(&[&["explain", GRAPH], &given[..]].concat());
        assert!(usage.status.code() == Some(2) && String::from_utf8_lossy(&usage.stderr).contains(missing));
    }
    assert!(bad(&["explain", "nothing-here.json", "--batch", "1", "--gpu", "t4"]).contains("nothing-here.json"));
    assert_eq!(plimsoll(&["explain", GRAPH, "--top", "none"]).status.code(), Some(2));
}
