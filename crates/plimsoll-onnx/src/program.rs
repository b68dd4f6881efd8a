//! A model flattened: values whose shapes are known, and the steps that compute what no constant tells.

use std::rc::Rc;

use plimsoll_graph::{DType, Dim, Op, Shape};

use crate::attributes::Attributes;
use crate::quantity::Quantity;

/// Index of a value.
pub(crate) type ValueId = usize;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is fed in.
    Input,
    /// A weight, or a view of one, by its index among the weights.
    Weight(usize),
    /// It never changes and does not train.
    Constant,
    /// A step computes it.
    Computed,
}

/// A tensor of the model.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) name: Rc<str>,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) origin: Origin,
    /// Elements of a small constant.
    pub(crate) numbers: Option<Rc<[Quantity]>>,
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.shape.rank()
    }

    pub(crate) fn dims(&self) -> &[Dim] {
        self.shape.dims()
    }

    /// Elements of a small constant that is no weight.
    pub(crate) fn folded(&self) -> Option<&[Quantity]> {
        self.numbers.as_deref().filter(|_| self.origin == Origin::Constant)
    }

    /// The one number of a constant of one element.
    pub(crate) fn scalar(&self) -> Option<f64> {
        match self.numbers.as_deref() {
            Some([only]) => only.known(),
            _ => None,
        }
    }

    /// The weight that the value is, or is a view of.
    pub(crate) const fn weight(&self) -> Option<usize> {
        match self.origin {
            Origin::Weight(index) => Some(index),
            _ => None,
        }
    }

    /// Whether a step computes it or it is fed in.
    pub(crate) const fn is_runtime(&self) -> bool {
        matches!(self.origin, Origin::Input | Origin::Computed)
    }
}

/// A tensor that the file stores and that may be a weight.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) name: Rc<str>,
    pub(crate) extents: Vec<u64>,
    pub(crate) dtype: DType,
    pub(crate) is_uniform: Option<bool>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// An operator of ONNX, or of another domain under its own name.
    Onnx(String),
    /// An operator of the graph format, recognised in one node or several.
    Known(Op),
}

/// One operation that is left when constants are folded.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) attributes: Attributes,
    /// Values it reads; a gap where an optional one is not given.
    pub(crate) inputs: Vec<Option<ValueId>>,
    pub(crate) outputs: Vec<ValueId>,
    /// Path of the module it stems from; empty if nobody knows.
    pub(crate) module: Rc<str>,
    /// Name of its own.
    pub(crate) label: Rc<str>,
    /// What the exporter called the operator before it decomposed it, where it says so.
    pub(crate) hint: Rc<str>,
}

impl Step {
    /// The operator's name in ONNX; empty for recognised ones.
    pub(crate) fn op(&self) -> &str {
        match &self.action {
            Action::Onnx(name) => name,
            Action::Known(_) => "",
        }
    }

    pub(crate) fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }
}

/// The whole model.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) values: Vec<Value>,
    pub(crate) steps: Vec<Step>,
    pub(crate) stored: Vec<Stored>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    pub(crate) warnings: Vec<String>,
}

impl Program {
    pub(crate) fn value(&self, id: ValueId) -> &Value {
        &self.values[id]
    }

    pub(crate) fn add(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        self.values.len() - 1
    }

    /// Says something once.
    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
