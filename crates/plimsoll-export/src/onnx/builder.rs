//! Builds ONNX graphs node by node.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::proto::{
    AttributeProto, AttributeType, DataType, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension},
    type_proto,
};

/// The operator set: the first with `LayerNormalization`.
pub const OPSET: i64 = 17;
/// The file format that goes with it.
pub const IR_VERSION: i64 = 8;

/// Type of the elements of an input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElementType {
    /// 32-bit floating point.
    Float32,
    /// 64-bit signed integer.
    Int64,
    /// True or false.
    Bool,
}

impl ElementType {
    const fn data_type(self) -> DataType {
        match self {
            Self::Float32 => DataType::Float,
            Self::Int64 => DataType::Int64,
            Self::Bool => DataType::Bool,
        }
    }
}

/// Extent of a dimension: a number, or a name for what the input decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Extent {
    /// A number.
    Fixed(usize),
    /// A name; equal names are equal extents.
    Named(String),
}

/// A value in a graph under construction. Only the builder makes them, so a node cannot read what does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value(String);

impl Value {
    /// Its name in the file.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// A parameter of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A whole number.
    Int(&'static str, i64),
    /// Whole numbers.
    Ints(&'static str, Vec<i64>),
    /// A number.
    Float(&'static str, f32),
}

impl From<Attribute> for AttributeProto {
    fn from(attribute: Attribute) -> Self {
        let named = |name: &str, kind: AttributeType| Self {
            name: Some(name.into()),
            r#type: Some(kind.into()),
            ..Self::default()
        };
        match attribute {
            Attribute::Int(name, value) => Self { i: Some(value), ..named(name, AttributeType::Int) },
            Attribute::Ints(name, values) => Self { ints: values, ..named(name, AttributeType::Ints) },
            Attribute::Float(name, value) => Self { f: Some(value), ..named(name, AttributeType::Float) },
        }
    }
}

/// A graph under construction.
///
/// Values carry the name of the node that makes them. A name that is taken gets a number appended, so that names of
/// inputs and outputs should be used for nothing else.
#[derive(Debug, Default)]
pub struct OnnxBuilder {
    graph: GraphProto,
    names: BTreeSet<String>,
    constants: BTreeMap<(DataType, Vec<usize>, Vec<u8>), Value>,
}

impl OnnxBuilder {
    /// An empty graph.
    pub fn new(name: &str) -> Self {
        Self { graph: GraphProto { name: Some(name.into()), ..GraphProto::default() }, ..Self::default() }
    }

    /// Declares an input.
    pub fn input(&mut self, name: &str, element: ElementType, shape: &[Extent], doc: &str) -> Value {
        let value = self.unique(name);
        self.graph.input.push(value_info(value.name(), element, shape, doc));
        value
    }

    /// Declares a value as an output, under the name it has.
    pub fn output(&mut self, value: &Value, element: ElementType, shape: &[Extent], doc: &str) {
        self.graph.output.push(value_info(value.name(), element, shape, doc));
    }

    /// Adds a tensor of numbers.
    ///
    /// # Panics
    /// A shape that does not hold as many numbers.
    pub fn tensor(&mut self, name: &str, shape: &[usize], numbers: &[f32]) -> Value {
        assert_eq!(shape.iter().product::<usize>(), numbers.len(), "the shape of `{name}` does not fit its numbers");
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.initializer(name, shape, DataType::Float, bytes)
    }

    /// A single number; equal ones are kept once.
    pub fn scalar(&mut self, number: f32) -> Value {
        self.constant(&format!("constant.{number}"), &[], DataType::Float, number.to_le_bytes().to_vec())
    }

    /// A single whole number; equal ones are kept once.
    pub fn whole(&mut self, number: i64) -> Value {
        self.constant(&format!("constant.{number}"), &[], DataType::Int64, number.to_le_bytes().to_vec())
    }

    /// A vector of whole numbers, such as axes; equal ones are kept once.
    pub fn wholes(&mut self, numbers: &[i64]) -> Value {
        let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(&format!("constant.[{}]", texts.join(",")), &[numbers.len()], DataType::Int64, bytes)
    }

    /// Adds a node with one output, which gets the node's name.
    pub fn node(&mut self, op: &str, name: &str, inputs: &[&Value], attributes: Vec<Attribute>) -> Value {
        let [value] = self.nodes(op, [name], inputs, attributes);
        value
    }

    /// Adds a node with several outputs, under a name each; the node is named after the first.
    pub fn nodes<const N: usize>(
        &mut self,
        op: &str,
        names: [&str; N],
        inputs: &[&Value],
        attributes: Vec<Attribute>,
    ) -> [Value; N] {
        let outputs = names.map(|name| self.unique(name));
        self.graph.node.push(NodeProto {
            input: inputs.iter().map(|value| value.0.clone()).collect(),
            output: outputs.iter().map(|value| value.0.clone()).collect(),
            name: outputs.first().map(|value| value.0.clone()),
            op_type: Some(op.into()),
            attribute: attributes.into_iter().map(AttributeProto::from).collect(),
            ..NodeProto::default()
        });
        outputs
    }

    /// The finished model, written by Plimsoll under this crate's version.
    pub fn finish(self, doc: &str, metadata: Vec<(String, String)>) -> ModelProto {
        let entry = |(key, value)| StringStringEntryProto { key: Some(key), value: Some(value) };
        ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some("plimsoll".into()),
            producer_version: Some(env!("CARGO_PKG_VERSION").into()),
            doc_string: Some(doc.into()),
            graph: Some(self.graph),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(OPSET) }],
            metadata_props: metadata.into_iter().map(entry).collect(),
            ..ModelProto::default()
        }
    }

    fn constant(&mut self, name: &str, shape: &[usize], data_type: DataType, bytes: Vec<u8>) -> Value {
        let key = (data_type, shape.to_vec(), bytes);
        if let Some(value) = self.constants.get(&key) {
            return value.clone();
        }
        let value = self.initializer(name, shape, data_type, key.2.clone());
        self.constants.insert(key, value.clone());
        value
    }

    fn initializer(&mut self, name: &str, shape: &[usize], data_type: DataType, bytes: Vec<u8>) -> Value {
        let value = self.unique(name);
        self.graph.initializer.push(TensorProto {
            dims: shape.iter().map(|&extent| whole(extent)).collect(),
            data_type: Some(data_type.into()),
            name: Some(value.0.clone()),
            raw_data: Some(bytes),
            ..TensorProto::default()
        });
        value
    }

    fn unique(&mut self, name: &str) -> Value {
        let numbered = (2..).map(|number| format!("{name}.{number}"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !self.names.contains(name));
        let free = free.expect("there is no end of numbers");
        self.names.insert(free.clone());
        Value(free)
    }
}

fn value_info(name: &str, element: ElementType, shape: &[Extent], doc: &str) -> ValueInfoProto {
    let dim = shape.iter().map(|extent| match extent {
        Extent::Fixed(extent) => dimension::Value::DimValue(whole(*extent)),
        Extent::Named(name) => dimension::Value::DimParam(name.clone()),
    });
    let shape = TensorShapeProto { dim: dim.map(|value| Dimension { value: Some(value) }).collect() };
    let tensor = type_proto::Tensor { elem_type: Some(element.data_type().into()), shape: Some(shape) };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)) }),
        doc_string: Some(doc.into()),
    }
}

fn whole(extent: usize) -> i64 {
    i64::try_from(extent).expect("no tensor is that large")
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn small() -> OnnxBuilder {
        let mut builder = OnnxBuilder::new("test");
        let shape = [Extent::Named("batch".into()), Extent::Fixed(2)];
        let x = builder.input("x", ElementType::Float32, &shape, "numbers");
        let weight = builder.tensor("weight", &[2], &[1.0, -0.0]);
        let sum = builder.node("Add", "sum", &[&x, &weight], vec![]);
        let axes = builder.wholes(&[0]);
        let y = builder.node("Unsqueeze", "y", &[&sum, &axes], vec![]);
        builder.output(&y, ElementType::Float32, &[Extent::Fixed(1), shape[0].clone(), Extent::Fixed(2)], "");
        builder
    }

    #[test]
    fn a_file_decodes_to_what_was_written() {
        let model = small().finish("doc", vec![("key".into(), "value".into())]);
        assert_eq!(ModelProto::decode(model.encode_to_vec().as_slice()).expect("own bytes"), model);
    }

    #[test]
    fn an_attribute_of_value_zero_is_written() {
        let attributes = [Attribute::Int("axis", 0), Attribute::Float("alpha", 0.0)].map(AttributeProto::from);
        for attribute in attributes {
            let decoded = AttributeProto::decode(attribute.encode_to_vec().as_slice()).expect("own bytes");
            assert!(decoded.i == Some(0) || decoded.f == Some(0.0), "{decoded:?}");
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        // Field 20 of type varint has the key 0xa0 0x01; field 3 of type varint 0x18.
        let attribute = AttributeProto::from(Attribute::Int("axis", -1));
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let expected = [&b"\x0a\x04axis\x18"[..], &minus_one, b"\xa0\x01\x02"].concat();
        assert_eq!(attribute.encode_to_vec(), expected);
    }

    #[test]
    fn names_are_unique_and_equal_constants_are_kept_once() {
        let mut builder = small();
        let first = builder.scalar(0.5);
        assert_eq!(builder.scalar(0.5), first);
        assert_ne!(builder.scalar(-0.0), builder.scalar(0.0), "the sign of zero counts");
        assert_ne!(builder.whole(0).name(), builder.wholes(&[0]).name());
        let again = builder.node("Neg", "y", &[&first], vec![]);
        assert_eq!(again.name(), "y.2");
    }
}
