//! The losses.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};
use plimsoll_dataset::Bins;

use crate::batch::Targets;
use crate::bounds::LEVELS;
use crate::network::Outputs;
use crate::settings::{OutputSettings, TrainingSettings};

/// The joint loss of a batch: memory by likelihood, utilisation by cross-entropy, unknown targets masked.
pub fn loss(outputs: &Outputs, targets: &Targets, output: &OutputSettings, settings: &TrainingSettings) -> Tensor<1> {
    let memory = match (output.bins(), &outputs.log_memory, &outputs.log_scale, &outputs.bin_logits) {
        (Some(bins), _, _, Some(logits)) => bin_cross_entropy(logits.clone(), targets, bins),
        (None, Some(log_memory), Some(log_scale), _) => {
            let likelihood = negative_log_likelihood(log_memory.clone(), log_scale.clone(), targets);
            likelihood + absolute_error(log_memory.clone(), targets) * settings.absolute_weight
        }
        _ => unreachable!("the network was built for this output"),
    };
    let utilisation = utilisation_cross_entropy(outputs.utilisation_logits.clone(), targets);
    let sum = memory * settings.memory_weight + utilisation * settings.utilisation_weight;
    match quantile_loss(outputs, targets) {
        Some(quantiles) if settings.quantile_weight > 0.0 => sum + quantiles * settings.quantile_weight,
        _ => sum,
    }
}

/// Pinball loss of the upper quantiles around the estimate, which it does not move. `None` where the network was not
/// asked for them.
fn quantile_loss(outputs: &Outputs, targets: &Targets) -> Option<Tensor<1>> {
    let quantiles = outputs.log_quantiles.clone()?;
    let (log_memory, log_scale) = (outputs.log_memory.clone()?.detach(), outputs.log_scale.clone()?.detach());
    let above = targets.log_memory.clone() - log_memory;
    let known = targets.shows_spread.clone().sum().clamp_min(1.0);
    let each = quantile_error(&quantiles, &above, &targets.is_measured, log_scale.exp());
    Some((each * targets.shows_spread.clone()).sum() / known)
}

/// Pinball loss of the upper quantiles of each row: `log_quantiles` is `[b, 3]`, the logarithm of quantile over estimate,
/// `above` that of truth over estimate, `[b]`.
///
/// Each row's loss is in units of its own scale: jobs that are simulated to a ten-thousandth count as much as those
/// that miss by a tenth. A run out of memory lies somewhere above its limit: it counts where a quantile lies below that
/// limit, and nowhere else.
pub(crate) fn quantile_error(
    log_quantiles: &Tensor<2>,
    above: &Tensor<1>,
    is_measured: &Tensor<1>,
    scale: Tensor<1>,
) -> Tensor<1> {
    let each = LEVELS[1..].iter().enumerate().map(|(index, level)| {
        let gap = above.clone() - log_quantiles.clone().narrow(1, index, 1).squeeze_dim(1);
        let too_low = gap.clone().clamp_min(0.0) * *level;
        let too_high = (-gap).clamp_min(0.0) * (1.0 - level) * is_measured.clone();
        too_low + too_high
    });
    let sum = each.reduce(|sum, each| sum + each).expect("there are several levels");
    sum / scale.clamp_min(LEAST_UNIT)
}

/// The least scale that pinball losses are held against: what differs by less is rounding of the reading.
const LEAST_UNIT: f64 = 1e-3;

/// Logistic likelihood of the logarithm of memory.
///
/// Its tails are as heavy as a Laplace distribution's, so that a few spikes do not bend the rest, and the
/// probability of lying above a limit, which is all that is known of a run that ran out of memory, is a sigmoid.
fn negative_log_likelihood(median: Tensor<1>, log_scale: Tensor<1>, targets: &Targets) -> Tensor<1> {
    let z = (targets.log_memory.clone() - median) / log_scale.clone().exp();
    let measured = log_scale + z.clone() + softplus(-z.clone()) * 2.0;
    // -ln P(above) of a logistic distribution.
    let censored = softplus(z);
    let known = (targets.is_measured.clone() + targets.is_censored.clone()).sum().clamp_min(1.0);
    (measured * targets.is_measured.clone() + censored * targets.is_censored.clone()).sum() / known
}

/// Mean absolute error of the logarithm of memory; of a run out of memory what it lies below its limit.
fn absolute_error(median: Tensor<1>, targets: &Targets) -> Tensor<1> {
    let above = targets.log_memory.clone() - median;
    let measured = above.clone().abs() * targets.is_measured.clone();
    let censored = above.clamp_min(0.0) * targets.is_censored.clone();
    let known = (targets.is_measured.clone() + targets.is_censored.clone()).sum().clamp_min(1.0);
    (measured + censored).sum() / known
}

/// Cross-entropy of memory bins over measured rows.
fn bin_cross_entropy(logits: Tensor<2>, targets: &Targets, bins: Bins) -> Tensor<1> {
    let classes: Vec<i64> = targets.memory_mib.iter().map(|&mib| bins.index(f64::from(mib)) as i64).collect();
    let rows = classes.len();
    let classes = Tensor::<2, Int>::from_data(TensorData::new(classes, [rows, 1]), &logits.device());
    let picked: Tensor<1> = log_softmax(logits, 1).gather(1, classes).squeeze_dim(1);
    let known = targets.is_measured.clone().sum().clamp_min(1.0);
    (-picked * targets.is_measured.clone()).sum() / known
}

/// Cross-entropy of ratios: its minimum is the expected ratio, and it stays steep near zero and one.
fn utilisation_cross_entropy(logits: Tensor<2>, targets: &Targets) -> Tensor<1> {
    let each = softplus(logits.clone()) - logits * targets.utilisation.clone();
    let known = targets.has_utilisation.clone().sum().clamp_min(1.0);
    (each * targets.has_utilisation.clone()).sum() / known
}

/// `ln(1 + exp(x))` without overflow.
fn softplus<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.clone().clamp_min(0.0) + (-x.abs()).exp().log1p()
}
