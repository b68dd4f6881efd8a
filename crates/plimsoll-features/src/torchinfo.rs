//! The "estimated total size" that torchinfo prints under its summary of a network.

use plimsoll_graph::{Node, WeightKind, Workload};

/// torchinfo runs a network in single precision, whatever precision it is trained in.
const ELEMENT_BYTES: u64 = 4;

/// Input, parameters, and twice the outputs of layers that have parameters: once for the forward and once for the backward
/// pass. Optimisers, workspaces and outputs of layers without parameters are not part of it.
pub(crate) fn total_bytes(workload: &Workload) -> u64 {
    let graph = workload.graph();
    let is_parameter = |kind: WeightKind| kind != WeightKind::Buffer;
    let has_parameters = |node: &&Node| node.weights.iter().any(|&id| is_parameter(graph.weight(id).kind));
    let outputs = graph.nodes().iter().filter(has_parameters).flat_map(|node| &node.outputs);
    let sum = |elements: u64, more: u64| elements.saturating_add(more);
    let passes = outputs.map(|&id| workload.elements(id)).fold(0, sum).saturating_mul(2 * ELEMENT_BYTES);
    let input = |id| workload.elements(id).saturating_mul(graph.tensor(id).dtype.bytes());
    let inputs = graph.inputs().iter().map(|&id| input(id)).fold(0, sum);
    graph.parameter_count().saturating_mul(ELEMENT_BYTES).saturating_add(passes).saturating_add(inputs)
}
