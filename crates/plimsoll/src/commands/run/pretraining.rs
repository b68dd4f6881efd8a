//! The stage before the fits of a run: networks learn from simulated workloads first.

use std::path::{Path, PathBuf};

use anyhow::Result;
use plimsoll_dataset::Sample;
use plimsoll_model::{DataDescription, Settings};

use super::data::Prepared;
use crate::commands::worker::Job;
use crate::config::{Config, NamedSettings, Pretraining};

/// Simulated workloads, and how they are used.
pub(super) struct Stage {
    settings: Pretraining,
    prepared: Prepared,
}

impl Stage {
    /// Generates and simulates what the config asks for; nothing, if it asks for no such stage.
    pub(super) fn load(config: &Config) -> Result<Option<Self>> {
        let Some(settings) = &config.pretraining else { return Ok(None) };
        let prepared = Prepared::generate(&settings.data)?;
        Ok(Some(Self { settings: settings.clone(), prepared }))
    }

    /// The samples that accompany so many measured ones in the later fits.
    ///
    /// Where nothing was measured, they hold the estimate to the simulation.
    pub(super) fn company(&self, measured: usize) -> &[Sample] {
        let count = (self.settings.mix * measured as f64) as usize;
        &self.prepared.samples[..count.min(self.prepared.samples.len())]
    }

    /// A fingerprint for the run's id.
    pub(super) fn hash(&self) -> &str {
        &self.prepared.hash
    }

    /// Keeps the samples for the workers.
    pub(super) fn write(&self, work: &Path) -> Result<()> {
        self.prepared.write_samples(&samples_path(work), &[])
    }

    /// One fit for each estimator that goes through it.
    pub(super) fn jobs(&self, config: &Config, work: &Path, events: &Path) -> Vec<Job> {
        let pretrained = config.estimators.iter().filter(|named| named.is_pretrained);
        pretrained.map(|named| self.job(config, named, work, events)).collect()
    }

    fn job(&self, config: &Config, named: &NamedSettings, work: &Path, events: &Path) -> Job {
        let training: Vec<usize> = (0..self.prepared.samples.len()).collect();
        Job {
            name: format!("{}-pretraining", named.name),
            settings: self.settings(named),
            device: config.device,
            data: self.describe(config, &training),
            samples: samples_path(work),
            training,
            validation: Vec::new(),
            // What it says of a few rows it has seen tells that it is done; nobody scores them.
            test: vec![0],
            fold: None,
            folder: folder(work, &named.name),
            start: None,
            events: events.join(format!("{}-pretraining", named.name)),
        }
    }

    /// Settings of an estimator in this stage.
    pub(super) fn settings(&self, named: &NamedSettings) -> Settings {
        let mut settings = named.settings.clone();
        settings.training.epochs = self.settings.epochs;
        settings.training.learning_rate = self.settings.learning_rate;
        settings.training.patience = 0;
        // Simulated labels have no spread around the simulation: nothing here says how far bounds should lie.
        settings.training.quantile_weight = 0.0;
        settings.calibration.fraction = 0.0;
        // All networks of an ensemble start from the same.
        settings.ensemble = 1;
        settings
    }

    /// What the fits of this stage are made from.
    pub(super) fn describe(&self, config: &Config, training: &[usize]) -> DataDescription {
        let description = self.prepared.describe(config, training, None);
        DataDescription { split: "simulated workloads, before any measurement".into(), ..description }
    }

    /// All samples of the stage.
    pub(super) fn samples(&self) -> &[Sample] {
        &self.prepared.samples
    }
}

/// Where an estimator's network stands after this stage.
pub(super) fn folder(work: &Path, estimator: &str) -> PathBuf {
    work.join(format!("{estimator}-pretraining"))
}

fn samples_path(work: &Path) -> PathBuf {
    work.join("pretraining.parquet")
}
