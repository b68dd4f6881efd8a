//! Memory that libraries take for kernels: cuBLAS for a handle, cuDNN for a convolution.
//!
//! cuDNN's heuristics choose among plans, and a plan's workspace nearly always is one of a few closed forms of the
//! convolution's tensors ([`FORMS`]). Which one, a small network tells from the [`features()`] of the convolution, the
//! GPU's class, the element type and the generation of cuDNN. It is fitted to answers of cuDNN itself, which gives them
//! without a GPU: `docs/workspaces.md`.

mod depthwise;
mod features;
mod file;
mod forms;
mod half;
mod job;
mod model;
mod network;
mod query;

use plimsoll_graph::Gpu;

pub use features::{FEATURE_COUNT, LOGARITHM_COUNT, features};
pub use file::{WorkspaceFileError, decode, encode};
pub use forms::{FORM_COUNT, FORMS, Form, LARGEST_FORM_COUNT, Operands};
pub(crate) use job::convolution_bytes;
pub use job::{Workspaces, spike_risk};
pub use model::{WorkspaceBytes, WorkspaceModel, WorkspaceOdds};
pub use network::{INPUT_COUNT, MAX_HIDDEN, NetworkWeights, OUTPUT_COUNT, RAMP_COUNT};
pub use query::{Format, Generation, GpuClass, WorkspaceQuery};

/// Workspace of a cuBLAS handle on GPUs before Hopper: two blocks of 4 MiB and eight of 16 KiB.
const CUBLAS_BYTES: u64 = 8_519_680;
/// The same from Hopper on.
const CUBLAS_HOPPER_BYTES: u64 = 32 << 20;

/// What PyTorch sets aside for each cuBLAS handle, one on the forward and one on the backward thread.
pub(crate) fn cublas_bytes(gpu: &Gpu) -> u64 {
    if gpu.compute_capability >= 9.0 { CUBLAS_HOPPER_BYTES } else { CUBLAS_BYTES }
}

#[cfg(test)]
mod tests;
