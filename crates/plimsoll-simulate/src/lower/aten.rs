//! Operators outside the graph format that models often use, by the names that `ATen` gives them.

use super::rules::{Keep, Rule};

/// What autograd keeps of an operator of a name, where that is known.
pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name.trim_end_matches('_') {
        "neg" | "bernoulli" | "cumsum" | "fill" | "zero" | "tril" | "triu" | "im2col" | "col2im" | "pixel_shuffle"
        | "pixel_unshuffle" => Rule::PLAIN,
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
