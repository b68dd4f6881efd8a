//! Operators outside the graph format that models often use, by the names that `ATen` gives them.

use super::rules::{Keep, Rule, Scratch, Scratches, Site};

/// What autograd keeps of an operator of a name and takes for its gradient's formula, where that is known.
pub(super) fn rule(name: &str, site: Site<'_>) -> Option<Rule> {
    let one = Scratch::Held(site.width.saturating_mul(site.output));
    let (mask, number) = (Scratch::Held(site.output), Scratch::Held(site.width));
    if name.starts_with("addcmul") {
        return Some(sum_and_product(site, one));
    }
    let kept = kept(name)?;
    let before = match name.trim_end_matches('_') {
        // Signs, cosines, twice the root.
        "abs" | "sin" | "sqrt" => Scratches::of([one]),
        // Minus the sine; powers of the result; turned around, summed, and turned back.
        "cos" | "rsqrt" | "reciprocal" | "cumsum" => Scratches::of([one, one]),
        "erf" => Scratches::of([one, one, one, one]),
        // What lies within the limits, and the zero for what does not.
        "clamp" => Scratches::of([number, mask, mask]),
        "clamp_min" | "clamp_max" => Scratches::of([number, mask]),
        _ => Scratches::NONE,
    };
    Some(Rule { before, ..kept })
}

/// A sum and a product in one, of tensors and weights: what is added to is not kept, factors are.
fn sum_and_product(site: Site<'_>, one: Scratch) -> Rule {
    let is_of_weights = site.node.inputs.len() < 3;
    let input = if is_of_weights { Keep::ForOthers } else { Keep::Never };
    let after = if is_of_weights { Scratches::of([one]) } else { Scratches::NONE };
    Rule { input, others: Keep::Always, after, ..Rule::ELEMENTWISE }
}

/// Whether a rule tells what autograd keeps of an operator of a name.
pub(super) fn is_known(name: &str) -> bool {
    kept(name).is_some()
}

fn kept(name: &str) -> Option<Rule> {
    Some(match name.trim_end_matches('_') {
        "neg" | "bernoulli" | "cumsum" | "fill" | "zero" | "tril" | "triu" | "im2col" | "col2im" | "pixel_shuffle"
        | "pixel_unshuffle" => Rule::PLAIN,
        "addcmul" => Rule::ELEMENTWISE,
        "exp" | "rsqrt" | "sqrt" | "reciprocal" => Rule::OUTPUT,
        "abs"
        | "clamp"
        | "clamp_min"
        | "clamp_max"
        | "cos"
        | "erf"
        | "log"
        | "log1p"
        | "sin"
        | "square"
        | "log_sigmoid_forward" => Rule::INPUT,
        // The mask stands behind what is masked, a condition before what it chooses from.
        "masked_fill" => Rule { others: Keep::Always, ..Rule::PLAIN },
        "where" => Rule { input: Keep::Always, ..Rule::PLAIN },
        _ => return None,
    })
}
