//! `plimsoll estimate --jobs`: one estimate for each row of a table.

use std::path::Path;

use anyhow::{Result, ensure};
use plimsoll_dataset::{DatasetError, IngestOptions, Label, Measurement, Rejection, Sample, ingest};
use plimsoll_evaluation::{EstimatedJob, JobFormat, JobRow, JobWriter};
use plimsoll_graph::TrainingSetup;
use plimsoll_model::{Estimator, Learned};
use rayon::prelude::*;
use serde_json::json;

use super::{estimate, source};
use crate::cli::EstimateArguments;
use crate::{interrupt, output, progress};

/// Rows that are simulated at once, on all cores, and held in memory.
const BATCH: usize = 1_024;

/// A row as it was read.
type Row = Result<Measurement, Rejection>;

/// Estimates every row, in order; a row that is no job keeps its place and gets a reason.
pub(super) fn run(arguments: &EstimateArguments, table: &Path) -> Result<()> {
    let catalogue = source::catalogue(arguments.gpu_file.as_deref())?;
    let options = IngestOptions {
        gpu: source::gpu(arguments.setup.gpu.as_deref(), &catalogue)?,
        setup: setup(arguments)?,
        stack: arguments.software.stack,
        graphs: Some(source::named::graphs()),
        ..IngestOptions::default()
    };
    let label = estimate::label(&arguments.label)?;
    let learned = estimate::estimator(arguments.checkpoint.as_deref())?;
    let format = if arguments.json { JobFormat::JsonLines } else { JobFormat::Csv };
    let mut writer = match &arguments.out {
        Some(path) => JobWriter::create(path)?,
        None => JobWriter::stream(Box::new(output::stream()), format)?,
    };
    let spinner = progress::spinner("estimate");
    let mut rejected: Vec<Rejection> = Vec::new();
    let mut waiting: Vec<Row> = Vec::with_capacity(BATCH);
    let mut failure: Option<anyhow::Error> = None;
    let mut hand_on = |waiting: &mut Vec<Row>| -> Result<()> {
        ensure!(!interrupt::is_requested(), "interrupted");
        writer.write(&estimated(waiting, label, &learned))?;
        rejected.extend(waiting.drain(..).filter_map(Result::err));
        Ok(())
    };
    let counts = ingest(&[table.to_owned()], &options, &catalogue, &mut |row| {
        spinner.inc(1);
        waiting.push(row);
        if waiting.len() < BATCH {
            return Ok(());
        }
        hand_on(&mut waiting).map_err(|error| {
            failure = Some(error);
            // Any error ends the reading; the one that counts is kept.
            DatasetError::Empty { what: "the rest of the table".into(), expected: "no failure before it".into() }
        })
    });
    spinner.finish_and_clear();
    if let Some(error) = failure {
        return Err(error);
    }
    let counts = counts?;
    hand_on(&mut waiting)?;
    writer.finish()?;
    source::tell(&rejected, &counts.unknown_operators, &counts.ignored_columns);
    let Some(out) = &arguments.out else { return Ok(()) };
    if arguments.json {
        return output::json(&json!({ "estimated": counts.accepted, "rejected": counts.rejected, "out": out }));
    }
    output::line(format!("estimated {}, rejected {} -> {}", counts.accepted, counts.rejected, out.display()))
}

/// What rows leave open. `None` if the arguments say nothing.
fn setup(arguments: &EstimateArguments) -> Result<Option<TrainingSetup>> {
    if let Some(setup) = source::setup(&arguments.setup)? {
        return Ok(Some(setup));
    }
    // Each row has a batch of its own.
    let setup = source::training(&arguments.setup.training, 1)?;
    Ok((setup != TrainingSetup::new(1)).then_some(setup))
}

/// Estimates of rows, in their order.
fn estimated(rows: &[Row], label: Label, learned: &Learned) -> Vec<JobRow> {
    let simulated: Vec<Option<Sample>> = rows
        .par_iter()
        .map(|row| {
            let mut sample = Sample::from_measurement(row.as_ref().ok()?);
            // A row that does not say how it is read is read as all others are.
            if matches!(sample.label, Label::Unknown | Label::Simulated) {
                sample.label = label;
            }
            Some(sample)
        })
        .collect();
    let asked: Vec<&Sample> = simulated.iter().flatten().collect();
    // Whether a job fits is a matter of the whole GPU.
    let whole = |sample: &&Sample| Sample { label: Label::NvidiaSmiDevice, ..(*sample).clone() };
    let is_device = asked.iter().all(|sample| sample.label == Label::NvidiaSmiDevice);
    let of_device: Vec<Sample> = if is_device { Vec::new() } else { asked.iter().map(whole).collect() };
    let estimates = learned.estimate(&asked);
    let fits = if is_device { estimates.clone() } else { learned.estimate(&of_device.iter().collect::<Vec<_>>()) };
    let mut estimates = estimates.into_iter().zip(fits);
    let mut row = |(row, sample): (&Row, &Option<Sample>)| match (row, sample) {
        (Ok(measurement), Some(sample)) => {
            let (estimate, of_device) = estimates.next().unwrap_or_default();
            let workload = &measurement.workload;
            let job = EstimatedJob {
                architecture: workload.graph().name().to_owned(),
                gpu: sample.gpu.clone(),
                capacity_mib: sample.capacity_mib,
                batch_size: sample.batch_size,
                precision: workload.setup().precision.name(),
                optimizer: workload.setup().optimizer.name(),
                label: sample.label,
                estimate,
                probability_fits: of_device.probability_fits(sample.capacity_mib),
                spike_risk: f64::from(sample.features.spike_risk()),
                simulated_mib: f64::from(sample.features.analytic.simulated_mib()),
                warnings: estimate::warnings(workload, learned, sample, &estimate, &[]).join("; "),
            };
            JobRow { id: measurement.id.clone(), job: Ok(job) }
        }
        (Err(rejection), _) => JobRow { id: rejection.id.clone(), job: Err(rejection.reason.clone()) },
        (Ok(measurement), None) => unreachable!("{} was simulated", measurement.id),
    };
    rows.iter().zip(&simulated).map(&mut row).collect()
}
