//! Building blocks that several parts of the graph share.

use std::f32::consts::SQRT_2;

use plimsoll_dataset::Standardization;

use crate::error::{ExportError, Result};
use crate::onnx::proto::ModelProto;
use crate::onnx::{Attribute, OnnxBuilder, Value};
use crate::weights::{Affine, Norm, Stack, Weight};

/// Burn's default, which the networks use.
const LAYER_NORM_EPSILON: f32 = 1e-5;

/// Writes parts of networks into a graph.
pub(super) struct Writer {
    builder: OnnxBuilder,
}

impl Writer {
    pub(super) fn new(name: &str) -> Self {
        Self { builder: OnnxBuilder::new(name) }
    }

    pub(super) fn builder(&mut self) -> &mut OnnxBuilder {
        &mut self.builder
    }

    pub(super) fn finish(self, doc: &str, metadata: Vec<(String, String)>) -> ModelProto {
        self.builder.finish(doc, metadata)
    }

    /// Adds weights.
    ///
    /// # Errors
    /// A weight that is not finite: the network would estimate nothing.
    pub(super) fn weight(&mut self, name: &str, weight: &Weight) -> Result<Value> {
        if let Some(number) = weight.numbers.iter().find(|number| !number.is_finite()) {
            return Err(ExportError::Weight {
                name: name.into(),
                expected: "finite numbers",
                found: number.to_string(),
            });
        }
        Ok(self.builder.tensor(name, &weight.shape, &weight.numbers))
    }

    /// A node without attributes.
    pub(super) fn plain(&mut self, op: &str, name: &str, inputs: &[&Value]) -> Value {
        self.builder.node(op, name, inputs, vec![])
    }

    /// `(x - mean) / scale`, in this order and in single precision, as the scaler does it.
    pub(super) fn standardize(&mut self, name: &str, x: &Value, statistics: &Standardization) -> Result<Value> {
        let vector = |numbers: &[f32]| Weight { shape: vec![numbers.len()], numbers: numbers.to_vec() };
        let mean = self.weight(&format!("{name}.mean"), &vector(&statistics.mean))?;
        let scale = self.weight(&format!("{name}.scale"), &vector(&statistics.scale))?;
        let centred = self.plain("Sub", &format!("{name}.centred"), &[x, &mean]);
        Ok(self.plain("Div", &format!("{name}.scaled"), &[&centred, &scale]))
    }

    /// `x W + b`.
    pub(super) fn affine(&mut self, name: &str, x: &Value, affine: &Affine) -> Result<Value> {
        let weight = self.weight(&format!("{name}.weight"), &affine.weight)?;
        let product = self.plain("MatMul", &format!("{name}.product"), &[x, &weight]);
        let Some(bias) = &affine.bias else { return Ok(product) };
        let bias = self.weight(&format!("{name}.bias"), bias)?;
        Ok(self.plain("Add", &format!("{name}.sum"), &[&product, &bias]))
    }

    /// Layer normalisation over the last dimension.
    pub(super) fn norm(&mut self, name: &str, x: &Value, norm: &Norm) -> Result<Value> {
        let scale = self.weight(&format!("{name}.scale"), &norm.scale)?;
        let bias = norm.bias.as_ref().map(|bias| self.weight(&format!("{name}.bias"), bias)).transpose()?;
        let inputs: Vec<&Value> = [x, &scale].into_iter().chain(bias.as_ref()).collect();
        let attributes = vec![Attribute::Int("axis", -1), Attribute::Float("epsilon", LAYER_NORM_EPSILON)];
        Ok(self.builder.node("LayerNormalization", &format!("{name}.normalised"), &inputs, attributes))
    }

    /// `x / 2 (1 + erf(x / sqrt 2))`: the exact form, which has an operator of its own only from opset 20 on.
    pub(super) fn gelu(&mut self, name: &str, x: &Value) -> Value {
        let [half, one, root] = [0.5, 1.0, SQRT_2].map(|number| self.builder.scalar(number));
        let ratio = self.plain("Div", &format!("{name}.gelu.ratio"), &[x, &root]);
        let erf = self.plain("Erf", &format!("{name}.gelu.erf"), &[&ratio]);
        let shifted = self.plain("Add", &format!("{name}.gelu.shifted"), &[&erf, &one]);
        let product = self.plain("Mul", &format!("{name}.gelu.product"), &[x, &shifted]);
        self.plain("Mul", &format!("{name}.gelu"), &[&product, &half])
    }

    /// Two linear layers with GELU between them.
    pub(super) fn pair(&mut self, name: &str, x: &Value, (first, second): (&Affine, &Affine)) -> Result<Value> {
        let hidden = self.affine(&format!("{name}.first"), x, first)?;
        let hidden = self.gelu(&format!("{name}.first"), &hidden);
        self.affine(&format!("{name}.second"), &hidden, second)
    }

    /// A linear layer with GELU, then residual blocks.
    pub(super) fn stack(&mut self, name: &str, x: &Value, stack: &Stack) -> Result<Value> {
        let x = self.affine(&format!("{name}.input"), x, &stack.input)?;
        let mut x = self.gelu(&format!("{name}.input"), &x);
        for (index, (norm, first, second)) in stack.blocks.iter().enumerate() {
            let name = format!("{name}.blocks.{index}");
            let inner = self.norm(&format!("{name}.norm"), &x, norm)?;
            let inner = self.pair(&name, &inner, (first, second))?;
            x = self.plain("Add", &format!("{name}.residual"), &[&x, &inner]);
        }
        Ok(x)
    }
}
