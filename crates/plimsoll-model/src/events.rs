//! What training tells while it runs: to a person, to TensorBoard, and back whether to stop.

use std::path::Path;

use tensorboard_rs::summary_writer::SummaryWriter;

/// What is known at the end of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Epoch {
    /// Number, from 1.
    pub epoch: usize,
    /// Mean loss over the training part, dropout on.
    pub training_loss: f64,
    /// Mean loss over the validation part, dropout off; `None` without one.
    pub validation_loss: Option<f64>,
    /// Median absolute relative error of memory on the validation part, percent.
    pub validation_median_ape_pct: Option<f64>,
    /// Learning rate at its end.
    pub learning_rate: f64,
}

/// Listens to a fit and may end it. All methods do nothing by default.
pub trait Observer {
    /// A fit begins, or goes on after an interruption.
    fn begin(&self, _epochs: usize, _done: usize, _steps_per_epoch: usize) {}
    /// A step is done, over so many rows of at most so many layers.
    fn step(&self, _rows: usize, _layers: usize) {}
    /// An epoch is done and its checkpoint written.
    fn epoch(&self, _epoch: &Epoch) {}
    /// The fit is done.
    fn end(&self) {}
    /// Whether to stop at the next step.
    fn should_stop(&self) -> bool {
        false
    }
}

/// Listens to nothing and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Where scalars of a run are kept for plotting. Behind a trait, for the crate that writes them is unmaintained.
pub trait EventSink {
    /// Records a scalar at an epoch.
    fn scalar(&mut self, tag: &str, epoch: usize, value: f64);
    /// Makes sure that everything so far can be read.
    fn flush(&mut self);
}

/// Writes TensorBoard event files.
pub struct TensorBoard(SummaryWriter);

impl std::fmt::Debug for TensorBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TensorBoard")
    }
}

impl TensorBoard {
    /// Event files in a folder, which must exist and be writable: the writer underneath panics otherwise, so it is
    /// tried first.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn new(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        tempfile::NamedTempFile::new_in(folder)?;
        Ok(Self(SummaryWriter::new(folder)))
    }
}

impl EventSink for TensorBoard {
    fn scalar(&mut self, tag: &str, epoch: usize, value: f64) {
        self.0.add_scalar(tag, value as f32, epoch);
    }

    fn flush(&mut self) {
        self.0.flush();
    }
}

/// Records an epoch under the usual tags.
pub(crate) fn record(sink: &mut dyn EventSink, epoch: &Epoch) {
    sink.scalar("loss/training", epoch.epoch, epoch.training_loss);
    if let Some(loss) = epoch.validation_loss {
        sink.scalar("loss/validation", epoch.epoch, loss);
    }
    if let Some(error) = epoch.validation_median_ape_pct {
        sink.scalar("validation/median_ape_pct", epoch.epoch, error);
    }
    sink.scalar("learning_rate", epoch.epoch, epoch.learning_rate);
    sink.flush();
}
