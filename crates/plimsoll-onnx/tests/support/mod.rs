//! Writes small models node by node.

#![allow(dead_code, reason = "each test file uses its part")]

use plimsoll_onnx::proto::{
    AttributeProto, DataType, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension},
    type_proto,
};
use prost::Message;

/// A model under construction; each method takes and returns names.
pub(crate) struct Model {
    pub(crate) graph: GraphProto,
    pub(crate) opset: i64,
    pub(crate) nodes: usize,
}

/// An extent: a number, or a name.
pub(crate) enum Extent {
    Fixed(i64),
    Named(&'static str),
}

impl Model {
    pub(crate) fn new(opset: i64) -> Self {
        Self { graph: GraphProto::default(), opset, nodes: 0 }
    }

    /// A model of one float input `x`, whose first dimension is the batch.
    pub(crate) fn of_input(opset: i64, extents: &[i64]) -> Self {
        let mut model = Self::new(opset);
        let dims = std::iter::once(Extent::Named("batch")).chain(extents.iter().copied().map(Extent::Fixed));
        model.input("x", DataType::Float, dims.collect());
        model
    }

    pub(crate) fn input(&mut self, name: &str, element: DataType, dims: Vec<Extent>) {
        self.graph.input.push(value_info(name, element, dims));
    }

    /// A float weight, whose elements differ.
    pub(crate) fn weight(&mut self, name: &str, extents: &[i64]) -> String {
        let count = extents.iter().product::<i64>();
        let bytes = (0..count).flat_map(|index| (index as f32 + 0.5).to_le_bytes()).collect();
        self.tensor(name, DataType::Float, extents, bytes)
    }

    /// A float weight of equal elements.
    pub(crate) fn filled(&mut self, name: &str, extents: &[i64], value: f32) -> String {
        let count = extents.iter().product::<i64>();
        let bytes = (0..count).flat_map(|_| value.to_le_bytes()).collect();
        self.tensor(name, DataType::Float, extents, bytes)
    }

    pub(crate) fn tensor(&mut self, name: &str, data_type: DataType, extents: &[i64], bytes: Vec<u8>) -> String {
        self.graph.initializer.push(TensorProto {
            dims: extents.to_vec(),
            data_type: Some(data_type.into()),
            name: Some(name.into()),
            raw_data: Some(bytes),
            ..TensorProto::default()
        });
        name.into()
    }

    /// A list of whole numbers.
    pub(crate) fn wholes(&mut self, numbers: &[i64]) -> String {
        let name = format!("onnx::list_{}", self.graph.initializer.len());
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.tensor(&name, DataType::Int64, &[numbers.len() as i64], bytes)
    }

    pub(crate) fn number(&mut self, number: f32) -> String {
        let name = format!("onnx::Mul_{}", self.graph.initializer.len());
        self.tensor(&name, DataType::Float, &[], number.to_le_bytes().to_vec())
    }

    /// A node with one output.
    pub(crate) fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        self.nodes_of(op, inputs, 1, attributes).remove(0)
    }

    pub(crate) fn nodes_of(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: usize,
        attributes: Vec<AttributeProto>,
    ) -> Vec<String> {
        self.nodes += 1;
        let outputs: Vec<String> = (0..outputs).map(|index| format!("/m{}/{op}_output_{index}", self.nodes)).collect();
        self.graph.node.push(NodeProto {
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: outputs.clone(),
            name: Some(format!("/m{}/{op}", self.nodes)),
            op_type: Some(op.into()),
            attribute: attributes,
            ..NodeProto::default()
        });
        outputs
    }

    pub(crate) fn output(&mut self, name: &str) {
        self.graph.output.push(ValueInfoProto { name: Some(name.into()), ..ValueInfoProto::default() });
    }

    pub(crate) fn finish(self) -> ModelProto {
        ModelProto {
            ir_version: Some(8),
            producer_name: Some("test".into()),
            graph: Some(self.graph),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(self.opset) }],
            ..ModelProto::default()
        }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.finish().encode_to_vec()
    }
}

pub(crate) fn value_info(name: &str, element: DataType, dims: Vec<Extent>) -> ValueInfoProto {
    let dim = dims.into_iter().map(|extent| Dimension {
        value: Some(match extent {
            Extent::Fixed(extent) => dimension::Value::DimValue(extent),
            Extent::Named(name) => dimension::Value::DimParam(name.into()),
        }),
    });
    let tensor =
        type_proto::Tensor { elem_type: Some(element.into()), shape: Some(TensorShapeProto { dim: dim.collect() }) };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)) }),
        doc_string: None,
    }
}

pub(crate) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: Some(name.into()), i: Some(value), r#type: Some(2), ..AttributeProto::default() }
}

pub(crate) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { name: Some(name.into()), ints: values.to_vec(), r#type: Some(7), ..AttributeProto::default() }
}

pub(crate) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { name: Some(name.into()), f: Some(value), r#type: Some(1), ..AttributeProto::default() }
}

pub(crate) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { name: Some(name.into()), s: Some(value.into()), r#type: Some(3), ..AttributeProto::default() }
}

pub(crate) fn graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto { name: Some(name.into()), g: Some(Box::new(value)), r#type: Some(5), ..AttributeProto::default() }
}
