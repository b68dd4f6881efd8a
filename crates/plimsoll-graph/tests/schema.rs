//! `docs/graph.schema.json` and the example in `docs/graph-format.md`, against the reader and the writer.

use jsonschema::Validator;
use plimsoll_graph::{
    Activation, AttentionKernel, Binary, Conv, ConvolutionPass, DType, Family, Graph, GraphBuilder, GraphParts, Loss,
    Node, NodeId, Op, PadMode, Pool, PoolKind, Precision, RecordedEvent, RecurrentCell, Reduction, Result, Shape, Size,
    StepRecord, TensorId, TensorSpec, Weight, WeightId, WeightKind, json, summary,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value};

const SCHEMA: &str = include_str!("../../../docs/graph.schema.json");
const FORMAT: &str = include_str!("../../../docs/graph-format.md");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("JSON")
}

fn validator() -> Validator {
    jsonschema::validator_for(&schema()).expect("a valid schema")
}

/// What the schema has against a document.
fn complaints(validator: &Validator, document: &str) -> Vec<String> {
    let document = serde_json::from_str(document).expect("JSON");
    validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn example() -> &'static str {
    let (_, rest) = FORMAT.split_once("```json\n").expect("an example");
    rest.split_once("```").expect("an end of the example").0
}

/// One operator of every kind, with and without what is optional.
fn operators() -> Vec<Op> {
    let conv =
        Conv { kernel: vec![3], stride: vec![], padding: vec![], dilation: vec![], groups: 1, transposed: false };
    let full =
        Conv { stride: vec![2], padding: vec![1], dilation: vec![2], groups: 4, transposed: true, ..conv.clone() };
    let pool = |kind, kernel: &[u64]| {
        Op::Pool(Pool { kind, kernel: kernel.to_vec(), stride: kernel.to_vec(), padding: vec![0; kernel.len()] })
    };
    let attention = |kernel| Op::Attention { heads: 8, kv_heads: 2, kernel, causal: true, dropout: 0.1 };
    let recurrent = |cell| Op::Recurrent { cell, hidden: 8, layers: 2, bidirectional: true };
    let binary = |function| Op::Binary { function, inplace: false };
    let mut operators = vec![
        Op::Linear,
        Op::Conv(conv),
        Op::Conv(full),
        Op::BatchNorm,
        Op::LayerNorm,
        Op::RmsNorm,
        Op::GroupNorm { groups: 32 },
        Op::InstanceNorm,
        Op::LocalResponseNorm,
        Op::Softmax,
        Op::LogSoftmax,
        Op::Dropout { p: 0.5, inplace: true },
        Op::StochasticDepth { p: 0.1 },
        pool(PoolKind::Max, &[2, 2]),
        pool(PoolKind::Average, &[3]),
        pool(PoolKind::AdaptiveMax, &[]),
        pool(PoolKind::AdaptiveAverage, &[]),
        Op::Embedding { sparse: true },
        attention(AttentionKernel::Fused),
        attention(AttentionKernel::Eager),
        Op::MatMul,
        Op::Concat,
        Op::View,
        Op::Copy,
        Op::Upsample,
        Op::Gather,
        Op::Other { name: "frobnicate".into() },
    ];
    operators.extend([PadMode::Constant, PadMode::Reflect, PadMode::Replicate].map(|mode| Op::Pad { mode }));
    operators.extend(Reduction::ALL.map(|function| Op::Reduce { function }));
    operators.extend([Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide, Binary::Other].map(binary));
    operators.extend([RecurrentCell::Rnn, RecurrentCell::Gru, RecurrentCell::Lstm].map(recurrent));
    operators.extend(Activation::ALL.map(|function| Op::Activation { function, inplace: true }));
    operators
}

/// A chain of nodes of every operator, over weights of every kind.
fn chain() -> Result<Graph> {
    let operators = operators();
    let tensor = |index| TensorSpec {
        name: format!("t{index}"),
        shape: Shape::batched(&[4, 8]),
        dtype: if index == 0 { DType::BFloat16 } else { DType::Float32 },
    };
    let weight = |kind| Weight { name: format!("{kind:?}"), shape: Shape::fixed(&[8]), dtype: DType::Float32, kind };
    let node = |(index, op): (usize, &Op)| Node {
        name: format!("n{index}"),
        op: op.clone(),
        inputs: vec![TensorId(index as u32)],
        outputs: vec![TensorId(index as u32 + 1)],
        weights: vec![WeightId(index as u32 % 3)],
    };
    Graph::new(GraphParts {
        name: "chain".into(),
        family: Family::Recurrent,
        tensors: (0..=operators.len()).map(tensor).collect(),
        weights: [WeightKind::Parameter, WeightKind::Frozen, WeightKind::Buffer].map(weight).to_vec(),
        nodes: operators.iter().enumerate().map(node).collect(),
        inputs: vec![TensorId(0)],
        outputs: vec![TensorId(operators.len() as u32)],
    })
}

/// A layer with a record that has an event of every kind.
fn recorded() -> Result<Graph> {
    let mut b = GraphBuilder::new("recorded", Family::Cnn);
    let image = b.input("image", Shape::batched(&[3, 8, 8]), DType::Float32);
    let conv =
        Conv { kernel: vec![3, 3], stride: vec![], padding: vec![], dilation: vec![], groups: 1, transposed: false };
    let conv = b.conv("conv", image, 4, conv, false)?;
    let events = vec![
        RecordedEvent::Allocate(0),
        RecordedEvent::Hold(0),
        RecordedEvent::ZeroGrad,
        RecordedEvent::Node(Some(NodeId(0))),
        RecordedEvent::Allocate(0),
        RecordedEvent::Convolve(ConvolutionPass::Forward),
        RecordedEvent::Multiply,
        RecordedEvent::Node(None),
        RecordedEvent::Loss,
        RecordedEvent::Backward,
        RecordedEvent::Sum(0, 1),
        RecordedEvent::Scatter(0, 1, 1),
        RecordedEvent::Allocate(1),
        RecordedEvent::Accumulate(2, WeightId(0)),
        RecordedEvent::Free(1),
    ];
    let sizes = vec![Size { fixed: 0, per_sample: 768 }, Size { fixed: 432, per_sample: 0 }];
    let record = StepRecord { precision: Precision::Fp32, loss: Loss::Own, is_exact: false, sizes, events };
    b.finish(&[conv])?.with_step_records(vec![record])
}

fn convolutional() -> Result<Graph> {
    let mut b = GraphBuilder::new("convolutional", Family::Cnn);
    let x = b.input("x", Shape::batched(&[3, 32, 32]), DType::Float32);
    let y = b.conv2d("conv", x, 16, 3, 1, 1, false)?;
    let y = b.batch_norm("norm", y)?;
    let y = b.activation("relu", y, Activation::Relu, true);
    let z = b.conv2d("shortcut", x, 16, 1, 1, 0, true)?;
    let y = b.add("add", y, z);
    let y = b.pool2d("pool", y, PoolKind::Max, 2, 2, 0)?;
    let y = b.global_average_pool("global", y);
    let y = b.flatten("flat", y)?;
    let y = b.linear("head", y, 10, true)?;
    b.finish(&[y])
}

fn transformer() -> Result<Graph> {
    let mut b = GraphBuilder::new("transformer", Family::Transformer);
    let x = b.input("tokens", Shape::batched(&[16]), DType::Int64);
    let x = b.embedding("table", x, 100, 64);
    let y = b.layer_norm("norm", x)?;
    let qkv = [b.linear("q", y, 64, true)?, b.linear("k", y, 64, true)?, b.linear("v", y, 64, true)?];
    let y = b.attention("attention", qkv, 4, AttentionKernel::Eager, 0.1);
    let y = b.dropout("dropout", y, 0.1);
    let y = b.add("add", y, x);
    b.finish(&[y])
}

#[test]
fn the_schema_is_a_schema() {
    jsonschema::meta::validate(&schema()).expect("valid under its meta-schema");
}

#[test]
fn what_is_written_fits_the_schema() {
    let validator = validator();
    let print = include_str!("summaries/encoder.torchinfo.txt");
    for graph in [chain(), convolutional(), transformer(), summary::parse(print, "print"), recorded()] {
        let text = json::write(&graph.expect("valid"));
        assert_eq!(complaints(&validator, &text), [""; 0], "{text}");
    }
}

#[test]
fn the_example_fits_the_schema_and_is_read() {
    assert_eq!(complaints(&validator(), example()), [""; 0]);
    let graph = json::parse(example(), "example").expect("valid");
    assert_eq!((graph.nodes().len(), graph.parameter_count()), (6, 432 + 32 + 160 + 10));
}

#[test]
fn the_lists_of_schema_document_and_code_are_the_same() {
    let schema = schema();
    let list = |pointer: &str| schema.pointer(pointer).and_then(Value::as_array).expect(pointer).clone();
    let attributes = |op: &str, field: &str| list(&format!("/$defs/{op}_attributes/properties/{field}/enum"));
    assert_eq!(list("/$defs/operator/anyOf/0/enum"), Op::NAMES);
    assert_eq!(list("/properties/family/enum"), Family::ALL.map(Family::name));
    assert_eq!(attributes("activation", "function"), Activation::ALL.map(Activation::name));
    assert!(all_are::<DType>(&list("/$defs/dtype/enum"), 11));
    assert!(all_are::<WeightKind>(&list("/$defs/weight/properties/kind/enum"), 3));
    assert!(all_are::<PoolKind>(&attributes("pool", "kind"), 4));
    assert!(all_are::<Binary>(&attributes("binary", "function"), 5));
    assert!(all_are::<AttentionKernel>(&attributes("attention", "kernel"), 2));
    let step = |field: &str| list(&format!("/$defs/step/properties/{field}/enum"));
    assert_eq!(step("precision"), Precision::ALL.map(Precision::name));
    assert!(all_are::<Loss>(&step("loss"), 3));
    assert!(all_are::<PadMode>(&attributes("pad", "mode"), 3));
    assert!(all_are::<Reduction>(&attributes("reduce", "function"), 10));
    assert!(all_are::<RecurrentCell>(&attributes("recurrent", "cell"), 3));
    let rows = FORMAT.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: Vec<&str> = rows.map(|(name, _)| name).filter(|name| Op::NAMES.contains(name)).collect();
    assert_eq!(documented, Op::NAMES);
    for word in list("/$defs/dtype/enum").into_iter().chain(attributes("activation", "function")) {
        let word = word.as_str().expect("a name").to_owned();
        assert!(FORMAT.contains(&format!("`{word}`")), "{word}");
    }
}

/// Whether so many values, all different, are values of a type.
fn all_are<T: DeserializeOwned + PartialEq>(values: &[Value], count: usize) -> bool {
    let read: Vec<T> = values.iter().filter_map(|value| from_value(value.clone()).ok()).collect();
    let differ = read.iter().enumerate().all(|(index, value)| !read[..index].contains(value));
    differ && read.len() == count && values.len() == count
}

#[test]
fn every_operator_is_in_the_chain() {
    let text = json::write(&chain().expect("valid"));
    for name in Op::NAMES {
        assert!(text.contains(&format!("\"op\":\"{name}\"")), "{name}");
    }
}

#[test]
fn the_schema_and_the_reader_refuse_the_same_mistakes() {
    let validator = validator();
    for (from, to) in [
        ("\"plimsoll_graph\": 1", "\"plimsoll_graph\": 2"),
        ("\"family\": \"cnn\"", "\"family\": \"gnn\""),
        ("\"family\": \"cnn\",", "\"family\": \"cnn\", \"batch\": 32,"),
        ("\"name\": \"tiny\",", ""),
        ("[\"batch\", 3, 32, 32]", "[\"batch\", 3, 32, -32]"),
        ("[\"batch\", 3, 32, 32]", "[\"batches\", 3, 32, 32]"),
        ("[16, 3, 3, 3]", "[\"batch\", 3, 3, 3]"),
        ("\"dtype\": \"int64\"", "\"dtype\": \"int63\""),
        ("\"kind\": \"buffer\"", "\"kind\": \"bufer\""),
        ("\"kernel\": [3, 3], ", ""),
        ("\"kernel\": [3, 3]", "\"kernal\": [3, 3]"),
        ("\"relu\", \"inplace\": true", "\"relu\", \"inplace\": \"yes\""),
        ("\"function\": \"relu\"", "\"function\": \"rely\""),
        ("\"attributes\": {\"kind\": \"adaptive_average\"},", ""),
    ] {
        let text = example().replace(from, to);
        assert_ne!(text, example(), "{from} must occur");
        assert_ne!(complaints(&validator, &text), [""; 0], "{to}");
        assert!(json::parse(&text, "broken").is_err(), "{to}");
    }
}

#[test]
fn an_unknown_operator_fits_the_schema_with_any_attributes() {
    let text = example().replace("\"op\": \"linear\"", "\"op\": \"frobnicate\", \"attributes\": {\"level\": [1, {}]}");
    assert_eq!(complaints(&validator(), &text), [""; 0]);
    assert_eq!(json::parse(&text, "odd").expect("valid").unknown_operators(), ["frobnicate"]);
}
