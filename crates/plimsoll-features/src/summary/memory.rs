//! What a step holds, and what the allocator makes of it.

use plimsoll_simulate::workspace::{Workspaces, spike_risk};

use super::{Entries, Subject, flag, share};
use crate::{log, mib};

/// The name of [`plimsoll_simulate::spike_risk`] among the features.
pub(super) const SPIKE_RISK: &str = "spike_risk";

/// What is counted from the graph and the setup alone, without simulating a step.
pub(super) const COUNTED: [&str; 5] =
    ["log_parameter_bytes", "log_buffer_bytes", "log_gradient_bytes", "log_optimizer_bytes", "parameters_mib"];

pub(super) fn add(entries: &mut Entries, subject: Option<&Subject<'_>>) {
    let memory = subject.map(|subject| subject.simulation.memory).unwrap_or_default();
    let replay = subject.map(|subject| subject.simulation.replay).unwrap_or_default();
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
        ("log_allocated_bytes", replay.allocated_bytes),
        ("log_reserved_bytes", replay.reserved_bytes),
        ("log_largest_workspace_bytes", replay.largest_workspace_bytes),
    ] {
        entries.add(name, log(bytes));
    }
    // Sizes in MiB: what a network adds up.
    for (name, bytes) in [
        ("parameters_mib", memory.parameter_bytes),
        ("activations_mib", memory.activation_bytes),
        ("largest_activation_mib", memory.largest_activation_bytes),
        ("live_peak_mib", memory.live_peak_bytes),
        ("reserved_mib", replay.reserved_bytes),
    ] {
        entries.add(name, mib(bytes));
    }
    // How much of what is reserved is in use at the peak, and how much of it one workspace is.
    entries.add("allocated_share", share(replay.allocated_bytes, replay.reserved_bytes));
    entries.add("largest_workspace_share", share(replay.largest_workspace_bytes, replay.reserved_bytes));
    entries.add("log_retries", log(replay.retries));
    entries.add("runs_out_of_memory", flag(replay.out_of_memory.is_some()));
    workspaces(entries, subject);
}

/// How much hangs on the workspaces of convolutions, of which nobody knows before a run which cuDNN takes: the peak
/// with other answers, as the logarithm of its ratio to the usual, and how likely a larger one is.
fn workspaces(entries: &mut Entries, subject: Option<&Subject<'_>>) {
    let peak = |subject: &Subject<'_>, workspaces| {
        let context = subject.simulation.context_mib << 20;
        (subject.simulation.reserved_bytes(subject.workload, workspaces) + context) as f64
    };
    let usual = subject.map(|subject| peak(subject, Workspaces::Smaller));
    for workspaces in Workspaces::ALTERNATIVES {
        let ratio = subject.zip(usual).map_or(1.0, |(subject, usual)| peak(subject, workspaces) / usual);
        entries.add(format_args!("log_peak_workspaces_{}", workspaces.name()), ratio.ln() as f32);
    }
    let risk = |subject: &Subject<'_>| {
        let simulation = subject.simulation;
        spike_risk(subject.workload, &simulation.trace, simulation.replay.reserved_bytes)
    };
    entries.add(SPIKE_RISK, subject.map_or(0.0, risk) as f32);
}
