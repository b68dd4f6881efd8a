//! Runs of timm's models on an A100 with 40 GB, beside what PyTorch's FakeTensor mode said of them.

use plimsoll_graph::{Optimizer, TrainingSetup};

use super::Job;
use super::run::Cells;
use crate::measurement::Label;

pub(super) const COLUMNS: &[&str] = &["model", "batch_size", "max_gpu_memory_mib"];

/// The GPU of all rows.
pub(super) const GPU: &str = "a100-40";

/// FakeTensor's peak stands in the table as MB; times 2^20 it is a whole number of bytes, so that it is MiB.
const ESTIMATES: &[(&str, &str)] = &[("faketensor_peak", "faketensor")];

/// timm's training script: fp32, SGD with momentum and weight decay, benchmark mode of cuDNN, a loader that prefetches,
/// 1,000 classes, the model's own input.
pub(super) fn job(cells: &Cells<'_>) -> Result<Job, String> {
    let model = cells.needed("model")?;
    let setup = TrainingSetup {
        optimizer: Optimizer::SgdMomentum,
        cudnn_benchmark: true,
        prefetches: true,
        weight_decay: true,
        ..TrainingSetup::new(cells.count("batch_size")?)
    };
    Ok(Job {
        label: Label::NvidiaSmiDevice,
        published_estimates: cells.estimates(ESTIMATES)?,
        ..Job::new(format!("timm/{model}"), model, setup, cells.reading("max_gpu_memory_mib")?)
    })
}
