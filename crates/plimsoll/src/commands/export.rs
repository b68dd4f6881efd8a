//! `plimsoll export`

use std::path::Path;

use anyhow::Result;
use plimsoll_dataset::Sample;
use plimsoll_export::{ExportSettings, export, write_parity_cases};
use plimsoll_graph::Family;
use plimsoll_model::{DeviceKind, Learned};

use super::generate;
use crate::cli::ExportArguments;
use crate::config::GeneratedWorkloads;
use crate::output;

/// Workloads for the parity check of a checkpoint that comes without its data.
const PARITY_ROWS: u64 = 64;

/// Writes a checkpoint as ONNX.
pub(super) fn run(arguments: &ExportArguments) -> Result<()> {
    let learned = Learned::load(&arguments.checkpoint, &DeviceKind::Cpu.open()?)?;
    export(&learned, &arguments.out, &ExportSettings::default())?;
    if let Some(path) = &arguments.parity {
        let families = vec![Family::Mlp, Family::Cnn, Family::Transformer];
        let generator = generate::generator(&GeneratedWorkloads {
            count: PARITY_ROWS,
            seed: 0,
            families,
            gpus: vec!["a100-40".into()],
            varied: false,
        })?;
        let samples: Vec<Sample> = generator.map(generate::sample).collect();
        write_parity_cases(&learned, &samples.iter().collect::<Vec<_>>(), path)?;
    }
    output::line(arguments.out.join("model.onnx").display().to_string())?;
    output::line(arguments.out.join("manifest.json").display().to_string())
}

/// Network, manifest and parity cases of a run.
pub(super) fn write(learned: &Learned, rows: &[&Sample], folder: &Path, metrics: serde_json::Value) -> Result<()> {
    export(learned, folder, &ExportSettings { metrics, ..ExportSettings::default() })?;
    write_parity_cases(learned, rows, &folder.join(plimsoll_export::PARITY_FILE))?;
    Ok(())
}
