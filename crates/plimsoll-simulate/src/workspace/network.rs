//! The forward pass of the fitted network, written out so that it needs nothing but arithmetic.
//!
//! Heuristics have sharp thresholds, which a small smooth network draws badly. So each logarithm also enters as a chain
//! of ramps between knots, which makes its way through the first layer piecewise linear: here one table row a piece.

use super::features::{FEATURE_COUNT, LOGARITHM_COUNT};
use super::forms::{FORM_COUNT, LARGEST_FORM_COUNT};

/// Ramps of each logarithm.
pub const RAMP_COUNT: usize = 16;
/// Inputs of the first layer: features, then the ramps of each logarithm.
pub const INPUT_COUNT: usize = FEATURE_COUNT + LOGARITHM_COUNT * RAMP_COUNT;
/// Outputs of the last layer: forms of the plan that runs, then of the largest plan.
pub const OUTPUT_COUNT: usize = FORM_COUNT + LARGEST_FORM_COUNT;
/// Largest width of the hidden layers.
pub const MAX_HIDDEN: usize = 128;

/// A network as it was fitted, of one direction. Matrices are `[inputs, outputs]`, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkWeights {
    /// Width of the hidden layers.
    pub hidden: usize,
    /// Training means of the features.
    pub means: Vec<f32>,
    /// Training standard deviations of the features.
    pub deviations: Vec<f32>,
    /// Ends of the ramps, rising, [`RAMP_COUNT`] + 1 for each logarithm.
    pub knots: Vec<f32>,
    /// Weights of the three layers.
    pub weights: [Vec<f32>; 3],
    /// Biases of the three layers.
    pub biases: [Vec<f32>; 3],
}

impl NetworkWeights {
    /// Inputs and outputs of the three layers.
    pub const fn shapes(hidden: usize) -> [[usize; 2]; 3] {
        [[INPUT_COUNT, hidden], [hidden, hidden], [hidden, OUTPUT_COUNT]]
    }

    /// Numbers of the ramps' ends.
    pub const KNOT_COUNT: usize = LOGARITHM_COUNT * (RAMP_COUNT + 1);

    /// What the first layer reads: features less their mean over their deviation, and ramps from -0.5 to 0.5.
    pub fn inputs(means: &[f32], deviations: &[f32], knots: &[f32], features: &[f32], inputs: &mut Vec<f32>) {
        inputs.extend(features.iter().zip(means).zip(deviations).map(|((x, mean), deviation)| (x - mean) / deviation));
        for (x, ends) in features.iter().zip(knots.chunks_exact(RAMP_COUNT + 1)) {
            inputs.extend(ends.windows(2).map(|ends| ((x - ends[0]) / (ends[1] - ends[0])).clamp(0.0, 1.0) - 0.5));
        }
    }
}

/// One linear piece of the way from a logarithm to the first layer.
#[derive(Debug, Clone)]
struct Piece {
    start: f32,
    at_start: Vec<f32>,
    slope: Vec<f32>,
}

/// A network of one direction, ready to run.
#[derive(Debug, Clone)]
pub(super) struct Network {
    hidden: usize,
    /// First layer's bias, with what the features' means and the ramps' offsets add.
    bias: Vec<f32>,
    /// Pieces of each logarithm, `RAMP_COUNT` + 2 each: below, between and above the knots.
    pieces: Vec<Piece>,
    knots: Vec<f32>,
    /// First layer's weights of each flag.
    flags: Vec<f32>,
    layers: [Layer; 2],
}

/// A matrix, row by row of inputs, and a bias.
#[derive(Debug, Clone)]
struct Layer {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    fn run(&self, input: &[f32], output: &mut [f32]) {
        output.copy_from_slice(&self.bias);
        for (&x, row) in input.iter().zip(self.weights.chunks_exact(output.len())) {
            add(output, row, x);
        }
    }
}

/// `sum += factor * row`
fn add(sum: &mut [f32], row: &[f32], factor: f32) {
    for (sum, weight) in sum.iter_mut().zip(row) {
        *sum += weight * factor;
    }
}

impl Network {
    pub(super) fn new(network: NetworkWeights) -> Self {
        let hidden = network.hidden;
        let [first, second, third] = network.weights;
        let [mut bias, second_bias, third_bias] = network.biases;
        let row = |index: usize| &first[index * hidden..(index + 1) * hidden];
        let mut flags = Vec::with_capacity((FEATURE_COUNT - LOGARITHM_COUNT) * hidden);
        for index in 0..FEATURE_COUNT {
            let (mean, deviation) = (network.means[index], network.deviations[index]);
            add(&mut bias, row(index), -mean / deviation);
            if index >= LOGARITHM_COUNT {
                flags.extend(row(index).iter().map(|weight| weight / deviation));
            }
        }
        let mut pieces = Vec::with_capacity(LOGARITHM_COUNT * (RAMP_COUNT + 2));
        for (index, knots) in network.knots.chunks_exact(RAMP_COUNT + 1).enumerate() {
            let linear: Vec<f32> = row(index).iter().map(|weight| weight / network.deviations[index]).collect();
            let ramp = |number: usize| row(FEATURE_COUNT + index * RAMP_COUNT + number);
            // At the first knot every ramp is at its lower end.
            let mut at: Vec<f32> = linear.iter().map(|weight| weight * knots[0]).collect();
            (0..RAMP_COUNT).for_each(|number| add(&mut at, ramp(number), -0.5));
            pieces.push(Piece { start: knots[0], at_start: at.clone(), slope: linear.clone() });
            for number in 0..RAMP_COUNT {
                let width = knots[number + 1] - knots[number];
                let mut slope = linear.clone();
                add(&mut slope, ramp(number), 1.0 / width);
                pieces.push(Piece { start: knots[number], at_start: at.clone(), slope });
                add(&mut at, ramp(number), 1.0);
                add(&mut at, &linear, width);
            }
            pieces.push(Piece { start: knots[RAMP_COUNT], at_start: at, slope: linear });
        }
        let layers = [(second, second_bias), (third, third_bias)].map(|(weights, bias)| Layer { weights, bias });
        Self { hidden, bias, pieces, knots: network.knots, flags, layers }
    }

    /// Logits of the forms.
    pub(super) fn logits(&self, features: &[f32; FEATURE_COUNT]) -> [f32; OUTPUT_COUNT] {
        let (mut first, mut second) = ([0.0; MAX_HIDDEN], [0.0; MAX_HIDDEN]);
        let (first, second) = (&mut first[..self.hidden], &mut second[..self.hidden]);
        first.copy_from_slice(&self.bias);
        for (index, &x) in features[..LOGARITHM_COUNT].iter().enumerate() {
            let knots = &self.knots[index * (RAMP_COUNT + 1)..(index + 1) * (RAMP_COUNT + 1)];
            let piece = &self.pieces[index * (RAMP_COUNT + 2) + knots.iter().filter(|&&knot| knot <= x).count()];
            let along = x - piece.start;
            for ((sum, start), slope) in first.iter_mut().zip(&piece.at_start).zip(&piece.slope) {
                *sum += start + slope * along;
            }
        }
        for (flag, row) in features[LOGARITHM_COUNT..].iter().zip(self.flags.chunks_exact(self.hidden)) {
            // Most flags are zero.
            if *flag != 0.0 {
                add(first, row, *flag);
            }
        }
        rectify(first);
        self.layers[0].run(first, second);
        rectify(second);
        let mut logits = [0.0; OUTPUT_COUNT];
        self.layers[1].run(second, &mut logits);
        logits
    }
}

/// Negative numbers become zero.
fn rectify(values: &mut [f32]) {
    for value in values {
        *value = value.max(0.0);
    }
}
