//! `plimsoll compare`

mod document;
mod plot;
mod words;

use anyhow::{Result, bail, ensure};
use plimsoll_graph::{Gpu, GpuCatalogue};

use super::load::{Load, OpenJob};
use super::source;
use crate::cli::CompareArguments;
use crate::{interrupt, output, progress};

/// The last batch that is tried unasked: a job that still fits then is not short of memory.
const LAST_BATCH: u64 = 1 << 16;

/// Compares GPUs and batch sizes.
pub(super) fn run(arguments: &CompareArguments) -> Result<()> {
    let catalogue = source::catalogue(arguments.gpu_file.as_deref())?;
    let gpus = gpus(&arguments.gpus, &catalogue)?;
    let job =
        OpenJob::read(&arguments.graph, &arguments.training, &arguments.software, arguments.checkpoint.as_deref())?;
    let columns = columns(&job, &gpus, &arguments.batches)?;
    let answer = Answer { title: job.title()?, job, gpus, columns };
    if let Some(path) = &arguments.plot {
        answer.comparison().write(path)?;
        output::note(format!("wrote {}", path.display()));
    }
    if arguments.json { output::json(&answer.json()?) } else { output::line(answer.words()) }
}

/// The GPUs of these names, each once, in order.
fn gpus(names: &[String], catalogue: &GpuCatalogue) -> Result<Vec<Gpu>> {
    if names.iter().any(|name| name == "all") {
        return Ok(catalogue.gpus().to_vec());
    }
    let mut gpus: Vec<Gpu> = Vec::new();
    for name in names {
        let gpu = catalogue.find(name)?;
        if gpus.iter().all(|known| known.name != gpu.name) {
            gpus.push(gpu.clone());
        }
    }
    Ok(gpus)
}

/// The loads of all GPUs at each batch that is asked for, or at powers of two until nothing fits.
fn columns(job: &OpenJob, gpus: &[Gpu], batches: &[u64]) -> Result<Vec<Column>> {
    let mut patience = progress::Patience::new();
    let mut column = |batch: u64| -> Result<Column> {
        if interrupt::is_requested() {
            bail!("interrupted before all batch sizes were compared");
        }
        patience.tell(format!("batch {batch} on {} GPUs", gpus.len()));
        Ok(Column { batch, loads: job.across(batch, gpus)? })
    };
    if !batches.is_empty() {
        let mut batches = batches.to_vec();
        batches.sort_unstable();
        batches.dedup();
        ensure!(batches.len() <= 64, "{} batch sizes are too many to compare: expected at most 64", batches.len());
        return batches.into_iter().map(column).collect();
    }
    let mut columns = Vec::new();
    let mut batch = 1;
    while batch <= LAST_BATCH {
        let next = column(batch)?;
        let is_last = !next.loads.iter().any(fits);
        columns.push(next);
        if is_last {
            break;
        }
        batch *= 2;
    }
    Ok(columns)
}

/// One batch size.
struct Column {
    batch: u64,
    /// In the order of the GPUs.
    loads: Vec<Load>,
}

/// By the estimate itself, which is the median of what is to be expected.
fn fits(load: &Load) -> bool {
    load.share() <= 1.0
}

/// Everything there is to say; how it is said stands in the modules.
struct Answer {
    title: String,
    job: OpenJob,
    gpus: Vec<Gpu>,
    columns: Vec<Column>,
}

impl Answer {
    /// The loads of a GPU, by its place.
    fn loads(&self, gpu: usize) -> impl Iterator<Item = &Load> {
        self.columns.iter().map(move |column| &column.loads[gpu])
    }

    /// The largest of the batch sizes that fits on a GPU.
    fn largest(&self, gpu: usize) -> Option<u64> {
        self.loads(gpu).filter(|load| fits(load)).map(Load::batch).max()
    }

    fn warnings(&self) -> Vec<String> {
        let first: Vec<&Load> = self.columns.iter().take(1).flat_map(|column| &column.loads).collect();
        self.job.warnings_across(&first)
    }
}
