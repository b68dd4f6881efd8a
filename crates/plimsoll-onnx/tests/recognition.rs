//! What exporters take apart is put together again.

mod support;

use plimsoll_graph::{Activation, Dim, Graph, Op, PoolKind, WeightKind};
use plimsoll_onnx::proto::{DataType, FunctionProto, NodeProto, OperatorSetIdProto};
use plimsoll_onnx::{OnnxError, OnnxGraph, ReadOptions, parse, parse_with};
use prost::Message;
use support::{Extent, Model, float, graph, int, ints, text};

fn read(model: Model) -> OnnxGraph {
    parse(&model.bytes(), "test").expect("a model")
}

fn ops(graph: &Graph) -> Vec<&'static str> {
    graph.nodes().iter().map(|node| node.op.token()).collect()
}

fn shape_of_output(graph: &Graph) -> Vec<Dim> {
    graph.tensor(graph.outputs()[0]).shape.dims().to_vec()
}

/// The functions that a chain on `x` is read as.
fn read_as(build: impl Fn(&mut Model) -> String) -> Vec<&'static str> {
    let mut model = Model::of_input(17, &[8]);
    let output = build(&mut model);
    model.output(&output);
    ops(&read(model).graph)
}

#[test]
fn chains_of_arithmetic_are_activation_functions() {
    let gelu = |model: &mut Model| {
        let root = model.number(std::f32::consts::SQRT_2);
        let (one, half) = (model.number(1.0), model.number(0.5));
        let scaled = model.node("Div", &["x", &root], vec![]);
        let error = model.node("Erf", &[&scaled], vec![]);
        let sum = model.node("Add", &[&error, &one], vec![]);
        let product = model.node("Mul", &["x", &sum], vec![]);
        model.node("Mul", &[&product, &half], vec![])
    };
    assert_eq!(read_as(gelu), ["gelu"]);
    let tanh = |model: &mut Model| {
        let (three, small, root) = (model.number(3.0), model.number(0.044_715), model.number(0.797_884_6));
        let (one, half) = (model.number(1.0), model.number(0.5));
        let cube = model.node("Pow", &["x", &three], vec![]);
        let scaled = model.node("Mul", &[&small, &cube], vec![]);
        let sum = model.node("Add", &["x", &scaled], vec![]);
        let inner = model.node("Mul", &[&root, &sum], vec![]);
        let tanh = model.node("Tanh", &[&inner], vec![]);
        let more = model.node("Add", &[&one, &tanh], vec![]);
        let halved = model.node("Mul", &[&half, "x"], vec![]);
        model.node("Mul", &[&halved, &more], vec![])
    };
    assert_eq!(read_as(tanh), ["gelu"]);
    let silu = |model: &mut Model| {
        let sigmoid = model.node("Sigmoid", &["x"], vec![]);
        model.node("Mul", &["x", &sigmoid], vec![])
    };
    assert_eq!(read_as(silu), ["silu"]);
    let hard_swish = |model: &mut Model| {
        let (three, zero, six) = (model.number(3.0), model.number(0.0), model.number(6.0));
        let sum = model.node("Add", &["x", &three], vec![]);
        let clipped = model.node("Clip", &[&sum, &zero, &six], vec![]);
        let product = model.node("Mul", &["x", &clipped], vec![]);
        model.node("Div", &[&product, &six], vec![])
    };
    assert_eq!(read_as(hard_swish), ["hard_swish"]);
    let relu6 = |model: &mut Model| {
        let (zero, six) = (model.number(0.0), model.number(6.0));
        model.node("Clip", &["x", &zero, &six], vec![])
    };
    assert_eq!(read_as(relu6), ["relu6"]);
}

#[test]
fn a_chain_that_something_else_reads_stays_apart() {
    let mut model = Model::of_input(17, &[8]);
    let sigmoid = model.node("Sigmoid", &["x"], vec![]);
    let product = model.node("Mul", &["x", &sigmoid], vec![]);
    model.output(&product);
    model.output(&sigmoid);
    assert_eq!(ops(&read(model).graph), ["sigmoid", "multiply"]);
}

#[test]
fn a_gate_is_no_activation_of_one_value() {
    let mut model = Model::of_input(17, &[4, 8, 8]);
    let pooled = model.node("GlobalAveragePool", &["x"], vec![]);
    let gate = model.node("Sigmoid", &[&pooled], vec![]);
    let output = model.node("Mul", &["x", &gate], vec![]);
    model.output(&output);
    let graph = read(model).graph;
    assert_eq!(ops(&graph), ["pool_average", "sigmoid", "multiply"]);
    assert!(matches!(&graph.nodes()[0].op, Op::Pool(pool) if pool.kind == PoolKind::AdaptiveAverage));
}

#[test]
fn a_layer_norm_is_put_together_with_its_weights() {
    let mut model = Model::of_input(11, &[5, 8]);
    let (two, small) = (model.number(2.0), model.number(1e-5));
    let (weight, bias) = (model.weight("norm.weight", &[8]), model.weight("norm.bias", &[8]));
    let mean = model.node("ReduceMean", &["x"], vec![ints("axes", &[-1])]);
    let centred = model.node("Sub", &["x", &mean], vec![]);
    let square = model.node("Pow", &[&centred, &two], vec![]);
    let variance = model.node("ReduceMean", &[&square], vec![ints("axes", &[-1])]);
    let sum = model.node("Add", &[&variance, &small], vec![]);
    let root = model.node("Sqrt", &[&sum], vec![]);
    let normed = model.node("Div", &[&centred, &root], vec![]);
    let scaled = model.node("Mul", &[&normed, &weight], vec![]);
    let output = model.node("Add", &[&scaled, &bias], vec![]);
    model.output(&output);
    let graph = read(model).graph;
    assert_eq!(ops(&graph), ["layer_norm"]);
    assert_eq!(graph.parameter_count(), 16);
}

/// Attention with a scale on the queries, and on the keys too if they are scaled both.
fn attention(scales_keys: bool) -> Graph {
    let mut model = Model::of_input(17, &[6, 16]);
    let weight = model.weight("onnx::MatMul_9", &[16, 48]);
    let split = model.wholes(&[0, 0, 3, 4, 4]);
    let merged = model.wholes(&[0, 0, 16]);
    let (scale, axis) = (model.number(0.707), model.wholes(&[0]));
    let product = model.node("MatMul", &["x", &weight], vec![]);
    let heads = model.node("Reshape", &[&product, &split], vec![]);
    let turned = model.node("Transpose", &[&heads], vec![ints("perm", &[2, 0, 3, 1, 4])]);
    let parts = model.nodes_of("Split", &[&turned], 3, vec![int("axis", 0), int("num_outputs", 3)]);
    let parts: Vec<String> = parts.iter().map(|part| model.node("Squeeze", &[part, &axis], vec![])).collect();
    let mut keys = model.node("Transpose", &[&parts[1]], vec![ints("perm", &[0, 1, 3, 2])]);
    let queries = model.node("Mul", &[&parts[0], &scale], vec![]);
    if scales_keys {
        keys = model.node("Mul", &[&keys, &scale], vec![]);
    }
    let scores = model.node("MatMul", &[&queries, &keys], vec![]);
    let weights = model.node("Softmax", &[&scores], vec![int("axis", -1)]);
    let result = model.node("MatMul", &[&weights, &parts[2]], vec![]);
    let back = model.node("Transpose", &[&result], vec![ints("perm", &[0, 2, 1, 3])]);
    let output = model.node("Reshape", &[&back, &merged], vec![]);
    model.output(&output);
    read(model).graph
}

#[test]
fn attention_is_fused_if_queries_and_keys_are_scaled_both() {
    let fused = attention(true);
    assert!(fused.nodes().iter().any(|node| matches!(node.op, Op::Attention { heads: 4, kv_heads: 0, .. })));
    assert!(!ops(&fused).contains(&"softmax"));
    assert!(!ops(&fused).contains(&"copy"), "the fused kernel writes tokens before heads");
    let eager = attention(false);
    assert!(ops(&eager).contains(&"softmax"));
    assert_eq!(ops(&eager).iter().filter(|op| **op == "mat_mul").count(), 2);
    // Matrices of heads lie apart: query, key and value are copied, and the result is.
    assert_eq!(ops(&eager).iter().filter(|op| **op == "copy").count(), 4);
}

#[test]
fn a_weight_is_kept_as_the_framework_keeps_it() {
    let graph = attention(true);
    let weight = graph.weights().iter().find(|weight| weight.name == "m1.weight").expect("named after its module");
    assert_eq!(weight.shape.to_string(), "[48, 16]");
}

#[test]
fn merged_weights_are_told_apart_by_the_modules_that_use_them() {
    let mut model = Model::of_input(17, &[8]);
    let ones = model.filled("m1.weight", &[8], 1.0);
    let zeros = model.filled("m1.bias", &[8], 0.0);
    let first = model.node("LayerNormalization", &["x", &ones, &zeros], vec![int("axis", -1)]);
    let output = model.node("LayerNormalization", &[&first, &ones, &zeros], vec![int("axis", -1)]);
    model.output(&output);
    let graph = read(model).graph;
    assert_eq!(graph.parameter_count(), 32);
    assert!(graph.weights().iter().any(|weight| weight.name == "m2.weight"));
}

#[test]
fn tied_weights_stay_one() {
    let mut model = Model::new(17);
    model.input("ids", DataType::Int64, vec![Extent::Named("batch"), Extent::Fixed(6)]);
    let table = model.weight("embed.weight", &[32, 8]);
    let rows = model.node("Gather", &[&table, "ids"], vec![]);
    let turned = model.node("Transpose", &[&table], vec![ints("perm", &[1, 0])]);
    let output = model.node("MatMul", &[&rows, &turned], vec![]);
    model.output(&output);
    let graph = read(model).graph;
    assert_eq!(ops(&graph), ["embedding", "linear"]);
    assert_eq!(graph.parameter_count(), 256);
    assert_eq!(shape_of_output(&graph), [Dim::Batch(1), Dim::Fixed(6), Dim::Fixed(32)]);
}

#[test]
fn quantised_models_are_read_as_what_trains() {
    let mut model = Model::of_input(17, &[3, 8, 8]);
    let scale = model.number(0.1);
    let zero = model.tensor("zero", DataType::Int8, &[], vec![0]);
    let weight = model.tensor("conv.weight", DataType::Int8, &[4, 3, 3, 3], (0..108).collect());
    let quantised = model.node("QuantizeLinear", &["x", &scale, &zero], vec![]);
    let input = model.node("DequantizeLinear", &[&quantised, &scale, &zero], vec![]);
    let filter = model.node("DequantizeLinear", &[&weight, &scale, &zero], vec![]);
    let conv = model.node("Conv", &[&input, &filter], vec![ints("pads", &[1; 4])]);
    let output = model.node(
        "QLinearConv",
        &[&conv, &scale, &zero, &weight, &scale, &zero, &scale, &zero],
        vec![ints("pads", &[1; 4])],
    );
    let _ = output;
    model.output(&conv);
    let read = read(model);
    assert_eq!(ops(&read.graph), ["conv"]);
    assert_eq!((read.graph.parameter_count(), read.graph.weights()[0].bytes()), (108, 432));
    assert!(read.warnings.iter().any(|warning| warning.contains("quantised")));
}

#[test]
fn branches_are_taken_and_functions_inlined() {
    let mut inner = Model::new(17);
    let output = inner.node("Relu", &["x"], vec![]);
    inner.output(&output);
    let mut other = Model::new(17);
    let output = other.node("Tanh", &["x"], vec![]);
    other.output(&output);
    let mut model = Model::of_input(17, &[8]);
    let condition = model.tensor("onnx::If_1", DataType::Bool, &[], vec![0]);
    let branches = vec![graph("then_branch", inner.graph), graph("else_branch", other.graph)];
    let chosen = model.node("If", &[&condition], branches);
    model.output("call");
    model.graph.node.push(NodeProto {
        input: vec![chosen],
        output: vec!["call".into()],
        op_type: Some("Twice".into()),
        domain: Some("own".into()),
        attribute: vec![float("slope", 0.3)],
        ..NodeProto::default()
    });
    let mut proto = model.finish();
    proto.functions.push(FunctionProto {
        name: Some("Twice".into()),
        domain: Some("own".into()),
        input: vec!["a".into()],
        output: vec!["c".into()],
        attribute: vec!["slope".into()],
        node: vec![
            NodeProto {
                input: vec!["a".into()],
                output: vec!["b".into()],
                op_type: Some("LeakyRelu".into()),
                attribute: vec![plimsoll_onnx::proto::AttributeProto {
                    name: Some("alpha".into()),
                    ref_attr_name: Some("slope".into()),
                    ..Default::default()
                }],
                ..NodeProto::default()
            },
            NodeProto {
                input: vec!["b".into()],
                output: vec!["c".into()],
                op_type: Some("Sigmoid".into()),
                ..NodeProto::default()
            },
        ],
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        ..FunctionProto::default()
    });
    let graph = parse(&proto.encode_to_vec(), "test").expect("a model").graph;
    assert_eq!(ops(&graph), ["tanh", "leaky_relu", "sigmoid"]);
}

#[test]
fn a_fixed_batch_becomes_symbolic_and_is_said() {
    let mut model = Model::new(17);
    model.input("x", DataType::Float, vec![Extent::Fixed(2), Extent::Fixed(4), Extent::Fixed(6)]);
    let target = model.wholes(&[8, 6]);
    let rows = model.node("Reshape", &["x", &target], vec![]);
    let target = model.wholes(&[2, -1]);
    let output = model.node("Reshape", &[&rows, &target], vec![]);
    model.output(&output);
    let read = read(model);
    assert_eq!(shape_of_output(&read.graph), [Dim::Batch(1), Dim::Fixed(24)]);
    assert!(read.warnings[0].contains("batch of 2"), "{:?}", read.warnings);
}

#[test]
fn dynamic_dimensions_need_a_value() {
    let build = || {
        let mut model = Model::new(17);
        let dims = vec![Extent::Named("N"), Extent::Fixed(3), Extent::Named("height"), Extent::Fixed(8)];
        model.input("x", DataType::Float, dims);
        let weight = model.weight("conv.weight", &[4, 3, 3, 3]);
        let output = model.node("Conv", &["x", &weight], vec![]);
        model.output(&output);
        model.bytes()
    };
    let error = parse(&build(), "test").expect_err("no height");
    assert!(matches!(&error, OnnxError::Dimension { dim, .. } if dim == "height"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("give it with --dim height=N"));
    let options = |name: &str| ReadOptions { dims: [(name.to_owned(), 10)].into() };
    let graph = parse_with(&build(), "test", &options("height")).expect("a model").graph;
    assert_eq!(shape_of_output(&graph), [Dim::Batch(1), Dim::Fixed(4), Dim::Fixed(8), Dim::Fixed(6)]);
    let error = parse_with(&build(), "test", &options("width")).expect_err("no such dimension");
    assert!(error.to_string().contains("expected height"), "{error}");
}

#[test]
fn shape_arithmetic_follows_the_batch() {
    let mut model = Model::of_input(17, &[64, 8]);
    let (zero, windows) = (model.wholes(&[0]), model.wholes(&[4]));
    let rest = model.wholes(&[16, 8]);
    let shape = model.node("Shape", &["x"], vec![]);
    let batch = model.node("Gather", &[&shape, &zero], vec![]);
    let many = model.node("Mul", &[&batch, &windows], vec![]);
    let target = model.node("Concat", &[&many, &rest], vec![int("axis", 0)]);
    let split = model.node("Reshape", &["x", &target], vec![]);
    let relu = model.node("Relu", &[&split], vec![]);
    let shape = model.node("Shape", &[&relu], vec![int("end", 1)]);
    let batch = model.node("Div", &[&shape, &windows], vec![]);
    let rest = model.wholes(&[-1, 8]);
    let target = model.node("Concat", &[&batch, &rest], vec![int("axis", 0)]);
    let output = model.node("Reshape", &[&relu, &target], vec![]);
    model.output(&output);
    let graph = read(model).graph;
    assert_eq!(ops(&graph), ["view", "relu", "view"]);
    assert_eq!(graph.tensor(graph.nodes()[1].outputs[0]).shape.dims()[0], Dim::Batch(4));
    assert_eq!(shape_of_output(&graph), [Dim::Batch(1), Dim::Fixed(64), Dim::Fixed(8)]);
}

#[test]
fn recurrent_layers_and_other_domains_are_read() {
    let mut model = Model::new(17);
    model.input("x", DataType::Float, vec![Extent::Fixed(5), Extent::Named("batch"), Extent::Fixed(8)]);
    let (w, r) = (model.weight("lstm.w", &[1, 64, 8]), model.weight("lstm.r", &[1, 64, 16]));
    let b = model.weight("lstm.b", &[1, 128]);
    let outputs = model.nodes_of("LSTM", &["x", &w, &r, &b], 3, vec![int("hidden_size", 16)]);
    let relu = model.node("Relu", &[&outputs[0]], vec![]);
    model.output(&relu);
    let read = read(model);
    assert!(matches!(read.graph.nodes()[0].op, Op::Recurrent { hidden: 16, layers: 1, .. }));
    assert_eq!(read.graph.parameter_count(), 64 * 8 + 64 * 16 + 128);

    let mut model = Model::of_input(17, &[8]);
    model.graph.value_info.push(support::value_info(
        "y",
        DataType::Float,
        vec![Extent::Named("batch"), Extent::Fixed(3)],
    ));
    model.graph.node.push(NodeProto {
        input: vec!["x".into()],
        output: vec!["y".into()],
        op_type: Some("Frobnicate".into()),
        domain: Some("acme".into()),
        ..NodeProto::default()
    });
    let output = model.node("Relu", &["y"], vec![]);
    model.output(&output);
    let read = parse(&model.bytes(), "test").expect("a model");
    assert_eq!(read.graph.unknown_operators(), ["acme::Frobnicate"]);
    assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);
}

#[test]
fn a_shape_that_stays_unknown_is_refused_with_its_place() {
    let mut model = Model::of_input(17, &[8]);
    let found = model.node("NonZero", &["x"], vec![]);
    model.output(&found);
    let error = parse(&model.bytes(), "test").expect_err("unknown").to_string();
    assert!(error.contains("/m1/NonZero") && error.contains("NonZero_output_0"), "{error}");
}

#[test]
fn statistics_of_norms_are_buffers_and_random_masks_are_stochastic_depth() {
    let mut model = Model::of_input(17, &[4, 8, 8]);
    let weights: Vec<String> =
        ["weight", "bias", "running_mean", "running_var"].map(|name| model.weight(&format!("bn.{name}"), &[4])).into();
    let inputs: Vec<&str> = std::iter::once("x").chain(weights.iter().map(String::as_str)).collect();
    let normed = model.node("BatchNormalization", &inputs, vec![]);
    let (kept, one) = (model.number(0.8), model.wholes(&[1, 1, 1]));
    let first = model.wholes(&[0]);
    let shape = model.node("Shape", &[&normed], vec![]);
    let batch = model.node("Gather", &[&shape, &first], vec![]);
    let target = model.node("Concat", &[&batch, &one], vec![int("axis", 0)]);
    let noise = model.node("ConstantOfShape", &[&target], vec![]);
    let noise = model.node("RandomUniformLike", &[&noise], vec![]);
    let mask = model.node("Less", &[&noise, &kept], vec![]);
    let mask = model.node("Cast", &[&mask], vec![int("to", 1)]);
    let mask = model.node("Div", &[&mask, &kept], vec![]);
    let output = model.node("Mul", &[&normed, &mask], vec![]);
    model.output(&output);
    let graph = read(model).graph;
    assert_eq!(ops(&graph), ["batch_norm", "stochastic_depth"]);
    let buffers = graph.weights().iter().filter(|weight| weight.kind == WeightKind::Buffer).count();
    assert_eq!((graph.parameter_count(), buffers), (8, 3));
}

#[test]
fn products_of_transposed_values_copy_and_tell_activations_of_unknown_slope() {
    let mut model = Model::of_input(17, &[6, 8]);
    let turned = model.node("Transpose", &["x"], vec![ints("perm", &[0, 2, 1])]);
    let weight = model.weight("mix.weight", &[6, 6]);
    let bias = model.weight("mix.bias", &[6]);
    let product = model.node("MatMul", &[&turned, &weight], vec![]);
    let sum = model.node("Add", &[&product, &bias], vec![]);
    let slope = model.weight("act.weight", &[1]);
    let output = model.node("PRelu", &[&sum, &slope], vec![text("unused", "")]);
    model.output(&output);
    let graph = read(model).graph;
    assert_eq!(ops(&graph), ["view", "copy", "linear", "add", "prelu"]);
    assert!(matches!(graph.nodes()[4].op, Op::Activation { function: Activation::Prelu, .. }));
}

#[test]
fn a_stack_of_recurrent_layers_is_one() {
    let mut model = Model::new(17);
    model.input("x", DataType::Float, vec![Extent::Fixed(5), Extent::Named("batch"), Extent::Fixed(8)]);
    let mut value = "x".to_owned();
    let (axis, width) = (model.wholes(&[1]), [8, 16]);
    for (layer, width) in width.into_iter().enumerate() {
        let w = model.weight(&format!("gru.w{layer}"), &[1, 48, width]);
        let r = model.weight(&format!("gru.r{layer}"), &[1, 48, 16]);
        let outputs = model.nodes_of("GRU", &[&value, &w, &r], 2, vec![int("hidden_size", 16)]);
        value = model.node("Squeeze", &[&outputs[0], &axis], vec![]);
    }
    model.output(&value);
    let graph = read(model).graph;
    assert_eq!(ops(&graph), ["recurrent", "view"]);
    assert!(matches!(graph.nodes()[0].op, Op::Recurrent { hidden: 16, layers: 2, .. }));
    assert_eq!(graph.parameter_count(), 48 * (8 + 16 + 16 + 16));
}

#[test]
fn what_the_optimiser_of_onnx_runtime_fused_is_taken_apart() {
    let mut model = Model::of_input(17, &[6, 16]);
    let (weight, bias) = (model.weight("qkv.weight", &[16, 48]), model.weight("qkv.bias", &[48]));
    let (gamma, beta) = (model.weight("norm.weight", &[16]), model.weight("norm.bias", &[16]));
    let attended = model.node("Attention", &["x", &weight, &bias], vec![int("num_heads", 4)]);
    let output = model.node("SkipLayerNormalization", &[&attended, "x", &gamma, &beta], vec![]);
    model.output(&output);
    for node in &mut model.graph.node {
        node.domain = Some("com.microsoft".into());
    }
    let graph = read(model).graph;
    assert_eq!(ops(&graph), ["linear", "view", "attention_fused", "add", "layer_norm"]);
    assert_eq!(graph.parameter_count(), 16 * 48 + 48 + 32);
}

#[test]
fn attention_of_operator_set_23_keeps_its_heads() {
    let mut model = Model::of_input(23, &[6, 32]);
    let keys = model.weight("k.weight", &[32, 16]);
    let (key, value) = (model.node("MatMul", &["x", &keys], vec![]), model.node("MatMul", &["x", &keys], vec![]));
    let attributes = vec![int("q_num_heads", 4), int("kv_num_heads", 2), int("is_causal", 1)];
    let output = model.node("Attention", &["x", &key, &value], attributes);
    model.output(&output);
    let graph = read(model).graph;
    let wanted = |op: &Op| matches!(op, Op::Attention { heads: 4, kv_heads: 2, causal: true, .. });
    assert!(graph.nodes().iter().any(|node| wanted(&node.op)));
    assert_eq!(shape_of_output(&graph), [Dim::Batch(1), Dim::Fixed(6), Dim::Fixed(32)]);
}

#[test]
fn folding_is_suspected_only_where_weights_lost_their_names() {
    for (suffix, is_suspected) in [("weight", false), ("kernel", true)] {
        let mut model = Model::of_input(17, &[4, 8, 8]);
        let mut value = "x".to_owned();
        for layer in 0..10 {
            let weight = model.weight(&format!("conv{layer}.{suffix}"), &[4, 4, 1, 1]);
            let bias = model.weight(&format!("conv{layer}.bias"), &[4]);
            value = model.node("Conv", &[&value, &weight, &bias], vec![]);
        }
        model.output(&value);
        let warnings = read(model).warnings;
        assert_eq!(warnings.iter().any(|warning| warning.contains("lower bound")), is_suspected, "{warnings:?}");
    }
}
