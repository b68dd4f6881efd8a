//! The table of docs/architecture.md, held by `cargo metadata`.

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Crates from top to bottom; each may import those above it.
const ORDER: [&str; 8] = [
    "plimsoll-graph",
    "plimsoll-simulate",
    "plimsoll-features",
    "plimsoll-dataset",
    "plimsoll-model",
    "plimsoll-evaluation",
    "plimsoll-export",
    "plimsoll",
];

/// Heavy dependencies and the crates that may have them.
const HEAVY: [(&str, &[&str]); 5] = [
    ("polars", &["plimsoll-dataset", "plimsoll-evaluation"]),
    // Export reads weights out of Burn's modules, in one file.
    ("burn", &["plimsoll-model", "plimsoll-export"]),
    ("plotters", &["plimsoll-evaluation"]),
    ("prost", &["plimsoll-export"]),
    ("clap", &["plimsoll"]),
];

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let metadata =
        MetadataCommand::new().no_deps().other_options(vec!["--offline".into()]).exec().expect("cargo metadata");
    let normal = |package: &cargo_metadata::Package| {
        let normal = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
        normal.map(|dependency| dependency.name.clone()).collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), normal(package))).collect()
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
