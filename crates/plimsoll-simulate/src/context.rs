//! What a GPU shows for a process beside what its allocator holds: CUDA context and libraries.
//!
//! A property of GPU, driver and software stack that only a measurement can tell; learned estimators correct it. The
//! nominal figures here were read off the GPUMemNet measurements (A100, PyTorch 2, device-wide `nvidia-smi` reading):
//! the constant by which replayed multilayer perceptrons miss the measurement, and what convolutions add to it.

use plimsoll_graph::{Op, Workload};

/// Context, driver and cuBLAS.
const BASE_MIB: u64 = 1_429;
/// cuDNN's kernels, loaded with the first convolution.
const CUDNN_MIB: u64 = 250;
/// The kernels of its batch normalisation.
const BATCH_NORM_MIB: u64 = 40;

/// Nominal memory of context and libraries for a workload, MiB.
pub(crate) fn context_mib(workload: &Workload) -> u64 {
    let nodes = workload.graph().nodes();
    if !nodes.iter().any(|node| matches!(node.op, Op::Conv(_))) {
        return BASE_MIB;
    }
    let normalises = nodes.iter().any(|node| matches!(node.op, Op::BatchNorm));
    BASE_MIB + CUDNN_MIB + if normalises { BATCH_NORM_MIB } else { 0 }
}
