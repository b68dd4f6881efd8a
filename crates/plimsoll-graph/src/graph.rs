//! The computation graph: nodes in execution order over tensors and weights.

use std::collections::{HashMap, HashSet};

use crate::dtype::DType;
use crate::error::{GraphError, Result};
use crate::family::Family;
use crate::op::Op;
use crate::op_check::check_node;
use crate::shape::Shape;
use crate::step_record::StepRecord;

/// Index of a tensor in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// Index of a weight in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(pub u32);

/// Index of a node in its graph, in execution order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// An activation: the input of a graph or what a node computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name, unique in the graph.
    pub name: String,
    /// Extents, with a symbolic batch.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

/// What a weight is to training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightKind {
    /// Updated by the optimiser.
    Parameter,
    /// A parameter that does not train.
    Frozen,
    /// State that is not a parameter, such as running statistics.
    Buffer,
}

/// A weight or buffer. Nodes that share one (tied embeddings) refer to the same entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weight {
    /// Name, unique in the graph.
    pub name: String,
    /// Extents; never depends on the batch.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// Parameter, frozen parameter or buffer.
    pub kind: WeightKind,
}

impl Weight {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.elements(1).expect("checked when the graph was built")
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.elements() * self.dtype.bytes()
    }
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name, unique in the graph; module path where the source has one.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Tensors it reads.
    pub inputs: Vec<TensorId>,
    /// Tensors it writes.
    pub outputs: Vec<TensorId>,
    /// Weights it uses: weight first, then bias, then buffers.
    pub weights: Vec<WeightId>,
}

/// The unchecked parts of a graph: nodes may stand in any order.
#[derive(Debug, Clone, Default)]
pub struct GraphParts {
    /// Name of the architecture.
    pub name: String,
    /// Architecture family.
    pub family: Family,
    /// All tensors.
    pub tensors: Vec<TensorSpec>,
    /// All weights.
    pub weights: Vec<Weight>,
    /// All nodes, in any order.
    pub nodes: Vec<Node>,
    /// Tensors that are fed in.
    pub inputs: Vec<TensorId>,
    /// Tensors that the loss sees.
    pub outputs: Vec<TensorId>,
}

/// A checked forward computation graph.
///
/// Holds for every graph: nodes stand in execution order, every reference is valid, every tensor is written
/// once, sizes at batch 1 do not overflow, every operator's attributes are in range.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    name: String,
    family: Family,
    tensors: Vec<TensorSpec>,
    weights: Vec<Weight>,
    nodes: Vec<Node>,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
    step_records: Vec<StepRecord>,
}

impl Graph {
    /// More elements than this in one tensor mean a broken or hostile file (an exabyte of floats).
    pub const MAX_ELEMENTS: u64 = 1 << 58;

    /// Checks the parts and puts the nodes in execution order.
    ///
    /// Takes time linear in the size of the graph. Nodes that are already in order keep it.
    ///
    /// # Errors
    /// References to things that do not exist, tensors written twice, cycles, ranks over
    /// [`Shape::MAX_RANK`], sizes over [`Graph::MAX_ELEMENTS`], attributes out of range, and convolutions whose input
    /// has another rank than their kernel needs.
    pub fn new(parts: GraphParts) -> Result<Self> {
        check_sizes(&parts)?;
        let producers = producers(&parts)?;
        parts.nodes.iter().try_for_each(|node| check_node(node, &parts.tensors))?;
        let order = execution_order(&parts, &producers)?;
        let GraphParts { name, family, tensors, weights, nodes, inputs, outputs } = parts;
        let nodes = if order.iter().enumerate().all(|(position, &index)| position == index) {
            nodes
        } else {
            let mut slots: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
            order.into_iter().filter_map(|index| slots[index].take()).collect()
        };
        Ok(Self { name, family, tensors, weights, nodes, inputs, outputs, step_records: Vec::new() })
    }

    /// Name of the architecture.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Architecture family.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Nodes in execution order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All tensors.
    pub fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    /// All weights and buffers.
    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// Tensors that are fed in.
    pub fn inputs(&self) -> &[TensorId] {
        &self.inputs
    }

    /// Tensors that the loss sees.
    pub fn outputs(&self) -> &[TensorId] {
        &self.outputs
    }

    /// Records of a training step of this graph, as a framework was seen to run it; none unless given.
    pub fn step_records(&self) -> &[StepRecord] {
        &self.step_records
    }

    /// The graph with records of its training step, in the place of those that it has.
    ///
    /// # Errors
    /// Two records of one precision and loss; references to nodes, weights, sizes or buffers that do not exist;
    /// buffers that are freed twice or never; phases out of order; sizes that overflow.
    pub fn with_step_records(mut self, records: Vec<StepRecord>) -> Result<Self> {
        for (index, record) in records.iter().enumerate() {
            record.check(&self)?;
            let is_same = |other: &StepRecord| (other.precision, other.loss) == (record.precision, record.loss);
            if records[..index].iter().any(is_same) {
                return Err(GraphError::OutOfRange {
                    what: "step records".into(),
                    expected: "one of a precision and loss".into(),
                    found: format!("two of {}", record.precision.name()),
                });
            }
        }
        self.step_records = records;
        Ok(self)
    }

    /// The tensor of an index.
    pub fn tensor(&self, id: TensorId) -> &TensorSpec {
        &self.tensors[id.0 as usize]
    }

    /// The weight of an index.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.0 as usize]
    }

    /// Parameters, frozen ones included, buffers not.
    pub fn parameter_count(&self) -> u64 {
        self.weights.iter().filter(|weight| weight.kind != WeightKind::Buffer).map(Weight::elements).sum()
    }

    /// Names of operators outside the format ([`Op::Other`]), each once, in order of appearance.
    pub fn unknown_operators(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let names = self.nodes.iter().filter_map(|node| match &node.op {
            Op::Other { name } => Some(name.as_str()),
            _ => None,
        });
        names.filter(|name| seen.insert(*name)).collect()
    }

    /// The graph under another name.
    #[must_use]
    pub fn renamed(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

fn check_sizes(parts: &GraphParts) -> Result<()> {
    let tensors = parts.tensors.iter().map(|tensor| (&tensor.name, &tensor.shape));
    let weights = parts.weights.iter().map(|weight| (&weight.name, &weight.shape));
    for (name, shape) in tensors.chain(weights) {
        if shape.rank() > Shape::MAX_RANK {
            return Err(GraphError::OutOfRange {
                what: format!("rank of `{name}`"),
                expected: format!("at most {}", Shape::MAX_RANK),
                found: shape.rank().to_string(),
            });
        }
        if shape.elements(1).is_none_or(|elements| elements > Graph::MAX_ELEMENTS) {
            return Err(GraphError::Overflow { what: format!("size of `{name}`"), found: shape.to_string() });
        }
    }
    let mut total = 0_u64;
    for weight in &parts.weights {
        if weight.shape.scales_with_batch() {
            return Err(GraphError::OutOfRange {
                what: format!("shape of weight `{}`", weight.name),
                expected: "extents that do not depend on the batch".into(),
                found: weight.shape.to_string(),
            });
        }
        let elements = weight.shape.elements(1).unwrap_or(u64::MAX);
        total = total.saturating_add(elements);
        if total > Graph::MAX_ELEMENTS {
            return Err(GraphError::Overflow { what: "number of parameters".into(), found: format!("over {total}") });
        }
    }
    Ok(())
}

/// The node that writes each tensor, `None` for graph inputs.
fn producers(parts: &GraphParts) -> Result<Vec<Option<usize>>> {
    let reference =
        |node: &Node, problem, name: String| GraphError::Reference { node: node.name.clone(), problem, name };
    let mut names = HashMap::with_capacity(parts.nodes.len());
    let mut producers: Vec<Option<usize>> = vec![None; parts.tensors.len()];
    let mut is_input = vec![false; parts.tensors.len()];
    for id in parts.inputs.iter().chain(&parts.outputs) {
        if id.0 as usize >= parts.tensors.len() {
            return Err(GraphError::Reference {
                node: parts.name.clone(),
                problem: "lists an unknown tensor",
                name: id.0.to_string(),
            });
        }
    }
    for id in &parts.inputs {
        is_input[id.0 as usize] = true;
    }
    for (index, node) in parts.nodes.iter().enumerate() {
        if names.insert(node.name.as_str(), index).is_some() {
            return Err(reference(node, "shares its name with another node,", node.name.clone()));
        }
        if let Some(id) = node.weights.iter().find(|id| id.0 as usize >= parts.weights.len()) {
            return Err(reference(node, "uses an unknown weight", id.0.to_string()));
        }
        for id in &node.outputs {
            let slot = id.0 as usize;
            let Some(tensor) = parts.tensors.get(slot) else {
                return Err(reference(node, "writes an unknown tensor", id.0.to_string()));
            };
            if producers[slot].is_some() || is_input[slot] {
                return Err(reference(node, "writes a tensor that is written elsewhere,", tensor.name.clone()));
            }
            producers[slot] = Some(index);
        }
    }
    for node in &parts.nodes {
        for id in &node.inputs {
            let slot = id.0 as usize;
            let Some(tensor) = parts.tensors.get(slot) else {
                return Err(reference(node, "reads an unknown tensor", id.0.to_string()));
            };
            if producers[slot].is_none() && !is_input[slot] {
                return Err(reference(node, "reads a tensor that nothing writes,", tensor.name.clone()));
            }
        }
    }
    Ok(producers)
}

/// Kahn's algorithm with a queue kept in the given order, so that ordered graphs stay as they are.
fn execution_order(parts: &GraphParts, producers: &[Option<usize>]) -> Result<Vec<usize>> {
    let count = parts.nodes.len();
    let mut waiting_for = vec![0_usize; count];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (index, node) in parts.nodes.iter().enumerate() {
        for id in &node.inputs {
            if let Some(producer) = producers[id.0 as usize] {
                waiting_for[index] += 1;
                readers[producer].push(index);
            }
        }
    }
    let mut ready: std::collections::BinaryHeap<std::cmp::Reverse<usize>> =
        (0..count).filter(|&index| waiting_for[index] == 0).map(std::cmp::Reverse).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(std::cmp::Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            waiting_for[reader] -= 1;
            if waiting_for[reader] == 0 {
                ready.push(std::cmp::Reverse(reader));
            }
        }
    }
    if order.len() < count {
        let stuck = (0..count).find(|&index| waiting_for[index] > 0).unwrap_or_default();
        return Err(GraphError::Cycle { node: parts.nodes[stuck].name.clone() });
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(edges: &[(u32, u32)]) -> GraphParts {
        let tensors = (0..=edges.len() as u32)
            .map(|index| TensorSpec { name: format!("t{index}"), shape: Shape::batched(&[4]), dtype: DType::Float32 })
            .collect();
        let nodes = edges
            .iter()
            .map(|&(from, to)| Node {
                name: format!("n{to}"),
                op: Op::Copy,
                inputs: vec![TensorId(from)],
                outputs: vec![TensorId(to)],
                weights: vec![],
            })
            .collect();
        GraphParts { name: "chain".into(), tensors, nodes, inputs: vec![TensorId(0)], ..GraphParts::default() }
    }

    #[test]
    fn nodes_are_put_in_execution_order() {
        let graph = Graph::new(chain(&[(2, 3), (0, 1), (1, 2)])).expect("valid");
        let names: Vec<_> = graph.nodes().iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
    }

    #[test]
    fn a_cycle_is_named() {
        let mut parts = chain(&[(0, 1), (1, 2), (2, 3)]);
        parts.nodes[1].inputs.push(TensorId(3));
        let error = Graph::new(parts).expect_err("cyclic");
        assert!(matches!(error, GraphError::Cycle { .. }), "{error}");
    }

    #[test]
    fn dangling_and_doubled_references_are_refused() {
        let mut parts = chain(&[(0, 1)]);
        parts.nodes[0].inputs[0] = TensorId(9);
        assert!(Graph::new(parts).is_err());
        let mut parts = chain(&[(0, 1), (0, 2)]);
        parts.nodes[1].outputs[0] = TensorId(1);
        assert!(Graph::new(parts).is_err());
    }

    #[test]
    fn an_overflowing_tensor_is_refused() {
        let mut parts = chain(&[(0, 1)]);
        parts.tensors[1].shape = Shape::batched(&[u64::MAX, 8]);
        let error = Graph::new(parts).expect_err("overflow");
        assert!(matches!(error, GraphError::Overflow { .. }), "{error}");
    }

    #[test]
    fn unknown_operators_are_named_once_in_order() {
        let mut parts = chain(&(0..100_000).map(|index| (index, index + 1)).collect::<Vec<_>>());
        for (index, node) in parts.nodes.iter_mut().enumerate() {
            node.op = Op::Other { name: format!("o{}", index / 2) };
        }
        let expected: Vec<_> = (0..50_000).map(|index| format!("o{index}")).collect();
        assert_eq!(Graph::new(parts).expect("valid").unknown_operators(), expected);
    }

    #[test]
    fn a_hundred_thousand_nodes_take_linear_time() {
        let edges: Vec<_> = (0..100_000).map(|index| (index, index + 1)).collect();
        assert_eq!(Graph::new(chain(&edges)).expect("valid").nodes().len(), 100_000);
    }
}
