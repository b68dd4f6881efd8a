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
        Self::from_trace(workload, &crate::source::step_trace(workload))
    }

    /// Adds up a trace of the workload's step.
    pub fn from_trace(workload: &Workload, trace: &StepTrace) -> Self {
        let mut memory = Self::default();
        let mut largest_parameter = 0;
        let mut has_gradient = vec![false; workload.graph().weights().len()];
        for event in &trace.events {
            if let Event::Accumulate(_, id) = event {
                has_gradient[id.0 as usize] = true;
            }
        }
        for (weight, has_gradient) in workload.graph().weights().iter().zip(has_gradient) {
            let bytes = parameter_bytes(workload, weight);
            if weight.kind == WeightKind::Buffer {
                memory.buffer_bytes += bytes;
                continue;
            }
            memory.parameter_bytes += bytes;
            if has_gradient {
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

#[cfg(test)]
mod tests {
    use plimsoll_graph::{DType, Family, GpuCatalogue, GraphBuilder, Op, Shape, TrainingSetup};

    use super::*;

    #[test]
    fn parameters_that_no_gradient_reaches_have_no_states() {
        let mut builder = GraphBuilder::new("two heads", Family::Mlp);
        let input = builder.input("x", Shape::batched(&[64]), DType::Float32);
        let used = builder.linear("used", input, 64, false).expect("fits");
        builder.linear("unused", input, 4096, false).expect("fits");
        let table = builder.parameter("idle".into(), &[512, 512]);
        builder.node("constant", Op::View, &[input], vec![table], Shape::batched(&[64]), DType::Float32);
        let graph = builder.finish(&[used]).expect("valid");
        let gpu = GpuCatalogue::built_in().find("a100-40").expect("known").clone();
        let workload = Workload::new(graph, TrainingSetup::new(8), gpu).expect("valid");
        let memory = StepMemory::of(&workload);
        assert_eq!(memory.gradient_bytes, 64 * 64 * 4);
        assert_eq!(memory.optimizer_bytes, 2 * memory.gradient_bytes);
        assert_eq!(memory.parameter_bytes, (64 * 64 + 4096 * 64 + 512 * 512) * 4);
    }
}
