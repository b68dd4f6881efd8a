//! How well the workspace model tells what cuDNN answers.

use plimsoll_dataset::WorkspaceRow;
use plimsoll_simulate::Direction;
use plimsoll_simulate::workspace::{FORM_COUNT, FORMS, Format, Generation, GpuClass, Operands, WorkspaceModel};
use serde::Serialize;

/// Errors up to this are none.
const EXACT_BYTES: u64 = 4096;
/// Errors up to this do no harm.
const NEAR_BYTES: u64 = 2 << 20;
/// A plan is a spike from this size on, if it takes more than twice input and output.
const SPIKE_BYTES: u64 = 64 << 20;

/// Scores of some rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkspaceScores {
    /// Which rows.
    pub name: String,
    /// How many.
    pub rows: usize,
    /// Share whose likeliest form is exact, or the nearest of all.
    pub form_accuracy: f64,
    /// Share told within 4 KiB or 0.5 %.
    pub exact: f64,
    /// Share told within 2 MiB or 10 %.
    pub near: f64,
    /// Sum of absolute errors over the sum of bytes.
    pub error_share: f64,
    /// Sum of errors over the sum of bytes: above zero where too much is told.
    pub signed_share: f64,
    /// As `near`, of the largest plan.
    pub largest_near: f64,
    /// As `error_share`, of the largest plan.
    pub largest_error_share: f64,
    /// Share whose largest plan is a spike: above 64 MiB, and above twice input and output.
    pub spikes: f64,
    /// Mean probability that the model gives to that.
    pub spikes_expected: f64,
    /// Probability that a row with a spike is given a higher probability than a row without.
    pub spike_auc: f64,
}

/// Sums over rows.
#[derive(Default)]
struct Errors {
    exact: usize,
    near: usize,
    absolute: f64,
    signed: f64,
    bytes: f64,
}

impl Errors {
    fn add(&mut self, told: u64, is: u64) {
        let (error, share) = (told.abs_diff(is), told.abs_diff(is) as f64 / is.max(1) as f64);
        self.exact += usize::from(error <= EXACT_BYTES || share <= 0.005);
        self.near += usize::from(error <= NEAR_BYTES || share <= 0.1);
        self.absolute += error as f64;
        self.signed += told as f64 - is as f64;
        self.bytes += is as f64;
    }
}

impl WorkspaceScores {
    /// Judges a model on rows.
    pub fn of<'a>(name: &str, model: &WorkspaceModel, rows: impl Iterator<Item = &'a WorkspaceRow>) -> Self {
        let (mut count, mut hits) = (0, 0);
        let (mut first, mut largest) = (Errors::default(), Errors::default());
        let (mut spikes, mut calm) = (Vec::new(), Vec::new());
        for row in rows {
            let operands = Operands::of(&row.query.convolution);
            let answer = model.answer(&row.query);
            count += 1;
            hits += usize::from(is_best(answer.first, row.first_bytes, &operands));
            first.add(answer.first, row.first_bytes);
            largest.add(answer.largest, row.largest_bytes);
            let [x, y, _] = operands.plain;
            let limit = x.saturating_add(y).saturating_mul(2).max(SPIKE_BYTES);
            let probability = model.odds(&row.query)[1].above(limit);
            if row.largest_bytes > limit { spikes.push(probability) } else { calm.push(probability) }
        }
        let share = |number: usize| number as f64 / f64::from(count.max(1));
        Self {
            name: name.into(),
            rows: count as usize,
            form_accuracy: share(hits),
            exact: share(first.exact),
            near: share(first.near),
            error_share: first.absolute / first.bytes.max(1.0),
            signed_share: first.signed / first.bytes.max(1.0),
            largest_near: share(largest.near),
            largest_error_share: largest.absolute / largest.bytes.max(1.0),
            spikes: share(spikes.len()),
            spikes_expected: spikes.iter().chain(&calm).sum::<f64>() / f64::from(count.max(1)),
            spike_auc: area(spikes, calm),
        }
    }

    /// Judges a model on rows: all of each direction; then, of single precision with channels first, the A100 under
    /// each generation of cuDNN and every class; then every format. Groups without rows are left out.
    pub fn groups(model: &WorkspaceModel, rows: &[WorkspaceRow]) -> Vec<Self> {
        let is_usual = |row: &&WorkspaceRow| row.query.format == Format::Tf32 && !row.query.is_channels_last;
        let mut all = Vec::new();
        for direction in [Direction::Forward, Direction::DataGradient, Direction::FilterGradient] {
            let name = direction_name(direction);
            let of = |row: &&WorkspaceRow| row.query.convolution.direction == direction;
            all.push(Self::of(name, model, rows.iter().filter(of)));
            for generation in Generation::ALL {
                let is_asked = |row: &&WorkspaceRow| {
                    row.query.class == GpuClass::Ampere && row.query.generation == generation && is_usual(row)
                };
                let name =
                    format!("{name}, A100 fp32, {} cuDNN", if generation == Generation::New { "new" } else { "old" });
                all.push(Self::of(&name, model, rows.iter().filter(of).filter(is_asked)));
            }
        }
        for class in GpuClass::ALL {
            let name = format!("{}, fp32", class.name());
            all.push(Self::of(&name, model, rows.iter().filter(|row| row.query.class == class).filter(is_usual)));
        }
        for (format, name) in [
            (Format::Tf32, "fp32"),
            (Format::Fp32, "fp32 without TF32"),
            (Format::Fp16, "fp16"),
            (Format::Bf16, "bf16"),
        ] {
            for (is_last, layout) in [(false, "nchw"), (true, "nhwc")] {
                let of = |row: &&WorkspaceRow| row.query.format == format && row.query.is_channels_last == is_last;
                all.push(Self::of(&format!("{name} {layout}"), model, rows.iter().filter(of)));
            }
        }
        all.retain(|scores| scores.rows > 0);
        all
    }
}

/// Whether no other form is nearer by more than exactness allows.
fn is_best(told: u64, is: u64, operands: &Operands) -> bool {
    let error = told.abs_diff(is);
    let least = FORMS[..FORM_COUNT].iter().map(|form| form.bytes(operands).abs_diff(is)).min().unwrap_or_default();
    error <= least || error <= EXACT_BYTES.max(is / 200)
}

const fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "forward",
        Direction::DataGradient => "data gradient",
        Direction::FilterGradient => "filter gradient",
    }
}

/// Area under the curve of hits over false alarms, ties counting half; one half where either side is missing.
fn area(mut hits: Vec<f64>, mut others: Vec<f64>) -> f64 {
    if hits.is_empty() || others.is_empty() {
        return 0.5;
    }
    hits.sort_by(f64::total_cmp);
    others.sort_by(f64::total_cmp);
    let (mut below, mut up_to, mut sum) = (0, 0, 0.0);
    for hit in &hits {
        while others.get(below).is_some_and(|other| other < hit) {
            below += 1;
        }
        while others.get(up_to).is_some_and(|other| other <= hit) {
            up_to += 1;
        }
        sum += f64::midpoint(f64::from(below as u32), f64::from(up_to as u32));
    }
    sum / (hits.len() as f64 * others.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_by_hand() {
        assert_eq!(area(vec![0.9, 0.5], vec![0.1, 0.5]), 0.875);
        assert_eq!(area(vec![], vec![0.1]), 0.5);
    }

    #[test]
    fn errors_by_hand() {
        let mut errors = Errors::default();
        errors.add(0, 0);
        errors.add(103 << 20, 100 << 20);
        errors.add(0, 100 << 20);
        assert_eq!((errors.exact, errors.near), (1, 2));
        assert_eq!(errors.absolute / errors.bytes, 103.0 / 200.0);
        assert_eq!(errors.signed / errors.bytes, -97.0 / 200.0);
    }
}
