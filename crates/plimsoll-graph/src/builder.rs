//! Building graphs operator by operator, with shapes inferred.

use crate::dtype::DType;
use crate::error::{GraphError, Result};
use crate::family::Family;
use crate::graph::{Graph, GraphParts, Node, TensorId, TensorSpec, Weight, WeightId, WeightKind};
use crate::op::{Activation, AttentionKernel, Binary, Conv, Op, Pool, PoolKind};
use crate::shape::{Dim, Shape};

/// A tensor under construction: what one builder method returns and the next takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value(TensorId);

impl Value {
    /// The tensor's index in the graph.
    pub const fn id(self) -> TensorId {
        self.0
    }
}

/// Builds a [`Graph`] in execution order.
///
/// Every method names its node, checks the input's shape and infers the output's, as PyTorch's module of the
/// same name would.
#[derive(Debug)]
pub struct GraphBuilder {
    parts: GraphParts,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new(name: impl Into<String>, family: Family) -> Self {
        Self { parts: GraphParts { name: name.into(), family, ..GraphParts::default() } }
    }

    /// A tensor that is fed in.
    pub fn input(&mut self, name: &str, shape: Shape, dtype: DType) -> Value {
        let value = self.tensor(name, shape, dtype);
        self.parts.inputs.push(value.0);
        value
    }

    /// A trained parameter.
    pub fn parameter(&mut self, name: String, extents: &[u64]) -> WeightId {
        self.weight(name, extents, DType::Float32, WeightKind::Parameter)
    }

    /// State that is not trained.
    pub fn buffer(&mut self, name: String, extents: &[u64], dtype: DType) -> WeightId {
        self.weight(name, extents, dtype, WeightKind::Buffer)
    }

    fn weight(&mut self, name: String, extents: &[u64], dtype: DType, kind: WeightKind) -> WeightId {
        self.parts.weights.push(Weight { name, shape: Shape::fixed(extents), dtype, kind });
        WeightId((self.parts.weights.len() - 1) as u32)
    }

    fn tensor(&mut self, name: &str, shape: Shape, dtype: DType) -> Value {
        self.parts.tensors.push(TensorSpec { name: name.into(), shape, dtype });
        Value(TensorId((self.parts.tensors.len() - 1) as u32))
    }

    /// The shape of a value.
    pub fn shape(&self, value: Value) -> &Shape {
        &self.parts.tensors[value.0.0 as usize].shape
    }

    /// Element type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.parts.tensors[value.0.0 as usize].dtype
    }

    /// Any node with one output of a given shape.
    pub fn node(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[Value],
        weights: Vec<WeightId>,
        shape: Shape,
        dtype: DType,
    ) -> Value {
        let output = self.tensor(name, shape, dtype);
        self.parts.nodes.push(Node {
            name: name.into(),
            op,
            inputs: inputs.iter().map(|value| value.0).collect(),
            outputs: vec![output.0],
            weights,
        });
        output
    }

    /// A node whose output has its first input's shape and type.
    pub fn same_shape(&mut self, name: &str, op: Op, inputs: &[Value], weights: Vec<WeightId>) -> Value {
        let (shape, dtype) = (self.shape(inputs[0]).clone(), self.dtype(inputs[0]));
        self.node(name, op, inputs, weights, shape, dtype)
    }

    fn mismatch(node: &str, expected: impl Into<String>, found: &Shape) -> GraphError {
        GraphError::Shape { node: node.into(), expected: expected.into(), found: found.to_string() }
    }

    /// A linear layer over the last dimension.
    pub fn linear(&mut self, name: &str, input: Value, features: u64, bias: bool) -> Result<Value> {
        let shape = self.shape(input).clone();
        let Some((Dim::Fixed(width), outer)) = shape.dims().split_last().map(|(last, outer)| (*last, outer)) else {
            return Err(Self::mismatch(name, "a fixed last dimension", &shape));
        };
        let mut weights = vec![self.parameter(format!("{name}.weight"), &[features, width])];
        if bias {
            weights.push(self.parameter(format!("{name}.bias"), &[features]));
        }
        let output = Shape::new(outer.iter().copied().chain([Dim::Fixed(features)]));
        Ok(self.node(name, Op::Linear, &[input], weights, output, DType::Float32))
    }

    /// A convolution over the dimensions after (batch, channels).
    pub fn conv(&mut self, name: &str, input: Value, channels: u64, conv: Conv, bias: bool) -> Result<Value> {
        let shape = self.shape(input).clone();
        let dims = shape.dims();
        if dims.len() != conv.kernel.len() + 2 || dims[1..].iter().any(|dim| dim.scales_with_batch()) {
            return Err(Self::mismatch(name, format!("(batch, channels, {} spatial)", conv.kernel.len()), &shape));
        }
        let width = dims[1].factor();
        if conv.groups == 0 || !width.is_multiple_of(conv.groups) || !channels.is_multiple_of(conv.groups) {
            return Err(Self::mismatch(name, format!("channels divisible by {} groups", conv.groups), &shape));
        }
        let at = |list: &[u64], axis: usize, default: u64| list.get(axis).copied().unwrap_or(default);
        let mut extents = vec![dims[0], Dim::Fixed(channels)];
        for (axis, dim) in dims[2..].iter().enumerate() {
            let (size, kernel) = (dim.factor(), conv.kernel[axis]);
            let (stride, padding, dilation) =
                (at(&conv.stride, axis, 1), at(&conv.padding, axis, 0), at(&conv.dilation, axis, 1));
            let extent = if conv.transposed {
                size.checked_sub(1)
                    .and_then(|gaps| (gaps * stride + dilation * (kernel - 1) + 1).checked_sub(2 * padding))
            } else {
                window(size, kernel, stride, padding, dilation)
            };
            let extent = extent.filter(|&extent| extent > 0);
            extents.push(Dim::Fixed(
                extent.ok_or_else(|| Self::mismatch(name, format!("room for a kernel of {kernel}"), &shape))?,
            ));
        }
        let (first, second) = if conv.transposed { (width, channels) } else { (channels, width) };
        let mut filter = vec![first, second / conv.groups];
        filter.extend(&conv.kernel);
        let mut weights = vec![self.parameter(format!("{name}.weight"), &filter)];
        if bias {
            weights.push(self.parameter(format!("{name}.bias"), &[channels]));
        }
        Ok(self.node(name, Op::Conv(conv), &[input], weights, Shape::new(extents), DType::Float32))
    }

    /// A square 2-D convolution.
    #[expect(clippy::too_many_arguments, reason = "the arguments of a convolution, in the usual order")]
    pub fn conv2d(
        &mut self,
        name: &str,
        input: Value,
        channels: u64,
        kernel: u64,
        stride: u64,
        padding: u64,
        bias: bool,
    ) -> Result<Value> {
        let conv = Conv {
            kernel: vec![kernel; 2],
            stride: vec![stride; 2],
            padding: vec![padding; 2],
            dilation: Vec::new(),
            groups: 1,
            transposed: false,
        };
        self.conv(name, input, channels, conv, bias)
    }

    /// Batch normalisation: scale, shift, running mean and variance, and a step counter.
    pub fn batch_norm(&mut self, name: &str, input: Value) -> Result<Value> {
        let shape = self.shape(input).clone();
        let Some(&Dim::Fixed(channels)) = shape.dims().get(1) else {
            return Err(Self::mismatch(name, "(batch, channels, ...)", &shape));
        };
        let weights = vec![
            self.parameter(format!("{name}.weight"), &[channels]),
            self.parameter(format!("{name}.bias"), &[channels]),
            self.buffer(format!("{name}.running_mean"), &[channels], DType::Float32),
            self.buffer(format!("{name}.running_var"), &[channels], DType::Float32),
            self.buffer(format!("{name}.num_batches_tracked"), &[], DType::Int64),
        ];
        Ok(self.same_shape(name, Op::BatchNorm, &[input], weights))
    }

    /// Layer normalisation over the last dimension.
    pub fn layer_norm(&mut self, name: &str, input: Value) -> Result<Value> {
        let shape = self.shape(input).clone();
        let Dim::Fixed(width) = shape.last() else {
            return Err(Self::mismatch(name, "a fixed last dimension", &shape));
        };
        let weights =
            vec![self.parameter(format!("{name}.weight"), &[width]), self.parameter(format!("{name}.bias"), &[width])];
        Ok(self.same_shape(name, Op::LayerNorm, &[input], weights))
    }

    /// An activation function; parametric ones get their single weight, gated ones halve the last dimension.
    pub fn activation(&mut self, name: &str, input: Value, function: Activation, inplace: bool) -> Value {
        let op = Op::Activation { function, inplace };
        match function {
            Activation::Prelu => {
                let weight = self.parameter(format!("{name}.weight"), &[1]);
                self.same_shape(name, op, &[input], vec![weight])
            }
            Activation::Glu => {
                let (mut dims, dtype) = (self.shape(input).dims().to_vec(), self.dtype(input));
                if let Some(Dim::Fixed(last)) = dims.last_mut() {
                    *last /= 2;
                }
                self.node(name, op, &[input], vec![], Shape::new(dims), dtype)
            }
            _ => self.same_shape(name, op, &[input], vec![]),
        }
    }

    /// Dropout of single elements.
    pub fn dropout(&mut self, name: &str, input: Value, p: f64) -> Value {
        self.same_shape(name, Op::Dropout { p, inplace: false }, &[input], vec![])
    }

    /// Sum of two values; the output has the first one's shape.
    pub fn add(&mut self, name: &str, left: Value, right: Value) -> Value {
        self.same_shape(name, Op::Binary { function: Binary::Add, inplace: false }, &[left, right], vec![])
    }

    /// Concatenation along a fixed dimension.
    pub fn concat(&mut self, name: &str, inputs: &[Value], axis: usize) -> Result<Value> {
        let mut dims = self.shape(inputs[0]).dims().to_vec();
        let mut total = 0;
        for &input in inputs {
            let shape = self.shape(input);
            let fits = shape.rank() == dims.len()
                && shape.dims().iter().zip(&dims).enumerate().all(|(index, (a, b))| index == axis || a == b);
            match shape.dims().get(axis) {
                Some(&Dim::Fixed(extent)) if fits => total += extent,
                _ => return Err(Self::mismatch(name, format!("equal shapes but for axis {axis}"), shape)),
            }
        }
        dims[axis] = Dim::Fixed(total);
        let dtype = self.dtype(inputs[0]);
        Ok(self.node(name, Op::Concat, inputs, vec![], Shape::new(dims), dtype))
    }

    /// Sliding pooling over the dimensions after (batch, channels).
    pub fn pool2d(
        &mut self,
        name: &str,
        input: Value,
        kind: PoolKind,
        kernel: u64,
        stride: u64,
        padding: u64,
    ) -> Result<Value> {
        let shape = self.shape(input).clone();
        let mut dims = shape.dims().to_vec();
        for dim in dims.iter_mut().skip(2) {
            let extent = window(dim.factor(), kernel, stride, padding, 1).filter(|&extent| extent > 0);
            *dim = Dim::Fixed(
                extent.ok_or_else(|| Self::mismatch(name, format!("room for a kernel of {kernel}"), &shape))?,
            );
        }
        let pool = Pool { kind, kernel: vec![kernel; 2], stride: vec![stride; 2], padding: vec![padding; 2] };
        let dtype = self.dtype(input);
        Ok(self.node(name, Op::Pool(pool), &[input], vec![], Shape::new(dims), dtype))
    }

    /// Average pooling to one cell per channel.
    pub fn global_average_pool(&mut self, name: &str, input: Value) -> Value {
        let mut dims = self.shape(input).dims().to_vec();
        for dim in dims.iter_mut().skip(2) {
            *dim = Dim::Fixed(1);
        }
        let op = Op::Pool(Pool { kind: PoolKind::AdaptiveAverage, kernel: vec![], stride: vec![], padding: vec![] });
        let dtype = self.dtype(input);
        self.node(name, op, &[input], vec![], Shape::new(dims), dtype)
    }

    /// Everything after the first dimension made one.
    pub fn flatten(&mut self, name: &str, input: Value) -> Result<Value> {
        let shape = self.shape(input).clone();
        let width = shape.dims().iter().skip(1).try_fold(1_u64, |product, dim| match dim {
            Dim::Fixed(extent) => product.checked_mul(*extent),
            Dim::Batch(_) => None,
        });
        let (Some(&first), Some(width)) = (shape.dims().first(), width) else {
            return Err(Self::mismatch(name, "(batch, fixed ...)", &shape));
        };
        let dtype = self.dtype(input);
        Ok(self.node(name, Op::View, &[input], vec![], Shape::new([first, Dim::Fixed(width)]), dtype))
    }

    /// A view of another shape.
    pub fn view(&mut self, name: &str, input: Value, shape: Shape) -> Value {
        let dtype = self.dtype(input);
        self.node(name, Op::View, &[input], vec![], shape, dtype)
    }

    /// Rows of a table, by integer index.
    pub fn embedding(&mut self, name: &str, input: Value, rows: u64, width: u64) -> Value {
        let weight = self.parameter(format!("{name}.weight"), &[rows, width]);
        let shape = Shape::new(self.shape(input).dims().iter().copied().chain([Dim::Fixed(width)]));
        self.node(name, Op::Embedding { sparse: false }, &[input], vec![weight], shape, DType::Float32)
    }

    /// Attention with equal numbers of query and key heads; the output has the query's shape.
    pub fn attention(
        &mut self,
        name: &str,
        qkv: [Value; 3],
        heads: u64,
        kernel: AttentionKernel,
        dropout: f64,
    ) -> Value {
        let op = Op::Attention { heads, kv_heads: 0, kernel, causal: false, dropout };
        self.same_shape(name, op, &qkv, vec![])
    }

    /// Finishes the graph.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub fn finish(mut self, outputs: &[Value]) -> Result<Graph> {
        self.parts.outputs = outputs.iter().map(|value| value.0).collect();
        Graph::new(self.parts)
    }
}

/// Positions of a sliding window; `None` if it does not fit.
fn window(size: u64, kernel: u64, stride: u64, padding: u64, dilation: u64) -> Option<u64> {
    let reach = dilation.checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?;
    let room = size.checked_add(padding.checked_mul(2)?)?.checked_sub(reach)?;
    (room.checked_div(stride)?).checked_add(1)
}
