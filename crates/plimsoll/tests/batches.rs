//! `plimsoll fit-batch` and `plimsoll compare` as scripts and people meet them.

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
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Standard error of a command that must fail with this exit code and say nothing on standard output.
fn bad(code: i32, arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty() && !error.contains("panicked"), "{error}");
    error
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(&[arguments, &["--json"]].concat())).expect("one JSON value")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn the_largest_batch_fits_and_the_next_does_not() {
    let found = json(&["fit-batch", GRAPH, "--gpu", "t4", "--precision", "amp"]);
    let (batch, capacity) = (found["batch_size"].as_u64().expect("a batch"), number(&found["gpu"]["memory_mib"]));
    assert!(number(&found["peak_memory_mib"]) <= number(&found["upper_bound_mib"]));
    assert!(number(&found["upper_bound_mib"]) <= capacity);
    assert!(number(&found["next"]["upper_bound_mib"]) > capacity && found["next"]["fits"] == false);
    assert_eq!((found["next"]["batch_size"].as_u64(), found["limited_by"].as_str()), (Some(batch + 1), Some("memory")));
    assert!(found["tried"].as_array().expect("a list").len() < 50);
    // It is the estimate of that very batch.
    let batch = batch.to_string();
    let estimate = json(&["estimate", GRAPH, "--batch", &batch, "--gpu", "t4", "--precision", "amp"]);
    assert_eq!(estimate["peak_memory_mib"], found["peak_memory_mib"]);
    let words = good(&["fit-batch", GRAPH, "--gpu", "t4", "--precision", "amp"]);
    assert!(words.contains(&format!("largest batch {batch}")), "{words}");
}

#[test]
fn less_confidence_more_memory_and_narrower_numbers_mean_larger_batches() {
    let batch = |more: &[&str]| json(&[&["fit-batch", GRAPH], more].concat())["batch_size"].as_u64().expect("a batch");
    let plain = batch(&["--gpu", "t4"]);
    assert!(batch(&["--gpu", "t4", "--confidence", "0.5"]) > plain);
    assert!(batch(&["--gpu", "a100-40"]) > plain);
    assert!(batch(&["--gpu", "t4", "--precision", "amp"]) > plain);
    let multiple = batch(&["--gpu", "t4", "--multiple-of", "8"]);
    assert!(multiple % 8 == 0 && (plain / 2..=plain + 8).contains(&multiple), "{multiple} {plain}");
}

#[test]
fn the_search_ends_where_it_is_told_to() {
    let found = json(&["fit-batch", GRAPH, "--gpu", "t4", "--max", "21", "--multiple-of", "4"]);
    assert_eq!((found["batch_size"].as_u64(), found["limited_by"].as_str()), (Some(20), Some("max")));
    assert!(found["next"].is_null());
    assert!(good(&["fit-batch", GRAPH, "--gpu", "t4", "--max", "3"]).contains("--max 3"));
}

#[test]
fn what_fits_nowhere_is_an_error_and_not_a_zero() {
    let error = bad(1, &["fit-batch", "data/graphs/gpt2-xl.json", "--gpu", "t4"]);
    assert!(error.contains("batch of 1") && error.contains("t4") && error.contains("hint: "), "{error}");
    assert!(bad(1, &["fit-batch", GRAPH, "--gpu", "rtx-3091"]).contains("rtx-3090"));
    assert!(bad(1, &["fit-batch", GRAPH, "--gpu", "t4", "--trainable", "head"]).contains("head"));
    assert!(bad(2, &["fit-batch", GRAPH, "--gpu", "t4", "--max", "7", "--multiple-of", "8"]).contains("--max"));
    for wrong in [&["--confidence", "1.0"][..], &["--confidence", "nan"], &["--max", "0"], &["--multiple-of", "-8"]] {
        bad(2, &[&["fit-batch", GRAPH, "--gpu", "t4"], wrong].concat());
    }
    bad(2, &["fit-batch", GRAPH]);
}

#[test]
fn gpus_are_compared_until_nothing_fits() {
    let answer = json(&["compare", GRAPH, "--gpus", "t4,A100-40GB,t4"]);
    let gpus = answer["gpus"].as_array().expect("a list");
    assert_eq!(gpus.iter().map(|gpu| gpu["name"].as_str()).collect::<Vec<_>>(), [Some("t4"), Some("a100-40")]);
    let batches: Vec<u64> =
        answer["batch_sizes"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!(batches.iter().enumerate().all(|(power, batch)| *batch == 1 << power), "{batches:?}");
    let last: Vec<bool> = gpus
        .iter()
        .map(|gpu| gpu["loads"].as_array().and_then(|loads| loads.last()).expect("a load")["fits"] == true)
        .collect();
    assert_eq!(last, [false, false]);
    let largest = |gpu: &Value| gpu["largest_batch_size"].as_u64().expect("something fits");
    assert!(largest(&gpus[1]) > largest(&gpus[0]));
    for gpu in gpus {
        for load in gpu["loads"].as_array().expect("a list") {
            let share = number(&load["peak_memory_mib"]) / number(&gpu["memory_mib"]);
            assert!((share - number(&load["share"])).abs() < 1e-9);
            assert_eq!(load["fits"].as_bool(), Some(share <= 1.0));
        }
    }
    let one = json(&["estimate", GRAPH, "--batch", "8", "--gpu", "a100-40"]);
    let ratio = number(&one["peak_memory_mib"]) / number(&gpus[1]["loads"][3]["peak_memory_mib"]);
    assert!((ratio - 1.0).abs() < 1e-4, "company changes no estimate: {ratio}");
}

#[test]
fn a_table_has_a_row_a_gpu_and_a_plot_is_one_file() {
    let words = good(&["compare", GRAPH, "--gpus", "t4,rtx-4090", "--batches", "64,1,64,512"]);
    let rows: Vec<&str> = words.lines().collect();
    assert!(
        rows[1].contains("512") && rows[2].trim_start().starts_with("t4") && rows[3].contains("rtx-4090"),
        "{words}"
    );
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    for (name, start) in [("load.html", "<!DOCTYPE html>"), ("load.svg", "<svg ")] {
        let output = plimsoll(&["compare", GRAPH, "--gpus", "t4,rtx-4090", "--batches", "1,64", "--plot", &path(name)]);
        assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains(name));
        let text = std::fs::read_to_string(path(name)).expect("written");
        assert!(text.starts_with(start) && text.contains("rtx-4090") && !text.contains("NaN"));
    }
    assert!(good(&["compare", GRAPH, "--gpus", "all", "--batches", "1"]).lines().count() > 50);
    assert!(bad(1, &["compare", GRAPH, "--gpus", "t4", "--plot", &path("load.png")]).contains(".html or .svg"));
    assert!(bad(1, &["compare", GRAPH, "--gpus", "t4,t5"]).contains("t5"));
    bad(2, &["compare", GRAPH, "--gpus", "t4", "--batches", "0"]);
    bad(2, &["compare", GRAPH]);
}
