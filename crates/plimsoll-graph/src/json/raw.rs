//! The graph document as it stands in a file, before it is checked.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::raw_step::RawStep;
use crate::dtype::DType;
use crate::error::{GraphError, Result};
use crate::family::Family;
use crate::graph::{Graph, GraphParts, Node, NodeId, TensorId, TensorSpec, Weight, WeightId, WeightKind};
use crate::op::Op;
use crate::shape::Shape;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGraph {
    plimsoll_graph: u32,
    name: String,
    #[serde(default)]
    family: Family,
    inputs: Vec<RawTensor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    weights: Vec<RawWeight>,
    nodes: Vec<RawNode>,
    outputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<RawStep>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    name: String,
    shape: Shape,
    #[serde(default, skip_serializing_if = "is_default")]
    dtype: DType,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWeight {
    name: String,
    shape: Shape,
    #[serde(default, skip_serializing_if = "is_default")]
    dtype: DType,
    #[serde(default = "parameter", skip_serializing_if = "is_parameter")]
    kind: WeightKind,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    name: String,
    op: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    attributes: Map<String, Value>,
    inputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    weights: Vec<String>,
    outputs: Vec<RawTensor>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn parameter() -> WeightKind {
    WeightKind::Parameter
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_parameter(kind: &WeightKind) -> bool {
    *kind == WeightKind::Parameter
}

impl RawGraph {
    pub(super) fn check(self, what: &str) -> Result<Graph> {
        if self.plimsoll_graph != super::VERSION {
            return Err(GraphError::Malformed {
                what: what.into(),
                at: "`plimsoll_graph`".into(),
                expected: format!("version {}", super::VERSION),
                found: self.plimsoll_graph.to_string(),
            });
        }
        let mut tensors = Names::new("declares a tensor twice,", "reads an unknown tensor");
        let mut weights = Names::new("declares a weight twice,", "uses an unknown weight");
        let mut parts = GraphParts { name: self.name, family: self.family, ..GraphParts::default() };
        for tensor in self.inputs {
            parts.inputs.push(TensorId(tensors.add("inputs", &tensor.name)?));
            parts.tensors.push(TensorSpec { name: tensor.name, shape: tensor.shape, dtype: tensor.dtype });
        }
        for weight in self.weights {
            weights.add("weights", &weight.name)?;
            parts.weights.push(Weight {
                name: weight.name,
                shape: weight.shape,
                dtype: weight.dtype,
                kind: weight.kind,
            });
        }
        let names: Vec<String> =
            if self.steps.is_empty() { Vec::new() } else { self.nodes.iter().map(|node| node.name.clone()).collect() };
        // Outputs first: a node may read what a later line writes.
        let mut outputs = Vec::with_capacity(self.nodes.len());
        let mut rest = Vec::with_capacity(self.nodes.len());
        for node in self.nodes {
            let mut ids = Vec::with_capacity(node.outputs.len());
            for tensor in node.outputs {
                ids.push(TensorId(tensors.add(&node.name, &tensor.name)?));
                parts.tensors.push(TensorSpec { name: tensor.name, shape: tensor.shape, dtype: tensor.dtype });
            }
            outputs.push(ids);
            rest.push((node.name, node.op, node.attributes, node.inputs, node.weights));
        }
        for ((name, op, attributes, inputs, used), outputs) in rest.into_iter().zip(outputs) {
            let op = parse_op(what, &name, op, attributes)?;
            let inputs = inputs.iter().map(|input| tensors.find(&name, input).map(TensorId)).collect::<Result<_>>()?;
            let used = used.iter().map(|weight| weights.find(&name, weight).map(WeightId)).collect::<Result<_>>()?;
            parts.nodes.push(Node { name, op, inputs, outputs, weights: used });
        }
        for output in &self.outputs {
            parts.outputs.push(TensorId(tensors.find("outputs", output)?));
        }
        let graph = Graph::new(parts)?;
        if self.steps.is_empty() {
            return Ok(graph);
        }
        // Records refer to nodes as the file has them, the graph may have put them in another order.
        let places: HashMap<&str, NodeId> =
            graph.nodes().iter().zip(0..).map(|(node, index)| (node.name.as_str(), NodeId(index))).collect();
        let order: Vec<NodeId> = names.iter().map(|name| places[name.as_str()]).collect();
        let steps = self.steps.into_iter().enumerate();
        let steps = steps.map(|(number, step)| step.parse(what, number, &order)).collect::<Result<_>>()?;
        graph.with_step_records(steps)
    }

    pub(super) fn from_graph(graph: &Graph) -> Self {
        let tensor = |id: TensorId| {
            let tensor = graph.tensor(id);
            RawTensor { name: tensor.name.clone(), shape: tensor.shape.clone(), dtype: tensor.dtype }
        };
        let tensor_name = |id: &TensorId| graph.tensor(*id).name.clone();
        Self {
            plimsoll_graph: super::VERSION,
            name: graph.name().into(),
            family: graph.family(),
            inputs: graph.inputs().iter().copied().map(tensor).collect(),
            weights: graph
                .weights()
                .iter()
                .map(|weight| RawWeight {
                    name: weight.name.clone(),
                    shape: weight.shape.clone(),
                    dtype: weight.dtype,
                    kind: weight.kind,
                })
                .collect(),
            nodes: graph
                .nodes()
                .iter()
                .map(|node| {
                    let (op, attributes) = op_parts(&node.op);
                    RawNode {
                        name: node.name.clone(),
                        op,
                        attributes,
                        inputs: node.inputs.iter().map(tensor_name).collect(),
                        weights: node.weights.iter().map(|id| graph.weight(*id).name.clone()).collect(),
                        outputs: node.outputs.iter().copied().map(tensor).collect(),
                    }
                })
                .collect(),
            outputs: graph.outputs().iter().map(tensor_name).collect(),
            steps: graph.step_records().iter().map(RawStep::from_record).collect(),
        }
    }
}

/// Names already seen, with their index.
struct Names {
    known: HashMap<String, u32>,
    twice: &'static str,
    unknown: &'static str,
}

impl Names {
    fn new(twice: &'static str, unknown: &'static str) -> Self {
        Self { known: HashMap::new(), twice, unknown }
    }

    fn add(&mut self, node: &str, name: &str) -> Result<u32> {
        let index = self.known.len() as u32;
        if self.known.insert(name.to_owned(), index).is_some() {
            return Err(GraphError::Reference { node: node.into(), problem: self.twice, name: name.into() });
        }
        Ok(index)
    }

    fn find(&self, node: &str, name: &str) -> Result<u32> {
        self.known.get(name).copied().ok_or_else(|| GraphError::Reference {
            node: node.into(),
            problem: self.unknown,
            name: name.into(),
        })
    }
}

fn parse_op(what: &str, node: &str, op: String, mut attributes: Map<String, Value>) -> Result<Op> {
    if !Op::NAMES.contains(&op.as_str()) {
        let name = match (op.as_str(), attributes.get("name")) {
            ("other", Some(Value::String(name))) => name.clone(),
            _ => op,
        };
        return Ok(Op::Other { name });
    }
    attributes.insert("op".into(), Value::String(op));
    serde_json::from_value(Value::Object(attributes)).map_err(|error| GraphError::Malformed {
        what: what.into(),
        at: format!("node `{node}`"),
        expected: "the operator's attributes".into(),
        found: error.to_string(),
    })
}

fn op_parts(op: &Op) -> (String, Map<String, Value>) {
    let Ok(Value::Object(mut attributes)) = serde_json::to_value(op) else {
        unreachable!("an operator serialises to an object");
    };
    let Some(Value::String(name)) = attributes.remove("op") else {
        unreachable!("an operator serialises with its tag");
    };
    (name, attributes)
}
