//! Fitting an estimator to another GPU, or another software stack, from a few measured runs.
//!
//! What a new GPU or stack changes most is what context and libraries take: a number of MiB that all jobs share. So
//! the networks stay as they are, and few runs fit two numbers on top of them: `scale · peak + offset`. Which of them
//! is worth having is judged on runs that were left out of it, and so are the new bounds.

mod robust;

use plimsoll_dataset::{Label, Outcome};
use serde::{Deserialize, Serialize};

use self::robust::{Form, Line};
use crate::bounds::{Bounds, LEVELS};
use crate::calibration::conformal_quantile;
use crate::error::{ModelError, Result};
use crate::estimate::Estimate;
use crate::network::labels::parts;

/// No job takes less than this, MiB.
const LEAST_MIB: f64 = 1.0;
/// A more flexible form has to leave less than this share of the error of a simpler one.
const WORTH: f64 = 0.98;
/// Runs are left out one by one up to this many, and in so many parts beyond.
const MOST_PARTS: usize = 100;

/// An estimate beside what became of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// What the estimator says without any adaptation.
    pub estimate: Estimate,
    /// What became of the run.
    pub outcome: Outcome,
}

/// What makes an estimator fit one GPU, read by one label definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptation {
    /// Name of the GPU.
    pub gpu: String,
    /// How the peaks were read that it was fitted to.
    pub label: Label,
    /// What estimates are multiplied by.
    pub scale: f64,
    /// What is added after that, MiB.
    pub offset_mib: f64,
    /// What is added to the logarithms of the bounds in the order of [`LEVELS`], after they have moved with the estimate.
    pub log_bounds: [f64; 4],
    /// Which of the bounds the rows certify: one of `n` rows cannot speak for a level above `n / (n + 1)`. Those that
    /// they do not certify stay at least as wide as they were.
    pub certified: [bool; 4],
    /// Measured rows it was fitted to.
    pub rows: usize,
    /// Rows that ran out of memory: they count for the bounds alone.
    pub censored_rows: usize,
    /// Median absolute error over the rows without it, percent.
    pub error_before_pct: f64,
    /// The same with it, each row judged by what the others say.
    pub error_after_pct: f64,
    /// Fingerprint of the rows.
    #[serde(default)]
    pub data_hash: String,
}

impl Adaptation {
    /// Fewer measured rows than this cannot be told from an accident.
    pub const LEAST_ROWS: usize = 3;

    /// Fits to runs of one GPU, all read alike. Runs of which nothing is known are passed over.
    ///
    /// Three forms compete: the estimate as it is, an offset, and from 20 rows on an offset with a scale. Each is judged
    /// by the mean absolute logarithm of measurement over estimate on rows that were left out of its fit.
    ///
    /// # Errors
    /// Fewer than [`Adaptation::LEAST_ROWS`] measured rows.
    pub fn fit(gpu: &str, label: Label, readings: &[Reading]) -> Result<Self> {
        let usable = |reading: &&Reading| reading.estimate.peak_memory_mib.is_some_and(f64::is_finite);
        let (mut rows, mut censored) = (Vec::new(), Vec::new());
        for reading in readings.iter().filter(usable) {
            match reading.outcome {
                Outcome::Measured { peak_mib } => rows.push((reading.estimate, peak_mib.max(LEAST_MIB))),
                Outcome::OutOfMemory { above_mib } => censored.push((reading.estimate, above_mib.max(LEAST_MIB))),
                Outcome::Unknown => {}
            }
        }
        if rows.len() < Self::LEAST_ROWS {
            return Err(ModelError::Data {
                what: format!("rows of `{gpu}`"),
                expected: format!("at least {} with measured memory", Self::LEAST_ROWS),
                found: rows.len().to_string(),
            });
        }
        let pairs: Vec<(f64, f64)> =
            rows.iter().map(|(estimate, mib)| (estimate.peak_memory_mib.unwrap_or(LEAST_MIB), *mib)).collect();
        let (form, left_out) = best_form(&pairs);
        let line = form.fit(&pairs);
        let mut adaptation = Self {
            gpu: gpu.to_owned(),
            label,
            scale: line.scale,
            offset_mib: line.offset_mib,
            log_bounds: [0.0; 4],
            certified: [false; 4],
            rows: rows.len(),
            censored_rows: censored.len(),
            error_before_pct: median_error_pct(&pairs, |_| Line::UNCHANGED),
            error_after_pct: median_error_pct(&pairs, |row| left_out[row]),
            data_hash: String::new(),
        };
        let judged = rows.iter().zip(&left_out).map(|(row, line)| (row, *line, false));
        let judged: Vec<_> = judged.chain(censored.iter().map(|row| (row, line, true))).collect();
        for (level, share) in LEVELS.into_iter().enumerate() {
            let score = |&((estimate, mib), line, is_censored): &(&(Estimate, f64), Line, bool)| {
                let bounds = moved(estimate, line).bounds?;
                Some((mib.ln() - bounds.to_array()[level].max(LEAST_MIB).ln(), is_censored))
            };
            let scores: Vec<(f64, bool)> = judged.iter().filter_map(score).collect();
            if !scores.iter().any(|(_, is_censored)| !is_censored) {
                continue;
            }
            let needed = conformal_quantile(scores, share);
            let rows = rows.len() as f64;
            adaptation.certified[level] = share <= rows / (rows + 1.0);
            adaptation.log_bounds[level] = if adaptation.certified[level] { needed } else { needed.max(0.0) };
        }
        Ok(adaptation)
    }

    /// Whether it speaks for a reading of a GPU by a label definition: one that adds up the same quantities.
    pub fn speaks_for(&self, gpu: &str, label: Label) -> bool {
        self.gpu == gpu && label != Label::Simulated && parts(self.label) == parts(label)
    }

    /// An estimate as this GPU would have it.
    #[must_use]
    pub fn apply(&self, estimate: &Estimate) -> Estimate {
        let mut estimate = moved(estimate, Line { scale: self.scale, offset_mib: self.offset_mib });
        estimate.bounds = estimate.bounds.map(|bounds| {
            let bounds = bounds.to_array();
            Bounds::from_logarithms(std::array::from_fn(|level| {
                bounds[level].max(LEAST_MIB).ln() + self.log_bounds[level]
            }))
        });
        estimate
    }

    /// Whether its numbers, which may come from a file, can be worked with.
    pub(crate) fn is_sound(&self) -> bool {
        self.scale.is_finite()
            && self.scale > 0.0
            && self.offset_mib.is_finite()
            && self.log_bounds.iter().all(|offset| offset.is_finite())
    }
}

/// An estimate moved by a line; its bounds keep their ratios to it.
fn moved(estimate: &Estimate, line: Line) -> Estimate {
    let Some(before) = estimate.peak_memory_mib else { return *estimate };
    let after = line.at(before);
    let shift = after.ln() - before.max(LEAST_MIB).ln();
    let bounds = estimate
        .bounds
        .map(|bounds| Bounds::from_logarithms(bounds.to_array().map(|mib| mib.max(LEAST_MIB).ln() + shift)));
    Estimate { peak_memory_mib: Some(after), bounds, ..*estimate }
}

/// The form that says most of rows it was not fitted to, with what it says of each such row.
fn best_form(pairs: &[(f64, f64)]) -> (Form, Vec<Line>) {
    let mut best: Option<(f64, Form, Vec<Line>)> = None;
    for form in Form::ALL.into_iter().filter(|form| pairs.len() >= form.least_rows()) {
        let lines = left_out(form, pairs);
        let error = |(&(estimate, mib), line): (&(f64, f64), &Line)| (mib / line.at(estimate)).ln().abs();
        let error = pairs.iter().zip(&lines).map(error).sum::<f64>();
        if best.as_ref().is_none_or(|(least, ..)| error < WORTH * least) {
            best = Some((error, form, lines));
        }
    }
    let (_, form, lines) = best.expect("the estimate as it is needs no rows");
    (form, lines)
}

/// For each row, the line through the other rows.
fn left_out(form: Form, pairs: &[(f64, f64)]) -> Vec<Line> {
    let parts = pairs.len().min(MOST_PARTS);
    let line = |part: usize| {
        let others = pairs.iter().enumerate().filter(|(row, _)| row % parts != part);
        form.fit(&others.map(|(_, pair)| *pair).collect::<Vec<_>>())
    };
    let lines: Vec<Line> = (0..parts).map(line).collect();
    (0..pairs.len()).map(|row| lines[row % parts]).collect()
}

fn median_error_pct(pairs: &[(f64, f64)], line: impl Fn(usize) -> Line) -> f64 {
    let error = |(row, &(estimate, mib)): (usize, &(f64, f64))| 100.0 * (line(row).at(estimate) / mib - 1.0).abs();
    let mut errors: Vec<f64> = pairs.iter().enumerate().map(error).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    if errors.len() % 2 == 1 { errors[middle] } else { f64::midpoint(errors[middle - 1], errors[middle]) }
}

#[cfg(test)]
mod tests;
