//! Totals, extremes and counts over the layers.

use plimsoll_graph::Activation;

use super::{Entries, Subject, log_ratio, share};
use crate::layer::{Layer, named_token};
use crate::log;

/// Operator kinds whose layers are counted.
const COUNTED: [&str; 12] = [
    "linear",
    "conv",
    "conv_grouped",
    "batch_norm",
    "layer_norm",
    "dropout",
    "attention_fused",
    "attention_eager",
    "embedding",
    "concat",
    "add",
    "other",
];

pub(super) fn add(entries: &mut Entries, subject: Option<&Subject<'_>>) {
    let layers = subject.map_or(&[][..], |subject| subject.layers);
    totals(entries, layers);
    spread(entries, layers);
    counts(entries, layers);
}

fn totals(entries: &mut Entries, layers: &[Layer]) {
    let sum = |size: fn(&Layer) -> u64| layers.iter().map(size).fold(0, u64::saturating_add);
    let largest = |size: fn(&Layer) -> u64| layers.iter().map(size).max().unwrap_or_default();
    let (flops, bytes_moved) = (sum(|layer| layer.flops), sum(|layer| layer.bytes_moved));
    entries.add("log_layers", log(layers.len() as u64));
    entries.add("log_flops", log(flops));
    entries.add("log_bytes_moved", log(bytes_moved));
    entries.add("log_largest_flops", log(largest(|layer| layer.flops)));
    entries.add("log_largest_parameters", log(largest(|layer| layer.parameters)));
    entries.add("log_largest_width", log(largest(|layer| layer.width)));
    entries.add("log_largest_positions", log(largest(|layer| layer.positions)));
    entries.add("log_output_bytes", log(sum(|layer| layer.output_bytes)));
    entries.add("log_flops_per_byte", log_ratio(flops, bytes_moved));
    entries.add("log_flops_per_layer", log_ratio(flops, layers.len() as u64));
    entries.add("log_bytes_per_layer", log_ratio(bytes_moved, layers.len() as u64));
}

/// How layers are spread over sizes at which allocators and kernels change their behaviour.
fn spread(entries: &mut Entries, layers: &[Layer]) {
    let total = layers.iter().map(|layer| layer.output_bytes).fold(0, u64::saturating_add);
    for (name, low, high) in [
        ("output_bytes_share_to_1_mib", 0, 1 << 20),
        ("output_bytes_share_to_10_mib", 1 << 20, 10 << 20),
        ("output_bytes_share_to_100_mib", 10 << 20, 100 << 20),
    ] {
        let inside = layers.iter().filter(|layer| (low..high).contains(&layer.output_bytes));
        let bytes = inside.map(|layer| layer.output_bytes).fold(0, u64::saturating_add);
        entries.add(name, share(bytes, total));
    }
}

fn counts(entries: &mut Entries, layers: &[Layer]) {
    let mut tally = Tally::default();
    for layer in layers {
        tally.add(layer);
    }
    for (name, token) in [("flops_share_conv", "conv"), ("flops_share_linear", "linear")] {
        entries.add(name, share(tally.of(token).1, tally.flops));
    }
    for token in COUNTED {
        entries.add(format_args!("log_count_{token}"), log(tally.of(token).0));
    }
    // The activation function that occurs most decides what a network of one kind saves.
    for function in Activation::ALL {
        let count = tally.of(function.name()).0;
        entries.add(format_args!("share_{}", function.name()), share(count, layers.len() as u64));
    }
}

/// Layers and floating-point operations by token.
#[derive(Default)]
struct Tally {
    by_token: Vec<(u64, u64)>,
    flops: u64,
}

impl Tally {
    fn add(&mut self, layer: &Layer) {
        let token = usize::from(layer.token);
        if self.by_token.len() <= token {
            self.by_token.resize(token + 1, (0, 0));
        }
        let (count, flops) = &mut self.by_token[token];
        *count += 1;
        *flops = flops.saturating_add(layer.flops);
        self.flops = self.flops.saturating_add(layer.flops);
    }

    fn of(&self, token: &str) -> (u64, u64) {
        self.by_token.get(usize::from(named_token(token))).copied().unwrap_or_default()
    }
}
