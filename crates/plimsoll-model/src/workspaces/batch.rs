//! Rows of a workspace table as tensors.

use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_dataset::WorkspaceRow;
use plimsoll_simulate::workspace::{
    FEATURE_COUNT, FORM_COUNT, FORMS, Format, INPUT_COUNT, LOGARITHM_COUNT, NetworkWeights, OUTPUT_COUNT, Operands,
    RAMP_COUNT, features,
};

/// An answer is hit by a form this near, whichever allows more.
const EXACT_BYTES: f64 = 4096.0;
const EXACT_SHARE: f64 = 0.005;
/// Errors up to here do no harm.
const NEAR_BYTES: f64 = (2 << 20) as f64;
const NEAR_SHARE: f64 = 0.1;
/// The cost of a form grows no more beyond this.
const MOST_COST: f64 = 3.0;
/// Rows of small workspaces count half of those of this size and one and a half times less than larger ones.
const WEIGHTY_BYTES: f64 = (64 << 20) as f64;
/// Rows that statistics of the inputs are taken from.
const STATISTIC_ROWS: usize = 65_536;

/// What scales and bends the features: statistics of the training rows.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub(super) means: Vec<f32>,
    pub(super) deviations: Vec<f32>,
    pub(super) knots: Vec<f32>,
}

impl Inputs {
    /// The statistics of rows.
    pub(super) fn of(rows: &[WorkspaceRow]) -> Self {
        let step = rows.len().div_ceil(STATISTIC_ROWS).max(1);
        let table: Vec<_> = rows.iter().step_by(step).map(|row| features(&row.query)).collect();
        let column = |index: usize| table.iter().map(move |row| f64::from(row[index]));
        let count = table.len() as f64;
        let (mut means, mut deviations) = (Vec::new(), Vec::new());
        for index in 0..FEATURE_COUNT {
            let mean = column(index).sum::<f64>() / count;
            let variance = column(index).map(|value| (value - mean).powi(2)).sum::<f64>() / count;
            means.push(mean as f32);
            // A feature that never changes has nothing to be scaled by.
            deviations.push(if variance > 1e-9 { variance.sqrt() as f32 } else { 1.0 });
        }
        let knots = (0..LOGARITHM_COUNT).flat_map(|index| {
            let mut values: Vec<f32> = table.iter().map(|row| row[index]).collect();
            values.sort_by(f32::total_cmp);
            knots(&values)
        });
        Self { means, deviations, knots: knots.collect() }
    }

    pub(super) fn tensor(&self, rows: &[&WorkspaceRow], device: &Device) -> Tensor<2> {
        let mut numbers = Vec::with_capacity(rows.len() * INPUT_COUNT);
        for row in rows {
            NetworkWeights::inputs(&self.means, &self.deviations, &self.knots, &features(&row.query), &mut numbers);
        }
        Tensor::from_data(TensorData::new(numbers, [rows.len(), INPUT_COUNT]), device)
    }
}

/// Rising quantiles of sorted values; where many are alike, further ones beyond the largest fill the number up.
fn knots(sorted: &[f32]) -> [f32; RAMP_COUNT + 1] {
    let last = sorted.len() - 1;
    let mut distinct: Vec<f32> = (0..=RAMP_COUNT).map(|index| sorted[index * last / RAMP_COUNT]).collect();
    distinct.dedup();
    let largest = sorted[last];
    std::array::from_fn(|index| {
        distinct.get(index).copied().unwrap_or_else(|| largest + (index + 1 - distinct.len()) as f32)
    })
}

/// What is known of the forms of each row.
#[derive(Debug, Clone)]
pub(super) struct Targets {
    /// Zero where a form is exact (or the nearest of the row), a large negative number elsewhere, `[b, OUTPUT_COUNT]`.
    pub(super) mask: Tensor<2>,
    /// Error of each form in units of what does no harm, `[b, OUTPUT_COUNT]`.
    pub(super) cost: Tensor<2>,
    /// Weight of each row, `[b]`.
    pub(super) weight: Tensor<1>,
}

impl Targets {
    /// Large enough that such a form has no part in a sum of probabilities.
    const EXCLUDED: f32 = -1e4;

    pub(super) fn of(rows: &[&WorkspaceRow], device: &Device) -> Self {
        let (mut masks, mut costs, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let operands = Operands::of(&row.query.convolution);
            let sizes = FORMS.map(|form| form.bytes(&operands));
            for (bytes, sizes) in [(row.first_bytes, &sizes[..FORM_COUNT]), (row.largest_bytes, &sizes[..])] {
                let errors: Vec<f64> = sizes.iter().map(|&size| size.abs_diff(bytes) as f64).collect();
                let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
                let bytes = bytes as f64;
                let (exact, near) = (EXACT_BYTES.max(EXACT_SHARE * bytes), NEAR_BYTES.max(NEAR_SHARE * bytes));
                let is_hit = |&error: &f64| error <= exact || error == least;
                masks.extend(errors.iter().map(|error| if is_hit(error) { 0.0 } else { Self::EXCLUDED }));
                costs.extend(errors.iter().map(|error| (error / near).min(MOST_COST) as f32));
            }
            weights.push(weight(row));
        }
        let matrix = |numbers| Tensor::from_data(TensorData::new(numbers, [rows.len(), OUTPUT_COUNT]), device);
        let weight = Tensor::from_data(TensorData::new(weights, [rows.len()]), device);
        Self { mask: matrix(masks), cost: matrix(costs), weight }
    }
}

/// Large workspaces matter more, and so does what training mostly is: single precision, channels first.
fn weight(row: &WorkspaceRow) -> f32 {
    let format = match (row.query.format, row.query.is_channels_last) {
        (Format::Tf32, false) => 1.0,
        (Format::Fp16 | Format::Bf16, false) => 0.6,
        _ => 0.3,
    };
    format * (0.5 + 0.5 * (row.first_bytes as f64 / WEIGHTY_BYTES).min(2.0)) as f32
}
