//! What a training step of a workload needs, counted on a CPU.
//!
//! In goes a [`Workload`](plimsoll_graph::Workload); out comes a [`StepMemory`]: the bytes of weights, gradients,
//! optimiser states and activations that autograd saves, their plain sum, and the largest amount alive at any
//! moment of a step; a [`StepTime`] from a roofline over its kernels; and a [`NodeCost`] for each node.
//!
//! The rules of what each operator saves stand in one table in `saved.rs`. The crate deliberately knows nothing
//! of contexts, drivers and allocator rounding: what a GPU shows beyond live bytes is learned from measurements.

mod cost;
mod live;
mod roofline;
mod saved;
mod storage;

pub use cost::{NodeCost, node_cost};
pub use live::StepMemory;
pub use roofline::StepTime;
pub use saved::{Saved, saved};
pub use storage::Storages;
