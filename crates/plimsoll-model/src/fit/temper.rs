//! How strong a fitted correction is: as strong as rows that the fit has not seen bear out.
//!
//! Where the simulation is exact to a hundredth, what a network learned of other architectures may well be noise. So
//! its corrections are held against weaker ones, down to the simulation with a constant context, and the one that does
//! best on the rows that judge the fit stays. The choice goes into the output layer: nothing else knows of it.

use std::collections::{BTreeMap, BTreeSet};

use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use plimsoll_dataset::{Label, Sample};

use super::holdout::{Division, Judge};
use crate::learned::Learned;
use crate::settings::BaseSettings;
use crate::network::{CONTEXT_RANGE, Heads, Member, Network};

/// Shares of the correction that are tried, the whole of it first.
const STRENGTHS: [f64; 5] = [1.0, 0.75, 0.5, 0.25, 0.0];
/// An error of the logarithm counts up to this: no strength turns a spike into anything else.
const LARGEST_ERROR: f64 = 0.2;

/// The network with the strength that suits best the rows that judge, and that strength.
pub(super) fn temper(
    network: Network,
    division: &Division<'_>,
    device: &Device,
    learned: impl Fn(&Network) -> Learned,
) -> (Network, f64) {
    let is_measured = |judge: &&Judge<'_>| judge.sample.outcome.peak_mib().is_some();
    let judges: Vec<Judge<'_>> = division.judges.iter().filter(is_measured).copied().collect();
    // Where GPUs differ so do their contexts, and a constant one is no alternative.
    let measured = division.fitted.iter().filter(|row| row.label != Label::Simulated);
    let gpus: BTreeSet<&str> = measured.map(|row| row.gpu.as_str()).collect();
    let is_simulated = learned(&network).description().settings.base == BaseSettings::Simulation;
    if judges.is_empty() || gpus.len() > 1 || !is_simulated || network.members.iter().any(|member| heads(member).memory.is_classifier())
    {
        return (network, 1.0);
    }
    let context = constant_context(&division.fitted);
    let tried = STRENGTHS.map(|strength| {
        let weaker = if strength < 1.0 { weakened(&network, strength, context, device) } else { network.clone() };
        let error = mean_error(&learned(&weaker), &judges);
        (weaker, strength, error)
    });
    let best = tried.into_iter().reduce(|best, other| if other.2 < best.2 { other } else { best });
    let (network, strength, _) = best.expect("several strengths are tried");
    (network, strength)
}

/// Mean error of the logarithm, of each family on each GPU first, then of these: that simulations of one kind are exact
/// says nothing of the others.
fn mean_error(learned: &Learned, judges: &[Judge<'_>]) -> f64 {
    let mut groups: BTreeMap<(&str, &str), (f64, usize)> = BTreeMap::new();
    for (Judge { sample, .. }, (log_memory, _)) in judges.iter().zip(learned.medians_unseen(judges)) {
        let Some(measured) = sample.outcome.peak_mib() else { continue };
        let (sum, rows) = groups.entry((sample.family.name(), sample.gpu.as_str())).or_default();
        *sum += (log_memory - measured.ln()).abs().min(LARGEST_ERROR);
        *rows += 1;
    }
    let means = groups.values().map(|(sum, rows)| sum / *rows as f64);
    means.sum::<f64>() / groups.len().max(1) as f64
}

/// Logarithm of the median ratio of measured to nominal context, over rows whose reading has a context in it.
fn constant_context(training: &[&Sample]) -> f64 {
    let mut ratios: Vec<f64> = training
        .iter()
        .filter(|sample| !matches!(sample.label, Label::Reserved | Label::Allocated))
        .filter_map(|sample| {
            let analytic = sample.features.analytic;
            let context = sample.outcome.peak_mib()? - f64::from(analytic.reserved_mib);
            Some(context / f64::from(analytic.context_mib))
        })
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
    median.max(f64::MIN_POSITIVE).ln().clamp(-0.9 * CONTEXT_RANGE, 0.9 * CONTEXT_RANGE)
}

/// A network whose corrections are a share of what they were, the rest being a constant context.
fn weakened(network: &Network, strength: f64, context: f64, device: &Device) -> Network {
    let mut network = network.clone();
    // The head bounds what it is given.
    let context = CONTEXT_RANGE * (context / CONTEXT_RANGE).atanh();
    for member in &mut network.members {
        let output = &mut heads_mut(member).memory.output;
        let share = strength as f32;
        let shares = Tensor::<1>::from_floats([share, share, share, 1.0], device);
        let rest = Tensor::<1>::from_floats([0.0, (1.0 - share) * context as f32, 0.0, 0.0], device);
        let Linear { weight, bias, .. } = output;
        *weight = weight.clone().map(|weight| weight * shares.clone().unsqueeze());
        *bias = bias.clone().map(|bias| bias.map(|bias| bias * shares + rest));
    }
    network
}

const fn heads(member: &Member) -> &Heads {
    match member {
        Member::Mlp(network) => &network.heads,
        Member::Transformer(network) => &network.heads,
    }
}

const fn heads_mut(member: &mut Member) -> &mut Heads {
    match member {
        Member::Mlp(network) => &mut network.heads,
        Member::Transformer(network) => &mut network.heads,
    }
}
