//! A workload in one vector: totals, counts, shares and the setup.

use plimsoll_graph::{Family, Op, Optimizer, Precision, Workload};
use plimsoll_simulate::{StepMemory, StepTime};

use crate::layer::Layer;
use crate::{log, mib};

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

/// Names of the numbers, in order.
pub(crate) fn names() -> Vec<String> {
    entries(None).into_iter().map(|(name, _)| name).collect()
}

/// The numbers, in the order of [`names`].
pub(crate) fn summary(workload: &Workload, memory: &StepMemory, layers: &[Layer]) -> Vec<f32> {
    entries(Some((workload, memory, layers))).into_iter().map(|(_, value)| value).collect()
}

/// Names and numbers side by side, so that neither can be out of step; without a workload the numbers are zero.
fn entries(of: Option<(&Workload, &StepMemory, &[Layer])>) -> Vec<(String, f32)> {
    let mut entries = Vec::with_capacity(80);
    let mut add = |name: &str, value: f32| entries.push((name.to_owned(), value));
    let layers = of.map_or(&[][..], |(_, _, layers)| layers);
    let memory = of.map(|(_, memory, _)| *memory).unwrap_or_default();
    let setup = of.map(|(workload, _, _)| workload.setup());

    // Sizes as logarithms: what a network compares.
    for (name, bytes) in [
        ("log_parameter_bytes", memory.parameter_bytes),
        ("log_buffer_bytes", memory.buffer_bytes),
        ("log_gradient_bytes", memory.gradient_bytes),
        ("log_optimizer_bytes", memory.optimizer_bytes),
        ("log_activation_bytes", memory.activation_bytes),
        ("log_largest_activation_bytes", memory.largest_activation_bytes),
        ("log_transient_bytes", memory.transient_bytes),
        ("log_live_peak_bytes", memory.live_peak_bytes),
        ("log_tensor_sum_bytes", memory.tensor_sum_bytes()),
    ] {
        add(name, log(bytes));
    }
    // Sizes in MiB: what a network adds up.
    for (name, bytes) in [
        ("parameters_mib", memory.parameter_bytes),
        ("activations_mib", memory.activation_bytes),
        ("largest_activation_mib", memory.largest_activation_bytes),
        ("live_peak_mib", memory.live_peak_bytes),
    ] {
        add(name, mib(bytes));
    }

    let sum = |size: fn(&Layer) -> u64| layers.iter().map(size).fold(0, u64::saturating_add);
    let largest = |size: fn(&Layer) -> u64| layers.iter().map(size).max().unwrap_or_default();
    add("log_layers", log(layers.len() as u64));
    add("log_flops", log(sum(|layer| layer.flops)));
    add("log_bytes_moved", log(sum(|layer| layer.bytes_moved)));
    add("log_largest_flops", log(largest(|layer| layer.flops)));
    add("log_largest_parameters", log(largest(|layer| layer.parameters)));
    add("log_largest_width", log(largest(|layer| layer.width)));
    add("log_largest_positions", log(largest(|layer| layer.positions)));
    add("log_output_bytes", log(sum(|layer| layer.output_bytes)));
    add("log_flops_per_byte", log_ratio(sum(|layer| layer.flops), sum(|layer| layer.bytes_moved)));
    add("log_flops_per_layer", log_ratio(sum(|layer| layer.flops), layers.len() as u64));
    add("log_bytes_per_layer", log_ratio(sum(|layer| layer.bytes_moved), layers.len() as u64));

    // A roofline over the kernels of a step: what utilisation follows.
    let time = of.map(|(workload, _, _)| StepTime::of(workload)).unwrap_or_default();
    let microseconds = |value: f64| value.ln_1p() as f32;
    let part = |value: f64, whole: f64| if whole > 0.0 { (value / whole) as f32 } else { 0.0 };
    add("log_kernels", microseconds(time.kernels));
    add("log_compute_us", microseconds(time.compute_us));
    add("log_memory_us", microseconds(time.memory_us));
    add("log_busy_us", microseconds(time.busy_us));
    add("log_step_us", microseconds(time.step_us));
    add("log_active_us", microseconds(time.active_us));
    add("log_matrix_us", microseconds(time.matrix_us));
    add("busy_share", part(time.busy_us, time.step_us));
    add("active_share", part(time.active_us, time.step_us));
    add("matrix_share", part(time.matrix_us, time.step_us));
    add("compute_share", part(time.compute_us, time.step_us));
    add("memory_share", part(time.memory_us, time.step_us));

    // How layers are spread over sizes at which allocators and kernels change their behaviour.
    for (name, low, high) in [
        ("output_bytes_share_to_1_mib", 0, 1 << 20),
        ("output_bytes_share_to_10_mib", 1 << 20, 10 << 20),
        ("output_bytes_share_to_100_mib", 10 << 20, 100 << 20),
    ] {
        let inside = layers.iter().filter(|layer| (low..high).contains(&layer.output_bytes));
        let bytes = inside.map(|layer| layer.output_bytes).fold(0, u64::saturating_add);
        add(name, share(bytes, sum(|layer| layer.output_bytes)));
    }
    for (name, token) in [("flops_share_conv", "conv"), ("flops_share_linear", "linear")] {
        let index = token_index(token);
        let flops = layers.iter().filter(|layer| layer.token == index).map(|layer| layer.flops);
        add(name, share(flops.fold(0, u64::saturating_add), sum(|layer| layer.flops)));
    }
    for token in COUNTED {
        let index = token_index(token);
        let count = layers.iter().filter(|layer| layer.token == index).count();
        add(&format!("log_count_{token}"), log(count as u64));
    }
    // The activation function that occurs most decides what a network of one kind saves.
    for function in plimsoll_graph::Activation::ALL {
        let index = token_index(function.name());
        let count = layers.iter().filter(|layer| layer.token == index).count();
        add(&format!("share_{}", function.name()), share(count as u64, layers.len() as u64));
    }

    add("log_batch_size", log(setup.map_or(0, |setup| setup.batch_size)));
    add("log_sequence_length", log(setup.and_then(|setup| setup.sequence_length).unwrap_or_default()));
    add("log_input_size", log(setup.and_then(|setup| setup.input_size).unwrap_or_default()));
    add("log_gradient_accumulation", log(setup.map_or(0, |setup| setup.gradient_accumulation - 1)));
    add("activation_checkpointing", flag(setup.is_some_and(|setup| setup.activation_checkpointing)));
    for optimizer in Optimizer::ALL {
        add(&format!("optimizer_{}", optimizer.name()), flag(setup.is_some_and(|setup| setup.optimizer == optimizer)));
    }
    for precision in Precision::ALL {
        add(&format!("precision_{}", precision.name()), flag(setup.is_some_and(|setup| setup.precision == precision)));
    }
    let family = of.map(|(workload, _, _)| workload.graph().family());
    for known in Family::ALL {
        add(&format!("family_{known}"), flag(family == Some(known)));
    }
    entries
}

fn token_index(token: &str) -> u16 {
    Op::tokens().iter().position(|&known| known == token).unwrap_or_default() as u16
}

fn flag(condition: bool) -> f32 {
    f32::from(u8::from(condition))
}

fn share(part: u64, whole: u64) -> f32 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64) as f32 }
}

fn log_ratio(numerator: u64, denominator: u64) -> f32 {
    (numerator as f64 / (denominator as f64).max(1.0)).ln_1p() as f32
}
