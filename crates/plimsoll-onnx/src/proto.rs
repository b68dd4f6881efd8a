//! The messages of ONNX, written out by hand so that no protobuf compiler is needed.
//!
//! Names and field numbers are those of `onnx.proto` up to IR version 11. The few fields that say nothing of a network
//! (parallel devices, overloads of functions) are left out; decoding skips them. Scalars are `Option`s because the
//! format tells "zero" from "not set": an attribute `axis = 0` must be written.

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
    /// Namespace of the model's name.
    #[prost(string, optional, tag = "4")]
    pub domain: Option<String>,
    /// Version of the model itself.
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
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
    /// Graphs that train the network.
    #[prost(message, repeated, tag = "20")]
    pub training_info: Vec<TrainingInfoProto>,
    /// Operators that the model defines itself.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
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
    /// What the graph computes.
    #[prost(string, optional, tag = "10")]
    pub doc_string: Option<String>,
    /// What is fed in.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// What comes out.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Types of values in between, where the writer knew them.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    /// Scales and zero points of quantised values.
    #[prost(message, repeated, tag = "14")]
    pub quantization_annotation: Vec<TensorAnnotation>,
    /// Constants that are mostly zero.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
    /// Metadata by name.
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
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
    /// What the node is for.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The operator set that the operator is of; ONNX's own if empty.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
    /// Metadata by name.
    #[prost(message, repeated, tag = "9")]
    pub metadata_props: Vec<StringStringEntryProto>,
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
    #[prost(message, optional, boxed, tag = "5")]
    pub t: Option<Box<TensorProto>>,
    /// The value of a [`AttributeType::Graph`].
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    /// The value of [`AttributeType::Floats`].
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// The value of [`AttributeType::Ints`].
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// The value of [`AttributeType::Strings`].
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// The value of [`AttributeType::Tensors`].
    #[prost(message, repeated, tag = "10")]
    pub tensors: Vec<TensorProto>,
    /// The value of [`AttributeType::Graphs`].
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
    /// Which of the other fields holds the value.
    #[prost(enumeration = "AttributeType", optional, tag = "20")]
    pub r#type: Option<i32>,
    /// In a function: the attribute of the calling node that this one takes its value from.
    #[prost(string, optional, tag = "21")]
    pub ref_attr_name: Option<String>,
    /// The value of an [`AttributeType::SparseTensor`].
    #[prost(message, optional, boxed, tag = "22")]
    pub sparse_tensor: Option<Box<SparseTensorProto>>,
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
    /// [`AttributeProto::g`].
    Graph = 5,
    /// [`AttributeProto::floats`].
    Floats = 6,
    /// [`AttributeProto::ints`].
    Ints = 7,
    /// [`AttributeProto::strings`].
    Strings = 8,
    /// [`AttributeProto::tensors`].
    Tensors = 9,
    /// [`AttributeProto::graphs`].
    Graphs = 10,
    /// [`AttributeProto::sparse_tensor`].
    SparseTensor = 11,
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
    /// Which part of a larger tensor this is.
    #[prost(message, optional, tag = "3")]
    pub segment: Option<tensor_proto::Segment>,
    /// Elements of 32-bit and complex floats, row by row.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of 8- to 32-bit integers, booleans and bits of 16-bit floats, row by row.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Elements that are texts.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    /// Elements of 64-bit integers, row by row.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// Its name.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// Its elements row by row, little-endian.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    /// Elements of 64-bit floats, row by row.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Elements of 32- and 64-bit unsigned integers, row by row.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// What the tensor is for.
    #[prost(string, optional, tag = "12")]
    pub doc_string: Option<String>,
    /// Where the elements lie in another file.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// Whether the elements lie in this file or another.
    #[prost(enumeration = "tensor_proto::DataLocation", optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// Parts of [`TensorProto`].
pub mod tensor_proto {
    use super::Enumeration;

    /// A range of elements of a larger tensor.
    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub struct Segment {
        /// The first one.
        #[prost(int64, optional, tag = "1")]
        pub begin: Option<i64>,
        /// One past the last one.
        #[prost(int64, optional, tag = "2")]
        pub end: Option<i64>,
    }

    /// Where the elements of a tensor lie.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
    #[repr(i32)]
    pub enum DataLocation {
        /// In the message.
        Default = 0,
        /// In another file, which `external_data` tells.
        External = 1,
    }
}

/// A constant tensor that is mostly zero.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensorProto {
    /// The other elements; the name is the tensor's.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    /// Where they stand.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    /// The whole tensor's shape.
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub dims: Vec<i64>,
}

/// Notes on a value, such as its quantisation.
#[derive(Clone, PartialEq, Message)]
pub struct TensorAnnotation {
    /// The value.
    #[prost(string, optional, tag = "1")]
    pub tensor_name: Option<String>,
    /// Names of the tensors that hold scale and zero point, by role.
    #[prost(message, repeated, tag = "2")]
    pub quant_parameter_tensor_names: Vec<StringStringEntryProto>,
}

/// How the network is trained, as the writer saw it.
#[derive(Clone, PartialEq, Message)]
pub struct TrainingInfoProto {
    /// Runs once.
    #[prost(message, optional, tag = "1")]
    pub initialization: Option<GraphProto>,
    /// Runs at each step.
    #[prost(message, optional, tag = "2")]
    pub algorithm: Option<GraphProto>,
}

/// An operator that the model defines itself, out of others.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// Name of the operator.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Names of the values it is called with.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Names of the values it returns.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Parameters that a call must or may give.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// Its nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// What it computes.
    #[prost(string, optional, tag = "8")]
    pub doc_string: Option<String>,
    /// Versions of the operator sets that its nodes are of.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Operator set that the operator is of.
    #[prost(string, optional, tag = "10")]
    pub domain: Option<String>,
    /// Parameters with defaults.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
}

/// Type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum DataType {
    /// Not said.
    Undefined = 0,
    /// 32-bit floating point.
    Float = 1,
    /// 8-bit unsigned integer.
    Uint8 = 2,
    /// 8-bit signed integer.
    Int8 = 3,
    /// 16-bit unsigned integer.
    Uint16 = 4,
    /// 16-bit signed integer.
    Int16 = 5,
    /// 32-bit signed integer.
    Int32 = 6,
    /// 64-bit signed integer.
    Int64 = 7,
    /// Text.
    String = 8,
    /// One byte, zero or one.
    Bool = 9,
    /// 16-bit IEEE floating point.
    Float16 = 10,
    /// 64-bit floating point.
    Double = 11,
    /// 32-bit unsigned integer.
    Uint32 = 12,
    /// 64-bit unsigned integer.
    Uint64 = 13,
    /// Two 32-bit floats.
    Complex64 = 14,
    /// Two 64-bit floats.
    Complex128 = 15,
    /// 16-bit brain floating point.
    Bfloat16 = 16,
    /// 8-bit floating point.
    Float8e4m3fn = 17,
    /// 8-bit floating point.
    Float8e4m3fnuz = 18,
    /// 8-bit floating point.
    Float8e5m2 = 19,
    /// 8-bit floating point.
    Float8e5m2fnuz = 20,
    /// 4-bit unsigned integer.
    Uint4 = 21,
    /// 4-bit signed integer.
    Int4 = 22,
    /// 4-bit floating point.
    Float4e2m1 = 23,
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
    #[prost(oneof = "type_proto::Value", tags = "1, 8")]
    pub value: Option<type_proto::Value>,
}

/// Parts of [`TypeProto`].
pub mod type_proto {
    use super::{DataType, Oneof, TensorShapeProto};

    /// The kinds of types that Plimsoll uses: tensors. Sequences, maps and optional values stay unset.
    #[derive(Clone, PartialEq, Oneof)]
    pub enum Value {
        /// A tensor.
        #[prost(message, tag = "1")]
        TensorType(Tensor),
        /// A tensor that is mostly zero.
        #[prost(message, tag = "8")]
        SparseTensorType(Tensor),
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
