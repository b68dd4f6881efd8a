//! Printed layer summaries, as real tools print them and as nobody should.

use plimsoll_graph::summary::{is_summary, parse};
use plimsoll_graph::{
    Activation, DType, Family, Graph, GraphBuilder, GraphError, Node, Op, Reduction, Result, Shape, Value, WeightKind,
    json,
};
use proptest::prelude::*;

const LENET: [&str; 2] =
    [include_str!("summaries/lenet.torchsummary.txt"), include_str!("summaries/lenet.torchinfo.txt")];
const RESIDUAL: [&str; 3] = [
    include_str!("summaries/residual.torchsummary.txt"),
    include_str!("summaries/residual.torchinfo.txt"),
    include_str!("summaries/residual-columns.torchinfo.txt"),
];
const ENCODER: &str = include_str!("summaries/encoder.torchinfo.txt");
const TIED: &str = include_str!("summaries/tied.torchinfo.txt");

fn read(text: &str) -> Graph {
    let graph = parse(text, "prints/network.txt").expect("a real print");
    assert_eq!(json::parse(&json::write(&graph), "own").expect("own text parses"), graph);
    graph
}

fn node<'a>(graph: &'a Graph, name: &str) -> &'a Node {
    graph.nodes().iter().find(|node| node.name == name).expect(name)
}

fn inputs(graph: &Graph, name: &str) -> Vec<String> {
    node(graph, name).inputs.iter().map(|id| graph.tensor(*id).name.clone()).collect()
}

fn weights(graph: &Graph, name: &str) -> Vec<Vec<u64>> {
    let shapes = node(graph, name).weights.iter().map(|id| &graph.weight(*id).shape);
    shapes.map(|shape| shape.dims().iter().map(|dim| dim.factor()).collect()).collect()
}

fn input_shapes(graph: &Graph) -> Vec<String> {
    graph.inputs().iter().map(|id| graph.tensor(*id).shape.to_string()).collect()
}

/// Every node as its token, output shape and weight shapes, views left out.
fn sketch(graph: &Graph) -> Vec<String> {
    let line = |node: &Node| {
        let output = &graph.tensor(node.outputs[0]).shape;
        let weights: Vec<String> = node.weights.iter().map(|id| graph.weight(*id).shape.to_string()).collect();
        format!("{} {output} {}", node.op.token(), weights.join(" "))
    };
    graph.nodes().iter().filter(|node| node.op != Op::View).map(line).collect()
}

/// A table around rows, with the total that is given.
fn torchsummary(rows: &[&str], total: &str) -> String {
    let rule = "=".repeat(64);
    format!("Layer (type)   Output Shape   Param #\n{rule}\n{}\n{rule}\nTotal params: {total}\n", rows.join("\n"))
}

fn torchinfo(rows: &[&str], total: &str) -> String {
    torchsummary(rows, total).replace("(type)", "(type:depth-idx)")
}

#[test]
fn both_tools_print_the_same_lenet() {
    for text in LENET {
        let graph = read(text);
        assert_eq!((graph.parameter_count(), graph.family()), (61_706, Family::Cnn));
        // Activations, pooling and flattening are functional: pooling is told from the grids, activations are not.
        assert_eq!(
            sketch(&graph),
            [
                "conv [batch, 6, 28, 28] [6, 1, 5, 5] [6]",
                "pool_max [batch, 6, 14, 14] ",
                "conv [batch, 16, 10, 10] [16, 6, 5, 5] [16]",
                "pool_max [batch, 16, 5, 5] ",
                "linear [batch, 120] [120, 400] [120]",
                "linear [batch, 84] [84, 120] [84]",
                "linear [batch, 10] [10, 84] [10]",
            ]
        );
        assert!(graph.unknown_operators().is_empty());
    }
    assert_eq!(read(LENET[0]).name(), "network");
    assert_eq!(read(LENET[1]).name(), "LeNet");
}

/// The network of the residual fixtures, as it is.
fn residual() -> Result<Graph> {
    let mut b = GraphBuilder::new("Residual", Family::Cnn);
    let relu = |b: &mut GraphBuilder, name: &str, x| b.activation(name, x, Activation::Relu, false);
    let conv_norm = |b: &mut GraphBuilder, name: &str, x: Value, channels, kernel, stride| {
        let y = b.conv2d(&format!("{name}.conv"), x, channels, kernel, stride, kernel / 2, false)?;
        b.batch_norm(&format!("{name}.bn"), y)
    };
    let x = b.input("x", Shape::batched(&[3, 32, 32]), DType::Float32);
    let x = conv_norm(&mut b, "stem", x, 16, 3, 1)?;
    let mut x = relu(&mut b, "stem.relu", x);
    for (name, channels, stride) in [("layer1", 16, 1), ("layer2", 32, 2)] {
        let y = conv_norm(&mut b, &format!("{name}.1"), x, channels, 3, stride)?;
        let y = relu(&mut b, &format!("{name}.relu1"), y);
        let y = conv_norm(&mut b, &format!("{name}.2"), y, channels, 3, 1)?;
        let shortcut =
            if stride > 1 { conv_norm(&mut b, &format!("{name}.shortcut"), x, channels, 1, stride)? } else { x };
        let y = b.add(&format!("{name}.add"), y, shortcut);
        x = relu(&mut b, &format!("{name}.relu2"), y);
    }
    let x = b.global_average_pool("pool", x);
    let x = b.flatten("flatten", x)?;
    let x = b.linear("fc", x, 10, true)?;
    b.finish(&[x])
}

#[test]
fn a_residual_network_has_the_layers_it_was_printed_from() {
    let layers = |graph: &Graph| {
        let mut lines: Vec<String> = sketch(graph).into_iter().filter(|line| !line.starts_with("add")).collect();
        lines.sort_unstable();
        lines
    };
    let actual = residual().expect("valid");
    for text in RESIDUAL {
        let graph = read(text);
        assert_eq!(layers(&graph), layers(&actual));
        assert_eq!(graph.parameter_count(), actual.parameter_count());
        assert_eq!(input_shapes(&graph), ["[batch, 3, 32, 32]"]);
        assert_eq!(graph.outputs().len(), 1);
        assert!(graph.unknown_operators().is_empty());
    }
}

#[test]
fn a_shortcut_reads_the_block_s_input_and_is_added_at_its_end() {
    let graph = read(RESIDUAL[2]);
    assert_eq!(inputs(&graph, "layer2.conv1"), ["layer1.relu#2"]);
    assert_eq!(inputs(&graph, "layer2.shortcut.0"), ["layer1.relu#2"]);
    assert_eq!(inputs(&graph, "layer2.add"), ["layer2.relu#2", "layer2.bn2"]);
    assert_eq!(weights(&graph, "layer2.shortcut.0"), [[32, 16, 1, 1]]);
    let graph = read(RESIDUAL[0]);
    assert_eq!(inputs(&graph, "Conv2d-17"), ["ReLU-10"]);
    assert_eq!(inputs(&graph, "Block-20.add"), ["ReLU-19", "BatchNorm2d-16"]);
}

#[test]
fn a_transformer_has_its_tables_and_projections() {
    let graph = read(ENCODER);
    assert_eq!(graph.family(), Family::Transformer);
    assert_eq!(input_shapes(&graph), ["[batch, 20]", "[20]"]);
    assert!(graph.inputs().iter().all(|id| graph.tensor(*id).dtype == DType::Int64));
    assert_eq!(inputs(&graph, "LayerNorm:1-3.add"), ["Embedding:1-1", "Embedding:1-2"]);
    assert_eq!(weights(&graph, "Embedding:1-1"), [[1000, 64]]);
    let table = node(&graph, "Embedding:1-1").weights[0];
    assert_eq!(graph.weight(table).kind, WeightKind::Frozen);
    assert_eq!(weights(&graph, "MultiheadAttention:4-1.in_proj"), [vec![192, 64], vec![192]]);
    assert_eq!(weights(&graph, "MultiheadAttention:4-1"), [vec![64, 64], vec![64]]);
    // The mean over tokens is functional.
    assert_eq!(node(&graph, "Linear:1-6.reduce").op, Op::Reduce { function: Reduction::Mean });
    assert!(graph.unknown_operators().is_empty());
}

#[test]
fn a_module_that_runs_again_shares_its_weights() {
    let graph = read(TIED);
    assert_eq!((graph.parameter_count(), graph.family()), (1_410, Family::Mlp));
    let first = &node(&graph, "Linear:1-3").weights;
    assert_eq!(first.len(), 2);
    for again in ["Linear:1-5", "Linear:1-7"] {
        assert_eq!(&node(&graph, again).weights, first);
    }
}

#[test]
fn recurrent_layers_are_told_from_their_count() {
    let rows = [
        "Tagger                     [8, 20, 1000]    --",
        "├─Embedding: 1-1           [8, 20, 64]      64,000",
        "├─LSTM: 1-2                [8, 20, 192]     347,136",
        "├─Linear: 1-3              [8, 20, 1000]    193,000",
    ];
    let graph = read(&torchinfo(&rows, "604,136"));
    assert_eq!((graph.name(), graph.family()), ("Tagger", Family::Recurrent));
    let Op::Recurrent { hidden, layers, bidirectional, .. } = node(&graph, "LSTM:1-2").op else {
        panic!("not recurrent");
    };
    assert_eq!((hidden, layers, bidirectional), (96, 2, true));
    assert_eq!(weights(&graph, "LSTM:1-2")[..2], [[384, 64], [384, 96]]);
}

#[test]
fn branches_are_concatenated_where_the_channels_say_so() {
    let rows = [
        "Conv2d-1   [-1, 16, 55, 55]   448",
        "Conv2d-2   [-1, 64, 55, 55]   1,088",
        "Conv2d-3   [-1, 64, 55, 55]   9,280",
        "Conv2d-4   [-1, 10, 55, 55]   1,290",
    ];
    let graph = read(&torchsummary(&rows, "12,106"));
    assert_eq!(inputs(&graph, "Conv2d-3"), ["Conv2d-1"]);
    assert_eq!(inputs(&graph, "Conv2d-4.concat"), ["Conv2d-2", "Conv2d-3"]);
    assert_eq!(weights(&graph, "Conv2d-4"), [vec![10, 128, 1, 1], vec![10]]);
}

#[test]
fn what_is_not_known_keeps_its_name_and_its_parameters() {
    let rows = [
        "Net                        [4, 10]          7",
        "├─Frobnicate: 1-1          [4, 12, 5]       1,234",
        "├─Conv2d: 1-2              [4, 8, 5, 5]     1,009",
        "├─Linear: 1-3              [4, 10]          17",
    ];
    let graph = read(&torchinfo(&rows, "2,267"));
    assert_eq!(graph.unknown_operators(), ["Frobnicate"]);
    assert_eq!(weights(&graph, "Frobnicate:1-1"), [vec![1_234], vec![7]]);
    // No kernel has these counts.
    assert_eq!(weights(&graph, "Conv2d:1-2"), [[1_009]]);
    assert_eq!(weights(&graph, "Linear:1-3"), [[17]]);
}

#[test]
fn the_batch_becomes_symbolic_only_where_it_leads() {
    let rows = ["Net   [32, 10]   --", "├─Linear: 1-1   [32, 64]   2,112", "├─Linear: 1-2   [32, 10]   650"];
    let graph = read(&torchinfo(&rows, "2,762"));
    assert_eq!(input_shapes(&graph), ["[batch, 32]"]);
    assert_eq!(graph.tensor(graph.outputs()[0]).shape, Shape::batched(&[10]));
}

#[test]
fn frozen_parameters_stay_frozen() {
    let rows = ["Net   [8, 4]   --", "├─Linear: 1-1   [8, 32]   (544)", "├─Linear: 1-2   [8, 4]   132"];
    let graph = read(&torchinfo(&rows, "676"));
    let kind = |name| graph.weight(node(&graph, name).weights[0]).kind;
    assert_eq!((kind("Linear:1-1"), kind("Linear:1-2")), (WeightKind::Frozen, WeightKind::Parameter));
}

#[test]
fn tables_that_cannot_be_meant_are_refused_with_their_place() {
    let good = "Linear-1   [-1, 4]   20";
    for (text, word) in [
        (String::new(), "header"),
        ("\0\u{1}\u{2}binary".into(), "header"),
        ("Layer (type)   Output Shape   Param #".into(), "closes"),
        (format!("Layer (type)   Output Shape   Param #\n====\n{good}"), "closes"),
        ("Layer (type:depth-idx)   Param #\n====\nNet   7\n====".into(), "Output Shape"),
        (torchsummary(&[good, "Linear-2   [-1, 4"], "40"), "line 4"),
        (torchsummary(&[good, "Linear-2   [-1, -4]   20"], "40"), "line 4"),
        (torchsummary(&[good, "Linear-2   [-1, 4]   -20"], "40"), "line 4"),
        (torchsummary(&[good, "Linear-2   [-1, 4]"], "40"), "line 4"),
        (torchsummary(&[good], "21"), "Total params"),
        (torchsummary(&[good], "many"), "line 5"),
        (torchsummary(&["Linear-1   [-1, 4]   99,999,999,999,999,999,999"], "1"), "Linear-1"),
        (torchsummary(&["ReLU-1   [-1, 99999999999, 99999999999]   0"], "0"), "overflows"),
        (torchinfo(&["Net   [4, 4]   --", "├─Linear: 1-1   [4, 4]"], "20"), "line 4"),
        (torchinfo(&["Net   --   --"], "0"), "output shape"),
        (torchinfo(&[&format!("{}Net   [4, 4]   --", "│ ".repeat(100_000))], "0"), "line 3"),
    ] {
        let error = parse(&text, "print.txt").expect_err(word).to_string();
        assert!(error.contains(word), "{word}: {error}");
        assert!(error.len() < 500, "{error}");
    }
}

#[test]
fn a_total_that_the_rows_do_not_reach_is_said() {
    let text = LENET[0].replace("61,706", "61,707");
    let error = parse(&text, "print.txt").expect_err("another total");
    assert!(matches!(&error, GraphError::Malformed { found, .. } if found == "61707"), "{error}");
}

#[test]
fn only_summaries_look_like_summaries() {
    assert!(LENET.into_iter().chain(RESIDUAL).chain([ENCODER, TIED]).all(is_summary));
    assert!(!is_summary("{\"plimsoll_graph\": 1}"));
    assert!(!is_summary(""));
}

#[test]
fn fifty_thousand_rows_take_linear_time() {
    let rows: Vec<String> = (1..=25_000)
        .flat_map(|index| {
            [
                format!("Conv2d-{}   [-1, 8, 4, 4]   584", 2 * index - 1),
                format!("ReLU-{}   [-1, 8, 4, 4]   0", 2 * index),
            ]
        })
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let graph = parse(&torchsummary(&rows, "14,600,000"), "long").expect("valid");
    assert_eq!(graph.nodes().len(), 50_000);
    // The same name in every row, and branches that are never joined.
    let rows = vec!["Linear-1   [-1, 4]   20"; 10_000];
    assert_eq!(parse(&torchsummary(&rows, "200,000"), "same").expect("valid").nodes().len(), 10_000);
}

/// Texts of the characters and words that tables are made of.
fn table_like() -> impl Strategy<Value = String> {
    let words = [
        "Layer (type:depth-idx)",
        "Output Shape",
        "Param #",
        "Kernel Shape",
        "Input Shape",
        "\n",
        "====",
        "\n====\n",
        "Conv2d-1",
        "Linear: 1-1",
        "ConvTranspose2d: 1-2",
        "LSTM-3",
        "Embedding-4",
        "MultiheadAttention: 2-1",
        "Net",
        "MaxPool2d-5",
        "BatchNorm2d: 1-7",
        "LayerNorm-2",
        "├─",
        "│    └─",
        "+ ",
        "[-1, 8, 4, 4]",
        "[4, 8, 0, 4]",
        "[16]",
        "[]",
        "[[-1, 2], [3]]",
        "[3, 3]",
        "18446744073709551615",
        "0",
        "584",
        "(recursive)",
        "(12)",
        "--",
        " ",
        "   ",
        "Total params: 584",
        "Input size (MB): 0.57",
        "é",
        "-",
        "[-1, 18446744073709551615, 7]",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..60).prop_map(|words| words.concat())
}

/// Rows of plausible layers with any numbers.
fn rows() -> impl Strategy<Value = String> {
    let number = || prop_oneof![60 => 1_u64..20, 60 => 1_u64..5_000, 3 => Just(0), 1 => Just(u64::MAX)];
    let count = prop_oneof![
        0_u64..20,
        0_u64..100_000,
        (1_u64..40, 1_u64..40, 1_u64..10).prop_map(|(a, b, c)| a * b * c * c + a)
    ];
    let class = prop::sample::select(vec![
        "Conv2d",
        "Conv1d",
        "ConvTranspose2d",
        "Linear",
        "LSTM",
        "GRU",
        "BatchNorm2d",
        "LayerNorm",
        "GroupNorm",
        "ReLU",
        "MaxPool2d",
        "AdaptiveAvgPool2d",
        "Embedding",
        "MultiheadAttention",
        "Flatten",
        "Upsample",
        "Sequential",
        "Block",
    ]);
    let row = (class, prop::collection::vec(number(), 0..5), count, 0_usize..4, prop::collection::vec(number(), 0..3));
    prop::collection::vec(row, 0..12).prop_map(|rows| {
        let rows: Vec<String> = rows
            .into_iter()
            .enumerate()
            .map(|(index, (class, dims, count, depth, kernel))| {
                let branch = "│    ".repeat(depth);
                format!("{branch}└─{class}: {depth}-{index}   {dims:?}   {count}   {kernel:?}")
            })
            .collect();
        format!("Layer (type:depth-idx)   Output Shape   Param #   Kernel Shape\n===\n{}\n===\n", rows.join("\n"))
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = parse(&text, "any");
    }

    #[test]
    fn no_table_panics(text in table_like()) {
        let _ = parse(&text, "table");
    }

    #[test]
    fn the_parameters_of_a_readable_table_are_the_printed_ones(text in rows()) {
        if let Ok(graph) = parse(&text, "rows") {
            let printed: u64 = text
                .lines()
                .filter_map(|line| line.split(']').nth(1)?.split_whitespace().next()?.parse::<u64>().ok())
                .sum();
            prop_assert_eq!(graph.parameter_count(), printed);
        }
    }

    #[test]
    fn no_damage_to_a_print_panics(at in 0_usize..4_000, length in 0_usize..40, patch in "[ -~│├─\n]{0,8}") {
        for text in LENET.into_iter().chain(RESIDUAL).chain([ENCODER, TIED]) {
            let start = text.char_indices().map(|(index, _)| index).nth(at).unwrap_or(text.len());
            let end = text[start..].char_indices().map(|(index, _)| start + index).nth(length).unwrap_or(text.len());
            let _ = parse(&format!("{}{patch}{}", &text[..start], &text[end..]), "damaged");
        }
    }
}
