//! `plimsoll zoo`, and models of the zoo wherever a graph is wanted.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn plimsoll(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).current_dir(repository()).args(arguments).output().expect("runs")
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

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON value")
}

/// A folder as capturing leaves it, of two graphs of the repository.
fn captured() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (library, name) in [("timm", "mobilenet_v2"), ("hf", "bert-base")] {
        let graph = repository().join("data/graphs").join(format!("{name}.json"));
        std::fs::create_dir_all(folder.path().join(library)).expect("created");
        std::fs::copy(graph, folder.path().join(library).join(format!("{name}.json"))).expect("copied");
    }
    folder
}

#[test]
fn the_zoo_is_listed_and_searched() {
    let all = json(&good(&["zoo", "--json"]));
    let count = all["models"].as_array().expect("a list").len();
    assert!(count > 400, "{count}");
    let found = json(&good(&["zoo", "resnet", "50", "--library", "torchvision", "--json"]));
    let models = found["models"].as_array().expect("a list");
    let resnet50 = models.iter().find(|model| model["name"] == "resnet50").expect("there");
    assert_eq!(resnet50["parameters"], 25_557_032);
    assert_eq!(resnet50["inputs"][0][3], 224);
    assert!(models.len() < count / 4 && models.iter().all(|model| model["library"] == "torchvision"));
    let words = good(&["zoo", "resnet50", "--family", "cnn"]);
    assert!(words.contains("timm/resnet50") && words.contains("25.56") && words.contains("3x224x224"), "{words}");
    let error = bad(1, &["zoo", "resnet5O"]);
    assert!(error.contains("`resnet50`") && error.contains("hint: "), "{error}");
    assert!(bad(1, &["zoo", "resnet50", "--family", "recurrent"]).contains("no model"));
    assert!(bad(2, &["zoo", "--family", "cnns"]).contains("transformer"));
    assert!(bad(2, &["zoo", "--library", "keras"]).contains("torchvision"));
}

#[test]
fn a_name_of_the_zoo_is_a_graph() {
    let setup = ["--batch", "64", "--gpu", "a100-40", "--json"];
    let ask = |graph: &str| json(&good(&[&["estimate", graph], &setup[..]].concat()));
    let (named, from_file) = (ask("zoo:torchvision/resnet50"), ask("data/graphs/resnet50.json"));
    assert_eq!(named["totals"]["parameters"], from_file["totals"]["parameters"]);
    let ratio = named["peak_memory_mib"].as_f64().expect("MiB") / from_file["peak_memory_mib"].as_f64().expect("MiB");
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
    // A name alone means timm's.
    assert_eq!(ask("zoo:ResNet-50")["peak_memory_mib"], ask("zoo:timm/resnet50")["peak_memory_mib"]);
    assert!(good(&["explain", "zoo:resnet50", "--batch", "8", "--gpu", "t4"]).contains("layer4"));
}

#[test]
fn a_name_that_is_not_there_is_met_with_what_is() {
    let setup = ["--batch", "1", "--gpu", "t4"];
    let ask = |code: i32, more: &[&str]| bad(code, &[&["estimate"], more, &setup[..]].concat());
    let error = ask(1, &["zoo:resnt50"]);
    assert!(error.contains("`resnet50`") && error.contains("plimsoll zoo"), "{error}");
    assert!(ask(1, &["zoo:keras/resnet50"]).contains("keras/resnet50"));
    assert!(ask(1, &["zoo:"]).contains("no model"));
    // A name where a file was expected.
    assert!(ask(1, &["resnet50"]).contains("zoo:resnet50"));
    assert!(ask(2, &["data/graphs/vgg16.json", "--zoo-file", "zoo.bin"]).contains("zoo:NAME"));
    assert!(ask(1, &["zoo:vgg16", "--zoo-file", "data/graphs/vgg16.json"]).contains("not a usable zoo"));
    assert!(ask(1, &["zoo:vgg16", "--zoo-file", "no-such.bin"]).contains("no-such.bin"));
}

#[test]
fn a_zoo_of_ones_own_is_packed_and_used() {
    let folder = captured();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (captured, own) = (path(""), path("own.bin"));
    let packed = json(&good(&["zoo", "--pack", &captured, "--out", &own, "--json"]));
    assert_eq!(packed["models"], 2);
    assert_eq!(packed["bytes"], std::fs::metadata(&own).expect("written").len());
    assert_eq!(json(&good(&["zoo", "--zoo-file", &own, "--json"]))["models"].as_array().map(Vec::len), Some(2));
    let words = good(&["estimate", "zoo:hf/bert-base", "--zoo-file", &own, "--batch", "4", "--gpu", "t4"]);
    assert!(words.contains("peak memory"), "{words}");
    // The same graphs give the same file, and one that fails leaves the old one.
    let before = std::fs::read(&own).expect("written");
    good(&["zoo", "--pack", &captured, "--out", &own]);
    assert!(std::fs::read(&own).expect("written") == before);
    std::fs::write(folder.path().join("timm/broken.json"), "{}").expect("written");
    assert!(bad(1, &["zoo", "--pack", &captured, "--out", &own]).contains("broken.json"));
    assert!(std::fs::read(&own).expect("still there") == before);
    assert!(bad(1, &["zoo", "--pack", &path("timm"), "--out", &own]).contains("torchvision"));
    bad(2, &["zoo", "--pack", &captured]);
    bad(2, &["zoo", "resnet", "--pack", &captured, "--out", &own]);
}
