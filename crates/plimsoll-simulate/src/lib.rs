//! What a training step of a workload needs, replayed on a CPU.
//!
//! In goes a [`Workload`](plimsoll_graph::Workload). [`step_trace`] makes a [`StepTrace`] of its graph and training
//! setup: the memory events of forward pass, loss and backward pass, by rule ([`lower`]) or as they were recorded. [`replay`] runs these, with weights,
//! optimiser and workspaces, through PyTorch's [`CachingAllocator`] and tells what it reserves at its peak.
//! [`StepMemory`] adds up the same trace without an allocator; [`StepTime`] is a roofline over the step's kernels.
//!
//! What each operator keeps stands in one table, `lower/rules.rs`. The crate deliberately knows nothing of
//! measurements: what a GPU shows beyond the replay is learned from them.

mod allocator;
mod context;
mod cost;
mod explain;
mod ledger;
mod lower;
mod memory;
mod optimizer;
mod prefetch;
mod recorded;
mod replay;
mod roofline;
mod simulation;
mod source;
mod trace;
pub mod workspace;

pub use allocator::{Allocation, AllocatorSettings, CachingAllocator, OutOfMemory};
pub use cost::{NodeCost, node_cost};
pub use explain::{Explanation, Failure, Growth, Instant, LayerShare, Part, Snapshot, WeightShare, When};
pub use ledger::{Holding, Ledger, Usage};
pub use lower::{lower, lower_forward, unruled_operators};
pub use memory::StepMemory;
pub use recorded::recorded_trace;
pub use replay::{Moment, Phase, Replay, replay, replay_watched, replay_with};
pub use roofline::{Activity, HostTime, Kernel, KernelKind, Pipe, StepTime, kernels};
pub use simulation::Simulation;
pub use source::{guessed_operators, record_in_place_of_rules, step_trace};
pub use trace::{Buffer, BufferId, Convolution, Direction, Event, NodeMemory, Role, StepTrace};
