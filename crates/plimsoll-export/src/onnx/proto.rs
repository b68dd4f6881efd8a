//! The messages of ONNX, as far as exported networks need them.
//!
//! Names and field numbers are those of `onnx.proto`, version 1.12 (IR version 8). Fields that Plimsoll neither writes
//! nor reads are left out; decoding skips them. Scalars are `Option`s because the format tells "zero" from "not set":
//! an attribute `axis = 0` must be written.

use prost::{Enumeration, Message, Oneof};

/// A whole file.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the file format.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// Name of the program that wrote the file.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// Version of that program.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    /// What the network is for.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The network.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Versions of the operator sets in use.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Metadata by name.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// A computation: nodes in an order in which every value is made before it is used.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Operators.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Name of the graph.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Constants, weights among them.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// What is fed in.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// What comes out.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// One operator.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the values it reads.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the values it makes.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Its own name.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// Name of the operator, such as `MatMul`.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// Parameters.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
}

/// A parameter of an operator.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The value of a [`AttributeType::Float`].
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// The value of an [`AttributeType::Int`].
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// The value of a [`AttributeType::String`].
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// The value of a [`AttributeType::Tensor`].
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// The value of [`AttributeType::Floats`].
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// The value of [`AttributeType::Ints`].
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Which of the other fields holds the value.
    #[prost(enumeration = "AttributeType", optional, tag = "20")]
    pub r#type: Option<i32>,
}

/// Which field of an attribute holds its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    /// None.
    Undefined = 0,
    /// [`AttributeProto::f`].
    Float = 1,
    /// [`AttributeProto::i`].
    Int = 2,
    /// [`AttributeProto::s`].
    String = 3,
    /// [`AttributeProto::t`].
    Tensor = 4,
    /// [`AttributeProto::floats`].
    Floats = 6,
    /// [`AttributeProto::ints`].
    Ints = 7,
}

/// A constant tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Its shape; empty for a scalar.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// Type of its elements.
    #[prost(enumeration = "DataType", optional, tag = "2")]
    pub data_type: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// Its elements row by row, little-endian.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
}

/// Type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum DataType {
    /// Not said.
    Undefined = 0,
    /// 32-bit floating point.
    Float = 1,
    /// 64-bit signed integer.
    Int64 = 7,
    /// One byte, zero or one.
    Bool = 9,
}

/// Name and type of an input or output.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Its type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    /// What it means.
    #[prost(string, optional, tag = "3")]
    pub doc_string: Option<String>,
}

/// Type of a value.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// Which kind of type.
    #[prost(oneof = "type_proto::Value", tags = "1")]
    pub value: Option<type_proto::Value>,
}

/// Parts of [`TypeProto`].
pub mod type_proto {
    use super::{DataType, Oneof, TensorShapeProto};

    /// The kinds of types that Plimsoll uses: tensors.
    #[derive(Clone, PartialEq, Oneof)]
    pub enum Value {
        /// A tensor.
        #[prost(message, tag = "1")]
        TensorType(Tensor),
    }

    /// Type of a tensor.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Tensor {
        /// Type of its elements.
        #[prost(enumeration = "DataType", optional, tag = "1")]
        pub elem_type: Option<i32>,
        /// Its shape.
        #[prost(message, optional, tag = "2")]
        pub shape: Option<TensorShapeProto>,
    }
}

/// Shape of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// Its dimensions, outermost first.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<tensor_shape_proto::Dimension>,
}

/// Parts of [`TensorShapeProto`].
pub mod tensor_shape_proto {
    use super::Oneof;

    /// One dimension.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Dimension {
        /// Its extent.
        #[prost(oneof = "dimension::Value", tags = "1, 2")]
        pub value: Option<dimension::Value>,
    }

    /// Parts of [`Dimension`].
    pub mod dimension {
        use super::Oneof;

        /// An extent: known, or a name for one that is decided by the input.
        #[derive(Clone, PartialEq, Eq, Oneof)]
        pub enum Value {
            /// A number.
            #[prost(int64, tag = "1")]
            DimValue(i64),
            /// A name; equal names are equal extents.
            #[prost(string, tag = "2")]
            DimParam(String),
        }
    }
}

/// An operator set and its version.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    /// Empty for ONNX's own operators.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// The version.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A metadata entry.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// Its text.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}
