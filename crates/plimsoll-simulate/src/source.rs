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

/// Names of operators that count as keeping all they read and write in a workload's step, each once, in order of
/// appearance: those that no rule knows, unless a record of the step stands in for the rules.
pub fn guessed_operators(workload: &Workload) -> Vec<&str> {
    match record_in_place_of_rules(workload) {
        Some(_) => Vec::new(),
        None => unruled_operators(workload.graph()),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_graph::{GpuCatalogue, TrainingSetup, json};
    use serde_json::{Value, json};

    use super::*;

    /// A captured graph with the record of its step, its activations replaced: `names` and types of their results.
    fn workload(names: [(&str, &str); 2], setup: TrainingSetup) -> Workload {
        let mut golden: Value = serde_json::from_str(include_str!("../tests/golden/gate.json")).expect("JSON");
        let nodes = golden["graph"]["nodes"].as_array_mut().expect("nodes");
        let mut names = names.into_iter();
        for node in nodes.iter_mut().filter(|node| node["op"] == "activation") {
            let (name, dtype) = names.next().expect("a name for each");
            node["op"] = json!(name);
            node["outputs"][0]["dtype"] = json!(dtype);
            node.as_object_mut().expect("a node").remove("attributes");
        }
        let graph = json::parse(&golden["graph"].to_string(), "gate").expect("a graph");
        Workload::new(graph, setup, GpuCatalogue::built_in().find("t4").expect("known").clone()).expect("valid")
    }

    /// A setup that the graph's record does not show.
    fn checkpointed() -> TrainingSetup {
        TrainingSetup { activation_checkpointing: true, ..TrainingSetup::new(4) }
    }

    #[test]
    fn only_operators_without_a_rule_are_guessed() {
        let float = "float32";
        let guessed = |names| guessed_operators(&workload(names, checkpointed())).join(" ");
        assert_eq!(guessed([("frobnicate", float), ("rsqrt", float)]), "frobnicate");
        assert_eq!(guessed([("clamp_", float), ("sin", float)]), "");
        assert_eq!(guessed([("unknown", float), ("odd", float)]), "unknown odd");
        assert_eq!(guessed([("odd", float), ("odd", float)]), "odd");
    }

    #[test]
    fn an_operator_through_which_no_gradient_flows_is_not_guessed() {
        let workload = workload([("frobnicate", "bool"), ("unknown", "float32")], checkpointed());
        assert_eq!(workload.graph().unknown_operators(), ["frobnicate", "unknown"]);
        assert_eq!(guessed_operators(&workload), ["unknown"]);
    }

    #[test]
    fn nothing_is_guessed_where_a_record_stands_in_for_the_rules() {
        let workload = workload([("frobnicate", "float32"), ("unknown", "float32")], TrainingSetup::new(4));
        assert!(record_in_place_of_rules(&workload).is_some());
        assert_eq!(guessed_operators(&workload), Vec::<&str>::new());
    }
}
