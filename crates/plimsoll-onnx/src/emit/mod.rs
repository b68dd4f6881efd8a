//! Writes the steps that are left as a graph.

mod layout;
mod tidy;
pub(crate) mod translate;
mod weights;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use plimsoll_graph::{
    Activation, Binary, DType, Dim, Family, Graph, GraphParts, Node, Op, Shape, TensorId, TensorSpec, WeightId,
    WeightKind,
};

use self::layout::Strides;
use self::translate::{Translation, translate};
use self::weights::{Users, Weights};
use crate::error::{OnnxError, Result};
use crate::program::{Program, Step, ValueId};
use crate::read::OnnxGraph;

/// The graph of a program.
pub(crate) fn emit(mut program: Program, what: &str, name: String, mut warnings: Vec<String>) -> Result<OnnxGraph> {
    drop_unread(&mut program);
    let users = Users::of(&program);
    let mut emitter = Emitter {
        program: &program,
        users,
        parts: GraphParts { name, ..GraphParts::default() },
        tensors: vec![None; program.values.len()],
        weights: Weights::default(),
        leaves: leaves(&program),
        writers: HashMap::new(),
        readers: readers(&program),
        names: HashMap::new(),
    };
    for &id in &program.inputs {
        let tensor = emitter.tensor(id, None);
        emitter.parts.inputs.push(tensor);
    }
    for step in &program.steps {
        emitter.step(step);
    }
    emitter.outputs();
    emitter.parts.family = family(&emitter.parts.nodes);
    if !emitter.weights.shared.is_empty() {
        let count = emitter.weights.shared.len();
        warnings.push(format!("{count} tensors are shared by layers without a name: they may be separate parameters that the exporter merged"));
    }
    let mut parts = emitter.parts;
    parts.weights = emitter.weights.all;
    tidy::tidy(&mut parts);
    let graph = Graph::new(parts).map_err(|source| OnnxError::Graph { what: what.into(), source })?;
    for operator in graph.unknown_operators() {
        if operator.chars().next().is_some_and(char::is_uppercase) || operator.contains("::") {
            warnings.push(format!("operator `{operator}` is not known: it is counted conservatively"));
        }
    }
    Ok(OnnxGraph { graph, warnings })
}

/// Drops steps whose results nothing reads.
fn drop_unread(program: &mut Program) {
    let mut wanted: HashSet<ValueId> = program.outputs.iter().copied().collect();
    let mut kept = Vec::with_capacity(program.steps.len());
    for step in std::mem::take(&mut program.steps).into_iter().rev() {
        if step.outputs.iter().any(|id| wanted.contains(id)) {
            wanted.extend(step.inputs.iter().flatten());
            kept.push(step);
        }
    }
    kept.reverse();
    for step in &mut kept {
        // Further results (statistics, masks, indices) follow from the operator.
        while step.outputs.len() > 1 && step.outputs.last().is_some_and(|id| !wanted.contains(id)) {
            step.outputs.pop();
        }
    }
    program.steps = kept;
}

/// Modules that contain no other.
fn leaves(program: &Program) -> HashSet<Rc<str>> {
    let modules: HashSet<Rc<str>> = program.steps.iter().map(|step| step.module.clone()).collect();
    let mut outer: HashSet<String> = HashSet::new();
    for module in &modules {
        for (end, _) in module.match_indices('.') {
            outer.insert(module[..end].into());
        }
    }
    modules.into_iter().filter(|module| !module.is_empty() && !outer.contains(&**module)).collect()
}

/// How many steps, and results, read each value.
fn readers(program: &Program) -> Vec<u32> {
    let mut readers = vec![0; program.values.len()];
    for &id in program.steps.iter().flat_map(|step| step.inputs.iter().flatten()).chain(&program.outputs) {
        readers[id] += 1;
    }
    readers
}

fn family(nodes: &[Node]) -> Family {
    let has = |wanted: fn(&Op) -> bool| nodes.iter().any(|node| wanted(&node.op));
    if has(|op| matches!(op, Op::Attention { .. }))
        || (has(|op| matches!(op, Op::Softmax)) && has(|op| matches!(op, Op::MatMul)))
    {
        Family::Transformer
    } else if has(|op| matches!(op, Op::Conv(_))) {
        Family::Cnn
    } else if has(|op| matches!(op, Op::Recurrent { .. })) {
        Family::Recurrent
    } else if has(|op| matches!(op, Op::Linear)) {
        Family::Mlp
    } else {
        Family::Other
    }
}

struct Emitter<'a> {
    program: &'a Program,
    users: Users,
    parts: GraphParts,
    /// The tensor of a value, and how it lies in memory.
    tensors: Vec<Option<(TensorId, Strides)>>,
    weights: Weights,
    leaves: HashSet<Rc<str>>,
    /// The node that writes a tensor, and how many steps read a value.
    writers: HashMap<TensorId, usize>,
    readers: Vec<u32>,
    names: HashMap<String, u32>,
}

impl Emitter<'_> {
    /// Makes the tensor of a value.
    fn tensor(&mut self, id: ValueId, strides: Option<Strides>) -> TensorId {
        let value = self.program.value(id);
        let tensor = TensorId(self.parts.tensors.len() as u32);
        let name = self.unique(&value.name);
        self.parts.tensors.push(TensorSpec { name, shape: value.shape.clone(), dtype: value.dtype });
        self.tensors[id] = Some((tensor, strides.unwrap_or_else(|| Strides::rows(value.dims()))));
        tensor
    }

    fn unique(&mut self, wanted: &str) -> String {
        let wanted = if wanted.is_empty() { "value" } else { wanted };
        let count = self.names.entry(wanted.into()).or_insert(0);
        *count += 1;
        if *count == 1 {
            return wanted.into();
        }
        let mut name = format!("{wanted}_{count}");
        while self.names.contains_key(&name) {
            name.push('_');
        }
        self.names.insert(name.clone(), 1);
        name
    }

    fn step(&mut self, step: &Step) {
        let Translation { op, operands } = translate(self.program, step);
        let mut inputs = Vec::new();
        let mut weights = Vec::new();
        for &(id, role) in &operands {
            if let Some((tensor, _)) = &self.tensors[id] {
                inputs.push(*tensor);
            } else {
                let is_turned = self.is_turned(step, &op, id);
                weights.extend(self.weights.of(self.program, &self.users, step, id, role, is_turned));
            }
        }
        let strides = self.strides(step, &op);
        let source = step.input(0);
        match op {
            Op::View => self.view(step, source, inputs, weights, strides),
            Op::Linear => self.linear(step, source, inputs, weights),
            Op::MatMul => {
                for (place, &(id, _)) in operands.iter().enumerate().take(2) {
                    if let Some(tensor) = inputs.get_mut(place) {
                        *tensor = self.batched(step, id, *tensor);
                    }
                }
                self.node(step, Op::MatMul, inputs, weights, strides.as_ref());
            }
            Op::BatchNorm => {
                self.count_steps(step, &mut weights);
                self.node(step, Op::BatchNorm, inputs, weights, strides.as_ref());
            }
            Op::Activation { function, .. } => {
                let inplace = self.is_inplace(step, function);
                self.node(step, Op::Activation { function, inplace }, inputs, weights, strides.as_ref());
            }
            op => self.node(step, op, inputs, weights, strides.as_ref()),
        }
    }

    /// Whether an activation may be taken to overwrite its input, which ONNX does not tell.
    ///
    /// Convolutional networks let their rectifiers work in place. It is assumed where no backward pass and no other
    /// step reads the input: behind convolutions, norms of batches and sums.
    fn is_inplace(&self, step: &Step, function: Activation) -> bool {
        let Some((tensor, _)) = step.input(0).and_then(|id| self.tensors[id].as_ref()) else { return false };
        let writer = self.writers.get(tensor).map(|&index| &self.parts.nodes[index].op);
        let is_free = match writer {
            Some(Op::BatchNorm) => matches!(function, Activation::Relu | Activation::LeakyRelu),
            Some(Op::Conv(_) | Op::Binary { function: Binary::Add, .. }) => function == Activation::Relu,
            _ => false,
        };
        is_free && step.input(0).is_some_and(|id| self.readers[id] == 1)
    }

    /// Whether a product reads a weight in another order than a layer keeps it.
    fn is_turned(&self, step: &Step, op: &Op, id: ValueId) -> bool {
        let value = self.program.value(id);
        let stored = value.weight().map(|index| &self.program.stored[index].extents);
        let is_read_as_stored =
            stored.is_some_and(|extents| value.dims().iter().map(|dim| dim.factor()).eq(extents.iter().copied()));
        *op == Op::Linear && step.input(1) == Some(id) && is_read_as_stored && !step.attributes.flag("transB")
    }

    /// The counter that a batch norm keeps beside its statistics, where it keeps any.
    fn count_steps(&mut self, step: &Step, weights: &mut Vec<WeightId>) {
        let has_statistics = weights.iter().any(|id| self.weights.all[id.0 as usize].kind == WeightKind::Buffer);
        if !has_statistics {
            return;
        }
        let own = weights.first().map(|id| self.weights.all[id.0 as usize].name.clone()).unwrap_or_default();
        let path = own.strip_suffix(".weight").map_or_else(|| step.module.to_string(), str::to_owned);
        weights.push(self.weights.add(format!("{path}.num_batches_tracked"), &[], DType::Int64, WeightKind::Buffer));
    }

    /// Another shape of the same storage, or of a copy.
    fn view(
        &mut self,
        step: &Step,
        source: Option<ValueId>,
        mut inputs: Vec<TensorId>,
        weights: Vec<WeightId>,
        strides: Option<Strides>,
    ) {
        let strides = match (strides, source, inputs.first().copied()) {
            (None, Some(source), Some(tensor)) if matches!(step.op(), "Reshape" | "Flatten") => {
                inputs[0] = self.copy(step, tensor, self.program.value(source).shape.clone());
                None
            }
            (strides, ..) => strides,
        };
        if let (Some(source), [output], [input]) = (source, &step.outputs[..], &inputs[..]) {
            let (from, to) = (self.program.value(source), self.program.value(*output));
            let is_same =
                from.shape == to.shape && self.tensors[source].as_ref().map(|(_, strides)| strides) == strides.as_ref();
            if is_same && !self.program.outputs.contains(output) {
                let strides = strides.unwrap_or_else(|| Strides::rows(to.dims()));
                self.tensors[*output] = Some((*input, strides));
                return;
            }
        }
        self.node(step, Op::View, inputs, weights, strides.as_ref());
    }

    /// A linear layer on rows that do not stand one after the other copies them, and adds its bias afterwards.
    fn linear(&mut self, step: &Step, source: Option<ValueId>, mut inputs: Vec<TensorId>, mut weights: Vec<WeightId>) {
        let is_strided = source.is_some_and(|source| {
            let value = self.program.value(source);
            let Some((_, strides)) = &self.tensors[source] else { return false };
            value.rank() > 2 && flat(value.dims(), 1).is_some_and(|flat| strides.viewed(value.dims(), &flat).is_none())
        });
        if !is_strided || inputs.len() != 1 {
            return self.node(step, Op::Linear, inputs, weights, None);
        }
        if let Some(source) = source {
            inputs[0] = self.copy(step, inputs[0], self.program.value(source).shape.clone());
        }
        let bias = if weights.len() > 1 { weights.split_off(1) } else { Vec::new() };
        self.node(step, Op::Linear, inputs, weights, None);
        let Some((tensor, strides)) = step.outputs.first().and_then(|&id| self.tensors[id].clone()) else { return };
        if bias.is_empty() {
            return;
        }
        let name = self.unique(&format!("{}.add", self.parts.nodes.last().map_or("linear", |node| &node.name)));
        let spec = self.parts.tensors[tensor.0 as usize].clone();
        let sum = TensorId(self.parts.tensors.len() as u32);
        self.parts.tensors.push(TensorSpec { name: name.clone(), ..spec });
        let op = Op::Binary { function: Binary::Add, inplace: false };
        self.parts.nodes.push(Node { name, op, inputs: vec![tensor], outputs: vec![sum], weights: bias });
        if let Some(&id) = step.outputs.first() {
            self.tensors[id] = Some((sum, strides));
        }
    }

    /// An operand of a batched product: its matrices must lie behind each other.
    fn batched(&mut self, step: &Step, id: ValueId, tensor: TensorId) -> TensorId {
        let value = self.program.value(id);
        let Some((_, strides)) = &self.tensors[id] else { return tensor };
        let output = step.outputs.first().map(|&output| self.program.value(output));
        let outer = |dims: &[Dim]| dims[..dims.len().saturating_sub(2)].to_vec();
        // Matrices that several others are multiplied by are copied for each.
        let wanted = match output {
            Some(output) if value.rank() == output.rank() => {
                let mut dims = outer(output.dims());
                dims.extend(value.dims().iter().skip(dims.len()));
                dims
            }
            _ => value.dims().to_vec(),
        };
        let is_whole = wanted == value.dims();
        let fits = flat(value.dims(), 2).is_none_or(|flat| strides.viewed(value.dims(), &flat).is_some());
        if value.rank() < 4 || (is_whole && fits) {
            return tensor;
        }
        self.copy(step, tensor, Shape::new(wanted))
    }

    fn copy(&mut self, step: &Step, tensor: TensorId, shape: Shape) -> TensorId {
        let name = self.unique(&path(&step.module, "clone"));
        let dtype = self.parts.tensors[tensor.0 as usize].dtype;
        let copy = TensorId(self.parts.tensors.len() as u32);
        self.parts.tensors.push(TensorSpec { name: name.clone(), shape, dtype });
        self.parts.nodes.push(Node { name, op: Op::Copy, inputs: vec![tensor], outputs: vec![copy], weights: vec![] });
        copy
    }

    fn node(&mut self, step: &Step, op: Op, inputs: Vec<TensorId>, weights: Vec<WeightId>, strides: Option<&Strides>) {
        let is_main = !matches!(op, Op::View | Op::Copy) && self.leaves.contains(&step.module);
        let name = if is_main && !self.names.contains_key(&*step.module) {
            self.unique(&step.module)
        } else {
            let own = if step.label.is_empty() { op.token() } else { &step.label };
            self.unique(&path(&step.module, own))
        };
        let outputs: Vec<TensorId> = step.outputs.iter().map(|&id| self.tensor(id, strides.cloned())).collect();
        for &output in &outputs {
            self.writers.insert(output, self.parts.nodes.len());
        }
        self.parts.nodes.push(Node { name, op, inputs, outputs, weights });
    }

    /// How a step's outputs lie in memory; `None` for row by row, or for a view that cannot be.
    fn strides(&self, step: &Step, op: &Op) -> Option<Strides> {
        let source = step.input(0)?;
        let (from, to) = (self.program.value(source).dims(), self.program.value(*step.outputs.first()?).dims());
        let strides = self.tensors[source].as_ref().map(|(_, strides)| strides);
        match op {
            Op::View => {
                let strides = strides?;
                match step.op() {
                    "Transpose" => {
                        let order: Vec<usize> = match step.attributes.ints("perm") {
                            Some(order) => order.iter().map(|&axis| usize::try_from(axis).unwrap_or(0)).collect(),
                            None => (0..from.len()).rev().collect(),
                        };
                        Some(strides.permuted(&order))
                    }
                    "Expand" => Some(strides.expanded(from, to)),
                    "Slice" => Some(strides.part(&self.slice_steps(step))),
                    "Split" | "Identity" => Some(strides.part(&[])),
                    "Gather" => {
                        let axis = step.attributes.int_or("axis", 0);
                        let axis = if axis < 0 { axis + from.len() as i64 } else { axis };
                        Some(strides.row(usize::try_from(axis).unwrap_or(0)))
                    }
                    _ => strides.viewed(from, to),
                }
            }
            // Results of recurrent layers stand direction by direction within a step of the sequence.
            Op::Attention { .. } | Op::Recurrent { .. } => Some(Strides::tokens_first(to)),
            // Depthwise kernels write row by row.
            Op::Conv(conv) if conv.groups > 1 => None,
            Op::Conv(_) | Op::BatchNorm | Op::Pool(_) | Op::Upsample => strides
                .filter(|strides| strides.is_channels_last(from) && to.len() == from.len())
                .map(|_| Strides::channels_last(to)),
            Op::Activation { .. }
            | Op::Binary { .. }
            | Op::Dropout { .. }
            | Op::StochasticDepth { .. }
            | Op::Other { .. } => {
                // The larger operand leads.
                let lead = step.inputs.iter().flatten().find_map(|&id| {
                    let value = self.program.value(id);
                    let (_, strides) = self.tensors[id].as_ref()?;
                    (value.dims() == to).then(|| strides.elementwise(value.dims(), to))
                });
                lead.or_else(|| strides.map(|strides| strides.elementwise(from, to)))
            }
            _ => None,
        }
    }

    fn slice_steps(&self, step: &Step) -> Vec<(usize, u128)> {
        let numbers = |place: usize| {
            step.input(place).and_then(|id| self.program.value(id).numbers.as_deref()).unwrap_or_default()
        };
        let rank = step.input(0).map_or(0, |id| self.program.value(id).rank()) as i64;
        let steps = numbers(4).iter().zip(numbers(3)).filter_map(|(by, axis)| {
            let axis = axis.whole()?;
            let axis = usize::try_from(if axis < 0 { axis.saturating_add(rank) } else { axis }).ok()?;
            Some((axis, u128::try_from(by.whole()?).ok()?))
        });
        steps.collect()
    }

    /// What the loss sees: results that carry a gradient, or all where none does.
    fn outputs(&mut self) {
        let found = self.program.outputs.iter().filter_map(|&id| self.tensors[id].as_ref().map(|(tensor, _)| *tensor));
        let all: Vec<TensorId> = found.collect();
        let floats: Vec<TensorId> =
            all.iter().copied().filter(|id| self.parts.tensors[id.0 as usize].dtype.is_float()).collect();
        self.parts.outputs = if floats.is_empty() { all } else { floats };
        let mut seen = HashSet::new();
        self.parts.outputs.retain(|id| seen.insert(*id));
    }
}

/// The dimensions before the last ones made one; `None` if they cannot be.
fn flat(dims: &[Dim], kept: usize) -> Option<Vec<Dim>> {
    let (outer, inner) = dims.split_at(dims.len().checked_sub(kept)?);
    let factor = outer.iter().try_fold(1_u64, |product, dim| product.checked_mul(dim.factor()))?;
    let first = match outer.iter().filter(|dim| dim.scales_with_batch()).count() {
        0 => Dim::Fixed(factor),
        1 => Dim::Batch(factor),
        _ => return None,
    };
    Some(std::iter::once(first).chain(inner.iter().copied()).collect())
}

fn path(module: &str, own: &str) -> String {
    if module.is_empty() { own.into() } else { format!("{module}.{own}") }
}
