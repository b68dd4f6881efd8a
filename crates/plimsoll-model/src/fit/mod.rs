//! Fitting a network to samples.

pub(crate) mod holdout;
mod order;
mod schedule;
mod spread;
mod temper;

use std::path::{Path, PathBuf};

use burn::grad_clipping::GradientClippingConfig;
use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll_dataset::{Sample, Scaler};
use plimsoll_features::FeatureSchema;

use crate::batch::{Table, Targets};
use crate::checkpoint::{self, DataDescription, Description, Progress, TrainingFolder};
use crate::error::{ModelError, Result};
use crate::estimator::Fit;
use crate::events::{Epoch, EventSink, Observer, TensorBoard, record};
use crate::familiarity::Familiarity;
use crate::learned::Learned;
use crate::network::{Network, Widths};
use crate::objective::loss;
use crate::settings::{InputSettings, Settings, TrainingSettings};
use holdout::Division;
use spread::SpreadFit;

/// Settings of a learned estimator, with where and under whose eyes it is fitted.
pub struct LearnedFit<'a> {
    /// Network, output and training.
    pub settings: Settings,
    /// What is fitted to, for the record.
    pub data: DataDescription,
    /// Where it runs.
    pub device: Device,
    /// Listens and may stop the fit.
    pub observer: &'a dyn Observer,
    /// Folder for the state after each epoch; a fit interrupted there goes on. `None` keeps nothing.
    pub folder: Option<PathBuf>,
    /// A checkpoint whose weights and scaler the fit starts from, instead of fresh ones.
    pub start: Option<PathBuf>,
    /// Folder for TensorBoard event files.
    pub events: Option<PathBuf>,
}

impl Fit for LearnedFit<'_> {
    type Fitted = Learned;
    type Error = ModelError;

    /// Fits a new network, or several side by side. The validation samples decide when to stop, if `patience` is set, and
    /// are reported. Part of the training samples is kept out to calibrate bounds, as the settings say; of an ensemble
    /// another part from each network.
    ///
    /// # Errors
    /// Settings out of range, no measured training rows, a loss that leaves the numbers, an interruption, a folder
    /// that holds another fit, files that cannot be written.
    fn fit(&self, training: &[&Sample], validation: &[&Sample]) -> Result<Learned> {
        self.settings.check()?;
        if !training.iter().any(|sample| sample.outcome.peak_mib().is_some()) {
            return Err(ModelError::Data {
                what: "the training part".into(),
                expected: "at least one row with measured memory".into(),
                found: format!("{} rows without", training.len()),
            });
        }
        let division = holdout::divide(training, self.settings.calibration, self.settings.ensemble)?;
        Training::new(self, &division, validation)?.run(&division)
    }
}

/// The network and scaler of an earlier fit. Its weights mean something under its own scaler only. An ensemble may start
/// from a single network: all of it do.
fn started(settings: &Settings, folder: &Path, device: &Device) -> Result<(Network, Scaler)> {
    let (description, network) = checkpoint::load(folder, device)?;
    let found = &description.settings;
    let form =
        |settings: &Settings| (settings.network.clone(), settings.inputs, settings.base, settings.output.clone());
    if form(found) != form(settings) || ![1, settings.ensemble].contains(&found.ensemble) {
        return Err(ModelError::Checkpoint {
            path: folder.into(),
            expected: "the network, inputs, base, output and ensemble of the fit that starts from it".into(),
            found: format!("{:?}, {}", form(found), found.ensemble),
        });
    }
    Ok((network.repeated(settings.ensemble), description.scaler))
}

/// The optimiser of everything that is fitted here.
fn optimizer(settings: &TrainingSettings) -> ModuleOptimizer {
    AdamWConfig::new()
        .with_epsilon(1e-8)
        .with_weight_decay(settings.weight_decay as f32)
        .with_grad_clipping(Some(GradientClippingConfig::Norm(settings.gradient_clip as f32)))
        .init()
}

/// A fit under way.
struct Training<'a> {
    fit: &'a LearnedFit<'a>,
    /// What the epochs train by: upper quantiles of an ensemble come after them.
    objective: TrainingSettings,
    device: Device,
    scaler: Scaler,
    familiarity: Familiarity,
    table: Table,
    /// For each row the network that does not see it.
    hidden_from: Vec<Option<usize>>,
    validation: Table,
    network: Network,
    optimizer: ModuleOptimizer,
    progress: Progress,
    folder: Option<TrainingFolder>,
    events: Option<TensorBoard>,
    best: Option<Network>,
}

impl<'a> Training<'a> {
    fn new(fit: &'a LearnedFit<'a>, division: &Division<'_>, validation: &[&Sample]) -> Result<Self> {
        let settings = &fit.settings;
        let training = division.fitted.as_slice();
        let device = fit.device.clone().autodiff();
        let widths = Widths::current();
        device.seed(settings.training.seed);
        let (network, scaler) = if let Some(folder) = &fit.start {
            started(settings, folder, &device)?
        } else {
            let mut scaler = Scaler::fit(training.iter().map(|sample| &sample.features))?;
            match settings.inputs {
                InputSettings::All => {}
                InputSettings::Graph => {
                    scaler.hide(&FeatureSchema::simulated_layer(), &FeatureSchema::simulated_summary());
                }
                InputSettings::WithoutGpu => scaler.hide_gpu(),
            }
            (Network::new(settings, widths, &device), scaler)
        };
        let with_layers = network.reads_layers();
        let optimizer = optimizer(&settings.training);
        let folder = fit.folder.as_deref().map(TrainingFolder::new).transpose()?;
        let events = fit.events.as_deref().map(TensorBoard::new).transpose().map_err(|source| ModelError::File {
            action: "write",
            path: fit.events.clone().unwrap_or_default(),
            source,
        })?;
        let mut objective = settings.training.clone();
        if division.hidden_from.iter().any(Option::is_some) {
            objective.quantile_weight = 0.0;
        }
        let mut state = Self {
            fit,
            objective,
            device,
            table: Table::new(training, &scaler, widths, with_layers, settings),
            hidden_from: division.hidden_from.clone(),
            validation: Table::new(validation, &scaler, widths, with_layers, settings),
            scaler,
            familiarity: Familiarity::of(training),
            network,
            optimizer,
            progress: Progress::new(settings, &fit.data.hash),
            folder,
            events,
            best: None,
        };
        state.resume()?;
        Ok(state)
    }

    /// Takes up what an interrupted fit left in the folder.
    fn resume(&mut self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let Some(progress) = folder.progress()? else { return Ok(()) };
        let fresh = &self.progress;
        if progress.settings != fresh.settings
            || progress.schema != fresh.schema
            || progress.data_hash != fresh.data_hash
            || progress.is_finished
        {
            // Another fit, or one that is done: its finished checkpoint stays until this one replaces it.
            return Ok(());
        }
        let epoch = progress.epochs();
        if epoch > 0 {
            if progress.best_epoch > 0 && progress.best_epoch != epoch {
                self.best = Some(folder.load_weights(progress.best_epoch, self.network.clone())?);
            }
            self.network = folder.load_weights(epoch, self.network.clone())?;
            let bytes = folder.load_optimizer(epoch)?;
            self.optimizer = self.optimizer.clone().from_bytes(bytes).map_err(|error| ModelError::Checkpoint {
                path: self.fit.folder.clone().unwrap_or_default(),
                expected: "the optimiser's state".into(),
                found: error.to_string(),
            })?;
            if progress.best_epoch == epoch {
                self.best = Some(self.network.clone());
            }
        }
        self.progress = progress;
        Ok(())
    }

    fn run(mut self, division: &Division<'_>) -> Result<Learned> {
        let settings = &self.fit.settings.training;
        let steps_per_epoch = self.table.rows().div_ceil(settings.batch_size);
        self.fit.observer.begin(settings.epochs, self.progress.epochs(), steps_per_epoch);
        while self.progress.epochs() < settings.epochs && !self.is_out_of_patience() {
            self.epoch(steps_per_epoch)?;
        }
        self.fit.observer.end();
        let uses_best = settings.patience > 0;
        let network = self.best.take().filter(|_| uses_best).unwrap_or_else(|| self.network.clone());
        let mut description = Description::new(self.fit.settings.clone(), self.scaler.clone(), self.fit.data.clone());
        description.history.clone_from(&self.progress.history);
        description.utilisation_rows = self.table.utilisation_rows();
        description.familiarity = std::mem::take(&mut self.familiarity);
        let mut tempered = network.valid();
        let strength = temper::temper(&Learned::new(description.clone(), &tempered, &self.device), division);
        description.strength = strength;
        if self.objective.quantile_weight < settings.quantile_weight {
            let fit =
                SpreadFit { settings, table: &self.table, division, device: &self.device, observer: self.fit.observer };
            let heads = fit.fit(&network, &Learned::new(description.clone(), &tempered, &self.device))?;
            for (member, head) in tempered.members.iter_mut().zip(heads) {
                member.set_quantiles(head.map(|head| head.valid()));
            }
        }
        let mut learned = Learned::new(description, &tempered, &self.device);
        learned.calibrate(&division.judges);
        if let (Some(folder), Some(path)) = (&self.folder, &self.fit.folder) {
            learned.save(path)?;
            folder.finish(&mut self.progress)?;
        }
        Ok(learned)
    }

    fn is_out_of_patience(&self) -> bool {
        let patience = self.fit.settings.training.patience;
        patience > 0 && self.progress.epochs() >= self.progress.best_epoch + patience
    }

    fn epoch(&mut self, steps_per_epoch: usize) -> Result<()> {
        let (epoch, settings) = (self.progress.epochs(), &self.fit.settings.training);
        // Dropout draws from the device's generator: a seed per epoch makes a resumed fit draw the same.
        self.device.seed(order::mix(settings.seed, epoch as u64));
        let batches = order::batches(&self.table, settings.batch_size, settings.seed, epoch as u64);
        let total_steps = (settings.epochs * steps_per_epoch) as f64;
        let (mut sum, mut learning_rate) = (0.0, 0.0);
        for (step, rows) in batches.iter().enumerate() {
            if self.fit.observer.should_stop() {
                return Err(ModelError::Interrupted { epochs: epoch });
            }
            learning_rate = schedule::learning_rate(settings, (epoch * steps_per_epoch + step) as f64 / total_steps);
            let value = self.step(rows, learning_rate);
            if !value.is_finite() {
                return Err(ModelError::Diverged { epoch: epoch + 1, loss: value });
            }
            sum += value * rows.len() as f64;
            let longest = rows.iter().map(|&row| self.table.length(row)).max().unwrap_or_default();
            self.fit.observer.step(rows.len(), longest);
        }
        let (validation_loss, validation_median_ape_pct) = self.validate();
        let report = Epoch {
            epoch: epoch + 1,
            training_loss: sum / self.table.rows() as f64,
            validation_loss,
            validation_median_ape_pct,
            learning_rate,
        };
        self.progress.history.push(report);
        let judged = validation_loss.unwrap_or(report.training_loss);
        if self.progress.best_loss.is_none_or(|best| judged < best) {
            self.progress.best_loss = Some(judged);
            self.progress.best_epoch = epoch + 1;
            self.best = Some(self.network.clone());
        }
        if let Some(folder) = &self.folder {
            let optimizer = self.optimizer.into_bytes().map_err(|error| ModelError::Checkpoint {
                path: self.fit.folder.clone().unwrap_or_default(),
                expected: "an optimiser state that can be written".into(),
                found: error.to_string(),
            })?;
            folder.save(&self.progress, &self.network, &optimizer)?;
        }
        if let Some(events) = &mut self.events {
            record(events as &mut dyn EventSink, &report);
        }
        self.fit.observer.epoch(&report);
        Ok(())
    }

    /// One step of the optimiser; returns the loss before it.
    fn step(&mut self, rows: &[usize], learning_rate: f64) -> f64 {
        let batch = self.table.batch(rows, &self.device);
        let targets = self.table.targets(rows, &self.device);
        // Networks of an ensemble share nothing but the batch: the sum of their losses fits each by itself.
        let with_quantiles = self.objective.quantile_weight > 0.0;
        let losses = self.network.members.iter().enumerate().map(|(index, member)| {
            let outputs = member.forward(&batch, with_quantiles);
            let targets = self.seen_by(index, rows, &targets);
            loss(&outputs, &targets, &self.fit.settings.output, &self.objective)
        });
        let loss = losses.reduce(|sum, loss| sum + loss).expect("settings ask for at least one network");
        let gradients = GradientsParams::from_grads(loss.backward(), &self.network);
        let value = f64::from(loss.into_scalar::<f32>()) / self.network.members.len() as f64;
        self.network = self.optimizer.step(learning_rate, self.network.clone(), gradients);
        value
    }

    /// The targets of the rows that a network of the ensemble may see.
    fn seen_by(&self, member: usize, rows: &[usize], targets: &Targets) -> Targets {
        let is_hidden = |&row: &usize| self.hidden_from[row] == Some(member);
        if !rows.iter().any(is_hidden) {
            return targets.clone();
        }
        let seen: Vec<f32> = rows.iter().map(|row| f32::from(u8::from(!is_hidden(row)))).collect();
        targets.only(Tensor::from_floats(seen.as_slice(), &self.device))
    }

    /// Loss and median error on the validation part, without dropout.
    fn validate(&self) -> (Option<f64>, Option<f64>) {
        let rows: Vec<usize> = (0..self.validation.rows()).collect();
        if rows.is_empty() {
            return (None, None);
        }
        let (network, device) = (self.network.valid(), self.device.clone().inner());
        let (mut sum, mut errors) = (0.0, Vec::new());
        for rows in rows.chunks(256) {
            let outputs = network.forward(&self.validation.batch(rows, &device));
            let targets = self.validation.targets(rows, &device);
            let value = loss(&outputs, &targets, &self.fit.settings.output, &self.objective);
            sum += f64::from(value.into_scalar::<f32>()) * rows.len() as f64;
            if let Some(log_memory) = outputs.log_memory {
                let difference = (log_memory - targets.log_memory.clone()).into_data();
                let is_measured = targets.is_measured.into_data();
                let measured = difference.iter::<f32>().zip(is_measured.iter::<f32>()).filter(|(_, flag)| *flag > 0.0);
                errors.extend(measured.map(|(difference, _)| 100.0 * f64::from(difference.exp_m1().abs())));
            }
        }
        errors.sort_by(f64::total_cmp);
        (Some(sum / rows.len() as f64), errors.get(errors.len() / 2).copied())
    }
}
