//! Element types of tensors.

use serde::{Deserialize, Serialize};

/// The element type of a tensor, named as PyTorch names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 64-bit floating point.
    Float64,
    /// 32-bit floating point.
    #[default]
    Float32,
    /// 16-bit IEEE floating point.
    Float16,
    /// 16-bit brain floating point.
    BFloat16,
    /// 8-bit floating point, either layout.
    Float8,
    /// 64-bit integer.
    Int64,
    /// 32-bit integer.
    Int32,
    /// 16-bit integer.
    Int16,
    /// 8-bit signed integer.
    Int8,
    /// 8-bit unsigned integer.
    UInt8,
    /// A byte that is true or false.
    Bool,
}

impl DType {
    /// Bytes that one element takes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Float64 | Self::Int64 => 8,
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 | Self::BFloat16 | Self::Int16 => 2,
            Self::Float8 | Self::Int8 | Self::UInt8 | Self::Bool => 1,
        }
    }

    /// Whether the type can carry a gradient.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float64 | Self::Float32 | Self::Float16 | Self::BFloat16 | Self::Float8)
    }
}
