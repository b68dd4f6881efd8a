//! What stands in the files of an export.

mod support;

use std::path::Path;

use plimsoll_export::onnx::proto::tensor_shape_proto::dimension;
use plimsoll_export::onnx::proto::{ModelProto, ValueInfoProto, type_proto};
use plimsoll_export::{
    ExportError, ExportSettings, MANIFEST_FILE, MODEL_FILE, Manifest, PARITY_FILE, Parity, ParityCases, export,
    write_parity_cases,
};
use plimsoll_features::FeatureSchema;
use plimsoll_graph::GpuCatalogue;
use plimsoll_model::OutputSettings;
use prost::Message;
use support::{BINS, CALIBRATED, MLP, TRANSFORMER, fit, samples};

fn decode(folder: &Path) -> ModelProto {
    let bytes = std::fs::read(folder.join(MODEL_FILE)).expect("a model");
    ModelProto::decode(bytes.as_slice()).expect("an ONNX file")
}

/// Name, element type and shape, the latter as text.
fn describe(value: &ValueInfoProto) -> (String, i32, String) {
    let Some(type_proto::Value::TensorType(tensor)) = value.r#type.as_ref().and_then(|kind| kind.value.as_ref()) else {
        panic!("`{}` is no tensor", value.name());
    };
    let dims =
        tensor.shape.as_ref().expect("a shape").dim.iter().map(|dim| match dim.value.as_ref().expect("an extent") {
            dimension::Value::DimValue(extent) => extent.to_string(),
            dimension::Value::DimParam(name) => name.clone(),
        });
    (value.name().into(), tensor.elem_type.expect("a type"), dims.collect::<Vec<_>>().join(" x "))
}

#[test]
fn the_model_declares_what_it_reads_and_gives() {
    let folder = tempfile::tempdir().expect("a folder");
    let learned = fit(TRANSFORMER, OutputSettings::Regression, &samples(CALIBRATED, 1));
    let manifest = export(&learned, folder.path(), &ExportSettings::default()).expect("exports");
    let model = decode(folder.path());
    assert_eq!((model.ir_version, model.opset_import[0].version), (Some(8), Some(17)));
    assert_eq!((model.producer_name(), model.opset_import.len()), ("plimsoll", 1));
    let graph = model.graph.as_ref().expect("a graph");
    let schema = FeatureSchema::current();
    let text = |name: &str, kind: i32, shape: &str| (name.to_owned(), kind, shape.to_owned());
    let expected = [
        text("summary", 1, &format!("batch x {}", schema.summary.len())),
        text("gpu", 1, &format!("batch x {}", schema.gpu.len())),
        text("simulated_mib", 1, "batch x 3"),
        text("label", 7, "batch"),
        text("stack", 1, "batch x 9"),
        text("tokens", 7, "batch x layers"),
        text("layers", 1, &format!("batch x layers x {}", schema.layer.len())),
        text("mask", 9, "batch x layers"),
    ];
    assert_eq!(graph.input.iter().map(describe).collect::<Vec<_>>(), expected);
    let expected = [
        text("peak_memory_mib", 1, "batch x 1"),
        text("scale", 1, "batch x 1"),
        text("utilisation", 1, "batch x 6"),
        text("out_of_distribution", 1, "batch x 1"),
        text("peak_memory_quantiles_mib", 1, "batch x 4"),
    ];
    assert_eq!(graph.output.iter().map(describe).collect::<Vec<_>>(), expected);
    let names = |values: &[ValueInfoProto]| values.iter().map(|value| value.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(manifest.inputs.iter().map(|port| port.name.clone()).collect::<Vec<_>>(), names(&graph.input));
    assert_eq!(manifest.outputs.iter().map(|port| port.name.clone()).collect::<Vec<_>>(), names(&graph.output));
}

#[test]
fn every_value_is_made_once_and_before_it_is_read() {
    for (network, output) in [(MLP, OutputSettings::Regression), (TRANSFORMER, BINS)] {
        let folder = tempfile::tempdir().expect("a folder");
        export(&fit(network, output, &samples(24, 1)), folder.path(), &ExportSettings::default()).expect("exports");
        let graph = decode(folder.path()).graph.expect("a graph");
        let inputs = graph.input.iter().map(|value| value.name().to_owned());
        let weights = graph.initializer.iter().map(|tensor| tensor.name().to_owned());
        let mut made = std::collections::BTreeSet::new();
        for name in inputs.chain(weights) {
            assert!(made.insert(name.clone()), "`{name}` is declared twice");
        }
        for node in &graph.node {
            assert!(node.input.iter().all(|name| made.contains(name)), "{node:?}");
            for name in &node.output {
                assert!(made.insert(name.clone()), "`{name}` is made twice");
            }
        }
        assert!(graph.output.iter().all(|value| made.contains(value.name())));
    }
}

#[test]
fn metadata_alone_is_enough_to_use_the_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let learned = fit(MLP, BINS, &samples(24, 1));
    let metrics = serde_json::json!({ "median_ape_pct": 4.5 });
    let settings = ExportSettings { metrics: metrics.clone(), ..ExportSettings::default() };
    export(&learned, folder.path(), &settings).expect("exports");
    let model = decode(folder.path());
    let value = |name: &str| {
        let entry = model.metadata_props.iter().find(|entry| entry.key() == format!("plimsoll.{name}"));
        entry.unwrap_or_else(|| panic!("no `{name}`")).value().to_owned()
    };
    let json = |name: &str| serde_json::from_str::<serde_json::Value>(&value(name)).expect("JSON");
    let schema = FeatureSchema::current();
    assert_eq!(value("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(value("schema_version"), schema.version.to_string());
    assert_eq!(value("label"), "nvidia_smi_device");
    assert_eq!(value("data_hash"), "0123456789abcdef");
    assert_eq!(json("summary_features"), serde_json::json!(schema.summary));
    assert_eq!(json("gpu_features"), serde_json::json!(schema.gpu));
    assert_eq!(json("layer_features"), serde_json::json!(schema.layer));
    assert_eq!(json("tokens"), serde_json::json!(schema.tokens));
    assert_eq!(json("training_gpus"), serde_json::json!(["a100-40", "h100-80", "rtx-3090"]));
    assert_eq!(json("metrics"), metrics);
    assert_eq!(json("settings")["output"]["count"], 20);
    assert_eq!(json("output_units")["peak_memory_mib"], "MiB");
    assert_eq!(json("output_units")["bin_probabilities"], "probability");
    let columns = json("utilisation_columns");
    let columns = columns.as_array().expect("columns");
    let found: Vec<_> = columns.iter().map(|column| column["target"].as_str().expect("a name")).collect();
    assert_eq!(found, ["gputl_pct", "gract", "smact", "smocc", "fp32a", "drama"]);
    assert_eq!((columns[0]["factor"].as_f64(), columns[1]["factor"].as_f64()), (Some(100.0), Some(1.0)));
}

#[test]
fn the_manifest_survives_its_file_and_knows_its_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("deep/run");
    let learned = fit(MLP, OutputSettings::Regression, &samples(24, 1));
    let parity = Parity { runtime: "tract 0.23".into(), rows: 60, max_relative_difference: 1.5e-6 };
    let settings = ExportSettings { parity: Some(parity), ..ExportSettings::default() };
    let manifest = export(&learned, &folder, &settings).expect("exports");
    assert_eq!(Manifest::read(&folder).expect("own file"), manifest);
    manifest.check_model(&folder).expect("own model");
    assert_eq!(&manifest.data, &learned.description().data);

    let catalogue = GpuCatalogue::built_in();
    assert_eq!(manifest.gpus.catalogue.len(), catalogue.gpus().len());
    for sample in samples(6, 9) {
        let known = manifest.gpus.catalogue.iter().find(|known| known.name == sample.gpu).expect("a known GPU");
        assert_eq!(known.features, sample.features.gpu, "{}", sample.gpu);
    }

    let path = folder.join(MODEL_FILE);
    let mut bytes = std::fs::read(&path).expect("a model");
    *bytes.last_mut().expect("content") ^= 1;
    std::fs::write(&path, bytes).expect("writes");
    assert!(matches!(manifest.check_model(&folder), Err(ExportError::Content { .. })));

    let path = folder.join(MANIFEST_FILE);
    let text = std::fs::read_to_string(&path).expect("a manifest");
    let version = format!("\"plimsoll_manifest\": {}", Manifest::VERSION);
    for (broken, hint) in [
        (text.replace(&version, "\"plimsoll_manifest\": 9"), "version 9"),
        (text.replace(&format!("{version},"), ""), "no `plimsoll_manifest`"),
        ("[".to_owned(), "EOF"),
    ] {
        std::fs::write(&path, broken).expect("writes");
        let error = Manifest::read(&folder).expect_err("broken").to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn the_same_network_gives_the_same_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let learned = fit(TRANSFORMER, OutputSettings::Regression, &samples(24, 1));
    let read = || [MODEL_FILE, MANIFEST_FILE].map(|file| std::fs::read(folder.path().join(file)).expect("a file"));
    export(&learned, folder.path(), &ExportSettings::default()).expect("exports");
    let first = read();
    export(&learned, folder.path(), &ExportSettings::default()).expect("exports");
    assert_eq!(read(), first);
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 2, "no temporary files stay");
}

/// `PLIMSOLL_PARITY_FOLDER` keeps the folders, for a check in another runtime.
#[test]
fn parity_cases_survive_their_file() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder =
        std::env::var_os("PLIMSOLL_PARITY_FOLDER").map_or_else(|| temporary.path().into(), std::path::PathBuf::from);
    for (name, network, output) in [
        ("mlp", MLP, OutputSettings::Regression),
        ("mlp-bins", MLP, BINS),
        ("transformer", TRANSFORMER, OutputSettings::Regression),
        ("transformer-bins", TRANSFORMER, BINS),
    ] {
        let learned = fit(network, output, &samples(CALIBRATED, 1));
        let folder = folder.join(name);
        export(&learned, &folder, &ExportSettings::default()).expect("exports");
        let unseen = samples(60, 2);
        let unseen: Vec<_> = unseen.iter().collect();
        let path = folder.join(PARITY_FILE);
        write_parity_cases(&learned, &unseen, &path).expect("writes");
        let text = std::fs::read(&path).expect("a file");
        let read: ParityCases = serde_json::from_slice(&text).expect("own file");
        assert_eq!(read, ParityCases::new(&learned, &unseen).expect("sound samples"));
        assert_eq!(read.cases.iter().map(|case| case.inputs[0].shape[0]).sum::<usize>(), 60);
    }
}

#[test]
fn samples_that_cannot_be_inputs_are_refused() {
    let rows = samples(24, 1);
    let learned = fit(MLP, OutputSettings::Regression, &rows);
    assert!(matches!(ParityCases::new(&learned, &[]), Err(ExportError::Inputs { .. })));
    let mut broken = rows[0].clone();
    broken.features.summary.pop();
    let error = ParityCases::new(&learned, &[&broken]).expect_err("short").to_string();
    assert!(error.contains("summary features of row 0"), "{error}");
    let mut broken = rows[0].clone();
    broken.features.analytic.reserved_mib = f32::NAN;
    assert!(ParityCases::new(&learned, &[&broken]).is_err());
}
