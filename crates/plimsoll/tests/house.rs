//! The table of docs/architecture.md, held by `cargo metadata`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Crates from top to bottom; each may import those above it.
const ORDER: [&str; 10] = [
    "plimsoll-graph",
    "plimsoll-zoo",
    "plimsoll-onnx",
    "plimsoll-simulate",
    "plimsoll-features",
    "plimsoll-dataset",
    "plimsoll-model",
    "plimsoll-evaluation",
    "plimsoll-export",
    "plimsoll",
];

/// Heavy dependencies and the crates that may have them.
const HEAVY: [(&str, &[&str]); 7] = [
    ("zstd", &["plimsoll-zoo"]),
    ("polars", &["plimsoll-dataset", "plimsoll-evaluation"]),
    // Export reads weights out of Burn's modules, in one file.
    ("burn", &["plimsoll-model", "plimsoll-export"]),
    ("forust-ml", &["plimsoll-model"]),
    ("plotters", &["plimsoll-evaluation"]),
    // One has the messages and reads them; the other writes them.
    ("prost", &["plimsoll-onnx", "plimsoll-export"]),
    ("clap", &["plimsoll"]),
];

/// Names of the normal dependencies of every crate of the workspace.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = std::process::Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("cargo metadata runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    let normal = |package: &Value| {
        let all = package["dependencies"].as_array().expect("a list");
        all.iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| text(&dependency["name"]))
            .collect()
    };
    let packages = metadata["packages"].as_array().expect("a list");
    packages.iter().map(|package| (text(&package["name"]), normal(package))).collect()
}

#[test]
fn a_crate_imports_only_crates_above_it() {
    let dependencies = dependencies();
    let names: Vec<&str> = dependencies.keys().map(String::as_str).collect();
    let mut expected = ORDER.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected, "a crate is missing from the table");
    for (row, name) in ORDER.iter().enumerate() {
        for dependency in dependencies[*name].iter().filter(|dependency| dependency.starts_with("plimsoll")) {
            assert!(ORDER[..row].contains(&dependency.as_str()), "{name} must not import {dependency}");
        }
    }
}

#[test]
fn a_heavy_dependency_lives_in_its_crate() {
    for (name, dependencies) in dependencies() {
        for (heavy, homes) in HEAVY {
            assert!(
                !dependencies.iter().any(|dependency| dependency == heavy) || homes.contains(&name.as_str()),
                "{name} must not depend on {heavy}"
            );
        }
    }
}
