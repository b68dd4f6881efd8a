//! The GPU descriptor as numbers.

use plimsoll_graph::Gpu;

/// Names of the numbers, in order.
pub(crate) const NAMES: [&str; 12] = [
    "log_memory_mib",
    "log_sms",
    "log_fp32_tflops",
    "log_tensor_tflops",
    "log_bandwidth_gb_s",
    "log_l2_mib",
    "compute_capability",
    "years_since_2010",
    "has_tensor_cores",
    "is_mig",
    "is_nvidia",
    "mig_compute_share",
];

/// The descriptor in the order of [`NAMES`].
pub(crate) fn numbers(gpu: &Gpu) -> [f32; NAMES.len()] {
    let log = |value: f64| value.ln_1p() as f32;
    let flag = |condition: bool| f32::from(u8::from(condition));
    [
        log(gpu.memory_mib as f64),
        log(f64::from(gpu.sms)),
        log(gpu.fp32_tflops),
        log(gpu.tensor_tflops),
        log(gpu.bandwidth_gb_s),
        log(gpu.l2_mib),
        gpu.compute_capability as f32,
        gpu.year as f32 - 2010.0,
        flag(gpu.tensor_tflops > 0.0),
        flag(gpu.mig.is_some()),
        flag(gpu.vendor == "nvidia"),
        gpu.mig.as_ref().map_or(1.0, |mig| mig.compute_slices as f32 / 7.0),
    ]
}
