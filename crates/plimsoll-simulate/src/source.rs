//! Where the events of a step come from: rules, or a record of the step itself.

use plimsoll_graph::{Precision, StepRecord, Workload};

use crate::lower::{lower, unruled_operators};
use crate::recorded::recorded_trace;
use crate::trace::StepTrace;

/// The memory events of one training step of a workload.
pub fn step_trace(workload: &Workload) -> StepTrace {
    match record_in_place_of_rules(workload) {
        Some(record) => recorded_trace(workload, record),
        None => lower(workload),
    }
}

/// The record of a workload's step, where it says more than the rules do.
///
/// It does for operators that no rule knows, which would count as keeping all that they read and write. Elsewhere rules
/// are preferred: they know kernels whose temporaries depend on the batch in steps, and on the GPU. A record shows one
/// way to train, so it cannot stand for activation checkpointing, for parameters that the setup freezes, or for
/// another precision or loss than its own (fp32 and TF32 are alike in memory).
pub fn record_in_place_of_rules(workload: &Workload) -> Option<&StepRecord> {
    let (graph, setup) = (workload.graph(), workload.setup());
    if setup.activation_checkpointing || !setup.trainable.is_empty() {
        return None;
    }
    let in_memory = |precision| if precision == Precision::Tf32 { Precision::Fp32 } else { precision };
    let is_of_setup =
        |record: &&StepRecord| in_memory(record.precision) == in_memory(setup.precision) && record.loss == setup.loss;
    let record = graph.step_records().iter().find(is_of_setup)?;
    (!unruled_operators(graph).is_empty()).then_some(record)
}
