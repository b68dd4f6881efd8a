//! Tests of the whole: features, networks, files, and what no shape may do.

use plimsoll_graph::{GpuCatalogue, Precision};
use proptest::prelude::*;

use super::file::{WorkspaceFileError, decode, encode};
use super::network::{INPUT_COUNT, Network, NetworkWeights, OUTPUT_COUNT, RAMP_COUNT};
use super::*;
use crate::trace::{Convolution, Direction};

/// 3x3 from 64 to 128 channels on 28x28, 32 samples.
fn convolution() -> Convolution {
    Convolution {
        direction: Direction::FilterGradient,
        batch: 32,
        input: [64, 28, 28],
        output: [128, 14, 14],
        kernel: [3, 3],
        stride: 2,
        padding: 1,
        dilation: 1,
        groups: 1,
        element_bytes: 4,
    }
}

fn query(convolution: Convolution) -> WorkspaceQuery {
    WorkspaceQuery {
        convolution,
        class: GpuClass::Ampere,
        format: Format::Tf32,
        is_channels_last: false,
        generation: Generation::New,
    }
}

/// Weights that look random and are the same every time.
fn weights(hidden: usize, seed: u64) -> NetworkWeights {
    let mut state = seed;
    let mut draw = |count: usize| -> Vec<f32> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(|_| next()).collect()
    };
    let shapes = NetworkWeights::shapes(hidden);
    NetworkWeights {
        hidden,
        means: draw(FEATURE_COUNT),
        deviations: draw(FEATURE_COUNT).iter().map(|value| value + 1.0).collect(),
        knots: (0..LOGARITHM_COUNT)
            .flat_map(|index| (0..=RAMP_COUNT).map(move |knot| index as f32 / 8.0 + knot as f32))
            .collect(),
        weights: shapes.map(|[inputs, outputs]| draw(inputs * outputs)),
        biases: shapes.map(|[_, outputs]| draw(outputs)),
    }
}

#[test]
fn features_by_hand() {
    let found = features(&query(convolution()));
    let logarithms = [5.0, 6.0, 7.0, 28_f32.log2(), 28_f32.log2(), 14_f32.log2(), 14_f32.log2(), 9_f32.log2()];
    assert_eq!(found[..8], logarithms);
    // 128 * 576 weights are one by five tiles, 6,272 output pixels 49 by one.
    assert_eq!(found[13], 576_f32.log2());
    assert_eq!(found[15..17], [5_f32.log2(), 49_f32.log2()]);
    assert_eq!(found[18..26], [0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(found[26..38], [1.0; 12]);
    assert_eq!(found[42..48], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(found[48..], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(found, features(&query(convolution())));
}

#[test]
fn the_network_is_what_its_layers_say() {
    let weights = weights(24, 7);
    let features = features(&query(convolution()));
    let mut values = Vec::new();
    NetworkWeights::inputs(&weights.means, &weights.deviations, &weights.knots, &features, &mut values);
    assert_eq!(values.len(), INPUT_COUNT);
    for (layer, [_, outputs]) in NetworkWeights::shapes(24).into_iter().enumerate() {
        let mut sums = weights.biases[layer].clone();
        for (x, row) in values.iter().zip(weights.weights[layer].chunks_exact(outputs)) {
            sums.iter_mut().zip(row).for_each(|(sum, weight)| *sum += x * weight);
        }
        values = if layer < 2 { sums.iter().map(|sum| sum.max(0.0)).collect() } else { sums };
    }
    let found = Network::new(weights).logits(&features);
    let largest = values.iter().zip(found).map(|(expected, found)| (expected - found).abs()).fold(0.0, f32::max);
    assert!(values.len() == OUTPUT_COUNT && largest < 1e-4, "apart by {largest}");
}

#[test]
fn a_file_gives_back_what_was_written() {
    let networks = [weights(8, 1), weights(8, 2), weights(8, 3)];
    let bytes = encode(&networks);
    let read = decode(&bytes).expect("just written");
    assert_eq!(read[1].knots, networks[1].knots);
    assert_eq!(read[2].biases, networks[2].biases);
    let apart = read[0].weights[0].iter().zip(&networks[0].weights[0]).map(|(read, written)| (read - written).abs());
    assert!(apart.fold(0.0, f32::max) < 2.5e-4);
    assert_eq!(encode(&read), bytes);
}

#[test]
fn a_damaged_file_is_told_by_its_damage() {
    let networks = [weights(8, 1), weights(8, 2), weights(8, 3)];
    let bytes = encode(&networks);
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        decode(&bytes)
    };
    assert_eq!(decode(b"not a model"), Err(WorkspaceFileError::Foreign));
    assert_eq!(changed(8, 9), Err(WorkspaceFileError::Version { found: 9 }));
    assert_eq!(changed(12, 0), Err(WorkspaceFileError::Hidden { found: 0 }));
    assert_eq!(changed(5_000, bytes[5_000] ^ 1), Err(WorkspaceFileError::Checksum));
    let short = decode(&bytes[..bytes.len() - 1]).expect_err("one byte is missing");
    assert_eq!(short, WorkspaceFileError::Length { expected: bytes.len(), found: bytes.len() - 1 });
    assert_eq!(decode(&bytes[..10]), Err(WorkspaceFileError::Length { expected: 24, found: 10 }));
    let endless =
        [NetworkWeights { deviations: vec![0.0; FEATURE_COUNT], ..weights(8, 1) }, weights(8, 2), weights(8, 3)];
    assert_eq!(decode(&encode(&endless)), Err(WorkspaceFileError::Number));
}

#[test]
fn what_does_not_go_to_cudnn_takes_nothing() {
    let model = WorkspaceModel::built_in();
    let gpu = |name: &str| GpuCatalogue::built_in().find(name).expect("in the catalogue").clone();
    let ask =
        |convolution: &Convolution, gpu: &Gpu| model.largest_bytes(convolution, gpu, Precision::Fp32, Generation::New);
    let a100 = gpu("a100-40");
    assert!(ask(&convolution(), &a100) > 0);
    assert_eq!(ask(&Convolution { groups: 64, ..convolution() }, &a100), 0);
    assert_eq!(ask(&convolution(), &Gpu { compute_capability: 6.1, ..a100.clone() }), 0);
    assert_eq!(ask(&convolution(), &Gpu { compute_capability: 0.0, ..a100 }), 0);
}

#[test]
fn odds_add_up_to_one() {
    for odds in WorkspaceModel::built_in().odds(&query(convolution())) {
        assert!((odds.sizes.iter().map(|(_, probability)| probability).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(odds.above(u64::MAX), 0.0);
    }
}

fn any_extent() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0_u64..600, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

proptest! {
    #[test]
    fn no_shape_is_too_absurd(
        extents in prop::array::uniform13(any_extent()),
        direction in prop::sample::select(vec![Direction::Forward, Direction::DataGradient, Direction::FilterGradient]),
        class in prop::sample::select(GpuClass::ALL.to_vec()),
        element_bytes in prop::sample::select(vec![0_u64, 2, 4, 8]),
    ) {
        let [batch, c, h, w, k, p, q, r, s, stride, padding, dilation, groups] = extents;
        let convolution = Convolution {
            direction, batch, input: [c, h, w], output: [k, p, q], kernel: [r, s], stride, padding, dilation, groups, element_bytes,
        };
        let asked = WorkspaceQuery { class, ..query(convolution) };
        prop_assert!(features(&asked).iter().all(|value| value.is_finite()));
        let answer = WorkspaceModel::built_in().answer(&asked);
        prop_assert!(answer.first <= answer.largest);
        let above = WorkspaceModel::built_in().odds(&asked)[1].above(answer.largest);
        prop_assert!((0.0..=1.0 + 1e-9).contains(&above));
    }
}
