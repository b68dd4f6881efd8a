//! The networks rebuilt from the published configurations are the networks that were measured.
//!
//! Needs the measurements, which do not ship with Plimsoll: `PLIMSOLL_DATA` names the folder that holds
//! `gpumemnet/*.csv`.

use std::path::PathBuf;

use plimsoll_graph::gpumemnet::{self, Configuration};
use plimsoll_graph::{Activation, Graph, Node, Op, WeightKind};

/// A layer as a list states it: kind, elements of its output, parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layer {
    kind: String,
    elements: u64,
    parameters: u64,
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("PLIMSOLL_DATA").map(|folder| PathBuf::from(folder).join("gpumemnet"));
    if folder.is_none() {
        notice("skipped: PLIMSOLL_DATA is not set");
    }
    folder
}

#[expect(clippy::print_stderr, reason = "a test says what it found")]
fn notice(text: &str) {
    eprintln!("{text}");
}

/// One spelling for every layer kind of the four files.
fn kind(name: &str) -> String {
    match name {
        "batchnorm2d" | "batch_normalization" => "batch_norm".into(),
        "adaptive_avg_pool2d" => "pool_average".into(),
        "NonDynamicallyQuantizableLinear" => "linear".into(),
        "LayerNorm" => "layer_norm".into(),
        "conv2d" => "conv".into(),
        "Softmax" | "Embedding" | "Linear" | "Dropout" => name.to_lowercase(),
        _ => Activation::from_name(name).map_or_else(|| name.into(), |function| function.name().into()),
    }
}

/// Reads `[('linear', 10, 110), ...]`.
fn layers(text: &str) -> Vec<Layer> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    text.split_terminator("), ")
        .map(|tuple| {
            let fields: Vec<&str> =
                tuple.trim_matches(['(', ')']).split(", ").map(|field| field.trim_matches('\'')).collect();
            Layer {
                kind: kind(fields[0]),
                elements: fields[1].parse().expect("a count"),
                parameters: fields[2].parse().expect("a count"),
            }
        })
        .collect()
}

fn layer(graph: &Graph, node: &Node) -> Layer {
    let parameters = match node.op {
        // The lists leave the slope of a PReLU out.
        Op::Activation { .. } => 0,
        _ => parameters(graph, node),
    };
    let shape = &graph.tensor(node.outputs[0]).shape;
    Layer { kind: node.op.token().into(), elements: shape.elements(1).expect("small"), parameters }
}

fn parameters(graph: &Graph, node: &Node) -> u64 {
    let weights = node.weights.iter().map(|&id| graph.weight(id));
    weights.filter(|weight| weight.kind == WeightKind::Parameter).map(plimsoll_graph::Weight::elements).sum()
}

/// What the lists of MLPs and CNNs name, in the order of the forward pass: neither additions, concatenations and
/// views, nor the average pooling of transitions.
fn listed(graph: &Graph) -> Vec<Layer> {
    let nodes = graph.nodes().iter().filter(|node| match node.op {
        Op::Binary { .. } | Op::Concat | Op::View => false,
        Op::Pool(_) => node.name == "global_avg_pool",
        _ => true,
    });
    nodes.map(|node| layer(graph, node)).collect()
}

/// What the lists of Transformers name, in the order in which PyTorch registers the modules.
fn registered(graph: &Graph, encoder_layers: u64) -> Vec<(String, u64)> {
    let parts = ["self_attn.out_proj", "linear1", "dropout", "linear2", "norm1", "norm2", "dropout1", "dropout2"];
    let inner = (0..encoder_layers)
        .flat_map(|index| parts.map(|part| format!("model.layers.{index}.{part}")))
        .collect::<Vec<_>>();
    let nodes: std::collections::HashMap<_, _> = graph.nodes().iter().map(|node| (node.name.as_str(), node)).collect();
    std::iter::once("embedding")
        .chain(inner.iter().map(String::as_str))
        .chain(["fc_out"])
        .map(|name| {
            let node = nodes[name];
            // The lists know no parameters of LayerNorm.
            let counted = if node.op == Op::LayerNorm { 0 } else { parameters(graph, node) };
            (node.op.token().to_owned(), counted)
        })
        .collect()
}

struct Rows {
    header: csv::StringRecord,
    records: Vec<csv::StringRecord>,
}

impl Rows {
    fn read(path: &std::path::Path) -> Self {
        let mut reader = csv::Reader::from_path(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let header = reader.headers().expect("a header").clone();
        Self { header, records: reader.records().map(|record| record.expect("a row")).collect() }
    }

    fn field<'a>(&self, record: &'a csv::StringRecord, name: &str) -> &'a str {
        let column = self.header.iter().position(|column| column == name).expect("the column exists");
        &record[column]
    }

    fn number(&self, record: &csv::StringRecord, name: &str) -> u64 {
        self.field(record, name).parse().expect("a number")
    }
}

/// How many rows a file has, how many of its lists are empty, how many agree at once and how many only in the
/// second reading.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    rows: usize,
    empty: usize,
    first: usize,
    second: usize,
}

fn compare(file: &str, agrees: impl Fn(&Rows, &csv::StringRecord, &Configuration) -> bool) -> Option<Tally> {
    let rows = Rows::read(&folder()?.join(file));
    let mut tally = Tally { rows: rows.records.len(), ..Tally::default() };
    for record in &rows.records {
        let text = rows.field(record, "Filename");
        let readings = gpumemnet::alternatives(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(readings[0].setup.batch_size, rows.number(record, "Batch Size"), "{text}");
        if rows.field(record, "Activations-Params") == "[]" {
            tally.empty += 1;
            continue;
        }
        match readings.iter().position(|reading| agrees(&rows, record, reading)) {
            Some(0) => tally.first += 1,
            Some(_) => tally.second += 1,
            None => panic!(
                "{file}: {text}\nlisted: {:?}\nbuilt: {:?}",
                layers(rows.field(record, "Activations-Params")),
                listed(&readings[0].graph)
            ),
        }
    }
    notice(&format!("{file}: {tally:?}"));
    Some(tally)
}

/// Kinds, output sizes and parameters, layer by layer, and their total.
fn same_layers(rows: &Rows, record: &csv::StringRecord, reading: &Configuration) -> bool {
    let (mut built, mut published) = (listed(&reading.graph), layers(rows.field(record, "Activations-Params")));
    let single = reading.graph.tensor(reading.graph.outputs()[0]).shape.elements(1) == Some(1);
    if single {
        // A single output ended in a sigmoid or an identity by the toss of a coin; the lists of CNNs name neither.
        for layers in [&mut built, &mut published] {
            if layers.last().is_some_and(|layer| ["sigmoid", "identity"].contains(&layer.kind.as_str())) {
                layers.pop();
            }
        }
    }
    let total: u64 = built.iter().map(|layer| layer.parameters).sum();
    let slopes: u64 = reading
        .graph
        .nodes()
        .iter()
        .filter(|node| node.op.token() == "prelu")
        .map(|node| parameters(&reading.graph, node))
        .sum();
    built == published
        && total == rows.number(record, "Total Parameters")
        && total + slopes == reading.graph.parameter_count()
}

fn same_modules(rows: &Rows, record: &csv::StringRecord, reading: &Configuration) -> bool {
    let [width, tokens, encoder_layers] =
        ["Embedding Size", "Seq Length", "Num Layers"].map(|column| rows.number(record, column));
    let built = registered(&reading.graph, encoder_layers);
    let published: Vec<_> = layers(rows.field(record, "Activations-Params"))
        .into_iter()
        .map(|layer| (layer.kind, layer.parameters))
        .collect();
    let total: u64 = built.iter().map(|(_, parameters)| parameters).sum();
    let unlisted = encoder_layers * (3 * width * width + 3 * width + 4 * width) + tokens * width;
    built == published
        && total == rows.number(record, "Total Parameters")
        && total + unlisted == reading.graph.parameter_count()
        && reading.setup.sequence_length == Some(tokens)
}

#[test]
fn plain_mlps_agree() {
    if let Some(tally) = compare("mlp_data_step1.csv", same_layers) {
        assert_eq!(tally, Tally { rows: tally.rows, first: tally.rows, ..Tally::default() });
    }
}

#[test]
fn mlps_agree() {
    if let Some(tally) = compare("mlp_data_step2.csv", same_layers) {
        assert_eq!(tally, Tally { rows: tally.rows, first: tally.rows, ..Tally::default() });
    }
}

#[test]
fn cnns_agree() {
    if let Some(tally) = compare("cnn_data_step1.csv", same_layers) {
        assert_eq!(tally.first + tally.second + tally.empty, tally.rows);
        // Only dense networks of 28 and more layers have a second reading.
        assert!(tally.second * 100 < tally.rows, "{tally:?}");
    }
}

#[test]
fn transformers_agree() {
    if let Some(tally) = compare("transformer_data.csv", same_modules) {
        assert_eq!(tally, Tally { rows: tally.rows, first: tally.rows, ..Tally::default() });
    }
}
