//! `plimsoll gpus`

use anyhow::Result;
use plimsoll_graph::Gpu;

use super::source;
use crate::cli::GpusArguments;
use crate::output;

/// An entry to fill in.
const TEMPLATE: &str = r#"# One entry a GPU. All figures are the maker's; memory_mib is what the driver shows to programs.
[[gpu]]
name = "my-gpu"
aliases = []
vendor = "nvidia"
architecture = "ada"
year = 2024
memory_mib = 24564
sms = 128
fp32_tflops = 82.6          # outside tensor cores
tensor_tflops = 165.2       # dense FP16 with FP32 accumulation; 0 without tensor cores
bandwidth_gb_s = 1008.0
l2_mib = 72.0
compute_capability = 8.9    # 0 for GPUs without CUDA
source = "the maker's data sheet""#;

/// Lists the catalogue.
pub(super) fn run(arguments: &GpusArguments) -> Result<()> {
    if arguments.template {
        return output::line(TEMPLATE);
    }
    let catalogue = source::catalogue(arguments.gpu_file.as_deref())?;
    let wanted = arguments.name.as_deref().unwrap_or_default().to_lowercase();
    let matches =
        |gpu: &&Gpu| std::iter::once(&gpu.name).chain(&gpu.aliases).any(|name| name.to_lowercase().contains(&wanted));
    let mut gpus: Vec<&Gpu> = catalogue.gpus().iter().filter(matches).collect();
    if gpus.is_empty() {
        // A name that is nearly right is better met with a proposal than with an empty list.
        gpus.push(catalogue.find(&wanted)?);
    }
    if arguments.json {
        return output::json(&gpus);
    }
    let rows: Vec<Vec<String>> = gpus
        .iter()
        .map(|gpu| {
            vec![
                gpu.name.clone(),
                gpu.architecture.clone(),
                gpu.year.to_string(),
                gpu.memory_mib.to_string(),
                gpu.sms.to_string(),
                format!("{:.1}", gpu.fp32_tflops),
                format!("{:.0}", gpu.tensor_tflops),
                format!("{:.0}", gpu.bandwidth_gb_s),
                format!("{:.1}", gpu.l2_mib),
                format!("{:.1}", gpu.compute_capability),
            ]
        })
        .collect();
    let header = ["name", "architecture", "year", "MiB", "SMs", "FP32 TFLOP/s", "tensor", "GB/s", "L2 MiB", "CC"];
    output::line(output::table(&header, &rows))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_is_a_valid_entry() {
        plimsoll_graph::GpuCatalogue::parse(super::TEMPLATE, "template").expect("valid");
    }
}
