//! Bytes alive over a training step, without allocator and workspaces.

use plimsoll_graph::{WeightKind, Workload};

use crate::optimizer::{StepTemporaries, parameter_bytes, state_bytes, temporaries};
use crate::trace::{Event, Role, StepTrace};

/// What a training step holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepMemory {
    /// Parameters, frozen ones included.
    pub parameter_bytes: u64,
    /// Buffers such as running statistics.
    pub buffer_bytes: u64,
    /// Gradients of trained parameters.
    pub gradient_bytes: u64,
    /// States that the optimiser keeps.
    pub optimizer_bytes: u64,
    /// The batch and everything that autograd saves for the backward pass.
    pub activation_bytes: u64,
    /// The largest single activation.
    pub largest_activation_bytes: u64,
    /// The largest number of bytes alive at any moment of a step that already has optimiser states.
    pub live_peak_bytes: u64,
    /// The part of [`StepMemory::live_peak_bytes`] that is neither weights, buffers nor optimiser states.
    pub transient_bytes: u64,
}

impl StepMemory {
    /// Walks one step of a workload. Linear in the graph.
    pub fn of(workload: &Workload) -> Self {
        Self::from_trace(workload, &crate::lower::lower(workload))
    }

    /// Adds up a trace of the workload's step.
    pub fn from_trace(workload: &Workload, trace: &StepTrace) -> Self {
        let mut memory = Self::default();
        let mut largest_parameter = 0;
        for weight in workload.graph().weights() {
            let bytes = parameter_bytes(workload, weight);
            if weight.kind == WeightKind::Buffer {
                memory.buffer_bytes += bytes;
                continue;
            }
            memory.parameter_bytes += bytes;
            if workload.trains(weight) {
                memory.gradient_bytes += bytes;
                memory.optimizer_bytes += state_bytes(workload, weight).iter().sum::<u64>();
                largest_parameter = largest_parameter.max(bytes);
            }
        }
        memory.activation_bytes = trace.saved_bytes;
        let activations = trace.buffers.iter().filter(|buffer| buffer.role == Role::Activation);
        memory.largest_activation_bytes = activations.map(|buffer| buffer.bytes).max().unwrap_or_default();
        let temporary = match temporaries(workload.setup().optimizer) {
            StepTemporaries::None => 0,
            StepTemporaries::Together => memory.gradient_bytes,
            StepTemporaries::InTurn(count) => largest_parameter * u64::from(count),
        };
        memory.transient_bytes = transient_peak(trace).max(memory.gradient_bytes + temporary);
        memory.live_peak_bytes = memory.static_bytes() + memory.transient_bytes;
        memory
    }

    /// The plain sum of tensors: weights, gradients, optimiser states and saved activations.
    ///
    /// This is what formulas in the field add up; it is no bound, and knows no context or fragmentation.
    pub const fn tensor_sum_bytes(&self) -> u64 {
        self.static_bytes() + self.gradient_bytes + self.activation_bytes
    }

    /// Bytes that live through the whole of training.
    pub const fn static_bytes(&self) -> u64 {
        self.parameter_bytes + self.buffer_bytes + self.optimizer_bytes
    }
}

/// The most bytes alive during forward and backward pass.
fn transient_peak(trace: &StepTrace) -> u64 {
    let (mut live, mut peak) = (0_u64, 0_u64);
    for event in &trace.events {
        match event {
            Event::Allocate(id) => {
                live += trace.bytes(*id);
                peak = peak.max(live);
            }
            Event::Free(id) => live -= trace.bytes(*id),
            _ => {}
        }
    }
    peak
}
