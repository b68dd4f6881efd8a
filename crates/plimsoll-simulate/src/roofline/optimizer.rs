//! Kernels of the optimiser's step.

use plimsoll_graph::{Optimizer, Precision};

use super::kernel::{Kernel, KernelKind};
use super::scene::Scene;
use crate::replay::Phase;

/// Elements that a block of a multi-tensor kernel handles.
const CHUNK: f64 = 65_536.0;
/// Blocks of a multi-tensor launch.
const CHUNKS_PER_LAUNCH: f64 = 320.0;
/// Tensors of a multi-tensor launch.
const TENSORS_PER_LAUNCH: f64 = 48.0;
/// Time that the host takes for a step whatever there is to update, microseconds.
const STEP_US: f64 = 300.0;
/// Time that the host takes for each tensor to update: gathering lists, its step counter.
const TENSOR_US: f64 = 12.0;

/// Operations over all tensors, and the tensors that each of them reads and writes.
const fn passes(optimizer: Optimizer) -> &'static [(f64, f64)] {
    match optimizer {
        Optimizer::Sgd => &[(2.0, 1.0)],
        Optimizer::SgdMomentum => &[(1.0, 1.0), (2.0, 1.0), (2.0, 1.0)],
        Optimizer::RmsProp => &[(1.0, 1.0), (3.0, 1.0), (1.0, 1.0), (1.0, 1.0), (3.0, 1.0)],
        // One fused pass over a quarter of the states' usual width.
        Optimizer::Adam8bit => &[(2.5, 1.5)],
        // First moment; second moment in two; root, correction, epsilon; the update.
        Optimizer::Adam | Optimizer::Adafactor => {
            &[(2.0, 1.0), (1.0, 1.0), (3.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (3.0, 1.0)]
        }
        Optimizer::AdamW => {
            &[(1.0, 1.0), (2.0, 1.0), (1.0, 1.0), (3.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (3.0, 1.0)]
        }
    }
}

/// Appends multi-tensor kernels over all trained weights.
pub(super) fn optimizer(scene: &Scene, all: &mut Vec<Kernel>, launch_us: f64) {
    let workload = scene.workload;
    let (mut tensors, mut elements, mut chunks) = (0.0, 0.0, 0.0);
    for weight in workload.graph().weights().iter().filter(|weight| workload.trains(weight)) {
        let size = weight.elements() as f64;
        tensors += 1.0;
        elements += size;
        chunks += (size / CHUNK).ceil();
    }
    if tensors == 0.0 {
        return;
    }
    let width = if workload.setup().precision == Precision::Bf16 { 2.0 } else { 4.0 };
    let launches = (chunks / CHUNKS_PER_LAUNCH).ceil().max((tensors / TENSORS_PER_LAUNCH).ceil()).max(1.0);
    let passes = passes(workload.setup().optimizer);
    let host_us = (STEP_US + TENSOR_US * tensors) / (launches * passes.len() as f64);
    for &(reads, writes) in passes {
        let share = elements / launches;
        all.push(Kernel {
            phase: Phase::Optimizer,
            // Small tensors leave most of their block's threads without work, but the block is there.
            blocks: (chunks / launches).ceil().max(1.0),
            threads: 512.0,
            blocks_per_sm: 3.0,
            dispatch_us: host_us + launch_us,
            repeat: launches,
            ..Kernel::stream(KernelKind::Optimizer, share, share * reads * width, share * writes * width, 1.0)
        });
    }
}
