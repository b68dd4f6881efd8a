//! A roofline over the kernels of a step, and the host that feeds it: what utilisation follows.

use plimsoll_simulate::{Activity, HostTime, StepTime};

use super::{Entries, Subject};

/// The name of what the roofline says of FP32A.
pub(super) const FED_FP32: &str = "fed_fp32";

pub(super) fn add(entries: &mut Entries, subject: Option<&Subject<'_>>) {
    let time = subject
        .map(|subject| StepTime::starved(subject.workload, subject.simulation.starved_flops))
        .unwrap_or_default();
    let host_us = subject.map(|subject| HostTime::of(subject.workload).total_us()).unwrap_or_default();
    let fed = Activity::with_host(&time, host_us);
    // Ratios as the counters show them, with a GPU that waits for its data.
    for (name, ratio) in [
        ("fed_busy", fed.busy),
        ("fed_active", fed.active),
        ("fed_occupancy", fed.occupancy),
        (FED_FP32, fed.fp32),
        ("fed_tensor", fed.tensor),
        ("fed_memory", fed.memory),
    ] {
        entries.add(name, ratio as f32);
    }
    for (name, microseconds) in [
        ("log_kernels", time.kernels),
        ("log_compute_us", time.compute_us),
        ("log_memory_us", time.memory_us),
        ("log_busy_us", time.busy_us),
        ("log_step_us", time.step_us),
        ("log_fp32_us", time.fp32_us),
        ("log_tensor_us", time.tensor_us),
        ("log_optimizer_us", time.optimizer_us),
        ("log_longest_us", time.longest_us),
        ("log_dispatch_us", time.dispatch_us),
        ("log_copy_us", time.copy_us),
        ("log_host_us", host_us),
    ] {
        entries.add(name, microseconds.ln_1p() as f32);
    }
    entries.add("host_share", part(host_us, time.step_us + host_us));
    entries.add("dispatch_share", part(time.dispatch_us, time.step_us));
    entries.add("conv_log_channels", part(time.log_channels_us, time.convolution_us));
    entries.add("conv_unaligned_share", part(time.unaligned_us, time.convolution_us));
    for (name, microseconds) in [
        ("short_share", time.short_us),
        ("fp32_matrix_share", time.fp32_matrix_us),
        ("copy_share", time.copy_us),
        ("fp32_share", time.fp32_us),
        ("waves_share", time.log_waves_us),
        ("backward_share", time.backward_us),
        ("stream_share", time.stream_us),
        ("resident_share", time.resident_us),
        ("optimizer_share", time.optimizer_us),
        ("matrix_share", time.matrix_us),
        ("active_share", time.active_us),
    ] {
        entries.add(name, part(microseconds, time.busy_us));
    }
}

fn part(value: f64, whole: f64) -> f32 {
    if whole > 0.0 { (value / whole) as f32 } else { 0.0 }
}
