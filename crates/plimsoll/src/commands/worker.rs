//! One fit of a run in a process of its own: Burn's random generator is global to a process, and folds share none.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plimsoll_dataset::{DatasetError, Sample, SampleReader};
use plimsoll_evaluation::{predict, write_predictions};
use plimsoll_model::{DataDescription, DeviceKind, Epoch, Fit, LearnedFit, Observer, Settings};
use serde::{Deserialize, Serialize};

use crate::cli::WorkerArguments;
use crate::{interrupt, output};

/// What to fit, to which rows, and where to put the result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) settings: Settings,
    pub(super) device: DeviceKind,
    pub(super) data: DataDescription,
    /// Featurised samples.
    pub(super) samples: PathBuf,
    pub(super) training: Vec<usize>,
    pub(super) validation: Vec<usize>,
    /// Rows to estimate afterwards.
    pub(super) test: Vec<usize>,
    pub(super) fold: Option<u32>,
    /// Folder for state, checkpoint and predictions.
    pub(super) folder: PathBuf,
    /// The checkpoint to start from, instead of fresh weights.
    pub(super) start: Option<PathBuf>,
    /// Folder for TensorBoard events.
    pub(super) events: PathBuf,
}

impl Job {
    /// Where the estimates of the test rows go; its existence says that the job is done.
    pub(super) fn predictions(&self) -> PathBuf {
        self.folder.join("predictions.parquet")
    }
}

/// A line from a worker to the run that started it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    Begin { epochs: usize, done: usize },
    Epoch(Epoch),
}

/// Fits, estimates the test rows and keeps both.
pub(super) fn run(arguments: &WorkerArguments) -> Result<()> {
    let text = std::fs::read(&arguments.job).with_context(|| format!("cannot read {}", arguments.job.display()))?;
    let job: Job =
        serde_json::from_slice(&text).with_context(|| format!("{} is not a job", arguments.job.display()))?;
    let samples = read_samples(&job.samples)?;
    let observer = Lines { failed: Cell::new(false) };
    let fit = LearnedFit {
        settings: job.settings.clone(),
        data: job.data.clone(),
        device: job.device.open()?,
        observer: &observer,
        folder: Some(job.folder.clone()),
        start: job.start.clone(),
        events: Some(job.events.clone()),
    };
    let pick = |rows: &[usize]| -> Vec<&Sample> { rows.iter().filter_map(|&row| samples.get(row)).collect() };
    let learned = fit.fit(&pick(&job.training), &pick(&job.validation))?;
    let mut predictions = predict(&learned, job.fold, &pick(&job.test));
    for prediction in &mut predictions {
        prediction.estimator.clone_from(&job.name);
    }
    write_predictions(&job.predictions(), &predictions)?;
    Ok(())
}

/// All samples of a file.
pub(super) fn read_samples(path: &Path) -> Result<Vec<Sample>> {
    let reader = SampleReader::open(path)?;
    let chunks: Vec<Vec<Sample>> = reader.collect::<Result<_, DatasetError>>()?;
    Ok(chunks.into_iter().flatten().collect())
}

/// Tells progress as JSON lines.
struct Lines {
    failed: Cell<bool>,
}

impl Lines {
    fn send(&self, message: &Message) {
        // Without a reader there is no run to work for.
        let sent = serde_json::to_string(message).map_err(anyhow::Error::from).and_then(output::line);
        if sent.is_err() {
            self.failed.set(true);
        }
    }
}

impl Observer for Lines {
    fn begin(&self, epochs: usize, done: usize, _steps_per_epoch: usize) {
        self.send(&Message::Begin { epochs, done });
    }

    fn epoch(&self, epoch: &Epoch) {
        self.send(&Message::Epoch(*epoch));
    }

    fn should_stop(&self) -> bool {
        self.failed.get() || interrupt::is_requested()
    }
}
