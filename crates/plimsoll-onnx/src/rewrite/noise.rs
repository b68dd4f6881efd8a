//! Dropout and stochastic depth, from random numbers that are compared and multiplied in.

use plimsoll_graph::Op;

use super::web::Web;
use crate::program::ValueId;

const RANDOM: [&str; 6] =
    ["RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Bernoulli", "Multinomial"];
/// Operators through which noise stays noise.
const PASSING: [&str; 19] = [
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
    "Cast",
    "CastLike",
    "Mul",
    "Div",
    "Add",
    "Sub",
    "Floor",
    "Not",
    "Where",
    "Expand",
    "Reshape",
    "Unsqueeze",
    "Ceil",
    "Neg",
    "Transpose",
];

/// Replaces products with noise.
pub(super) fn recognise(web: &mut Web<'_>) {
    let mut noise: Vec<Option<Noise>> = vec![None; web.program().values.len()];
    for index in 0..web.len() {
        let Some(step) = web.step(index) else { continue };
        let Some(output) = web.output(index) else { continue };
        if RANDOM.contains(&step.op()) {
            let is_bernoulli = step.op() == "Bernoulli";
            let kept = if is_bernoulli { step.input(0).and_then(|id| first_number(web, id)) } else { None };
            noise[output] = Some(Noise { kept, is_mask: is_bernoulli });
            continue;
        }
        let of = |id: Option<ValueId>| id.and_then(|id| noise[id]);
        let others_are_constant =
            step.inputs.iter().flatten().all(|&id| noise[id].is_some() || !web.value(id).is_runtime());
        if others_are_constant && PASSING.contains(&step.op()) {
            let inherited = step.inputs.iter().flatten().find_map(|&id| noise[id]);
            noise[output] = inherited.map(|inherited| passed(web, index, inherited));
            continue;
        }
        if !matches!(step.op(), "Mul" | "Where" | "Div") {
            continue;
        }
        let (left, right) = (step.input(0), step.input(1));
        let pair = match (of(left), of(right)) {
            (None, Some(noise)) => left.zip(right).map(|(value, mask)| (value, mask, noise)),
            (Some(noise), None) => right.zip(left).map(|(value, mask)| (value, mask, noise)),
            _ => None,
        };
        let Some((value, mask, noise)) = pair.filter(|(.., noise)| noise.is_mask && step.op() == "Mul") else {
            continue;
        };
        let p = noise.kept.map_or(0.5, |kept| (1.0 - kept).clamp(0.0, 1.0));
        let is_whole = web.value(mask).shape == web.value(value).shape;
        let op = if is_whole { Op::Dropout { p, inplace: false } } else { Op::StochasticDepth { p } };
        web.replace(index, &[], op, vec![Some(value)]);
    }
}

/// Random numbers on their way.
#[derive(Clone, Copy)]
struct Noise {
    /// Probability of being one, once it is compared.
    kept: Option<f64>,
    /// Whether it is zeros and ones, scaled or not.
    is_mask: bool,
}

fn passed(web: &Web<'_>, index: usize, noise: Noise) -> Noise {
    let Some(step) = web.step(index) else { return noise };
    let number = |place: usize| step.input(place).and_then(|id| first_number(web, id));
    match step.op() {
        // `u < p` is kept with probability p, as is `p > u`.
        "Less" | "LessOrEqual" => Noise { kept: number(1).or_else(|| number(0).map(|p| 1.0 - p)), is_mask: true },
        "Greater" | "GreaterOrEqual" => Noise { kept: number(0).or_else(|| number(1).map(|p| 1.0 - p)), is_mask: true },
        // `floor(p + u)` too.
        "Add" if !noise.is_mask => Noise { kept: number(0).or_else(|| number(1)), is_mask: false },
        "Floor" => Noise { is_mask: true, ..noise },
        _ => noise,
    }
}

fn first_number(web: &Web<'_>, id: ValueId) -> Option<f64> {
    web.value(id).numbers.as_deref().and_then(|numbers| numbers.first()).and_then(|number| number.known())
}
