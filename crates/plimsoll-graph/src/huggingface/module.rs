//! What modules are made of: weights that a constructor declares and operators that `forward` runs, under the names
//! that the library gives them.

use super::network::{Network, Slot, Value};
use crate::dtype::DType;
use crate::graph::WeightKind;
use crate::op::{Activation, Binary, Op};
use crate::shape::{Dim, Shape};

/// A module of a network, by its path.
pub(super) struct Module<'n> {
    network: &'n mut Network,
    path: String,
}

impl<'n> Module<'n> {
    pub(super) const fn new(network: &'n mut Network, path: String) -> Self {
        Self { network, path }
    }

    /// A module inside this one; no name means this one.
    pub(super) fn child(&mut self, name: &str) -> Module<'_> {
        let path = self.named(name);
        Module { network: self.network, path }
    }

    /// A path inside the module.
    pub(super) fn named(&self, name: &str) -> String {
        match (self.path.as_str(), name) {
            (path, "") => path.to_owned(),
            ("", name) => name.to_owned(),
            (path, name) => format!("{path}.{name}"),
        }
    }

    pub(super) fn shape(&self, value: Value) -> &Shape {
        self.network.shape(value)
    }

    // Constructors.

    pub(super) fn new_parameter(&mut self, name: &str, extents: &[u64]) {
        let name = self.named(name);
        self.network.declare(name, extents, DType::Float32, WeightKind::Parameter);
    }

    pub(super) fn new_frozen(&mut self, name: &str, extents: &[u64]) {
        let name = self.named(name);
        self.network.declare(name, extents, DType::Float32, WeightKind::Frozen);
    }

    pub(super) fn new_buffer(&mut self, name: &str, extents: &[u64], dtype: DType) {
        let name = self.named(name);
        self.network.declare(name, extents, dtype, WeightKind::Buffer);
    }

    pub(super) fn new_linear(&mut self, name: &str, from: u64, to: u64, bias: bool) {
        self.new_weights(name, &[to, from], bias.then_some(to));
    }

    /// A linear layer whose weight stands the other way round.
    pub(super) fn new_transposed_linear(&mut self, name: &str, from: u64, to: u64) {
        self.new_weights(name, &[from, to], Some(to));
    }

    pub(super) fn new_embedding(&mut self, name: &str, rows: u64, width: u64) {
        self.new_weights(name, &[rows, width], None);
    }

    pub(super) fn new_layer_norm(&mut self, name: &str, width: u64) {
        self.new_weights(name, &[width], Some(width));
    }

    /// A weight of any shape and perhaps a bias.
    pub(super) fn new_weights(&mut self, name: &str, weight: &[u64], bias: Option<u64>) {
        self.new_parameter(&format!("{name}.weight"), weight);
        if let Some(width) = bias {
            self.new_parameter(&format!("{name}.bias"), &[width]);
        }
    }

    /// Makes a name of this module stand for a weight declared elsewhere, by its full name.
    pub(super) fn tie(&mut self, name: &str, to: &str) {
        let name = self.named(name);
        self.network.tie(name, to);
    }

    // Operators.

    /// Any operator of one output. No name means the module's own, which the first operator of a module without
    /// children has.
    pub(super) fn node(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[Value],
        weights: Vec<Slot>,
        shape: Shape,
        dtype: DType,
    ) -> Value {
        let name = self.named(name);
        self.network.push(&name, op, inputs, weights, vec![shape], dtype)[0]
    }

    /// An operator whose output has its first input's shape and type.
    pub(super) fn like(&mut self, name: &str, op: Op, inputs: &[Value], weights: Vec<Slot>) -> Value {
        let (shape, dtype) = (self.shape(inputs[0]).clone(), self.network.dtype(inputs[0]));
        self.node(name, op, inputs, weights, shape, dtype)
    }

    /// A weight that was declared in this module.
    pub(super) fn weight(&self, name: &str) -> Slot {
        self.network.slot(&self.named(name)).expect("the constructor declares what `forward` uses")
    }

    /// Weight and bias of a module, those of them that there are.
    fn weights(&self, name: &str) -> Vec<Slot> {
        let path = self.named(name);
        ["weight", "bias"].iter().filter_map(|part| self.network.slot(&format!("{path}.{part}"))).collect()
    }

    fn features(&self, name: &str, axis: usize) -> Dim {
        let slot = self.weight(&format!("{name}.weight"));
        self.network.weight_shape(slot).dims()[axis]
    }

    /// A linear layer over the last dimension.
    pub(super) fn linear(&mut self, name: &str, input: Value) -> Value {
        let features = self.features(name, 0);
        self.product(name, input, features)
    }

    /// The same with a weight that stands the other way round.
    pub(super) fn transposed_linear(&mut self, name: &str, input: Value) -> Value {
        let features = self.features(name, 1);
        self.product(name, input, features)
    }

    fn product(&mut self, name: &str, input: Value, features: Dim) -> Value {
        let mut dims = self.shape(input).dims().to_vec();
        dims.pop();
        dims.push(features);
        let weights = self.weights(name);
        self.node(name, Op::Linear, &[input], weights, Shape::new(dims), DType::Float32)
    }

    /// Rows of the module's table.
    pub(super) fn embedding(&mut self, name: &str, indices: Value) -> Value {
        let weights = self.weights(name);
        let width = self.features(name, 1);
        let shape = Shape::new(self.shape(indices).dims().iter().copied().chain([width]));
        self.node(name, Op::Embedding { sparse: false }, &[indices], weights, shape, DType::Float32)
    }

    /// Rows of the table of positions, at positions that are a buffer.
    pub(super) fn listed_positions(&mut self, tokens: u64, width: u64) -> Value {
        let weights = ["position_embeddings.weight", "position_ids"].map(|name| self.weight(name)).to_vec();
        let shape = Shape::fixed(&[1, tokens, width]);
        self.node("position_embeddings", Op::Embedding { sparse: false }, &[], weights, shape, DType::Float32)
    }

    pub(super) fn layer_norm(&mut self, name: &str, input: Value) -> Value {
        let weights = self.weights(name);
        self.like(name, Op::LayerNorm, &[input], weights)
    }

    /// Dropout; at a probability of zero there is none.
    pub(super) fn dropout(&mut self, name: &str, input: Value, p: f64) -> Value {
        if p > 0.0 { self.like(name, Op::Dropout { p, inplace: false }, &[input], vec![]) } else { input }
    }

    pub(super) fn function(&mut self, name: &str, function: Activation, input: Value) -> Value {
        self.like(name, Op::Activation { function, inplace: false }, &[input], vec![])
    }

    /// Arithmetic on two tensors that are broadcast against each other.
    pub(super) fn binary(&mut self, name: &str, function: Binary, left: Value, right: Value) -> Value {
        let (shape, dtype) = (broadcast(self.shape(left), self.shape(right)), self.network.dtype(left));
        self.node(name, Op::Binary { function, inplace: false }, &[left, right], vec![], shape, dtype)
    }

    /// Arithmetic with a number.
    pub(super) fn scalar(&mut self, name: &str, function: Binary, input: Value) -> Value {
        self.like(name, Op::Binary { function, inplace: false }, &[input], vec![])
    }

    pub(super) fn add(&mut self, left: Value, right: Value) -> Value {
        self.binary("add", Binary::Add, left, right)
    }

    pub(super) fn multiply(&mut self, left: Value, right: Value) -> Value {
        self.binary("mul", Binary::Multiply, left, right)
    }

    /// A product with a number.
    pub(super) fn scale(&mut self, input: Value) -> Value {
        self.scalar("mul", Binary::Multiply, input)
    }

    /// A sum with a number.
    pub(super) fn shift(&mut self, input: Value) -> Value {
        self.scalar("add", Binary::Add, input)
    }

    /// A comparison of two tensors, or of one with a number.
    pub(super) fn compare(&mut self, name: &str, inputs: &[Value]) -> Value {
        let shape = match *inputs {
            [left, right] => broadcast(self.shape(left), self.shape(right)),
            _ => self.shape(inputs[0]).clone(),
        };
        self.node(name, Op::Binary { function: Binary::Other, inplace: false }, inputs, vec![], shape, DType::Bool)
    }

    /// An operator outside the graph format, elementwise.
    pub(super) fn other(&mut self, name: &str, op: &str, input: Value) -> Value {
        self.like(name, Op::Other { name: op.into() }, &[input], vec![])
    }

    /// A choice by a mask, of the first alternative's type.
    pub(super) fn choose(&mut self, mask: Value, yes: Value, no: Value) -> Value {
        let shape = broadcast(&broadcast(self.shape(mask), self.shape(yes)), self.shape(no));
        let dtype = self.network.dtype(yes);
        self.node("where", Op::Other { name: "where".into() }, &[mask, yes, no], vec![], shape, dtype)
    }

    pub(super) fn mat_mul(&mut self, left: Value, right: Value) -> Value {
        let mut dims = self.shape(left).dims().to_vec();
        dims.pop();
        dims.push(self.shape(right).last());
        self.node("bmm", Op::MatMul, &[left, right], vec![], Shape::new(dims), DType::Float32)
    }

    /// Another look at a tensor's storage.
    pub(super) fn view(&mut self, name: &str, input: Value, dims: &[Dim]) -> Value {
        let dtype = self.network.dtype(input);
        self.node(name, Op::View, &[input], vec![], Shape::new(dims.iter().copied()), dtype)
    }

    /// Equal parts of a tensor.
    pub(super) fn split(&mut self, input: Value, parts: usize, dims: &[Dim]) -> Vec<Value> {
        let (name, dtype) = (self.named("split"), self.network.dtype(input));
        let shapes = vec![Shape::new(dims.iter().copied()); parts];
        self.network.push(&name, Op::View, &[input], vec![], shapes, dtype)
    }

    /// The first token of every sample.
    pub(super) fn first_token(&mut self, input: Value) -> Value {
        let dims = self.shape(input).dims();
        let dims = [dims[0], dims[2]];
        self.view("select", input, &dims)
    }

    pub(super) fn copy(&mut self, name: &str, input: Value) -> Value {
        self.like(name, Op::Copy, &[input], vec![])
    }

    /// A copy as another type.
    pub(super) fn cast(&mut self, input: Value, dtype: DType) -> Value {
        let shape = self.shape(input).clone();
        self.node("to", Op::Copy, &[input], vec![], shape, dtype)
    }

    /// A tensor made from nothing, such as positions.
    pub(super) fn constant(&mut self, name: &str, dims: &[Dim], dtype: DType) -> Value {
        self.node(name, Op::Copy, &[], vec![], Shape::new(dims.iter().copied()), dtype)
    }

    /// Numbers from zero up.
    pub(super) fn counted(&mut self, count: u64) -> Value {
        self.constant("arange", &[Dim::Fixed(count)], DType::Int64)
    }

    pub(super) fn concat(&mut self, inputs: &[Value], axis: usize) -> Value {
        let mut dims = self.shape(inputs[0]).dims().to_vec();
        dims[axis] = Dim::Fixed(inputs.iter().map(|&input| self.shape(input).dims()[axis].factor()).sum());
        self.node("cat", Op::Concat, inputs, vec![], Shape::new(dims), DType::Float32)
    }
}

/// The shape of an elementwise result: an extent of one gives way to the other's.
fn broadcast(left: &Shape, right: &Shape) -> Shape {
    let rank = left.rank().max(right.rank());
    let at = |shape: &Shape, axis: usize| {
        (axis + shape.rank()).checked_sub(rank).map_or(Dim::Fixed(1), |axis| shape.dims()[axis])
    };
    Shape::new((0..rank).map(|axis| match (at(left, axis), at(right, axis)) {
        (Dim::Fixed(1), other) => other,
        (dim, _) => dim,
    }))
}
