//! Damaged and malicious files get a clear error, quickly and in little memory.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_onnx::proto::{DataType, FunctionProto, GraphProto, NodeProto};
use plimsoll_onnx::{OnnxError, parse, read};
use proptest::prelude::*;
use prost::Message;
use support::{Extent, Model, graph, int, ints};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).expect("a fixture")
}

fn refused(bytes: &[u8]) -> OnnxError {
    let start = Instant::now();
    let error = parse(bytes, "hostile").expect_err("refused");
    assert!(start.elapsed() < Duration::from_secs(5), "{error}");
    error
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn truncated_files_never_panic(end in 0_usize..7_000) {
        let bytes = fixture("convolutions-script-17-train.onnx");
        let _ = parse(&bytes[..end.min(bytes.len())], "cut");
    }

    #[test]
    fn damaged_files_never_panic(flips in prop::collection::vec((0_usize..20_000, any::<u8>()), 1..12)) {
        for name in ["tokens-script-17-train.onnx", "tokens-dynamo-18-eval.onnx"] {
            let mut bytes = fixture(name);
            let length = bytes.len();
            for &(place, value) in &flips {
                bytes[place % length] ^= value;
            }
            let _ = parse(&bytes, "damaged");
        }
    }

    #[test]
    fn any_attributes_never_panic(
        numbers in prop::collection::vec(any::<i64>(), 0..6),
        op in prop::sample::select(vec![
            "Conv", "ConvTranspose", "MaxPool", "Reshape", "Slice", "Pad", "Transpose", "Resize", "Split", "Gather",
            "DepthToSpace", "Unsqueeze", "Squeeze", "Flatten", "Concat", "Expand", "Tile", "ReduceMean", "TopK",
        ]),
    ) {
        let mut model = Model::of_input(10, &[4, 6, 6]);
        let weight = model.weight("w", &[4, 4, 3, 3]);
        let list = model.wholes(&numbers);
        let attributes = ["kernel_shape", "strides", "pads", "dilations", "perm", "axes", "starts", "ends", "split"]
            .map(|name| ints(name, &numbers));
        let mut attributes: Vec<_> = attributes.into();
        attributes.extend(numbers.first().map(|&number| int("axis", number)));
        attributes.extend(numbers.first().map(|&number| int("group", number)));
        attributes.extend(numbers.first().map(|&number| int("blocksize", number)));
        let second = if op.starts_with("Conv") { weight } else { list.clone() };
        let output = model.node(op, &["x", &second, &list], attributes);
        model.output(&output);
        let _ = parse(&model.bytes(), "absurd");
    }
}

#[test]
fn what_is_no_model_is_refused() {
    for bytes in [&b""[..], b"hello", &[0xff; 64], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]] {
        refused(bytes);
    }
    let error = read(Path::new("/no/such/model.onnx")).expect_err("no file");
    assert!(matches!(error, OnnxError::Read { .. }));
    assert!(read(Path::new(env!("CARGO_MANIFEST_DIR"))).is_err(), "a folder");
}

#[test]
fn a_cycle_is_a_value_that_nothing_before_writes() {
    let mut model = Model::of_input(17, &[8]);
    model.graph.node.push(NodeProto {
        input: vec!["b".into()],
        output: vec!["a".into()],
        op_type: Some("Relu".into()),
        ..NodeProto::default()
    });
    model.graph.node.push(NodeProto {
        input: vec!["a".into()],
        output: vec!["b".into()],
        op_type: Some("Relu".into()),
        ..NodeProto::default()
    });
    model.output("b");
    assert!(matches!(refused(&model.bytes()), OnnxError::Reference { value, .. } if value == "b"));
}

#[test]
fn a_function_that_calls_itself_is_refused() {
    let call = |name: &str, from: &str, to: &str| NodeProto {
        input: vec![from.into()],
        output: vec![to.into()],
        op_type: Some(name.into()),
        domain: Some("own".into()),
        ..NodeProto::default()
    };
    let mut model = Model::of_input(17, &[8]);
    model.graph.node.push(call("Loop1", "x", "y"));
    model.output("y");
    let mut proto = model.finish();
    // Each calls the next twice: without a limit the second would be inlined 2^64 times.
    for (name, next) in [("Loop1", "Loop1"), ("Loop2", "Loop2")] {
        proto.functions.push(FunctionProto {
            name: Some(name.into()),
            domain: Some("own".into()),
            input: vec!["a".into()],
            output: vec!["c".into()],
            node: vec![call(next, "a", "b"), call(next, "b", "c")],
            ..FunctionProto::default()
        });
    }
    assert!(refused(&proto.encode_to_vec()).to_string().contains("at most"));
}

#[test]
fn functions_that_double_are_cut_off() {
    let call = |name: String, from: &str, to: &str| NodeProto {
        input: vec![from.into()],
        output: vec![to.into()],
        op_type: Some(name),
        domain: Some("own".into()),
        ..NodeProto::default()
    };
    let mut model = Model::of_input(17, &[8]);
    model.graph.node.push(call("F0".into(), "x", "y"));
    model.output("y");
    let mut proto = model.finish();
    for level in 0..22 {
        let next = |from: &str, to: &str| call(format!("F{}", level + 1), from, to);
        proto.functions.push(FunctionProto {
            name: Some(format!("F{level}")),
            domain: Some("own".into()),
            input: vec!["a".into()],
            output: vec!["c".into()],
            node: vec![next("a", "b"), next("b", "c")],
            ..FunctionProto::default()
        });
    }
    refused(&proto.encode_to_vec());
}

#[test]
fn deep_branches_are_refused() {
    let mut inner = GraphProto::default();
    for _ in 0..200 {
        let node = NodeProto {
            op_type: Some("If".into()),
            attribute: vec![graph("then_branch", inner.clone())],
            ..NodeProto::default()
        };
        inner = GraphProto { node: vec![node], ..GraphProto::default() };
    }
    let mut model = Model::of_input(17, &[8]);
    model.graph.node = inner.node;
    refused(&model.bytes());
}

#[test]
fn a_million_nodes_are_refused_in_a_moment() {
    // Nodes without content: two bytes each, in a graph of two million bytes.
    let nodes = [0x0a, 0x00].repeat(1_000_000);
    let mut bytes = vec![0x08, 0x08, 0x3a];
    prost::encoding::encode_varint(nodes.len() as u64, &mut bytes);
    bytes.extend(nodes);
    assert!(matches!(refused(&bytes), OnnxError::TooLarge { of: "nodes", .. }));
}

#[test]
fn many_attributes_are_refused_before_they_take_memory() {
    let attributes = [0x2a, 0x00].repeat(8_000_000);
    let mut node = vec![0x0a];
    prost::encoding::encode_varint(attributes.len() as u64, &mut node);
    node.extend(attributes);
    let mut bytes = vec![0x08, 0x08, 0x3a];
    prost::encoding::encode_varint(node.len() as u64, &mut bytes);
    bytes.extend(node);
    assert!(matches!(refused(&bytes), OnnxError::TooLarge { .. }));
}

#[test]
fn sizes_that_no_machine_holds_are_refused() {
    let mut model = Model::of_input(17, &[1 << 40, 1 << 40]);
    let output = model.node("Relu", &["x"], vec![]);
    model.output(&output);
    refused(&model.bytes());
    let mut model = Model::of_input(17, &[8]);
    model.tensor("w", DataType::Float, &[i64::MAX, i64::MAX], vec![]);
    model.output("x");
    assert!(refused(&model.bytes()).to_string().contains("`w`"));
    let mut model = Model::of_input(17, &[-5]);
    model.output("x");
    assert!(refused(&model.bytes()).to_string().contains("-5"));
    let mut model = Model::of_input(17, &[8]);
    let huge = model.wholes(&[1 << 50, 1 << 50, 1 << 50]);
    let filled = model.node("ConstantOfShape", &[&huge], vec![]);
    let output = model.node("Add", &["x", &filled], vec![]);
    model.output(&output);
    refused(&model.bytes());
}

#[test]
fn weights_are_passed_over() {
    // 48 MB of weights inline, and as many bytes that the file promises and does not have.
    let mut model = Model::of_input(17, &[4_096]);
    let bytes = vec![1_u8; 48 << 20];
    let weight = model.tensor("head.weight", DataType::Float, &[4_096, 3_072], bytes);
    let output = model.node("MatMul", &["x", &weight], vec![]);
    model.output(&output);
    let bytes = model.bytes();
    let start = Instant::now();
    let graph = parse(&bytes, "large").expect("a model").graph;
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(graph.parameter_count(), 4_096 * 3_072);
    refused(&bytes[..bytes.len() / 2]);
}

#[test]
fn external_weights_need_not_be_there() {
    use plimsoll_onnx::proto::{StringStringEntryProto, TensorProto, tensor_proto::DataLocation};
    let mut model = Model::of_input(17, &[16]);
    let entry = |key: &str, value: &str| StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) };
    model.graph.initializer.push(TensorProto {
        dims: vec![16, 1 << 30],
        data_type: Some(DataType::Float.into()),
        name: Some("head.weight".into()),
        data_location: Some(DataLocation::External.into()),
        external_data: vec![entry("location", "../../etc/passwd"), entry("length", "-1")],
        ..TensorProto::default()
    });
    let output = model.node("MatMul", &["x", "head.weight"], vec![]);
    model.output(&output);
    assert_eq!(parse(&model.bytes(), "external").expect("a model").graph.parameter_count(), 16 << 30);
}

#[test]
fn inputs_without_a_shape_and_unknown_operator_sets_are_refused() {
    let mut model = Model::new(17);
    model.input("x", DataType::String, vec![Extent::Named("batch")]);
    model.output("x");
    assert!(refused(&model.bytes()).to_string().contains("input `x`"));
    let mut model = Model::of_input(999, &[8]);
    model.output("x");
    assert!(matches!(refused(&model.bytes()), OnnxError::Opset { found: 999, .. }));
}
