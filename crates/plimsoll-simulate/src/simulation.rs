//! Everything the simulator has to say of a workload.

use plimsoll_graph::Workload;

use crate::context::context_mib;
use crate::memory::StepMemory;
use crate::replay::{Replay, replay, replay_with};
use crate::source::step_trace;
use crate::trace::StepTrace;
use crate::workspace::{Workspaces, convolution_bytes};

/// Shares of its capacity with which a job close to its GPU's end is replayed once more: whether a workspace finds room
/// there hangs on a few percent, to which neither the context nor fragmentation is known.
const TIGHTER: [f64; 2] = [0.98, 0.96];

/// A training job, simulated.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The events of a step.
    pub trace: StepTrace,
    /// What they hold, added up without an allocator.
    pub memory: StepMemory,
    /// What the allocator makes of them. On a job that runs out of memory the figures are those of an endless GPU.
    pub replay: Replay,
    /// Bytes that the allocator was held to for these figures; none where it never came near its GPU's end.
    pub capacity_bytes: Option<u64>,
    /// Operations of the convolutions of a step (of one micro-batch) that find no room for their workspace and run
    /// without, expected: the mean over the GPU's memory and slightly less. 0 where there is room for all.
    pub starved_flops: f64,
    /// Nominal memory of context and libraries, MiB.
    pub context_mib: u64,
}

impl Simulation {
    /// Simulates a workload on its own GPU. Linear in the graph.
    pub fn of(workload: &Workload) -> Self {
        let trace = step_trace(workload);
        let memory = StepMemory::from_trace(workload, &trace);
        let context_mib = context_mib(workload);
        let capacity = workload.gpu().memory_mib.saturating_sub(context_mib) << 20;
        let mut endless = replay(workload, &trace, None);
        let (mut capacity_bytes, mut starved_flops) = (None, 0.0);
        if endless.reserved_bytes > capacity {
            // Close to the limit the allocator gives back its cache and kernels make do with smaller workspaces.
            let limited = replay(workload, &trace, Some(capacity));
            match limited.out_of_memory {
                None => {
                    starved_flops = expected_starved_flops(workload, &trace, capacity, &limited);
                    (endless, capacity_bytes) = (limited, Some(capacity));
                }
                out_of_memory => endless.out_of_memory = out_of_memory,
            }
        }
        Self { trace, memory, replay: endless, capacity_bytes, starved_flops, context_mib }
    }

    /// Peak memory as a GPU would show it, MiB: what the allocator holds, with context and libraries.
    pub fn peak_mib(&self) -> f64 {
        self.replay.reserved_bytes as f64 / f64::from(1 << 20) + self.context_mib as f64
    }

    /// What the allocator would reserve if the workspaces of convolutions were others. `workload` is the job that was
    /// simulated. Replayed only where that makes a difference.
    pub fn reserved_bytes(&self, workload: &Workload, workspaces: Workspaces) -> u64 {
        let differs = self.trace.convolutions.iter().any(|shape| {
            let usual = convolution_bytes(workload, shape, Workspaces::Smaller);
            convolution_bytes(workload, shape, workspaces) != usual
        });
        if !differs {
            return self.replay.reserved_bytes;
        }
        let limited = replay_with(workload, &self.trace, self.capacity_bytes, workspaces);
        match limited.out_of_memory {
            None => limited.reserved_bytes,
            Some(_) => replay_with(workload, &self.trace, None, workspaces).reserved_bytes,
        }
    }

    /// Whether the job runs to its end on its GPU.
    pub const fn fits(&self) -> bool {
        self.replay.out_of_memory.is_none()
    }
}

/// Operations of convolutions without room for their workspace, the mean over capacities at which the job runs: that
/// of the replay at hand and tighter ones.
fn expected_starved_flops(workload: &Workload, trace: &StepTrace, capacity: u64, at_hand: &Replay) -> f64 {
    let (mut sum, mut count) = (at_hand.starved_flops as f64, 1.0);
    for share in TIGHTER {
        let tighter = replay(workload, trace, Some((capacity as f64 * share) as u64));
        if tighter.out_of_memory.is_none() {
            sum += tighter.starved_flops as f64;
            count += 1.0;
        }
    }
    sum / count
}
