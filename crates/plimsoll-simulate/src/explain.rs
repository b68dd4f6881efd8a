//! Where the memory of a training step goes: what is in the peak, when it is reached, and which layers hold it.
//!
//! The simulation is replayed once more with a watcher that looks at every moment.

mod shares;
#[cfg(test)]
mod tests;

use plimsoll_graph::{NodeId, Workload};

use crate::ledger::{Holding, Usage};
use crate::replay::{Moment, Phase, replay_watched};
use crate::simulation::Simulation;
pub use shares::{LayerShare, WeightShare};

/// A simulated training job, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Context and libraries, beside the allocator.
    pub context_bytes: u64,
    /// What the GPU has.
    pub gpu_bytes: u64,
    /// The moment when the allocator first holds as much from the GPU as it ever will: what a GPU shows as the peak.
    /// Where a request fills the GPU and then is served from less, the uses are those of when it is served.
    pub reserved_peak: Snapshot,
    /// The first moment when as much is handed out as ever will be.
    pub allocated_peak: Snapshot,
    /// The request that made the allocator take the most from the GPU at once.
    pub largest_growth: Growth,
    /// Layers that hold memory at the peak of what is handed out, largest first.
    pub layers: Vec<LayerShare>,
    /// What no layer holds then: the batch and the loss.
    pub outside_layers: Holding,
    /// All weights with what training keeps beside them, largest first.
    pub weights: Vec<WeightShare>,
    /// Every moment of the last step.
    pub timeline: Vec<Instant>,
    /// Where the job runs out of memory, if it does. All else is then of an endless GPU.
    pub failure: Option<Failure>,
}

/// A place in the course of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When {
    /// Step, from 1.
    pub step: usize,
    /// Part of the step.
    pub phase: Phase,
    /// The node at work, if one is.
    pub node: Option<NodeId>,
}

/// What the allocator holds at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// The moment.
    pub when: When,
    /// Bytes asked for, by use.
    pub usage: Usage,
    /// Bytes handed out: what was asked for, rounded up to blocks.
    pub allocated_bytes: u64,
    /// Bytes held from the GPU.
    pub reserved_bytes: u64,
}

/// A share of what a GPU shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The name used in files.
    pub name: &'static str,
    /// The name shown to people.
    pub title: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// A moment of the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Part of the step.
    pub phase: Phase,
    /// The node at work, if one is.
    pub node: Option<NodeId>,
    /// Bytes asked for, by use.
    pub usage: Usage,
    /// Bytes handed out.
    pub allocated_bytes: u64,
    /// Bytes held from the GPU.
    pub reserved_bytes: u64,
}

/// Memory that the allocator takes from the GPU at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// When.
    pub when: When,
    /// Bytes.
    pub bytes: u64,
}

/// The request that a GPU has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// When it is made.
    pub when: When,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes handed out by then.
    pub allocated_bytes: u64,
    /// Bytes held from the GPU by then.
    pub reserved_bytes: u64,
}

impl Explanation {
    /// Takes a workload's simulation apart. Linear in the graph, but for the sorting of its layers and weights.
    pub fn of(workload: &Workload) -> Self {
        let simulation = Simulation::of(workload);
        let context_bytes = simulation.context_mib << 20;
        let (allocated, reserved) = (simulation.replay.allocated_bytes, simulation.replay.reserved_bytes);
        let (mut allocated_peak, mut reserved_peak) = (None, None);
        let (mut layers, mut outside_layers) = (Vec::new(), Holding::default());
        let mut timeline: Vec<Instant> = Vec::new();
        let (mut step, mut held) = (0, 0);
        let mut largest_growth = Growth { when: When::START, bytes: 0 };
        replay_watched(workload, &simulation.trace, simulation.capacity_bytes, |moment| {
            // The allocator's own high-water mark tells it: on a full GPU an expandable range maps what it can for a
            // request, gives that back with the cache, and serves the request from less.
            if reserved_peak.is_none() && moment.allocator.peak_reserved_bytes() == reserved {
                reserved_peak = Some(Snapshot { reserved_bytes: reserved, ..Snapshot::of(&moment) });
            }
            if allocated_peak.is_none() && moment.allocator.allocated_bytes() == allocated {
                allocated_peak = Some(Snapshot::of(&moment));
                layers = shares::layers(workload, moment.ledger);
                outside_layers = moment.ledger.holding(None);
            }
            let bytes = moment.allocator.reserved_bytes().saturating_sub(held);
            if bytes > largest_growth.bytes {
                largest_growth = Growth { when: When::of(&moment), bytes };
            }
            held = moment.allocator.reserved_bytes();
            if step != moment.step {
                timeline.clear();
                step = moment.step;
            }
            timeline.push(Instant::of(&moment));
        });
        Self {
            context_bytes,
            gpu_bytes: workload.gpu().memory_mib << 20,
            reserved_peak: reserved_peak.unwrap_or(Snapshot::EMPTY),
            allocated_peak: allocated_peak.unwrap_or(Snapshot::EMPTY),
            largest_growth,
            layers,
            outside_layers,
            weights: shares::weights(workload),
            timeline,
            failure: if simulation.fits() { None } else { Failure::of(workload, &simulation, context_bytes) },
        }
    }

    /// What a GPU would show at its peak, in bytes.
    pub const fn peak_bytes(&self) -> u64 {
        self.context_bytes + self.reserved_peak.reserved_bytes
    }

    /// Whether the job runs to its end.
    pub const fn fits(&self) -> bool {
        self.failure.is_none()
    }

    /// What the GPU shows at its peak, by what it is used for at a moment. The parts add up to
    /// [`Explanation::peak_bytes`] at every moment: what is not in use then is cache, or will be reserved later.
    pub const fn parts(&self, at: &Snapshot) -> [Part; 10] {
        let Snapshot { usage, allocated_bytes, .. } = at;
        let unused_bytes = self.reserved_peak.reserved_bytes - *allocated_bytes;
        [
            Part::new("context", "context and libraries", self.context_bytes),
            Part::new("weights", "weights and buffers", usage.weights),
            Part::new("gradients", "gradients of weights", usage.gradients),
            Part::new("optimizer", "optimiser states", usage.optimizer),
            Part::new("activations", "activations", usage.activations),
            Part::new("activation_gradients", "gradients of activations", usage.activation_gradients),
            Part::new("temporaries", "temporaries", usage.temporaries),
            Part::new("workspaces", "workspaces", usage.workspaces),
            Part::new("rounding", "rounding to blocks", *allocated_bytes - usage.total()),
            Part::new("cache", "cache and fragmentation", unused_bytes),
        ]
    }
}

impl Part {
    const fn new(name: &'static str, title: &'static str, bytes: u64) -> Self {
        Self { name, title, bytes }
    }
}

impl When {
    const START: Self = Self { step: 1, phase: Phase::Startup, node: None };

    const fn of(moment: &Moment<'_>) -> Self {
        Self { step: moment.step + 1, phase: moment.phase, node: moment.node }
    }
}

impl Snapshot {
    /// Before anything is asked for: all there is of a job that asks for nothing.
    const EMPTY: Self = Self { when: When::START, usage: Usage::NOTHING, allocated_bytes: 0, reserved_bytes: 0 };

    fn of(moment: &Moment<'_>) -> Self {
        Self {
            when: When::of(moment),
            usage: *moment.usage(),
            allocated_bytes: moment.allocator.allocated_bytes(),
            reserved_bytes: moment.allocator.reserved_bytes(),
        }
    }
}

impl Instant {
    fn of(moment: &Moment<'_>) -> Self {
        let Snapshot { when, usage, allocated_bytes, reserved_bytes } = Snapshot::of(moment);
        Self { phase: when.phase, node: when.node, usage, allocated_bytes, reserved_bytes }
    }
}

impl Failure {
    fn of(workload: &Workload, simulation: &Simulation, context_bytes: u64) -> Option<Self> {
        let capacity = (workload.gpu().memory_mib << 20).saturating_sub(context_bytes);
        let mut when = When::START;
        let limited = replay_watched(workload, &simulation.trace, Some(capacity), |moment| when = When::of(&moment));
        let error = limited.out_of_memory?;
        Some(Self {
            when,
            requested_bytes: error.requested_bytes,
            allocated_bytes: error.allocated_bytes,
            reserved_bytes: error.reserved_bytes,
        })
    }
}
