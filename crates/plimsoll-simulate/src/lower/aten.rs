//! Operators outside the graph format that models often use, by the names that `ATen` gives them.

use super::rules::{InputGradient, Keep, Rule, Scratch, Scratches, Site, is_differentiable};

/// Operators that write or add elements at places.
const WRITING: [&str; 4] = ["index_put", "index_add", "scatter", "scatter_add"];

/// What autograd keeps of an operator of a name and takes for its gradient's formula, where that is known.
pub(super) fn rule(name: &str, site: Site<'_>) -> Option<Rule> {
    let one = Scratch::Held(site.width.saturating_mul(site.output));
    let (mask, number) = (Scratch::Held(site.output), Scratch::Held(site.width));
    if name.trim_end_matches('_') == "addcmul" {
        return Some(sum_and_product(site, one));
    }
    let kept = kept(name)?;
    let name = name.trim_end_matches('_');
    if WRITING.contains(&name) {
        return Some(writing(site, name));
    }
    let before = match name {
        // Signs, cosines, twice the root; the argument with one more, or times a logarithm; the result with one more.
        "abs" | "sin" | "sqrt" | "log1p" | "log2" | "log10" | "expm1" | "exp2" => Scratches::of([one]),
        // Minus the sine; powers of the result; squares with one more; turned around, summed, and turned back.
        "cos" | "rsqrt" | "reciprocal" | "tan" | "atan" | "cumsum" => Scratches::of([one, one]),
        "erf" | "erfc" => Scratches::of([one, one, one, one]),
        // What lies within the limits, and the zero for what does not.
        "clamp" => Scratches::of([number, mask, mask]),
        "clamp_min" | "clamp_max" => Scratches::of([number, mask]),
        _ => Scratches::NONE,
    };
    // Positions, where the graph does not list them.
    let positions = if kept.further_outputs && site.node.outputs.len() < 2 { site.output.saturating_mul(8) } else { 0 };
    Some(Rule { before, ..kept.and(positions) })
}

/// Elements written or added at places: the places are kept, but not what is written, which comes last.
fn writing(site: Site<'_>, name: &str) -> Rule {
    let (graph, inputs) = (site.workload.graph(), &site.node.inputs);
    let written = inputs.iter().skip(1).last().is_some_and(|id| is_differentiable(graph, *id));
    let gradient = if name.contains("add") { InputGradient::PassedFirst } else { InputGradient::New };
    Rule { others: Keep::Always, unkept_from: inputs.len() - usize::from(written), gradient, ..Rule::PLAIN }
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
        name if WRITING.contains(&name) => Rule::PLAIN,
        "neg" | "bernoulli" | "copy" | "cumsum" | "fill" | "zero" | "tril" | "triu" => Rule::PLAIN,
        // Elements change places. `im2col` copies them, one for each place of the kernel that covers them, and keeps
        // no more than its input's extents; how many there are the graph says.
        "im2col" | "col2im" | "pixel_shuffle" | "pixel_unshuffle" => Rule::PLAIN,
        // Steps: their gradient is zero everywhere, but a tensor.
        "ceil" | "floor" | "round" | "sign" | "trunc" => Rule::PLAIN,
        // Of what is ordered, positions are kept.
        "sort" | "topk" => Rule { further_outputs: true, ..Rule::PLAIN },
        "addcmul" => Rule::ELEMENTWISE,
        "exp" | "exp2" | "expm1" | "reciprocal" | "rsqrt" | "sqrt" | "tan" => Rule::OUTPUT,
        "abs"
        | "atan"
        | "clamp"
        | "clamp_max"
        | "clamp_min"
        | "cos"
        | "erf"
        | "erfc"
        | "hardshrink"
        | "log"
        | "log10"
        | "log1p"
        | "log2"
        | "log_sigmoid_forward"
        | "sin"
        | "softshrink"
        | "square"
        | "threshold" => Rule::INPUT,
        // The image and where it is sampled.
        "grid_sampler" | "grid_sampler_2d" | "grid_sampler_3d" => Rule { others: Keep::Always, ..Rule::DENSE },
        // The mask stands behind what is masked, a condition before what it chooses from.
        "masked_fill" => Rule { others: Keep::Always, ..Rule::PLAIN },
        "where" => Rule { input: Keep::Always, ..Rule::PLAIN },
        _ => return None,
    })
}
