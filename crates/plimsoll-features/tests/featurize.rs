//! The promises of `featurize`: finite numbers, matching names, no dependence on anything but the workload.

use plimsoll_features::{FeatureSchema, MAX_LAYERS, featurize, featurize_simulated};
use plimsoll_graph::{Activation, DType, Family, GpuCatalogue, Graph, GraphBuilder, Shape, TrainingSetup, Workload};
use plimsoll_simulate::Simulation;

fn mlp(depth: u64) -> Graph {
    let mut builder = GraphBuilder::new("mlp", Family::Mlp);
    let mut value = builder.input("x", Shape::batched(&[64]), DType::Float32);
    for index in 0..depth {
        value = builder.linear(&format!("linear{index}"), value, 64 + index % 1000, true).expect("fits");
        value = builder.activation(&format!("act{index}"), value, Activation::Gelu, false);
    }
    builder.finish(&[value]).expect("valid")
}

fn workload(depth: u64, batch_size: u64) -> Workload {
    let gpu = GpuCatalogue::built_in().find("a100-40").expect("known").clone();
    Workload::new(mlp(depth), TrainingSetup::new(batch_size), gpu).expect("valid")
}

#[test]
fn every_number_has_a_name_and_is_finite() {
    let schema = FeatureSchema::current();
    for (depth, batch_size) in [(0, 1), (1, 1), (30, 64), (2_500, 1 << 20)] {
        let features = featurize(&workload(depth, batch_size));
        assert_eq!(features.summary.len(), schema.summary.len());
        assert_eq!(features.gpu.len(), schema.gpu.len());
        assert_eq!(features.layers.len(), features.tokens.len() * schema.layer.len());
        assert!(features.tokens.len() <= MAX_LAYERS);
        let numbers = features.layers.iter().chain(&features.summary).chain(&features.gpu);
        assert!(numbers.copied().all(f32::is_finite));
    }
}

#[test]
fn names_are_unique() {
    let schema = FeatureSchema::current();
    for names in [&schema.tokens, &schema.layer, &schema.summary, &schema.gpu] {
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}

#[test]
fn the_same_workload_gives_the_same_features_and_a_larger_batch_larger_ones() {
    assert_eq!(featurize(&workload(5, 32)), featurize(&workload(5, 32)));
    assert!(featurize(&workload(5, 64)).analytic.live_peak_mib > featurize(&workload(5, 32)).analytic.live_peak_mib);
}

#[test]
fn torchinfo_would_print_the_same_total() {
    // Parameters and twice the outputs of layers, as torchinfo 1.8 counts them for torchvision's networks.
    for (name, batch, bytes) in [
        ("resnet50", 8, 102_228_128.0 + 1_422_653_952.0 + 4_816_896.0),
        ("vgg16", 4, 553_430_176.0 + 433_814_784.0 + 2_408_448.0),
    ] {
        let path = format!("{}/../../data/graphs/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("in the repository");
        let graph = plimsoll_graph::json::parse(&text, name).expect("a graph");
        let gpu = GpuCatalogue::built_in().find("a100-40").expect("known").clone();
        let workload = Workload::new(graph, TrainingSetup::new(batch), gpu).expect("valid");
        let mib = f64::from(featurize(&workload).analytic.torchinfo_mib);
        let expected = bytes / f64::from(1 << 20);
        assert!((mib / expected - 1.0).abs() < 1e-3, "{name}: {mib}, expected {expected}");
    }
}

#[test]
fn convolutions_without_workspace_show_in_the_share_of_single_precision() {
    let mut builder = GraphBuilder::new("cnn", Family::Cnn);
    let mut value = builder.input("x", Shape::batched(&[3, 64, 64]), DType::Float32);
    for index in 0..3 {
        value = builder.conv2d(&format!("conv{index}"), value, 256, 3, 1, 1, true).expect("fits");
    }
    let gpu = GpuCatalogue::built_in().find("a100-40").expect("known").clone();
    let graph = builder.finish(&[value]).expect("valid");
    let workload = Workload::new(graph, TrainingSetup::new(32), gpu).expect("valid");
    let roomy = Simulation::of(&workload);
    let starved = Simulation { starved_flops: 1e12, ..roomy.clone() };
    let names = FeatureSchema::current().summary;
    let place = names.iter().position(|name| name == "fed_fp32").expect("a feature");
    let share = |simulation| featurize_simulated(&workload, simulation).summary[place];
    assert!(share(&starved) > 2.0 * share(&roomy), "{} {}", share(&starved), share(&roomy));
}
