//! The graph under construction, and which of its tensors a row may read.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::graph::{GraphParts, Node, TensorId, TensorSpec, Weight, WeightId, WeightKind};
use crate::op::Op;
use crate::shape::{Dim, Shape};

/// How many unread tensors are looked at: branches are closed soon, and a look must not take long.
const WINDOW: usize = 16;

/// Nodes so far, with what it takes to find a tensor by its shape.
#[derive(Default)]
pub(super) struct Network {
    pub(super) parts: GraphParts,
    /// The tensor of the last row.
    pub(super) current: Option<TensorId>,
    /// Shape of the model's input, if it is printed and the input does not exist yet.
    pub(super) model_input: Option<Shape>,
    /// Tensors from here on were computed in the innermost open container.
    pub(super) since: u32,
    /// Tensors before this one belong to a block that has ended and are not added to a later one's.
    joins_from: u32,
    names: HashMap<String, u32>,
    is_read: Vec<bool>,
    unread: Vec<TensorId>,
    by_shape: HashMap<Shape, Vec<TensorId>>,
    by_channels: HashMap<(usize, Dim), Vec<TensorId>>,
    /// Weights of containers, for the next node.
    pending: Vec<WeightId>,
}

impl Network {
    pub(super) fn shape(&self, id: TensorId) -> &Shape {
        &self.parts.tensors[id.0 as usize].shape
    }

    /// A name that no node has.
    pub(super) fn unique(&mut self, name: &str) -> String {
        let mut candidate = name.to_owned();
        while self.names.contains_key(&candidate) {
            let count = self.names.entry(name.to_owned()).or_insert(1);
            *count += 1;
            candidate = format!("{name}#{count}");
        }
        self.names.insert(candidate.clone(), 1);
        candidate
    }

    /// A tensor that is fed in.
    pub(super) fn input(&mut self, name: &str, shape: Shape, dtype: DType) -> TensorId {
        let name = self.unique(name);
        let id = self.tensor(name, shape, dtype);
        self.parts.inputs.push(id);
        if dtype.is_float() {
            self.remember(id);
            self.current = Some(id);
        }
        id
    }

    /// A graph input of whole numbers; those of one shape are one.
    pub(super) fn indices(&mut self, name: &str, shape: &Shape) -> TensorId {
        let is_it = |id: &&TensorId| {
            let tensor = &self.parts.tensors[id.0 as usize];
            tensor.dtype == DType::Int64 && tensor.shape == *shape
        };
        match self.parts.inputs.iter().rev().take(WINDOW).find(is_it) {
            Some(&id) => id,
            None => self.input(name, shape.clone(), DType::Int64),
        }
    }

    pub(super) fn weight(&mut self, name: String, extents: &[u64], dtype: DType, kind: WeightKind) -> WeightId {
        self.parts.weights.push(Weight { name, shape: Shape::fixed(extents), dtype, kind });
        WeightId((self.parts.weights.len() - 1) as u32)
    }

    /// A weight that the next node uses.
    pub(super) fn pend(&mut self, weight: WeightId) {
        self.pending.push(weight);
    }

    /// A node of a unique name; its output becomes the current tensor.
    pub(super) fn node(
        &mut self,
        name: String,
        op: Op,
        inputs: Vec<TensorId>,
        mut weights: Vec<WeightId>,
        shape: Shape,
    ) -> TensorId {
        weights.append(&mut self.pending);
        for input in &inputs {
            self.is_read[input.0 as usize] = true;
        }
        let output = self.tensor(name.clone(), shape, DType::Float32);
        self.parts.nodes.push(Node { name, op, inputs, outputs: vec![output], weights });
        self.remember(output);
        self.current = Some(output);
        output
    }

    fn tensor(&mut self, name: String, shape: Shape, dtype: DType) -> TensorId {
        self.parts.tensors.push(TensorSpec { name, shape, dtype });
        self.is_read.push(false);
        TensorId((self.parts.tensors.len() - 1) as u32)
    }

    fn remember(&mut self, id: TensorId) {
        let shape = self.shape(id).clone();
        if let Some(&channels) = shape.dims().get(1) {
            self.by_channels.entry((shape.rank(), channels)).or_default().push(id);
        }
        self.by_shape.entry(shape).or_default().push(id);
        while self.unread.last().is_some_and(|last| self.is_read[last.0 as usize]) {
            self.unread.pop();
        }
        self.unread.push(id);
    }

    /// Tensors of the open container that nothing reads yet, latest first.
    pub(super) fn unread(&self) -> impl Iterator<Item = TensorId> + '_ {
        let recent = self.unread.iter().rev().take(WINDOW).copied();
        recent.filter(|id| id.0 >= self.since && !self.is_read[id.0 as usize])
    }

    /// Ends a block that a row of its own speaks of.
    pub(super) fn block_ends(&mut self) {
        self.joins_from = self.parts.tensors.len() as u32;
    }

    /// Unread tensors of the current one's shape: branches that may be added to it.
    pub(super) fn summands(&self, current: TensorId) -> Vec<TensorId> {
        let is_one =
            |id: &TensorId| *id != current && id.0 >= self.joins_from && self.shape(*id) == self.shape(current);
        self.unread().filter(is_one).collect()
    }

    /// Earlier tensors of exactly a shape, latest first, without the current one.
    pub(super) fn earlier(&self, shape: &Shape) -> impl Iterator<Item = TensorId> + '_ {
        let known = self.by_shape.get(shape).map_or(&[][..], Vec::as_slice);
        known.iter().rev().take(WINDOW).copied().filter(|&id| Some(id) != self.current)
    }

    /// Earlier tensors of a rank and channel count, latest first, without the current one.
    pub(super) fn of_channels(&self, rank: usize, channels: Dim) -> impl Iterator<Item = TensorId> + '_ {
        let known = self.by_channels.get(&(rank, channels)).map_or(&[][..], Vec::as_slice);
        known.iter().rev().take(WINDOW).copied().filter(|&id| Some(id) != self.current)
    }

    /// The parts: what no node reads is what the loss sees, and weights without a node go to the last one.
    pub(super) fn finish(mut self) -> GraphParts {
        let computed = self.parts.nodes.iter().flat_map(|node| &node.outputs).copied();
        self.parts.outputs = computed.filter(|id| !self.is_read[id.0 as usize]).collect();
        if let Some(last) = self.parts.nodes.last_mut() {
            last.weights.append(&mut self.pending);
        }
        self.inputs_first();
        self.parts
    }

    /// Numbers the inputs before what is computed, as a file does.
    fn inputs_first(&mut self) {
        let mut is_input = vec![false; self.parts.tensors.len()];
        for id in &self.parts.inputs {
            is_input[id.0 as usize] = true;
        }
        let (inputs, computed): (Vec<usize>, Vec<usize>) = (0..is_input.len()).partition(|&index| is_input[index]);
        let mut number = vec![TensorId(0); is_input.len()];
        let mut tensors = Vec::with_capacity(is_input.len());
        for (new, old) in inputs.into_iter().chain(computed).enumerate() {
            number[old] = TensorId(new as u32);
            tensors.push(self.parts.tensors[old].clone());
        }
        self.parts.tensors = tensors;
        let nodes = self.parts.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs));
        for id in nodes.chain(&mut self.parts.inputs).chain(&mut self.parts.outputs) {
            *id = number[id.0 as usize];
        }
    }
}
