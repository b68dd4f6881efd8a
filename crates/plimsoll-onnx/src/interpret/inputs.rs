//! What is fed in: which dimension is the batch, and what the others are.

use plimsoll_graph::{DType, Dim, Shape};

use super::{Declared, Interpreter};
use crate::constant::dtype;
use crate::error::{OnnxError, Result};
use crate::program::{Origin, Value};
use crate::proto::tensor_shape_proto::dimension;
use crate::proto::{DataType, GraphProto, ValueInfoProto, type_proto};

/// Names of a dynamic dimension that say that it is the batch.
const BATCH_NAMES: [&str; 4] = ["batch", "bs", "b", "n"];

impl Interpreter<'_> {
    /// Makes the graph's inputs; initializers that older files list among them stay what they are.
    pub(super) fn declare_inputs(&mut self, graph: &GraphProto) -> Result<()> {
        let fed: Vec<&ValueInfoProto> =
            graph.input.iter().filter(|info| self.lookup(info.name.as_deref().unwrap_or_default()).is_none()).collect();
        let batch_axis = fed.first().map_or(0, |info| self.find_batch(info));
        self.check_options(&fed)?;
        for (index, info) in fed.into_iter().enumerate() {
            let axis = if index == 0 { batch_axis } else { self.axis_of_batch(info).unwrap_or(0) };
            self.add_input(info, axis)?;
        }
        Ok(())
    }

    /// The batch's axis in the first input: the one whose name says so, or the first. Sets its name or number.
    fn find_batch(&mut self, info: &ValueInfoProto) -> usize {
        let dims = dims(info).unwrap_or_default();
        let says_so = |extent: &Extent| {
            matches!(extent, Extent::Named(name) if BATCH_NAMES.contains(&name.to_lowercase().as_str())
                || name.to_lowercase().contains("batch"))
        };
        let axis = dims.iter().position(says_so).unwrap_or(0);
        match dims.get(axis) {
            Some(Extent::Named(name)) => self.batch_names.push(name.clone()),
            Some(Extent::Fixed(batch)) => {
                self.assumed_batch = u64::try_from(*batch).ok();
                self.program.warn(format!(
                    "the model was exported for a batch of {batch}: its first dimension is read as the batch"
                ));
            }
            _ => {}
        }
        axis
    }

    /// The axis of another input that has the batch's name.
    fn axis_of_batch(&self, info: &ValueInfoProto) -> Option<usize> {
        let dims = dims(info)?;
        dims.iter().position(|extent| matches!(extent, Extent::Named(name) if self.batch_names.contains(name)))
    }

    fn add_input(&mut self, info: &ValueInfoProto, batch_axis: usize) -> Result<()> {
        let name = info.name.as_deref().unwrap_or_default();
        let malformed = |expected: &str, found: String| OnnxError::Malformed {
            what: self.what.into(),
            at: format!("input `{name}`"),
            expected: expected.into(),
            found,
        };
        let (elements, extents) = element_type(info)
            .zip(dims(info))
            .ok_or_else(|| malformed("a tensor of numbers with a shape", "none".into()))?;
        let mut shape = Vec::with_capacity(extents.len());
        for (axis, extent) in extents.iter().enumerate() {
            let dim = match extent {
                Extent::Fixed(extent) if axis == batch_axis && self.assumed_batch == u64::try_from(*extent).ok() => {
                    Dim::Batch(1)
                }
                Extent::Fixed(extent) => Dim::Fixed(
                    u64::try_from(*extent).map_err(|_| malformed("extents of at least 0", extent.to_string()))?,
                ),
                Extent::Named(dim) if self.batch_names.contains(dim) => Dim::Batch(1),
                Extent::Unknown if axis == batch_axis => Dim::Batch(1),
                Extent::Named(dim) => self.option(name, dim)?,
                Extent::Unknown => self.option(name, &format!("{name}.{axis}"))?,
            };
            shape.push(dim);
        }
        let value = Value {
            name: name.into(),
            dtype: elements,
            shape: Shape::new(shape),
            origin: Origin::Input,
            numbers: None,
        };
        let id = self.program.add(value);
        self.program.inputs.push(id);
        self.bind(name.into(), id);
        Ok(())
    }

    fn option(&self, input: &str, dim: &str) -> Result<Dim> {
        self.options.dims.get(dim).map(|&extent| Dim::Fixed(extent)).ok_or_else(|| OnnxError::Dimension {
            what: self.what.into(),
            input: input.into(),
            dim: dim.into(),
        })
    }

    /// Options that name no dynamic dimension are mistakes.
    fn check_options(&self, fed: &[&ValueInfoProto]) -> Result<()> {
        let mut known = Vec::new();
        for info in fed {
            let input = info.name.as_deref().unwrap_or_default();
            for (axis, extent) in dims(info).unwrap_or_default().into_iter().enumerate() {
                match extent {
                    Extent::Named(name) if !self.batch_names.contains(&name) => known.push(name),
                    Extent::Unknown => known.push(format!("{input}.{axis}")),
                    _ => {}
                }
            }
        }
        known.sort_unstable();
        known.dedup();
        match self.options.dims.keys().find(|dim| !known.contains(dim)) {
            None => Ok(()),
            Some(dim) => Err(OnnxError::UnknownDimension {
                what: self.what.into(),
                dim: dim.clone(),
                expected: if known.is_empty() { "none, all sizes are fixed".into() } else { known.join(", ") },
            }),
        }
    }

    /// Notes what the file tells of a value in between.
    pub(super) fn declare(&mut self, info: &ValueInfoProto) {
        let (Some(name), Some(dtype)) = (info.name.clone(), element_type(info)) else { return };
        let assumed = self.assumed_batch;
        let dims = dims(info).map(|dims| {
            let dim = |(axis, extent): (usize, &Extent)| match extent {
                Extent::Fixed(extent) if axis == 0 && assumed == u64::try_from(*extent).ok() => Some(Dim::Batch(1)),
                Extent::Fixed(extent) => u64::try_from(*extent).ok().map(Dim::Fixed),
                Extent::Named(name) if self.batch_names.contains(name) => Some(Dim::Batch(1)),
                Extent::Named(name) => self.options.dims.get(name).map(|&extent| Dim::Fixed(extent)),
                Extent::Unknown => None,
            };
            dims.iter().enumerate().map(dim).collect()
        });
        self.declared.insert(name, Declared { dtype, dims });
    }
}

/// An extent as the file has it.
enum Extent {
    Fixed(i64),
    Named(String),
    Unknown,
}

fn tensor(info: &ValueInfoProto) -> Option<&type_proto::Tensor> {
    match info.r#type.as_ref()?.value.as_ref()? {
        type_proto::Value::TensorType(tensor) | type_proto::Value::SparseTensorType(tensor) => Some(tensor),
    }
}

fn element_type(info: &ValueInfoProto) -> Option<DType> {
    dtype(DataType::try_from(tensor(info)?.elem_type.unwrap_or_default()).ok()?)
}

fn dims(info: &ValueInfoProto) -> Option<Vec<Extent>> {
    let shape = tensor(info)?.shape.as_ref()?;
    let extent = |dim: &Option<dimension::Value>| match dim {
        Some(dimension::Value::DimValue(extent)) => Extent::Fixed(*extent),
        Some(dimension::Value::DimParam(name)) if !name.is_empty() => Extent::Named(name.clone()),
        _ => Extent::Unknown,
    };
    Some(shape.dim.iter().map(|dim| extent(&dim.value)).collect())
}
