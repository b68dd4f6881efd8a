//! From rows to a graph: one row after the other, each reading what fits.

use std::collections::HashMap;

use super::bridge::{UNPRINTED, Way};
use super::kinds::Kinds;
use super::layer::Layer;
use super::network::Network;
use super::table::{Parameters, Row, Table};
use super::weights::{self, Spec};
use crate::dtype::DType;
use crate::error::{GraphError, Result};
use crate::graph::{Graph, TensorId, WeightId, WeightKind};
use crate::op::Op;
use crate::shape::Shape;

/// Puts a table's rows together.
pub(super) fn assemble(table: &Table, name: &str, what: &str) -> Result<Graph> {
    let mut assembly = Assembly {
        network: Network::default(),
        input_bytes: table.input_bytes,
        blocks_follow: table.blocks_follow,
        open: Vec::new(),
        known: HashMap::new(),
    };
    let mut kinds = Kinds::default();
    for row in &table.rows {
        assembly.close(row.depth);
        kinds.see(&row.class);
        if row.is_container {
            assembly.container(row);
        } else {
            assembly.layer(row);
        }
    }
    // The model itself stays open: nothing reads its output.
    assembly.close(1);
    let mut parts = assembly.network.finish();
    let malformed = |at: &str, expected: String, found: String| GraphError::Malformed {
        what: what.into(),
        at: at.into(),
        expected,
        found,
    };
    if parts.nodes.is_empty() {
        let found = format!("{} rows without", table.rows.len());
        return Err(malformed("the table", "a layer with an output shape".into(), found));
    }
    let root = table.rows.first().filter(|row| row.is_container && row.depth == 0);
    parts.name = root.map_or(name, |root| root.class.as_str()).into();
    parts.family = kinds.family();
    let graph = Graph::new(parts)?;
    let sum = graph.parameter_count();
    match table.total {
        Some(total) if total != sum => {
            Err(malformed("`Total params`", format!("the sum of the rows, {sum}"), total.to_string()))
        }
        _ => Ok(graph),
    }
}

/// A network with what else is needed to read the next row.
pub(super) struct Assembly {
    pub(super) network: Network,
    /// Bytes of one input sample, at least and at most.
    pub(super) input_bytes: Option<(f64, f64)>,
    /// Whether a block's own row follows its layers.
    pub(super) blocks_follow: bool,
    /// Containers whose layers are being read, outermost first.
    open: Vec<Open>,
    /// What the row of a module had, for when it runs again.
    known: HashMap<String, Known>,
}

struct Open {
    depth: usize,
    /// The first tensor computed inside.
    since: u32,
    output: Option<Shape>,
    name: String,
}

struct Known {
    count: u64,
    weights: Vec<WeightId>,
}

/// A layer's row on its way into the network.
pub(super) struct Current<'a> {
    pub(super) row: &'a Row,
    pub(super) name: String,
    pub(super) output: Shape,
    /// Parameters, of the first run if this is another.
    pub(super) count: u64,
    kind: WeightKind,
    /// The weights of the first run, in reverse.
    shared: Option<Vec<WeightId>>,
}

impl Assembly {
    /// Ends the containers that a row of this depth is not in.
    fn close(&mut self, depth: usize) {
        while let Some(container) = self.open.pop_if(|container| container.depth >= depth) {
            if let Some(output) = container.output.filter(|_| container.depth > 0) {
                self.end(&output, &container.name);
            }
            self.network.since = self.open.last().map_or(0, |open| open.since);
        }
    }

    /// Ends a container; what nothing tells of its end becomes a node.
    fn end(&mut self, output: &Shape, name: &str) {
        let has_layers = self.network.current.is_some_and(|current| current.0 >= self.network.since);
        if has_layers && !self.network.settle(output, name) {
            let name = self.network.unique(&format!("{name}.{UNPRINTED}"));
            let op = Op::Other { name: UNPRINTED.into() };
            self.network.node(name, op, self.network.loose_ends(), Vec::new(), output.clone());
        }
    }

    fn container(&mut self, row: &Row) {
        if self.network.current.is_none() && self.network.model_input.is_none() {
            self.network.model_input.clone_from(&row.input);
        }
        let name = self.network.unique(&row.name);
        self.pend(row, &name);
        self.network.since = if row.depth == 0 { 0 } else { self.network.parts.tensors.len() as u32 };
        self.open.push(Open { depth: row.depth, since: self.network.since, output: row.output.clone(), name });
    }

    /// Keeps parameters that belong to no printed layer for the next node.
    fn pend(&mut self, row: &Row, name: &str) {
        let (count, kind) = match row.parameters {
            Parameters::Trained(count) => (count, WeightKind::Parameter),
            Parameters::Frozen(count) => (count, WeightKind::Frozen),
            Parameters::None | Parameters::Shared => return,
        };
        let weight = self.network.weight(format!("{name}.parameters"), &[count], DType::Float32, kind);
        self.network.pend(weight);
    }

    fn layer(&mut self, row: &Row) {
        let name = self.network.unique(&row.name);
        let Some(output) = row.output.clone().filter(|output| output.rank() > 0) else {
            return self.pend(row, &name);
        };
        let layer = Layer::of(&row.class);
        if self.network.current.is_none()
            && let Some(input) = self.network.model_input.take_if(|_| layer != Layer::Embedding)
        {
            self.network.input("input", input, DType::Float32);
        }
        // A module keeps its path; without one, the last of its class and output is the likeliest.
        let key = if row.is_path { row.name.clone() } else { format!("{} {output}", row.class) };
        let (count, kind, shared) = match row.parameters {
            Parameters::None => (0, WeightKind::Parameter, None),
            Parameters::Trained(count) => (count, WeightKind::Parameter, None),
            Parameters::Frozen(count) => (count, WeightKind::Frozen, None),
            Parameters::Shared => {
                let known = self.known.get(&key);
                let weights = known.map_or_else(Vec::new, |known| known.weights.iter().rev().copied().collect());
                (known.map_or(0, |known| known.count), WeightKind::Parameter, Some(weights))
            }
        };
        let is_new = shared.is_none() && count > 0;
        let first = self.network.parts.weights.len() as u32;
        self.dispatch(layer, &mut Current { row, name, output, count, kind, shared });
        if is_new {
            let weights = (first..self.network.parts.weights.len() as u32).map(WeightId).collect();
            self.known.insert(key, Known { count, weights });
        }
    }

    fn dispatch(&mut self, layer: Layer, current: &mut Current) {
        match layer {
            Layer::Linear => self.linear(current),
            Layer::Conv { rank, transposed } => self.conv(current, rank, transposed),
            Layer::BatchNorm => {
                let specs = weights::batch_norm(current.count, &current.output);
                self.keeping(current, Op::BatchNorm, specs);
            }
            Layer::Norm(op) => self.norm(current, op),
            Layer::Elementwise(op) => self.keeping(current, op, weights::flat(current.count)),
            Layer::Pool(kind) => self.pool(current, kind),
            Layer::Embedding => self.embedding(current),
            Layer::Recurrent(cell) => self.recurrent(current, cell),
            Layer::Attention => self.attention(current),
            Layer::Reshape(op) => self.chain(current, op),
            Layer::Other => self.other(current),
        }
    }

    /// A node with weights that are new or those of an earlier run.
    pub(super) fn node(
        &mut self,
        current: &mut Current,
        name: String,
        op: Op,
        inputs: Vec<TensorId>,
        specs: Vec<Spec>,
        shape: Shape,
    ) -> TensorId {
        let mut used = Vec::with_capacity(specs.len());
        for spec in specs {
            if let Some(shared) = &mut current.shared {
                used.extend(shared.pop());
                continue;
            }
            let kind = if spec.buffer.is_some() { WeightKind::Buffer } else { current.kind };
            let dtype = spec.buffer.unwrap_or_default();
            used.push(self.network.weight(format!("{name}.{}", spec.name), &spec.extents, dtype, kind));
        }
        self.network.node(name, op, inputs, used, shape)
    }

    /// The node that the row names.
    pub(super) fn single(&mut self, current: &mut Current, op: Op, input: TensorId, specs: Vec<Spec>) {
        self.node(current, current.name.clone(), op, vec![input], specs, current.output.clone());
    }

    /// A node that reads the printed input, else what the row before computed.
    pub(super) fn chain(&mut self, current: &mut Current, op: Op) {
        let input = match (&current.row.input, self.network.current) {
            (None, Some(last)) => last,
            (printed, _) => self.network.need(printed.as_ref().unwrap_or(&current.output), &current.name),
        };
        self.single(current, op, input, weights::flat(current.count));
    }

    /// A node whose output has its input's shape.
    fn keeping(&mut self, current: &mut Current, op: Op, specs: Vec<Spec>) {
        let shape = current.row.input.as_ref().unwrap_or(&current.output);
        let input = self.network.need_by(Way::KEEPING, shape, &current.name);
        self.single(current, op, input, specs);
    }

    /// The tensor of a shape; where it is the last row's, what branched off before is added to it.
    pub(super) fn read(&mut self, shape: &Shape, name: &str) -> TensorId {
        let input = self.network.need(shape, name);
        if self.network.current != Some(input) {
            return input;
        }
        self.network.join(name);
        self.network.current.unwrap_or(input)
    }
}
