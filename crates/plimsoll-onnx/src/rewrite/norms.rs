//! Group, layer and root-mean-square norms, from the operators they were taken apart into.

use plimsoll_graph::Op;

use super::web::Web;
use crate::program::ValueId;

/// Group norms: a reshape to (samples, groups, rest), an instance norm, the reshape back, scale and shift.
pub(super) fn groups(web: &mut Web<'_>) {
    for norm in 0..web.len() {
        if web.step(norm).is_none_or(|step| step.op() != "InstanceNormalization") {
            continue;
        }
        let Some((grouped, result)) = web.input(norm, 0).zip(web.output(norm)) else { continue };
        let Some(into) = web.writer(grouped, &["Reshape"]) else { continue };
        let Some(back) =
            web.only_reader(result).filter(|&back| web.step(back).is_some_and(|step| step.op() == "Reshape"))
        else {
            continue;
        };
        let Some((source, whole)) = web.input(into, 0).zip(web.output(back)) else { continue };
        if web.value(source).shape != web.value(whole).shape || web.only_reader(grouped) != Some(norm) {
            continue;
        }
        let Some(groups) = web.value(grouped).dims().get(1).map(|dim| dim.factor()) else { continue };
        let mut chain = vec![into, norm, back];
        let mut inputs = vec![Some(source)];
        inputs.extend(affine(web, whole, &mut chain));
        let last = chain[chain.len() - 1];
        web.replace(last, &chain, Op::GroupNorm { groups }, inputs);
    }
}

/// Scale and shift by weights after a norm; the steps are added to the chain.
fn affine(web: &Web<'_>, normed: ValueId, chain: &mut Vec<usize>) -> Vec<Option<ValueId>> {
    let mut weights = Vec::new();
    let mut value = normed;
    for op in ["Mul", "Add"] {
        let next = web.only_reader(value).filter(|&next| web.step(next).is_some_and(|step| step.op() == op));
        let Some((next, weight)) = next.and_then(|next| Some((next, web.beside(next, value)?))) else { break };
        if web.value(weight).weight().is_none() || web.scalar(weight).is_some_and(|_| web.value(weight).rank() == 0) {
            break;
        }
        let Some(output) = web.output(next) else { break };
        chain.push(next);
        weights.push(Some(weight));
        value = output;
    }
    weights
}

/// Layer norms and root-mean-square norms over the last dimensions.
pub(super) fn rows(web: &mut Web<'_>) {
    for last in 0..web.len() {
        let Some(step) = web.step(last) else { continue };
        if !matches!(step.op(), "Div" | "Mul") {
            continue;
        }
        if let Some(found) = layer_norm(web, last).or_else(|| root_mean_square(web, last)) {
            let Found { source, op, mut chain } = found;
            let Some(normed) = web.output(last) else { continue };
            let inner = chain.iter().filter(|&&index| index != last);
            if !inner.clone().all(|&index| web.output(index).is_some_and(|id| web.is_inside(id, &chain))) {
                continue;
            }
            let mut inputs = vec![Some(source)];
            inputs.extend(affine(web, normed, &mut chain));
            let last = chain[chain.len() - 1];
            web.replace(last, &chain, op, inputs);
        }
    }
}

struct Found {
    source: ValueId,
    op: Op,
    chain: Vec<usize>,
}

/// What a step divides, and the root that it divides by: `a / root`, `a * (1 / root)`.
fn divided(web: &Web<'_>, last: usize) -> Option<(ValueId, ValueId, Vec<usize>)> {
    let (one, other) = (web.input(last, 0)?, web.input(last, 1)?);
    if web.step(last)?.op() == "Div" {
        return Some((
            one,
            web.writer(other, &["Sqrt"]).and_then(|root| web.input(root, 0))?,
            vec![web.any_writer(other)?],
        ));
    }
    for (above, below) in [(one, other), (other, one)] {
        let Some(inverse) = web.writer(below, &["Reciprocal", "Div", "Pow"]) else { continue };
        let step = web.step(inverse)?;
        let under =
            if step.op() == "Reciprocal" { step.input(0)? } else { step.input(usize::from(step.op() == "Div"))? };
        if step.op() == "Pow" {
            let is_root = step.input(1).and_then(|id| web.scalar(id)) == Some(-0.5);
            if is_root {
                return Some((above, under, vec![inverse]));
            }
            continue;
        }
        if let Some(root) = web.writer(under, &["Sqrt"]) {
            return Some((above, web.input(root, 0)?, vec![inverse, root]));
        }
    }
    None
}

/// The value whose mean square, plus a small number, this is.
fn mean_square(web: &Web<'_>, id: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let (sum, mut chain) = match web.writer(id, &["Add"]) {
        Some(add) => (web.scaled(add)?.0, vec![add]),
        None => (id, vec![]),
    };
    let mean = web.writer(sum, &["ReduceMean"])?;
    chain.push(mean);
    let squared = web.input(mean, 0)?;
    is_over_last(web, mean).then_some(())?;
    let square = web.writer(squared, &["Pow", "Mul"])?;
    chain.push(square);
    let (base, other) = (web.input(square, 0)?, web.input(square, 1)?);
    let is_square = if web.step(square)?.op() == "Mul" { base == other } else { web.scalar(other) == Some(2.0) };
    is_square.then_some((base, chain))
}

/// Whether a mean keeps its dimensions and is taken over the last ones alone.
fn is_over_last(web: &Web<'_>, mean: usize) -> bool {
    let (Some(input), Some(output)) = (web.input(mean, 0), web.output(mean)) else { return false };
    let (from, to) = (web.value(input).dims(), web.value(output).dims());
    let Some(axis) = from.iter().zip(to).position(|(from, to)| from != to) else { return false };
    from.len() == to.len() && axis + 1 == from.len()
}

fn layer_norm(web: &Web<'_>, last: usize) -> Option<Found> {
    let (above, under, mut chain) = divided(web, last)?;
    let (centred, more) = mean_square(web, under)?;
    chain.extend(more);
    let (source, mean) = centre(web, above)?;
    let (other, other_mean) = centre(web, centred)?;
    (source == other).then_some(())?;
    chain.extend([web.any_writer(above)?, web.any_writer(centred)?, mean, other_mean, last]);
    chain.sort_unstable();
    chain.dedup();
    Some(Found { source, op: Op::LayerNorm, chain })
}

/// The value from which its own mean is subtracted, and the mean.
fn centre(web: &Web<'_>, id: ValueId) -> Option<(ValueId, usize)> {
    let difference = web.writer(id, &["Sub"])?;
    let mean = web.writer(web.input(difference, 1)?, &["ReduceMean"])?;
    let source = web.input(difference, 0)?;
    (web.input(mean, 0) == Some(source) && is_over_last(web, mean)).then_some((source, mean))
}

/// A model that normalises by hand runs each operator on its own: only exporters that say so, or that name no modules,
/// took an operator apart.
fn root_mean_square(web: &Web<'_>, last: usize) -> Option<Found> {
    let step = web.step(last)?;
    let is_taken_apart = step.hint.contains("rms_norm") || (step.hint.is_empty() && step.module.is_empty());
    is_taken_apart.then_some(())?;
    let (above, under, mut chain) = divided(web, last)?;
    let (source, more) = mean_square(web, under)?;
    (above == source).then_some(())?;
    chain.extend(more);
    chain.push(last);
    Some(Found { source, op: Op::RmsNorm, chain })
}
