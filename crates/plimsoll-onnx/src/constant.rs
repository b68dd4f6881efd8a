//! Constant tensors: their shape, and their elements where these may decide shapes.

use plimsoll_graph::DType;

use crate::proto::{DataType, TensorProto};
use crate::quantity::Quantity;
use crate::slim::UNIFORM_KEY;

/// Elements of constants that are followed through the model.
pub(crate) const MAX_ELEMENTS: u64 = 2_048;

/// A constant as far as it is read.
#[derive(Debug, Clone)]
pub(crate) struct Constant {
    pub(crate) dtype: DType,
    pub(crate) extents: Vec<u64>,
    pub(crate) numbers: Option<Vec<Quantity>>,
    /// Whether all elements are equal; none if they were not read.
    pub(crate) is_uniform: Option<bool>,
}

impl Constant {
    /// Reads a tensor; `None` if its shape or type makes no sense.
    pub(crate) fn of(tensor: &TensorProto) -> Option<Self> {
        let extents: Vec<u64> = tensor.dims.iter().map(|&extent| u64::try_from(extent).ok()).collect::<Option<_>>()?;
        let elements = extents.iter().try_fold(1_u64, |product, &extent| product.checked_mul(extent))?;
        let data_type = DataType::try_from(tensor.data_type.unwrap_or_default()).ok()?;
        let dtype = dtype(data_type)?;
        let numbers = if elements <= MAX_ELEMENTS { numbers(tensor, data_type, elements as usize) } else { None };
        let is_uniform = match &numbers {
            Some(numbers) => Some(numbers.windows(2).all(|pair| pair[0] == pair[1])),
            None => is_uniform(tensor),
        };
        Some(Self { dtype, extents, numbers, is_uniform })
    }
}

/// The element type that a framework trains with; `None` for texts and complex numbers.
pub(crate) const fn dtype(data_type: DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Float => DType::Float32,
        DataType::Double => DType::Float64,
        DataType::Float16 => DType::Float16,
        DataType::Bfloat16 => DType::BFloat16,
        DataType::Float8e4m3fn
        | DataType::Float8e4m3fnuz
        | DataType::Float8e5m2
        | DataType::Float8e5m2fnuz
        | DataType::Float4e2m1 => DType::Float8,
        DataType::Int64 | DataType::Uint64 => DType::Int64,
        DataType::Int32 | DataType::Uint32 => DType::Int32,
        DataType::Int16 | DataType::Uint16 => DType::Int16,
        DataType::Int8 | DataType::Int4 => DType::Int8,
        DataType::Uint8 | DataType::Uint4 => DType::UInt8,
        DataType::Bool => DType::Bool,
        DataType::Undefined | DataType::String | DataType::Complex64 | DataType::Complex128 => return None,
    })
}

fn is_uniform(tensor: &TensorProto) -> Option<bool> {
    let is_external = tensor.data_location == Some(1);
    let is_marked = tensor.external_data.iter().any(|entry| entry.key.as_deref() == Some(UNIFORM_KEY));
    match &tensor.raw_data {
        _ if is_marked => Some(true),
        Some(bytes) if bytes.len() > 8 => Some(crate::slim::is_uniform(bytes)),
        // Elements that were skipped and not found equal carry no place; those of another file do.
        _ if is_external && tensor.external_data.is_empty() => Some(false),
        _ => None,
    }
}

fn numbers(tensor: &TensorProto, data_type: DataType, elements: usize) -> Option<Vec<Quantity>> {
    let values: Vec<f64> = match &tensor.raw_data {
        Some(bytes) => from_bytes(bytes, data_type)?,
        None if tensor.data_location == Some(1) => return None,
        None => match data_type {
            DataType::Float => tensor.float_data.iter().map(|&value| f64::from(value)).collect(),
            DataType::Double => tensor.double_data.clone(),
            DataType::Int64 => tensor.int64_data.iter().map(|&value| value as f64).collect(),
            DataType::Uint32 | DataType::Uint64 => tensor.uint64_data.iter().map(|&value| value as f64).collect(),
            DataType::Float16 => tensor.int32_data.iter().map(|&bits| half(bits as u16)).collect(),
            DataType::Bfloat16 => tensor.int32_data.iter().map(|&bits| brain(bits as u16)).collect(),
            _ => tensor.int32_data.iter().map(|&value| f64::from(value)).collect(),
        },
    };
    (values.len() == elements).then(|| values.into_iter().map(Quantity::new).collect())
}

fn from_bytes(bytes: &[u8], data_type: DataType) -> Option<Vec<f64>> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect()
    }
    Some(match data_type {
        DataType::Float => each(bytes, |bytes| f64::from(f32::from_le_bytes(bytes))),
        DataType::Double => each(bytes, f64::from_le_bytes),
        DataType::Float16 => each(bytes, |bytes| half(u16::from_le_bytes(bytes))),
        DataType::Bfloat16 => each(bytes, |bytes| brain(u16::from_le_bytes(bytes))),
        DataType::Int64 => each(bytes, |bytes| i64::from_le_bytes(bytes) as f64),
        DataType::Uint64 => each(bytes, |bytes| u64::from_le_bytes(bytes) as f64),
        DataType::Int32 => each(bytes, |bytes| f64::from(i32::from_le_bytes(bytes))),
        DataType::Uint32 => each(bytes, |bytes| f64::from(u32::from_le_bytes(bytes))),
        DataType::Int16 => each(bytes, |bytes| f64::from(i16::from_le_bytes(bytes))),
        DataType::Uint16 => each(bytes, |bytes| f64::from(u16::from_le_bytes(bytes))),
        DataType::Int8 => each(bytes, |bytes| f64::from(i8::from_le_bytes(bytes))),
        DataType::Uint8 | DataType::Bool => each(bytes, |[byte]| f64::from(byte)),
        _ => return None,
    })
}

/// A 16-bit IEEE float.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff) / 1024.0);
    sign * match exponent {
        0 => fraction * 2.0_f64.powi(-14),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1.0 + fraction) * 2.0_f64.powi(exponent - 15),
    }
}

/// A 16-bit brain float: the upper half of a 32-bit float.
fn brain(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read() {
        assert_eq!(half(0x3c00), 1.0);
        assert_eq!(half(0xc000), -2.0);
        assert_eq!(half(0x0001), 2.0_f64.powi(-24));
        assert!(half(0x7e00).is_nan());
        assert_eq!(brain(0x3f80), 1.0);
    }

    #[test]
    fn elements_that_are_too_few_are_no_numbers() {
        let tensor = TensorProto {
            dims: vec![2],
            data_type: Some(DataType::Int64.into()),
            raw_data: Some(1_i64.to_le_bytes().to_vec()),
            ..TensorProto::default()
        };
        let constant = Constant::of(&tensor).expect("a shape");
        assert_eq!((constant.extents, constant.numbers), (vec![2], None));
        assert!(Constant::of(&TensorProto { dims: vec![-1], ..tensor }).is_none());
    }
}
