//! `plimsoll featurize`

use anyhow::{Result, bail, ensure};
use plimsoll_dataset::{DatasetError, Measurement, Rejection, Sample, SampleWriter, ingest};
use rayon::prelude::*;

use super::source;
use crate::cli::FeaturizeArguments;
use crate::{interrupt, output, progress};

/// Rows that are featurised together, on all cores.
const BATCH: usize = 1024;

/// Turns measurements into features, a batch at a time; memory stays bounded.
pub(super) fn run(arguments: &FeaturizeArguments) -> Result<()> {
    let catalogue = source::catalogue(arguments.source.gpu_file.as_deref())?;
    let options = source::options(&arguments.source, &arguments.setup, &catalogue)?;
    let mut writer = SampleWriter::create(&arguments.out)?;
    let mut rejected: Vec<Rejection> = Vec::new();
    let mut batch: Vec<Measurement> = Vec::with_capacity(BATCH);
    let spinner = progress::spinner("featurize");
    let mut write = |batch: &mut Vec<Measurement>| -> Result<(), DatasetError> {
        let samples: Vec<Sample> = batch.par_iter().map(Sample::from_measurement).collect();
        spinner.inc(samples.len() as u64);
        batch.clear();
        samples.iter().try_for_each(|sample| writer.write(sample))
    };
    let counts = ingest(&arguments.files, &options, &catalogue, &mut |row| {
        match row {
            Ok(measurement) => batch.push(measurement),
            Err(rejection) => rejected.push(rejection),
        }
        if batch.len() < BATCH || interrupt::is_requested() { Ok(()) } else { write(&mut batch) }
    })?;
    if interrupt::is_requested() {
        bail!("interrupted; {} was not written", arguments.out.display());
    }
    write(&mut batch)?;
    spinner.finish_and_clear();
    source::tell(&rejected, &counts.unknown_operators, &counts.ignored_columns);
    source::strict(arguments.source.strict, &rejected)?;
    ensure!(counts.accepted > 0, "no usable row: {} rows were rejected, and nothing was written", counts.rejected);
    writer.finish()?;
    output::line(format!("featurised {}, rejected {} -> {}", counts.accepted, counts.rejected, arguments.out.display()))
}
