//! `plimsoll generate`

use anyhow::{Context, Result, bail};
use plimsoll_dataset::{Label, Measurement, MeasurementWriter, Outcome};
use plimsoll_graph::generator::{Generated, Generator, GeneratorConfig};
use plimsoll_graph::{Family, GpuCatalogue};
use plimsoll_simulate::StepMemory;

use crate::cli::GenerateArguments;
use crate::{interrupt, output, progress};

/// Makes synthetic workloads and writes them as they come.
pub(super) fn run(arguments: &GenerateArguments) -> Result<()> {
    let families = arguments
        .families
        .iter()
        .map(|name| {
            let known: Vec<&str> = Family::ALL.map(Family::name).to_vec();
            Family::from_name(name).with_context(|| format!("unknown family `{name}`: expected {}", known.join(", ")))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut writer = MeasurementWriter::create(&arguments.out)?;
    let bar = progress::bar("generate", arguments.count);
    for generated in generator(arguments.count, arguments.seed, families, arguments.gpus.clone())? {
        if interrupt::is_requested() {
            bail!("interrupted; {} was not written", arguments.out.display());
        }
        writer.write(&labelled(generated))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let rows = writer.finish()?;
    output::line(format!("generated {rows} simulated workloads -> {}", arguments.out.display()))
}

/// The generator over the built-in catalogue.
pub(super) fn generator(count: u64, seed: u64, families: Vec<Family>, gpus: Vec<String>) -> Result<Generator> {
    let config = GeneratorConfig { count, seed, families, gpus, ..GeneratorConfig::default() };
    Ok(Generator::new(config, GpuCatalogue::built_in())?)
}

/// A generated workload with the plain tensor sum as its label, marked as simulated.
pub(super) fn labelled(generated: Generated) -> Measurement {
    let memory = StepMemory::of(&generated.workload);
    let peak_mib = (memory.tensor_sum_bytes() as f64 / f64::from(1 << 20)).max(1.0);
    let capacity_mib = generated.workload.gpu().memory_mib as f64;
    Measurement {
        id: generated.id,
        architecture: generated.architecture,
        shape: generated.shape,
        workload: generated.workload,
        label: Label::Simulated,
        stack: String::new(),
        outcome: if peak_mib > capacity_mib {
            Outcome::OutOfMemory { above_mib: capacity_mib }
        } else {
            Outcome::Measured { peak_mib }
        },
        utilisation: [None; 6],
        published_estimates: Vec::new(),
    }
}
