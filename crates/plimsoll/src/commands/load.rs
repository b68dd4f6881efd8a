//! What one job takes at other batch sizes and on other GPUs.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use plimsoll_dataset::{Label, Measurement, Sample, Stack};
use plimsoll_graph::{Gpu, Graph, TrainingSetup, Workload};
use plimsoll_model::{Estimate, Estimator, Learned};
use plimsoll_simulate::Simulation;
use rayon::prelude::*;

use super::estimate;
use super::source::{self, Source};
use crate::cli::{GraphArguments, SoftwareArguments, TrainingArguments};

/// The memory that is not exceeded with this confidence, MiB; the estimate itself where an estimator has no bounds.
pub(super) fn upper_bound_mib(estimate: &Estimate, confidence: f64) -> f64 {
    estimate.upper_bound_mib(confidence).or(estimate.peak_memory_mib).unwrap_or_default()
}

/// A training job whose batch and GPU are still open.
pub(super) struct OpenJob {
    /// As it was given, for the answer.
    pub(super) file: String,
    pub(super) graph: Arc<Graph>,
    training: TrainingArguments,
    stack: Stack,
    /// Of the form in which its graph was there.
    doubts: Vec<String>,
    learned: Learned,
}

/// The job at one batch, on one GPU.
pub(super) struct Load {
    pub(super) estimate: Estimate,
    workload: Workload,
    sample: Sample,
}

impl Load {
    pub(super) const fn gpu(&self) -> &Gpu {
        self.workload.gpu()
    }

    pub(super) const fn batch(&self) -> u64 {
        self.workload.setup().batch_size
    }

    pub(super) fn peak_mib(&self) -> f64 {
        self.estimate.peak_memory_mib.unwrap_or_default()
    }

    pub(super) fn capacity_mib(&self) -> f64 {
        self.gpu().memory_mib as f64
    }

    /// The estimate as a share of what the GPU has.
    pub(super) fn share(&self) -> f64 {
        self.peak_mib() / self.capacity_mib()
    }

    /// Whether it fits with this confidence.
    pub(super) fn fits(&self, confidence: f64) -> bool {
        upper_bound_mib(&self.estimate, confidence) <= self.capacity_mib()
    }
}

impl OpenJob {
    /// Reads the graph and the estimator.
    pub(super) fn read(
        graph: &GraphArguments,
        training: &TrainingArguments,
        software: &SoftwareArguments,
        checkpoint: Option<&Path>,
    ) -> Result<Self> {
        let file = graph.file.display().to_string();
        let precision = source::training(training, 1)?.precision;
        let Source { graph, doubts } = source::read(graph, precision)?;
        let learned = estimate::estimator(checkpoint)?;
        let stack = software.stack.unwrap_or_default();
        Ok(Self { file, graph, training: training.clone(), stack, doubts, learned })
    }

    /// The setup at a batch.
    pub(super) fn setup(&self, batch: u64) -> Result<TrainingSetup> {
        source::training(&self.training, batch)
    }

    /// The job at a batch, on each of several GPUs.
    ///
    /// # Errors
    /// A setup that is out of range, and sizes at this batch that cannot be counted.
    pub(super) fn across(&self, batch: u64, gpus: &[Gpu]) -> Result<Vec<Load>> {
        let setup = self.setup(batch)?;
        let simulated: Vec<(Workload, Sample)> = gpus
            .par_iter()
            .map(|gpu| {
                let workload = Workload::new(Arc::clone(&self.graph), setup.clone(), gpu.clone())?;
                let simulation = Simulation::of(&workload);
                let measurement = Measurement::unmeasured(self.file.clone(), workload);
                // A GPU's own reading decides what fits on it.
                let label = Label::NvidiaSmiDevice;
                let stack = self.stack;
                let sample = Sample { label, stack, ..Sample::from_simulation(&measurement, &simulation) };
                Ok((measurement.workload, sample))
            })
            .collect::<Result<_>>()?;
        let samples: Vec<&Sample> = simulated.iter().map(|(_, sample)| sample).collect();
        let estimates = self.learned.estimate(&samples);
        let loads = estimates.into_iter().zip(simulated);
        Ok(loads.map(|(estimate, (workload, sample))| Load { estimate, workload, sample }).collect())
    }

    /// The job at a batch on one GPU.
    pub(super) fn at(&self, batch: u64, gpu: &Gpu) -> Result<Load> {
        let load = self.across(batch, std::slice::from_ref(gpu))?.pop();
        Ok(load.expect("one GPU, one load"))
    }

    /// What a user should know before trusting an estimate of this job.
    pub(super) fn warnings(&self, load: &Load) -> Vec<String> {
        estimate::warnings(&load.workload, &self.learned, &load.sample, &load.estimate, &self.doubts)
    }

    /// What a user should know before trusting estimates for many GPUs: what holds for each, said once.
    pub(super) fn warnings_across(&self, loads: &[&Load]) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        for doubt in loads.iter().flat_map(|load| source::doubts(&load.workload, &self.doubts)) {
            if !warnings.contains(&doubt) {
                warnings.push(doubt);
            }
        }
        let description = self.learned.description();
        let fitted = &description.data.gpus;
        let is_known = |load: &Load| {
            let gpu = &load.gpu().name;
            fitted.contains(gpu) || description.adaptation(gpu, load.sample.label, load.sample.stack).is_some()
        };
        if !loads.iter().all(|load| is_known(load)) {
            warnings.push(format!(
                "the estimator was fitted to {} alone: for other GPUs it stays close to the simulation",
                fitted.join(", ")
            ));
        }
        warnings
    }

    /// Network, optimiser and precision.
    pub(super) fn title(&self) -> Result<String> {
        let setup = self.setup(1)?;
        Ok(format!("{}: {}, {}", self.graph.name(), setup.optimizer.name(), setup.precision.name()))
    }
}
