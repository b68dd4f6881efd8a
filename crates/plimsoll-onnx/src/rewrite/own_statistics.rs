//! Batch norms that were exported with the statistics that they compute of their input.

use plimsoll_graph::Op;

use crate::program::{Action, Program};

/// A batch norm whose mean and variance are computed keeps no statistics: it reads its input, scale and shift alone.
/// This is how weights that are standardised in each step are exported.
pub(super) fn forget(program: &mut Program) {
    let Program { values, steps, .. } = program;
    for step in steps.iter_mut().filter(|step| step.op() == "BatchNormalization") {
        let is_computed = |place: usize| step.input(place).is_some_and(|id| values[id].is_runtime());
        if is_computed(3) && is_computed(4) {
            let is_weight = |place: usize| step.input(place).filter(|&id| values[id].weight().is_some());
            let inputs = vec![step.input(0), is_weight(1), is_weight(2)];
            step.inputs = inputs;
            step.action = Action::Known(Op::BatchNorm);
            step.outputs.truncate(1);
        }
    }
}
