//! `plimsoll generate`

use anyhow::{Context, Result, bail};
use plimsoll_dataset::{DatasetError, Measurement, MeasurementWriter, Outcome, Sample, SampleWriter};
use plimsoll_graph::generator::{Generated, Generator, GeneratorConfig};
use plimsoll_graph::{Family, GpuCatalogue, Workload};
use plimsoll_simulate::{Activity, HostTime, Simulation, StepTime};
use rayon::prelude::*;

use crate::cli::GenerateArguments;
use crate::config::GeneratedWorkloads;
use crate::{interrupt, output, progress};

/// Workloads that are made together.
const BATCH: usize = 4_096;

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
    let generator = generator(&GeneratedWorkloads {
        count: arguments.count,
        seed: arguments.seed,
        families,
        gpus: arguments.gpus.clone(),
        varied: arguments.varied,
    })?;
    let rows = if arguments.features {
        let mut writer = SampleWriter::create(&arguments.out)?;
        write(arguments, &generator, sample, |row| writer.write(&row))?;
        writer.finish()?
    } else {
        let mut writer = MeasurementWriter::create(&arguments.out)?;
        write(arguments, &generator, |generated| labelled(generated).0, |row| writer.write(&row))?;
        writer.finish()?
    };
    output::line(format!("generated {rows} simulated workloads -> {}", arguments.out.display()))
}

/// Workloads are generated, simulated and written in batches: on all cores, in order, and in bounded memory.
fn write<Row: Send>(
    arguments: &GenerateArguments,
    generator: &Generator,
    convert: impl Fn(Generated) -> Row + Sync,
    mut write: impl FnMut(Row) -> std::result::Result<(), DatasetError>,
) -> Result<()> {
    let bar = progress::bar("generate", arguments.count);
    for start in (0..arguments.count).step_by(BATCH) {
        let end = arguments.count.min(start + BATCH as u64);
        let rows: Vec<Row> = (start..end).into_par_iter().map(|index| convert(generator.generate(index))).collect();
        if interrupt::is_requested() {
            bail!("interrupted; {} was not written", arguments.out.display());
        }
        bar.inc(end - start);
        rows.into_iter().try_for_each(&mut write)?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// The generator over the built-in catalogue.
pub(super) fn generator(workloads: &GeneratedWorkloads) -> Result<Generator> {
    let GeneratedWorkloads { count, seed, families, gpus, varied } = workloads.clone();
    let ranges = if varied { GeneratorConfig::varied() } else { GeneratorConfig::default() };
    Ok(Generator::new(GeneratorConfig { count, seed, families, gpus, ..ranges }, GpuCatalogue::built_in())?)
}

/// The counters as the roofline has them; GPUTL and GRACT count the same.
fn utilisation(workload: &Workload) -> [Option<f64>; 6] {
    let host_us = HostTime::of(workload).total_us();
    let activity = Activity::with_host(&StepTime::of(workload), host_us);
    let Activity { busy, active, occupancy, fp32, memory, .. } = activity;
    [busy, busy, active, occupancy, fp32, memory].map(Some)
}

/// A generated workload with what the simulator says as its label, marked as simulated, and the simulation.
fn labelled(generated: Generated) -> (Measurement, Simulation) {
    let mut measurement = Measurement::generated(generated);
    let simulation = Simulation::of(&measurement.workload);
    measurement.utilisation = utilisation(&measurement.workload);
    measurement.outcome = if simulation.fits() {
        Outcome::Measured { peak_mib: simulation.peak_mib() }
    } else {
        Outcome::OutOfMemory { above_mib: measurement.workload.gpu().memory_mib as f64 }
    };
    (measurement, simulation)
}

/// A generated workload with its simulated label and its features; it is simulated once for both.
pub(super) fn sample(generated: Generated) -> Sample {
    let (measurement, simulation) = labelled(generated);
    Sample::from_simulation(&measurement, &simulation)
}
