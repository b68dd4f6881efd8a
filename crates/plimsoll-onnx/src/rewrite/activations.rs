//! Chains of arithmetic that are one activation function.

use std::collections::HashMap;

use plimsoll_graph::Op;

use super::functions::{SAMPLES, erf, function_of, sigmoid, softplus};
use super::web::Web;
use crate::emit::translate::bounds;
use crate::program::{Program, Step, ValueId};

/// Steps of the longest chain: the hyperbolic form of GELU has nine.
const MAX_STEPS: usize = 14;

/// Operators that may stand last in a chain.
const LAST: [&str; 4] = ["Mul", "Div", "Clip", "Min"];

/// Replaces each chain that computes an activation function of one value, the longest first.
pub(super) fn recognise(web: &mut Web<'_>) {
    for last in (0..web.len()).rev() {
        if web.step(last).is_none_or(|step| !LAST.contains(&step.op())) {
            continue;
        }
        for source in sources(web, last) {
            let mut chain = Chain { web, source, steps: Vec::new(), values: HashMap::new() };
            let Some(values) = chain.values_of(last) else { continue };
            let steps = chain.steps;
            let Some(function) = function_of(&values).filter(|_| steps.len() > 1) else { continue };
            let inner = steps.iter().filter(|&&index| index != last);
            if inner.clone().all(|&index| web.output(index).is_some_and(|id| web.is_inside(id, &steps))) {
                web.replace(last, &steps, Op::Activation { function, inplace: false }, vec![Some(source)]);
                break;
            }
        }
    }
}

/// Values that a chain may start from, the farthest first: a longer chain tells more.
fn sources(web: &Web<'_>, last: usize) -> Vec<ValueId> {
    let mut seen = vec![last];
    let mut found = Vec::new();
    let mut place = 0;
    while place < seen.len() && seen.len() <= MAX_STEPS {
        let inputs = web.step(seen[place]).map(|step| step.inputs.clone()).unwrap_or_default();
        for id in inputs.into_iter().flatten().filter(|&id| web.value(id).is_runtime()) {
            if !found.contains(&id) {
                found.push(id);
            }
            if let Some(index) =
                web.any_writer(id).filter(|&index| web.step(index).is_some_and(|step| is_followed(step.op())))
                && !seen.contains(&index)
            {
                seen.push(index);
            }
        }
        place += 1;
    }
    found.reverse();
    found
}

const FOLLOWED: [&str; 18] = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Erf",
    "Tanh",
    "Sigmoid",
    "HardSigmoid",
    "Softplus",
    "Exp",
    "Clip",
    "Relu",
    "Neg",
    "Min",
    "Max",
    "Reciprocal",
    "Log",
];

fn is_followed(op: &str) -> bool {
    FOLLOWED.contains(&op)
}

type Values = [f64; SAMPLES.len()];

/// A chain being evaluated at the samples.
struct Chain<'a, 'b> {
    web: &'a Web<'b>,
    source: ValueId,
    steps: Vec<usize>,
    values: HashMap<usize, Values>,
}

impl Chain<'_, '_> {
    fn values_of(&mut self, index: usize) -> Option<Values> {
        if let Some(values) = self.values.get(&index) {
            return Some(*values);
        }
        let step = self.web.step(index).filter(|step| is_followed(step.op()))?;
        if self.steps.len() >= MAX_STEPS {
            return None;
        }
        self.steps.push(index);
        let mut operands = Vec::with_capacity(step.inputs.len());
        // Bounds of a clip are told by `bounds`.
        let count = if step.op() == "Clip" { 1 } else { step.inputs.len() };
        for id in step.inputs.iter().take(count).flatten() {
            operands.push(self.operand(*id)?);
        }
        let values = computed(self.web.program(), step, &operands)?;
        self.values.insert(index, values);
        Some(values)
    }

    fn operand(&mut self, id: ValueId) -> Option<Values> {
        if id == self.source {
            return Some(SAMPLES);
        }
        if let Some(number) = self.web.scalar(id).filter(|_| !self.web.value(id).is_runtime()) {
            return Some([number; SAMPLES.len()]);
        }
        let writer = self.web.any_writer(id)?;
        // A chain works on one shape; what is stretched on the way is another operand.
        (self.web.value(id).shape == self.web.value(self.source).shape).then_some(())?;
        self.values_of(writer)
    }
}

fn computed(program: &Program, step: &Step, operands: &[Values]) -> Option<Values> {
    let first = *operands.first()?;
    let one = |function: fn(f64) -> f64| Some(first.map(function));
    let two = |function: fn(f64, f64) -> f64| {
        let second = operands.get(1)?;
        let mut values = first;
        values.iter_mut().zip(second).for_each(|(value, &other)| *value = function(*value, other));
        Some(values)
    };
    match step.op() {
        "Add" => two(|a, b| a + b),
        "Sub" => two(|a, b| a - b),
        "Mul" => two(|a, b| a * b),
        "Div" => two(|a, b| a / b),
        "Pow" => two(f64::powf),
        "Min" => two(f64::min),
        "Max" => two(f64::max),
        "Erf" => one(erf),
        "Tanh" => one(f64::tanh),
        "Sigmoid" => one(sigmoid),
        "Softplus" => one(softplus),
        "Exp" => one(f64::exp),
        "Log" => one(f64::ln),
        "Relu" => one(|x| x.max(0.0)),
        "Neg" => one(|x| -x),
        "Reciprocal" => one(f64::recip),
        "HardSigmoid" => {
            let alpha = f64::from(step.attributes.float("alpha").unwrap_or(0.2));
            let beta = f64::from(step.attributes.float("beta").unwrap_or(0.5));
            Some(first.map(|x| (alpha * x + beta).clamp(0.0, 1.0)))
        }
        "Clip" => {
            let (low, high) = bounds(program, step);
            Some(first.map(|x| x.max(low.unwrap_or(f64::NEG_INFINITY)).min(high.unwrap_or(f64::INFINITY))))
        }
        _ => None,
    }
}
