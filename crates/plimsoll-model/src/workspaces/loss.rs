//! The loss: likelihood of the exact forms, and the error to be expected.

use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;
use plimsoll_simulate::workspace::{FORM_COUNT, OUTPUT_COUNT};

use super::batch::Targets;

/// Weight of the expected error beside the likelihood.
const COST_WEIGHT: f64 = 0.5;
/// Weight of the largest plan's forms beside those of the plan that runs.
const LARGEST_WEIGHT: f64 = 0.4;

/// Minus the logarithm of the summed probability of all forms that are exact, plus half the expected error, for both
/// heads; weighted mean over rows.
pub(super) fn loss(logits: &Tensor<2>, targets: &Targets) -> Tensor<1> {
    let head = |start: usize, end: usize| {
        let part = |all: &Tensor<2>| all.clone().slice([0..all.dims()[0], start..end]);
        let logarithms = log_softmax(part(logits), 1);
        let exact = log_sum_exp(logarithms.clone() + part(&targets.mask));
        let expected: Tensor<1> = (logarithms.exp() * part(&targets.cost)).sum_dim(1).squeeze_dim(1);
        expected * COST_WEIGHT - exact
    };
    let rows = head(0, FORM_COUNT) + head(FORM_COUNT, OUTPUT_COUNT) * LARGEST_WEIGHT;
    (rows * targets.weight.clone()).mean()
}

/// `ln Σ exp(x)` of each row, without underflow where all are small.
fn log_sum_exp(x: Tensor<2>) -> Tensor<1> {
    let largest = x.clone().detach().max_dim(1);
    ((x - largest.clone()).exp().sum_dim(1).log() + largest).squeeze_dim(1)
}
