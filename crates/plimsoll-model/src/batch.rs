//! Rows packed for training, and batches gathered from them.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use plimsoll_dataset::{Label, Outcome, Sample, Scaler, Stack, UTILISATION};
use plimsoll_features::FeatureSchema;

use crate::network::Widths;
use crate::network::labels::{self, QUANTITIES};
use crate::settings::{BaseSettings, Settings};

/// Samples as flat host vectors, features already scaled: packed once, gathered every step.
#[derive(Debug, Clone)]
pub struct Table {
    widths: Widths,
    with_layers: bool,
    base: BaseSettings,
    /// Place of the roofline's FP32A in the summary; none where it is not to be seen.
    fp32_place: Option<usize>,
    roofline: Vec<f32>,
    offsets: Vec<usize>,
    tokens: Vec<u16>,
    layers: Vec<f32>,
    summary: Vec<f32>,
    gpu: Vec<f32>,
    simulated_mib: Vec<f32>,
    labels: Vec<Label>,
    stacks: Vec<Stack>,
    only_simulated: bool,
    memory_mib: Vec<f32>,
    is_measured: Vec<bool>,
    is_censored: Vec<bool>,
    utilisation: Vec<f32>,
    has_utilisation: Vec<bool>,
}

impl Table {
    /// Scales and packs samples, as much of them as the settings let a network see. Sequences are left out where none
    /// reads them.
    pub fn new(samples: &[&Sample], scaler: &Scaler, widths: Widths, with_layers: bool, settings: &Settings) -> Self {
        let rows = samples.len();
        let mut table = Self {
            widths,
            with_layers,
            base: settings.base,
            fp32_place: settings.sees_roofline().then(FeatureSchema::fp32_summary),
            roofline: Vec::with_capacity(rows * UTILISATION.len()),
            offsets: vec![0],
            tokens: Vec::new(),
            layers: Vec::new(),
            summary: Vec::with_capacity(rows * widths.summary),
            gpu: Vec::with_capacity(rows * widths.gpu),
            simulated_mib: Vec::with_capacity(rows * QUANTITIES),
            labels: Vec::with_capacity(rows),
            stacks: Vec::with_capacity(rows),
            only_simulated: samples.iter().all(|sample| sample.label == Label::Simulated),
            memory_mib: Vec::with_capacity(rows),
            is_measured: Vec::with_capacity(rows),
            is_censored: Vec::with_capacity(rows),
            utilisation: Vec::with_capacity(rows * 6),
            has_utilisation: Vec::with_capacity(rows * 6),
        };
        for sample in samples {
            table.push(sample, scaler);
        }
        table
    }

    fn push(&mut self, sample: &Sample, scaler: &Scaler) {
        let features = &sample.features;
        if self.with_layers {
            self.tokens.extend(&features.tokens);
            let start = self.layers.len();
            self.layers.extend(&features.layers);
            scaler.scale_layers(&mut self.layers[start..]);
        }
        self.offsets.push(self.tokens.len());
        let start = self.summary.len();
        self.summary.extend(&features.summary);
        scaler.scale_summary(&mut self.summary[start..]);
        let start = self.gpu.len();
        self.gpu.extend(&features.gpu);
        scaler.scale_gpu(&mut self.gpu[start..]);
        self.simulated_mib.extend(self.base.quantities(features.analytic));
        let fp32 = self.fp32_place.map_or(0.0, |place| logit(features.summary[place]));
        self.roofline.extend(ROOFLINE_PARTS.map(|part| part * fp32));
        self.labels.push(sample.label);
        self.stacks.push(sample.stack);
        let (memory, is_measured) = match sample.outcome {
            Outcome::Measured { peak_mib } => (peak_mib, true),
            Outcome::OutOfMemory { above_mib } => (above_mib, false),
            Outcome::Unknown => (1.0, false),
        };
        self.memory_mib.push(memory as f32);
        self.is_measured.push(is_measured);
        self.is_censored.push(sample.outcome.is_censored());
        for ratio in sample.utilisation {
            self.utilisation.push(ratio.unwrap_or_default());
            self.has_utilisation.push(ratio.is_some());
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.memory_mib.len()
    }

    /// Rows in which each utilisation metric was recorded.
    pub fn utilisation_rows(&self) -> [usize; 6] {
        std::array::from_fn(|metric| self.has_utilisation.iter().skip(metric).step_by(6).filter(|has| **has).count())
    }

    /// Simulated quantities of a row that its label definition adds up, MiB; 0 of the others.
    pub(crate) fn read_mib(&self, row: usize) -> [f64; QUANTITIES] {
        let parts = labels::parts(self.labels[row]);
        std::array::from_fn(|quantity| f64::from(self.simulated_mib[row * QUANTITIES + quantity] * parts[quantity]))
    }

    /// Layers of a row.
    pub fn length(&self, row: usize) -> usize {
        self.offsets[row + 1] - self.offsets[row]
    }

    /// Gathers rows into tensors; sequences are padded to the longest of the batch.
    pub fn batch(&self, rows: &[usize], device: &Device) -> Batch {
        let matrix = |source: &[f32], width: usize| {
            let mut data = Vec::with_capacity(rows.len() * width);
            for &row in rows {
                data.extend_from_slice(&source[row * width..(row + 1) * width]);
            }
            Tensor::<2>::from_data(TensorData::new(data, [rows.len(), width]), device)
        };
        Batch {
            summary: matrix(&self.summary, self.widths.summary),
            gpu: matrix(&self.gpu, self.widths.gpu),
            simulated_mib: matrix(&self.simulated_mib, QUANTITIES),
            roofline: matrix(&self.roofline, UTILISATION.len()),
            parts: self.of_labels(rows, labels::parts, device),
            label: self.of_labels(rows, labels::shift, device),
            stack: {
                let data: Vec<f32> = rows.iter().flat_map(|&row| self.stacks[row].numbers()).collect();
                Tensor::from_data(TensorData::new(data, [rows.len(), Stack::NUMBERS.len()]), device)
            },
            sequence: self.with_layers.then(|| self.sequence(rows, device)),
        }
    }

    /// What each row's label definition stands for.
    fn of_labels<const N: usize>(&self, rows: &[usize], of: fn(Label) -> [f32; N], device: &Device) -> Tensor<2> {
        let data: Vec<f32> = rows.iter().flat_map(|&row| of(self.labels[row])).collect();
        Tensor::from_data(TensorData::new(data, [rows.len(), N]), device)
    }

    fn sequence(&self, rows: &[usize], device: &Device) -> Sequence {
        let longest = rows.iter().map(|&row| self.length(row)).max().unwrap_or_default().max(1);
        let (count, width) = (rows.len(), self.widths.layer);
        let mut tokens = vec![0_i32; count * longest];
        let mut numbers = vec![0.0_f32; count * longest * width];
        let mut is_padding = vec![true; count * longest];
        let mut share = vec![0.0_f32; count * longest];
        for (index, &row) in rows.iter().enumerate() {
            let (start, length) = (self.offsets[row], self.length(row));
            let at = index * longest;
            for layer in 0..length {
                tokens[at + layer] = i32::from(self.tokens[start + layer]);
            }
            numbers[at * width..(at + length) * width]
                .copy_from_slice(&self.layers[start * width..(start + length) * width]);
            is_padding[at..at + length].fill(false);
            share[at..at + length].fill(1.0 / length.max(1) as f32);
        }
        Sequence {
            tokens: Tensor::from_data(TensorData::new(tokens, [count, longest]), device),
            numbers: Tensor::from_data(TensorData::new(numbers, [count, longest, width]), device),
            is_padding: Tensor::from_data(TensorData::new(is_padding, [count, longest]), device),
            share: Tensor::from_data(TensorData::new(share, [count, longest, 1]), device),
        }
    }

    /// Gathers the targets of rows.
    pub fn targets(&self, rows: &[usize], device: &Device) -> Targets {
        let column = |value: &dyn Fn(usize) -> f32| {
            let data: Vec<f32> = rows.iter().map(|&row| value(row)).collect();
            Tensor::<1>::from_data(TensorData::new(data, [rows.len()]), device)
        };
        let matrix = |value: &dyn Fn(usize) -> f32| {
            let data: Vec<f32> =
                rows.iter().flat_map(|&row| (0..6).map(move |metric| row * 6 + metric)).map(value).collect();
            Tensor::<2>::from_data(TensorData::new(data, [rows.len(), 6]), device)
        };
        let flag = |condition: bool| f32::from(u8::from(condition));
        let shows_spread = |row: usize| {
            let is_measured = self.labels[row] != Label::Simulated || self.only_simulated;
            is_measured && (self.is_measured[row] || self.is_censored[row])
        };
        Targets {
            log_memory: column(&|row| self.memory_mib[row].max(1.0).ln()),
            memory_mib: rows.iter().map(|&row| self.memory_mib[row]).collect(),
            is_measured: column(&|row| flag(self.is_measured[row])),
            is_censored: column(&|row| flag(self.is_censored[row])),
            shows_spread: column(&|row| flag(shows_spread(row))),
            utilisation: matrix(&|index| self.utilisation[index]),
            has_utilisation: matrix(&|index| flag(self.has_utilisation[index])),
        }
    }
}

/// Which utilisation metrics start from the roofline's FP32A, in the order of [`UTILISATION`].
///
/// It is the rarest of kernels that decide it, and few rows show them. Of how long kernels run at all networks learn more
/// by themselves: started from the roofline, GRACT on held-out convolutional networks fell from R² 0.977 to 0.960.
pub const ROOFLINE_PARTS: [f32; UTILISATION.len()] = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0];

/// The least and the most that the roofline's ratio counts as: its logit stays within what a network can make up for.
pub const ROOFLINE_RANGE: [f32; 2] = [0.002, 0.998];

fn logit(ratio: f32) -> f32 {
    let ratio = ratio.clamp(ROOFLINE_RANGE[0], ROOFLINE_RANGE[1]);
    (ratio / (1.0 - ratio)).ln()
}

/// Inputs of a network.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Scaled summary features, `[b, s]`.
    pub summary: Tensor<2>,
    /// Scaled GPU features, `[b, g]`.
    pub gpu: Tensor<2>,
    /// What the simulator says in MiB, unscaled, `[b, 3]`: reserved by the allocator, context and libraries, alive at
    /// the peak.
    pub simulated_mib: Tensor<2>,
    /// Logits that utilisation starts from, `[b, 6]`: what the roofline says of FP32A, and zero of the others or where a
    /// network is not to see it.
    pub roofline: Tensor<2>,
    /// One for each of these quantities that the label definition adds up, `[b, 3]`.
    pub parts: Tensor<2>,
    /// One for the definition that is not the device-wide reading, `[b, 4]`.
    pub label: Tensor<2>,
    /// The software of each row, in the order of [`Stack::NUMBERS`], `[b, 9]`.
    pub stack: Tensor<2>,
    /// The layer sequence, where the network reads it.
    pub sequence: Option<Sequence>,
}

/// A padded layer sequence.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Tokens, `[b, n]`.
    pub tokens: Tensor<2, Int>,
    /// Scaled numbers, `[b, n, f]`.
    pub numbers: Tensor<3>,
    /// True where a row has ended, `[b, n]`.
    pub is_padding: Tensor<2, Bool>,
    /// One over the row's length inside it, zero in padding, `[b, n, 1]`.
    pub share: Tensor<3>,
}

impl Targets {
    /// The same without rows that a network is not to see: `seen` is one for the others, `[b]`.
    #[must_use]
    pub fn only(&self, seen: Tensor<1>) -> Self {
        Self {
            is_measured: self.is_measured.clone() * seen.clone(),
            is_censored: self.is_censored.clone() * seen.clone(),
            shows_spread: self.shows_spread.clone() * seen.clone(),
            has_utilisation: self.has_utilisation.clone() * seen.unsqueeze_dim(1),
            ..self.clone()
        }
    }
}

/// Targets of a batch, with masks for what is unknown.
#[derive(Debug, Clone)]
pub struct Targets {
    /// Logarithm of peak memory, or of its lower bound, in MiB, `[b]`.
    pub log_memory: Tensor<1>,
    /// The same in MiB, on the host.
    pub memory_mib: Vec<f32>,
    /// One where memory was measured, `[b]`.
    pub is_measured: Tensor<1>,
    /// One where only a lower bound is known, `[b]`.
    pub is_censored: Tensor<1>,
    /// One where a row shows how far truth may lie from the estimate, `[b]`: a simulated row is its own truth and
    /// would teach that there is no spread.
    pub shows_spread: Tensor<1>,
    /// Utilisation ratios, `[b, 6]`.
    pub utilisation: Tensor<2>,
    /// One where a ratio was recorded, `[b, 6]`.
    pub has_utilisation: Tensor<2>,
}
