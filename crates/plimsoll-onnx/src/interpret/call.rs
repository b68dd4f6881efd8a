//! One call of an operator, and what it gives.

use std::rc::Rc;

use plimsoll_graph::{DType, Dim, Shape};

use crate::attributes::Attributes;
use crate::constant::MAX_ELEMENTS;
use crate::error::{OnnxError, Result};
use crate::program::{Program, Value, ValueId};
use crate::quantity::Quantity;

/// A node about to be evaluated.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) node: Rc<str>,
    pub(super) op: String,
    /// Empty for ONNX's own operators.
    pub(super) domain: String,
    pub(super) opset: i64,
    pub(super) inputs: Vec<Option<ValueId>>,
    pub(super) outputs: Vec<String>,
    pub(super) attributes: Attributes,
    pub(super) module: Rc<str>,
    pub(super) label: Rc<str>,
    pub(super) hint: Rc<str>,
}

/// One output of a call.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// The value that it was called with.
    Same(ValueId),
    /// A view of an input, that remains a weight where that one is.
    View(DType, Shape),
    /// A tensor of its own.
    New(DType, Shape),
    /// A constant.
    Known(DType, Shape, Option<Vec<Quantity>>),
}

impl Outcome {
    #[expect(clippy::unnecessary_wraps, reason = "rules end with it, and give results")]
    pub(super) fn one(dtype: DType, dims: impl IntoIterator<Item = Dim>) -> Result<Vec<Self>> {
        Ok(vec![Self::New(dtype, Shape::new(dims))])
    }

    #[expect(clippy::unnecessary_wraps, reason = "rules end with it, and give results")]
    pub(super) fn view(dtype: DType, dims: impl IntoIterator<Item = Dim>) -> Result<Vec<Self>> {
        Ok(vec![Self::View(dtype, Shape::new(dims))])
    }

    /// A list of whole numbers, or of what else the type holds.
    pub(super) fn list(dtype: DType, numbers: Vec<Quantity>) -> Vec<Self> {
        vec![Self::Known(dtype, Shape::fixed(&[numbers.len() as u64]), Some(numbers))]
    }
}

/// A call with the values that it reads.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) what: &'a str,
    pub(super) program: &'a Program,
    pub(super) call: &'a Call,
    /// The batch of a model that was exported with a fixed one.
    pub(super) assumed_batch: Option<u64>,
}

impl<'a> Context<'a> {
    pub(super) fn find(self, index: usize) -> Option<&'a Value> {
        let id = self.call.inputs.get(index).copied().flatten();
        id.map(|id| self.program.value(id))
    }

    pub(super) fn id(self, index: usize) -> Result<ValueId> {
        let missing = || self.bad(format!("at least {} inputs", index + 1), self.call.inputs.len().to_string());
        self.call.inputs.get(index).copied().flatten().ok_or_else(missing)
    }

    pub(super) fn value(self, index: usize) -> Result<&'a Value> {
        Ok(self.program.value(self.id(index)?))
    }

    pub(super) fn dims(self, index: usize) -> Result<&'a [Dim]> {
        Ok(self.value(index)?.dims())
    }

    pub(super) fn dtype(self, index: usize) -> Result<DType> {
        Ok(self.value(index)?.dtype)
    }

    /// Elements of an input that must be a constant; `None` if it is not given.
    pub(super) fn numbers(self, index: usize) -> Result<Option<&'a [Quantity]>> {
        let Some(value) = self.find(index) else { return Ok(None) };
        match value.numbers.as_deref() {
            Some(numbers) => Ok(Some(numbers)),
            None => {
                Err(self
                    .unknown(format!("needs the elements of `{}`, which only a run of the model tells", value.name)))
            }
        }
    }

    /// Whole numbers from an attribute (older operator sets) or an input (newer ones).
    pub(super) fn ints(self, attribute: &str, input: usize) -> Result<Option<Vec<i64>>> {
        if let Some(ints) = self.call.attributes.ints(attribute) {
            return Ok(Some(ints.to_vec()));
        }
        let Some(numbers) = self.numbers(input)? else { return Ok(None) };
        let whole = numbers.iter().map(|number| number.whole()).collect::<Option<Vec<i64>>>();
        whole.map(Some).ok_or_else(|| self.unknown("needs whole numbers that do not depend on the batch".into()))
    }

    /// An axis counted from the front.
    pub(super) fn axis(self, axis: i64, rank: usize) -> Result<usize> {
        let from_front = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        let valid = usize::try_from(from_front).ok().filter(|&axis| axis < rank);
        valid.ok_or_else(|| self.bad(format!("an axis of {rank} dimensions"), axis.to_string()))
    }

    pub(super) fn axes(self, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
        axes.iter().map(|&axis| self.axis(axis, rank)).collect()
    }

    /// A dimension of computed extent.
    pub(super) fn dim(self, extent: Quantity) -> Result<Dim> {
        extent.dim().ok_or_else(|| {
            let found = format!("{} + {} * batch", extent.fixed, extent.per_sample);
            self.bad("an extent that is a whole number or a multiple of the batch", found)
        })
    }

    pub(super) fn fixed(self, dim: Dim) -> Result<u64> {
        match dim {
            Dim::Fixed(extent) => Ok(extent),
            Dim::Batch(_) => Err(self.bad("an extent that does not depend on the batch", dim.to_string())),
        }
    }

    /// Two dimensions that must be one.
    pub(super) fn same(self, one: Dim, other: Dim) -> Option<Dim> {
        match (one, other) {
            _ if one == other => Some(one),
            (Dim::Fixed(extent), Dim::Batch(factor)) | (Dim::Batch(factor), Dim::Fixed(extent)) => {
                let is_batch = self.assumed_batch.and_then(|batch| batch.checked_mul(factor)) == Some(extent);
                is_batch.then_some(Dim::Batch(factor))
            }
            _ => None,
        }
    }

    /// The shape that shapes have in common when ones are stretched.
    pub(super) fn broadcast(self, shapes: &[&[Dim]]) -> Result<Vec<Dim>> {
        let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        let mut dims = vec![Dim::Fixed(1); rank];
        for shape in shapes {
            let offset = rank - shape.len();
            for (axis, &dim) in shape.iter().enumerate() {
                let so_far = dims[offset + axis];
                let joined = match (so_far, dim) {
                    (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Some(other),
                    _ => self.same(so_far, dim),
                };
                dims[offset + axis] = joined.ok_or_else(|| {
                    let texts: Vec<String> =
                        shapes.iter().map(|dims| Shape::new(dims.iter().copied()).to_string()).collect();
                    self.bad("shapes that agree, but for ones", texts.join(" and "))
                })?;
            }
        }
        Ok(dims)
    }

    pub(super) fn bad(self, expected: impl Into<String>, found: impl Into<String>) -> OnnxError {
        OnnxError::Node {
            what: self.what.into(),
            node: self.call.node.to_string(),
            op: self.call.op.clone(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(super) fn bad_shape(self, expected: &str, dims: &[Dim]) -> OnnxError {
        self.bad(expected, Shape::new(dims.iter().copied()).to_string())
    }

    pub(super) fn unknown(self, reason: String) -> OnnxError {
        OnnxError::UnknownShape {
            what: self.what.into(),
            value: self.call.outputs.first().cloned().unwrap_or_default(),
            node: self.call.node.to_string(),
            op: self.call.op.clone(),
            reason,
        }
    }
}

/// Elements of a shape: a number times a power of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) factor: u128,
    pub(super) degree: u32,
}

impl Volume {
    /// `None` if there are too many to count.
    pub(super) fn of(dims: &[Dim]) -> Option<Self> {
        let mut volume = Self { factor: 1, degree: 0 };
        for dim in dims {
            volume.factor = volume.factor.checked_mul(u128::from(dim.factor()))?;
            volume.degree += u32::from(dim.scales_with_batch());
        }
        Some(volume)
    }
}

/// Elements of a constant shape, if they are few enough to be followed.
pub(super) fn few_elements(dims: &[Dim]) -> Option<usize> {
    let volume = Volume::of(dims)?;
    (volume.degree == 0 && volume.factor <= u128::from(MAX_ELEMENTS)).then_some(volume.factor as usize)
}
