//! A network being written down: its weights in the order of the library's constructors, then its operators in the
//! order of its forward pass.

use std::collections::HashMap;

use super::module::Module;
use crate::dtype::DType;
use crate::error::Result;
use crate::family::Family;
use crate::graph::{Graph, GraphParts, Node, TensorId, TensorSpec, Weight, WeightId, WeightKind};
use crate::op::Op;
use crate::shape::Shape;

/// A tensor of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value(u32);

/// A weight of the network. Buffers stand behind all parameters, so their place is known only in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Parameter(u32),
    Buffer(u32),
}

/// One operator.
struct Step {
    name: String,
    op: Op,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    weights: Vec<Slot>,
}

/// Weights and operators so far.
#[derive(Default)]
pub(super) struct Network {
    parameters: Vec<Weight>,
    buffers: Vec<Weight>,
    slots: HashMap<String, Slot>,
    tensors: Vec<TensorSpec>,
    inputs: Vec<Value>,
    steps: Vec<Step>,
    taken: HashMap<String, u32>,
}

impl Network {
    /// The outermost module.
    pub(super) fn root(&mut self) -> Module<'_> {
        Module::new(self, String::new())
    }

    /// A tensor that is fed in.
    pub(super) fn input(&mut self, name: &str, shape: Shape, dtype: DType) -> Value {
        let value = self.tensor(self.tensors.len(), name.into(), shape, dtype);
        self.inputs.push(value);
        value
    }

    fn tensor(&mut self, index: usize, name: String, shape: Shape, dtype: DType) -> Value {
        self.tensors.push(TensorSpec { name, shape, dtype });
        Value(index as u32)
    }

    /// Declares a weight.
    pub(super) fn declare(&mut self, name: String, extents: &[u64], dtype: DType, kind: WeightKind) {
        let (list, slot): (_, fn(u32) -> Slot) = match kind {
            WeightKind::Buffer => (&mut self.buffers, Slot::Buffer),
            WeightKind::Parameter | WeightKind::Frozen => (&mut self.parameters, Slot::Parameter),
        };
        self.slots.insert(name.clone(), slot(list.len() as u32));
        list.push(Weight { name, shape: Shape::fixed(extents), dtype, kind });
    }

    /// Makes one name stand for the weight of another.
    pub(super) fn tie(&mut self, name: String, to: &str) {
        let slot = self.slot(to).expect("tied to a weight that was declared");
        self.slots.insert(name, slot);
    }

    /// The weight of a name, if it was declared.
    pub(super) fn slot(&self, name: &str) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// The shape of a weight.
    pub(super) fn weight_shape(&self, slot: Slot) -> &Shape {
        match slot {
            Slot::Parameter(index) => &self.parameters[index as usize].shape,
            Slot::Buffer(index) => &self.buffers[index as usize].shape,
        }
    }

    /// The shape of a tensor.
    pub(super) fn shape(&self, value: Value) -> &Shape {
        &self.tensors[value.0 as usize].shape
    }

    /// The element type of a tensor.
    pub(super) fn dtype(&self, value: Value) -> DType {
        self.tensors[value.0 as usize].dtype
    }

    /// Appends an operator with outputs of these shapes. A name that is taken gets a number.
    pub(super) fn push(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[Value],
        weights: Vec<Slot>,
        shapes: Vec<Shape>,
        dtype: DType,
    ) -> Vec<Value> {
        let name = self.unique(name);
        let outputs: Vec<Value> = shapes
            .into_iter()
            .enumerate()
            .map(|(index, shape)| {
                let name = if index == 0 { name.clone() } else { format!("{name}:{index}") };
                self.tensor(self.tensors.len(), name, shape, dtype)
            })
            .collect();
        self.steps.push(Step { name, op, inputs: inputs.to_vec(), outputs: outputs.clone(), weights });
        outputs
    }

    fn unique(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while let Some(count) = self.taken.get_mut(wanted) {
            *count += 1;
            name = format!("{wanted}_{count}");
            if !self.taken.contains_key(&name) {
                break;
            }
        }
        self.taken.insert(name.clone(), 1);
        name
    }

    /// The graph, in which a view of a view that nobody else reads is one view.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub(super) fn finish(mut self, name: String, outputs: &[Value]) -> Result<Graph> {
        self.join_views(outputs);
        let parameters = self.parameters.len() as u32;
        let id = |slot: &Slot| match *slot {
            Slot::Parameter(index) => WeightId(index),
            Slot::Buffer(index) => WeightId(parameters + index),
        };
        let mut parts = GraphParts { name, family: Family::Transformer, ..GraphParts::default() };
        let mut ids = vec![TensorId(u32::MAX); self.tensors.len()];
        let mut tensors: Vec<Option<TensorSpec>> = self.tensors.into_iter().map(Some).collect();
        let written = self.steps.iter().flat_map(|step| &step.outputs);
        for value in self.inputs.iter().chain(written) {
            let slot = value.0 as usize;
            ids[slot] = TensorId(parts.tensors.len() as u32);
            parts.tensors.extend(tensors[slot].take());
        }
        let of = |values: &[Value]| values.iter().map(|value| ids[value.0 as usize]).collect::<Vec<_>>();
        parts.inputs = of(&self.inputs);
        parts.outputs = of(outputs);
        parts.nodes = self
            .steps
            .into_iter()
            .map(|step| Node {
                inputs: of(&step.inputs),
                outputs: of(&step.outputs),
                weights: step.weights.iter().map(id).collect(),
                name: step.name,
                op: step.op,
            })
            .collect();
        parts.weights = self.parameters;
        parts.weights.append(&mut self.buffers);
        Graph::new(parts)
    }

    fn join_views(&mut self, outputs: &[Value]) {
        let mut readers = vec![0_u32; self.tensors.len()];
        for value in self.steps.iter().flat_map(|step| &step.inputs).chain(outputs) {
            readers[value.0 as usize] += 1;
        }
        let mut views: HashMap<u32, usize> = HashMap::new();
        let mut is_joined = vec![false; self.steps.len()];
        for index in 0..self.steps.len() {
            if self.steps[index].op != Op::View {
                continue;
            }
            if let [input] = self.steps[index].inputs[..]
                && readers[input.0 as usize] == 1
                && let Some(&before) = views.get(&input.0)
            {
                is_joined[before] = true;
                self.steps[index].inputs = std::mem::take(&mut self.steps[before].inputs);
            }
            if let [output] = self.steps[index].outputs[..] {
                views.insert(output.0, index);
            }
        }
        let mut joined = is_joined.into_iter();
        self.steps.retain(|_| joined.next() != Some(true));
    }
}
