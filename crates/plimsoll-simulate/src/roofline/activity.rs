//! What counters would read over a step.

use super::StepTime;

/// Time for which counters take the GPU for busy after a launch, if nothing follows, microseconds. Chosen by looking at
/// measurements: runs of nothing but tiny kernels read several times the time of their kernels.
const LINGER_US: f64 = 6.0;

/// Shares of a step's time, each 0 to 1, as NVIDIA's DCGM defines its profiling counters.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Activity {
    /// Time in which any kernel runs (GRACT).
    pub busy: f64,
    /// Time times multiprocessors with a resident warp (SMACT).
    pub active: f64,
    /// Resident warps of those that fit (SMOCC).
    pub occupancy: f64,
    /// Cycles in which the single-precision units issue (FP32A).
    pub fp32: f64,
    /// Cycles in which tensor cores issue (TENSO).
    pub tensor: f64,
    /// Cycles in which memory sends or receives (DRAMA).
    pub memory: f64,
}

impl Activity {
    /// The shares if the host needs another `host_us` in each step, such as to build its batch.
    pub fn with_host(time: &StepTime, host_us: f64) -> Self {
        let step_us = time.step_us + host_us.max(0.0);
        let lingering = (LINGER_US * time.kernels).min(step_us - time.busy_us).max(0.0);
        let share = |part: f64| if step_us > 0.0 { (part / step_us).clamp(0.0, 1.0) } else { 0.0 };
        Self {
            busy: share(time.busy_us + lingering),
            active: share(time.active_us),
            occupancy: share(time.resident_us),
            fp32: share(time.fp32_us),
            tensor: share(time.tensor_us),
            memory: share(time.memory_us),
        }
    }
}
