//! Exported networks give the same estimates in another runtime.

#![expect(clippy::print_stdout, reason = "how near the runtimes come is worth seeing")]

mod support;
#[path = "support/tract.rs"]
mod tract;

use plimsoll_dataset::Sample;
use plimsoll_export::onnx::proto::ModelProto;
use plimsoll_export::{Elements, ParityCases, TOLERANCE, encode, interface};
use plimsoll_model::{BinEstimate, Estimator, Learned, OutputSettings, Strengths};
use prost::Message;
use support::{BINS, CALIBRATED, MLP, TRANSFORMER, fit, fit_pair, samples};
use tract::{Tract, numbers};

fn bytes(learned: &Learned) -> Vec<u8> {
    encode(learned, &serde_json::Value::Null).expect("finite weights")
}

/// Noise from a fixed stream between -1 and 1.
fn noise(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
}

/// Samples whose every number is off, as no workload has them.
fn perturbed(samples: &[Sample]) -> Vec<Sample> {
    let mut state = 1;
    let mut samples = samples.to_vec();
    for features in samples.iter_mut().map(|sample| &mut sample.features) {
        for numbers in [&mut features.layers, &mut features.summary, &mut features.gpu] {
            for number in numbers.iter_mut() {
                *number += 2.0 * noise(&mut state);
            }
        }
        features.analytic.reserved_mib *= 2.0 + noise(&mut state);
    }
    samples
}

fn check(learned: &Learned) {
    let tract = Tract::new(&bytes(learned));
    assert!(learned.description().calibration.is_some(), "bounds are compared too");
    let unseen = samples(60, 2);
    for (what, samples) in [("generated", &unseen), ("perturbed", &perturbed(&unseen))] {
        let cases = ParityCases::new(learned, &samples.iter().collect::<Vec<_>>()).expect("sound samples");
        let sizes: std::collections::BTreeSet<_> = cases.cases.iter().map(|case| &case.inputs[0].shape[0]).collect();
        assert!(sizes.len() > 3, "several batch sizes: {sizes:?}");
        let difference = cases.cases.iter().map(|case| tract.difference(case)).fold(0.0, f64::max);
        println!("{} {what}: largest relative difference {difference:.1e}", learned.name());
        assert!(difference <= TOLERANCE, "{what}: {difference}");
    }
}

#[test]
fn an_mlp_gives_the_same_estimates() {
    check(&fit(MLP, OutputSettings::Regression, &samples(CALIBRATED, 1)));
}

#[test]
fn a_transformer_gives_the_same_estimates() {
    check(&fit(TRANSFORMER, OutputSettings::Regression, &samples(CALIBRATED, 1)));
}

#[test]
fn an_mlp_classifier_gives_the_same_estimates() {
    check(&fit(MLP, BINS, &samples(CALIBRATED, 1)));
}

#[test]
fn the_upper_edges_of_bins_are_exported_as_such() {
    let output = OutputSettings::Bins { width_mib: 2048.0, count: 20, estimate: BinEstimate::Upper };
    let learned = fit(MLP, output, &samples(CALIBRATED, 1));
    check(&learned);
    let estimates = learned.estimate(&samples(4, 6).iter().collect::<Vec<_>>());
    assert!(estimates.iter().all(|row| row.peak_memory_mib.expect("estimated").round() % 2048.0 == 0.0));
}

#[test]
fn a_transformer_classifier_gives_the_same_estimates() {
    check(&fit(TRANSFORMER, BINS, &samples(CALIBRATED, 1)));
}

#[test]
fn networks_side_by_side_are_averaged_alike() {
    for network in [MLP, TRANSFORMER] {
        let learned = fit_pair(network, &samples(CALIBRATED, 1));
        assert_eq!(learned.network().members.len(), 2);
        check(&learned);
    }
}

#[test]
fn what_stands_in_padding_never_reaches_an_estimate() {
    let learned = fit(TRANSFORMER, OutputSettings::Regression, &samples(40, 1));
    let tract = Tract::new(&bytes(&learned));
    let cases = ParityCases::new(&learned, &samples(30, 3).iter().collect::<Vec<_>>()).expect("sound samples");
    let mut padded = 0;
    for case in &cases.cases {
        let clean = tract.run(&case.inputs);
        let mut soiled = case.clone();
        let [.., tokens, layers, mask] = &mut soiled.inputs[..] else { panic!("seven inputs") };
        let (Elements::Wholes(tokens), Elements::Numbers(layers), Elements::Flags(mask)) =
            (&mut tokens.data, &mut layers.data, &mask.data)
        else {
            panic!("tokens, numbers and flags");
        };
        let width = layers.len() / mask.len();
        for index in (0..mask.len()).filter(|&index| !mask[index]) {
            padded += 1;
            tokens[index] = 1 << 40;
            layers[index * width..(index + 1) * width].fill(if index % 2 == 0 { f32::NAN } else { f32::INFINITY });
        }
        assert_eq!(tract.run(&soiled.inputs), clean, "to the last bit");
    }
    assert!(padded > 100, "{padded}");
}

#[test]
fn a_row_without_layers_is_estimated_too() {
    let learned = fit(TRANSFORMER, OutputSettings::Regression, &samples(40, 1));
    // The second row shares its batch with the third.
    let mut rows = samples(3, 4);
    rows[1].features.tokens.clear();
    rows[1].features.layers.clear();
    let cases = ParityCases::new(&learned, &rows.iter().collect::<Vec<_>>()).expect("sound samples");
    let tract = Tract::new(&bytes(&learned));
    for case in &cases.cases {
        assert!(tract.difference(case) <= TOLERANCE);
    }
}

#[test]
fn what_was_never_recorded_is_zero_and_says_so() {
    let mut rows = samples(40, 1);
    for sample in &mut rows {
        sample.utilisation[3] = None;
    }
    let learned = fit(MLP, OutputSettings::Regression, &rows);
    let ports = interface::outputs(learned.description());
    let fitted: Vec<_> = ports[2].columns.iter().map(|column| column.is_fitted).collect();
    assert_eq!(fitted, [true, true, true, false, true, true]);
    let cases = ParityCases::new(&learned, &rows.iter().collect::<Vec<_>>()).expect("sound samples");
    let tract = Tract::new(&bytes(&learned));
    for case in &cases.cases {
        assert!(tract.difference(case) <= TOLERANCE);
        let found = &tract.run(&case.inputs)[2];
        assert!(found.chunks(6).all(|row| row[3] == 0.0 && row[2] > 0.0), "{found:?}");
    }
}

/// Every weight is wired: changing any of them changes an output. Keys' biases are the exception: they move all
/// scores of a query alike, which softmax does not see.
#[test]
fn any_damaged_weight_is_noticed() {
    let regression = OutputSettings::Regression;
    for (network, output, rows) in
        [(MLP, BINS, 40), (TRANSFORMER, regression.clone(), 40), (MLP, regression, CALIBRATED)]
    {
        let learned = fit(network, output, &samples(rows, 1));
        let model = ModelProto::decode(bytes(&learned).as_slice()).expect("own bytes");
        let cases = ParityCases::new(&learned, &samples(9, 5).iter().collect::<Vec<_>>()).expect("sound samples");
        let graph = model.graph.as_ref().expect("a graph");
        let mut weights = 0;
        for (index, initializer) in graph.initializer.iter().enumerate() {
            let name = initializer.name().to_owned();
            let is_weight = !name.starts_with("constant.") && !name.ends_with(".key.bias");
            // Where a correction counts whole, it does not matter what is corrected.
            let is_idle =
                name.starts_with("heads.memory.context") && learned.description().strength == Strengths::default();
            if !is_weight || is_idle {
                continue;
            }
            let mut damaged = model.clone();
            let raw = &mut damaged.graph.as_mut().expect("a graph").initializer[index].raw_data;
            let numbers = raw.as_mut().expect("raw data").chunks_exact_mut(4).enumerate();
            for (place, bytes) in numbers {
                let number = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
                bytes.copy_from_slice(&(1.5 * number + 0.3 * (place % 3) as f32 + 0.1).to_le_bytes());
            }
            let tract = Tract::new(&damaged.encode_to_vec());
            let difference = cases.cases.iter().map(|case| tract.difference(case)).fold(0.0, f64::max);
            assert!(difference > TOLERANCE, "`{name}` changes nothing: {difference}");
            weights += 1;
        }
        assert!(weights > 20, "{weights}");
    }
}

#[test]
fn outputs_lie_where_their_units_say() {
    let learned = fit(MLP, BINS, &samples(40, 1));
    let cases = ParityCases::new(&learned, &samples(16, 6).iter().collect::<Vec<_>>()).expect("sound samples");
    let ports = interface::outputs(learned.description());
    let tract = Tract::new(&bytes(&learned));
    for case in &cases.cases {
        let outputs = tract.run(&case.inputs);
        let rows = case.inputs[0].shape[0];
        for (port, found) in ports.iter().zip(&outputs) {
            assert_eq!(found.len(), interface::shape(port, rows, 0).iter().product::<usize>(), "`{}`", port.name);
            match port.unit.as_str() {
                "MiB" => assert!(found.iter().all(|mib| (mib - 1024.0) % 2048.0 == 0.0), "middles of bins: {found:?}"),
                _ => assert!(found.iter().all(|ratio| (0.0..=1.0).contains(ratio)), "`{}`: {found:?}", port.name),
            }
        }
        let sums = numbers(&case.outputs[1]).chunks(20).map(|row| row.iter().sum::<f32>());
        assert!(sums.into_iter().all(|sum| (sum - 1.0).abs() < 1e-5));
    }
}
