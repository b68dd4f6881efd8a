//! A fitted network as an estimator.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use plimsoll_dataset::{ContentHasher, Label, Sample, Stack};

use crate::adaptation::{Adaptation, Place, Reading};
use crate::batch::Table;
use crate::bounds::Bounds;
use crate::calibration::{Calibration, Scores, Steps, family_of};
use crate::checkpoint::{self, Description};
use crate::error::{ModelError, Result};
use crate::estimate::Estimate;
use crate::estimator::Estimator;
use crate::fit::holdout::Judge;
use crate::network::labels::QUANTITIES;
use crate::network::{LEAST_MIB, Network, STEPS, Widths};
use crate::settings::OutputSettings;
use crate::strength::Strength;

/// Rows that are run at once.
const ROWS: usize = 256;

/// By how much the logarithms of the bounds rise, in the order of [`LEVELS`](crate::LEVELS), for a workload that is unlike
/// anything measured; in between in proportion to the score.
///
/// The most that any family needed when it was held out whole (GPUMemNet's rows): convolutional networks for the two in
/// the middle, Transformers for the last.
pub const OOD_WIDENING: [f64; 4] = [0.0, 0.05, 0.065, 0.25];

/// A fitted network with everything its use needs.
#[derive(Debug, Clone)]
pub struct Learned {
    description: Description,
    network: Network,
    device: Device,
    name: String,
}

impl Learned {
    pub(crate) fn new(mut description: Description, network: &Network, device: &Device) -> Self {
        let network = network.valid();
        description.parameters = network.num_params();
        let form = match description.settings.output {
            OutputSettings::Regression => "",
            OutputSettings::Bins { .. } => "-bins",
        };
        let name = format!("{}{form}", description.settings.network.name());
        Self { description, network, device: device.clone().inner(), name }
    }

    /// Reads a checkpoint folder.
    ///
    /// # Errors
    /// A folder that is no checkpoint, is damaged, or was made under another feature schema.
    pub fn load(folder: &Path, device: &Device) -> Result<Self> {
        let device = device.clone().inner();
        let (description, network) = checkpoint::load(folder, &device)?;
        Ok(Self::new(description, &network, &device))
    }

    /// A checkpoint from the content of its description and weight files; `origin` names them in errors.
    ///
    /// # Errors
    /// As [`Learned::load`].
    pub fn parse(description: &[u8], weights: Vec<u8>, origin: &Path, device: &Device) -> Result<Self> {
        let device = device.clone().inner();
        let (description, network) = checkpoint::parse(description, weights, origin, &device)?;
        Ok(Self::new(description, &network, &device))
    }

    /// Writes a checkpoint folder.
    ///
    /// # Errors
    /// Files that cannot be written; what stood there before stays.
    pub fn save(&self, folder: &Path) -> Result<()> {
        checkpoint::save(folder, &self.description, &self.network)
    }

    /// Everything but the weights.
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// The network.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// The same estimator without what it learned of single GPUs after its fit.
    #[must_use]
    pub fn unadapted(&self) -> Self {
        let mut learned = self.clone();
        learned.description.adaptations.clear();
        learned
    }

    /// Fits to the GPUs of a few measured samples, with the networks as they are. What was known of these GPUs under
    /// the same label definition and stack is replaced; groups with too few measured rows are passed over.
    ///
    /// # Errors
    /// Samples without [`Adaptation::LEAST_ROWS`] measured rows of any GPU.
    pub fn adapt(&self, samples: &[&Sample]) -> Result<Self> {
        let mut groups: BTreeMap<(&str, Label, Stack), Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            groups.entry((&sample.gpu, sample.label, sample.stack)).or_default().push(sample);
        }
        groups.retain(|_, rows| {
            let measured = rows.iter().filter(|sample| sample.outcome.peak_mib().is_some());
            measured.count() >= Adaptation::LEAST_ROWS
        });
        if groups.is_empty() {
            return Err(ModelError::Data {
                what: "a GPU".into(),
                expected: format!("at least {} measured rows of it", Adaptation::LEAST_ROWS),
                found: format!("fewer among {} rows", samples.len()),
            });
        }
        let mut learned = self.clone();
        for ((gpu, label, stack), rows) in groups {
            let readings = self.readings(&rows);
            let mut hasher = ContentHasher::new();
            for sample in &rows {
                hasher.add(sample);
            }
            let fitted = Adaptation { data_hash: hasher.finish(), ..Adaptation::fit(gpu, label, stack, &readings)? };
            let known = &mut learned.description.adaptations;
            known.retain(|old| (old.gpu.as_str(), old.label, old.stack) != (gpu, label, stack));
            known.push(fitted);
        }
        Ok(learned)
    }

    /// What the networks say of samples, beside what was measured of them: what an [`Adaptation`] is fitted to.
    pub fn readings(&self, samples: &[&Sample]) -> Vec<Reading> {
        let estimates = self.unchanged(samples);
        let reading = |(sample, estimate): (&&Sample, Estimate)| Reading {
            estimate,
            place: self.place(sample),
            architecture: sample.architecture.clone(),
            outcome: sample.outcome,
        };
        samples.iter().zip(estimates).map(reading).collect()
    }

    /// Where a job stands among others.
    fn place(&self, sample: &Sample) -> Place {
        let mut summary = sample.features.summary.clone();
        self.description.scaler.scale_summary(&mut summary);
        Place::new(&summary)
    }

    /// Finds the offsets that make bounds hold on rows which the fit has not seen.
    pub(crate) fn calibrate(&mut self, judges: &[Judge<'_>]) {
        let rows = judges.iter().zip(self.answers_unseen(judges));
        let scores = rows.filter_map(|(judge, answer)| {
            Scores::of(judge.sample, self.log_memory(judge.sample, &answer), answer.steps())
        });
        self.description.calibration = Calibration::of(&scores.collect::<Vec<_>>());
    }

    /// Logarithms of the estimates of rows by what has not seen them, and of their scales, in their order.
    pub(crate) fn medians_unseen(&self, judges: &[Judge<'_>]) -> Vec<(f64, f64)> {
        let rows = judges.iter().zip(self.answers_unseen(judges));
        rows.map(|(judge, answer)| (self.log_memory(judge.sample, &answer), answer.log_scale.unwrap_or_default()))
            .collect()
    }

    /// The logarithm of the estimate, as strong as the fit's corrections are.
    fn log_memory(&self, sample: &Sample, answer: &Answer) -> f64 {
        answer.log_memory_at(self.description.strength.of(&sample.features))
    }

    /// What networks say of rows that they were fitted without, in their order.
    pub(crate) fn answers_unseen(&self, judges: &[Judge<'_>]) -> Vec<Answer> {
        let mut by_member: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for (index, judge) in judges.iter().enumerate() {
            by_member.entry(judge.member).or_default().push(index);
        }
        let mut answers = vec![Answer::default(); judges.len()];
        for (member, rows) in by_member {
            let samples: Vec<&Sample> = rows.iter().map(|&row| judges[row].sample).collect();
            let network = member.map_or_else(|| self.network.clone(), |member| self.network.only(member));
            for (row, answer) in rows.into_iter().zip(self.answers_of(&network, &samples)) {
                answers[row] = answer;
            }
        }
        answers
    }

    /// Estimates before any adaptation.
    fn unchanged(&self, samples: &[&Sample]) -> Vec<Estimate> {
        let estimate = |(sample, answer): (&&Sample, Answer)| {
            let calibration = self.description.calibration.as_ref();
            let log_memory = self.log_memory(sample, &answer);
            let bounds = |calibration: &Calibration| {
                let offsets = calibration.offsets(sample.label, family_of(&sample.features));
                let steps = answer.steps();
                Bounds::from_logarithms(std::array::from_fn(|level| log_memory + steps.at(level, offsets)))
            };
            Estimate {
                peak_memory_mib: Some(log_memory.exp()),
                log_scale: answer.log_scale.map(f64::exp),
                bounds: calibration.map(bounds),
                ood: answer.ood,
                utilisation: std::array::from_fn(|metric| {
                    (self.description.utilisation_rows[metric] > 0).then_some(answer.utilisation[metric])
                }),
            }
        };
        samples.iter().zip(self.answers(samples)).map(estimate).collect()
    }

    /// What the network says of samples, in their order.
    fn answers(&self, samples: &[&Sample]) -> Vec<Answer> {
        self.answers_of(&self.network, samples)
    }

    fn answers_of(&self, network: &Network, samples: &[&Sample]) -> Vec<Answer> {
        let Description { scaler, settings, .. } = &self.description;
        let table = Table::new(samples, scaler, Widths::current(), network.reads_layers(), settings);
        let mut order: Vec<usize> = (0..samples.len()).collect();
        order.sort_by_key(|&row| table.length(row));
        let mut answers = vec![Answer::default(); samples.len()];
        for rows in order.chunks(ROWS) {
            self.run(network, &table, rows, &mut answers);
        }
        for (answer, sample) in answers.iter_mut().zip(samples) {
            answer.ood = self.description.familiarity.score(&sample.features);
        }
        answers
    }

    fn run(&self, network: &Network, table: &Table, rows: &[usize], answers: &mut [Answer]) {
        let outputs = network.forward(&table.batch(rows, &self.device));
        let numbers = |tensor: Tensor<1>| -> Vec<f64> { tensor.into_data().iter::<f32>().map(f64::from).collect() };
        let utilisation = numbers(burn::tensor::activation::sigmoid(outputs.utilisation_logits).flatten(0, 1));
        let memory: Vec<Memory> = match (&self.description.settings.output, outputs.residuals, outputs.bin_logits) {
            (OutputSettings::Bins { width_mib, estimate, .. }, _, Some(logits)) => {
                let classes: Tensor<1, Int> = logits.argmax(1).squeeze_dim(1);
                // A class says no more than its bin: one number stands for it.
                let mib = |class: i64| (class as f64 + estimate.share()) * width_mib;
                classes.into_data().iter::<i64>().map(|class| Memory::Bin { log_mib: mib(class).ln() }).collect()
            }
            (_, Some(residuals), _) => {
                let residuals = numbers(residuals.flatten(0, 1));
                let of_row = |(&row, residuals): (&usize, &[f64])| Memory::Corrected {
                    read_mib: table.read_mib(row),
                    residuals: std::array::from_fn(|quantity| residuals[quantity]),
                };
                rows.iter().zip(residuals.chunks(QUANTITIES)).map(of_row).collect()
            }
            _ => unreachable!("the network was built for its output"),
        };
        let log_scale = outputs.log_scale.map(numbers);
        let log_quantiles = outputs.log_quantiles.map(|quantiles| numbers(quantiles.flatten(0, 1)));
        for (index, &row) in rows.iter().enumerate() {
            answers[row] = Answer {
                memory: memory[index],
                log_scale: log_scale.as_ref().map(|scales| scales[index]),
                // A classifier learns no spread: what calibration finds is the same for all rows.
                log_quantiles: log_quantiles
                    .as_ref()
                    .map_or([0.0; STEPS], |quantiles| std::array::from_fn(|step| quantiles[index * STEPS + step])),
                utilisation: std::array::from_fn(|metric| utilisation[index * 6 + metric]),
                ood: 0.0,
            };
        }
    }
}

/// What a network says of one sample, before calibration.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answer {
    memory: Memory,
    log_scale: Option<f64>,
    log_quantiles: [f64; STEPS],
    utilisation: [f64; 6],
    ood: f64,
}

/// What a network says of memory.
#[derive(Debug, Clone, Copy)]
enum Memory {
    /// What stands for a bin.
    Bin {
        /// Logarithm of its MiB.
        log_mib: f64,
    },
    /// A correction of what was simulated.
    Corrected {
        /// Simulated quantities that the label definition adds up, MiB; 0 of the others.
        read_mib: [f64; QUANTITIES],
        /// Logarithms of measurement over simulation.
        residuals: [f64; QUANTITIES],
    },
}

impl Default for Memory {
    fn default() -> Self {
        Self::Bin { log_mib: 0.0 }
    }
}

impl Answer {
    /// The logarithm of memory if so much of the correction counts.
    pub(crate) fn log_memory_at(&self, strength: Strength) -> f64 {
        match self.memory {
            Memory::Bin { log_mib } => log_mib,
            Memory::Corrected { read_mib, residuals } => {
                let log_sum = |residuals: [f64; QUANTITIES]| {
                    let quantities = read_mib.iter().zip(residuals).map(|(mib, log)| mib * log.exp());
                    quantities.sum::<f64>().max(LEAST_MIB).ln()
                };
                let context = strength.log_context.unwrap_or(residuals[1]);
                strength.of(log_sum([0.0, context, 0.0]), log_sum(residuals))
            }
        }
    }

    fn steps(&self) -> Steps {
        let [p90, p95, p99] = self.log_quantiles;
        Steps { spread: [0.0, p90, p95, p99], widening: OOD_WIDENING.map(|widening| widening * self.ood) }
    }
}

impl Estimator for Learned {
    fn name(&self) -> &str {
        &self.name
    }

    fn estimate(&self, samples: &[&Sample]) -> Vec<Estimate> {
        let adapted = |(sample, estimate): (&&Sample, Estimate)| match self.description.adaptation(
            sample.gpu.as_str(),
            sample.label,
            sample.stack,
        ) {
            Some(adaptation) => adaptation.apply(&estimate, &self.place(sample)),
            None => estimate,
        };
        samples.iter().zip(self.unchanged(samples)).map(adapted).collect()
    }
}
