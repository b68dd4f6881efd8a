//! `SchedTune`'s runs of torchvision's CNNs on several GPUs, with figures of their data sheets.

use plimsoll_graph::{Gpu, Optimizer, TrainingSetup};

use super::Job;
use super::run::Cells;
use crate::measurement::Label;

pub(super) const COLUMNS: &[&str] = &["model", "batch_size", "gpu", "peak_memory_mib", "cuda_cores", "sm_count"];

/// What stands in a data sheet as memory of a card, GB.
const SIZES_GB: [u64; 14] = [4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 80, 192];

/// Input of 224 x 224, 1,000 classes, fp32.
///
/// The table does not say the optimiser. Of SGD, momentum and Adam, each with gradients dropped or zeroed in place (as
/// PyTorch did by default when it was measured), momentum with kept gradients is what the readings fit: with one
/// constant a GPU, the replay is then off by 2.3 % in the median, against 3.5 to 4.3 %, and by as much for models of
/// many parameters as of few.
pub(super) fn job(cells: &Cells<'_>) -> Result<Job, String> {
    let model = cells.needed("model")?;
    let setup = TrainingSetup {
        optimizer: Optimizer::SgdMomentum,
        keeps_gradients: true,
        ..TrainingSetup::new(cells.count("batch_size")?)
    };
    Ok(Job {
        label: Label::Unknown,
        ..Job::new(format!("torchvision/{model}"), model, setup, cells.reading("peak_memory_mib")?)
    })
}

/// A GPU that the catalogue does not have, from the row's figures; `largest_mib` is the most that was read of it.
///
/// The table names no memory: it is the smallest size of a card that holds what was read. Clocks are taken as 1.5 GHz.
pub(super) fn gpu(cells: &Cells<'_>, name: &str, largest_mib: f64) -> Result<Gpu, String> {
    let (cores, sms) = (cells.figure("cuda_cores")?, cells.figure("sm_count")?);
    let tensor_cores = cells.positive("tensor_cores").unwrap_or_default();
    let fits = |&&size: &&u64| (size * 1_000_000_000) as f64 / 1_048_576.0 >= largest_mib;
    let size_gb = SIZES_GB.iter().find(fits).copied().unwrap_or(SIZES_GB[SIZES_GB.len() - 1]);
    let (architecture, compute_capability) = match (tensor_cores / sms).round() as u64 {
        0 => ("pascal", 6.1),
        8 => ("turing", 7.5),
        _ => ("ampere", 8.6),
    };
    let fp32_tflops = cores * 2.0 * 1.5e-3;
    let gpu = Gpu {
        name: name.to_owned(),
        aliases: Vec::new(),
        vendor: "nvidia".into(),
        architecture: architecture.into(),
        year: 2020,
        memory_mib: size_gb * 1024,
        sms: sms as u32,
        fp32_tflops,
        tensor_tflops: if tensor_cores > 0.0 { 2.0 * fp32_tflops } else { 0.0 },
        bandwidth_gb_s: cells.figure("memory_bandwidth_gb_s")?,
        l2_mib: 4.0,
        compute_capability,
        mig: None,
        source: "figures of the row".into(),
    };
    gpu.check().map_err(|error| error.to_string())?;
    Ok(gpu)
}
