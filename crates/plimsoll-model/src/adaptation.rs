//! Fitting an estimator to another GPU, or another software stack, from a few measured runs.
//!
//! What a new GPU or stack changes most is what context and libraries take: a number of MiB that all jobs share. So
//! the networks stay as they are, and few runs fit two numbers on top of them: `scale · peak + offset`. What that leaves
//! of a job is carried over to jobs like it ([`Neighbours`]). Which of this is worth having is judged on runs that were
//! left out of it, and so are the new bounds.

mod neighbours;
mod robust;

use std::collections::HashMap;

use plimsoll_dataset::{Label, Outcome, Stack};
use serde::{Deserialize, Serialize};

pub use self::neighbours::{Neighbour, Neighbours, Place};
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
/// Networks, or runs, are left out one by one up to this many, and in so many parts beyond.
const MOST_PARTS: usize = 100;
/// Of fewer networks than this, the others do not tell what is common to all.
const LEAST_NETWORKS: usize = 3;

/// An estimate beside what became of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What the estimator says without any adaptation.
    pub estimate: Estimate,
    /// Where the job stands among others.
    pub place: Place,
    /// The network, which runs at several batches share.
    pub architecture: String,
    /// What became of the run.
    pub outcome: Outcome,
}

/// What makes an estimator fit one GPU on one software stack, read by one label definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptation {
    /// Name of the GPU.
    pub gpu: String,
    /// How the peaks were read that it was fitted to.
    pub label: Label,
    /// The software that the runs used.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub stack: Stack,
    /// What estimates are multiplied by.
    pub scale: f64,
    /// What is added after that, MiB.
    pub offset_mib: f64,
    /// What is added to the logarithms of the bounds in the order of [`LEVELS`], after they have moved with the estimate.
    pub log_bounds: [f64; 4],
    /// Which of the bounds the runs certify: those of `n` networks cannot speak for a level above `n / (n + 1)`. Those that
    /// they do not certify stay at least as wide as they were.
    pub certified: [bool; 4],
    /// What the runs say of jobs like them, beyond what all have in common; `None` where they say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Neighbours>,
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

    /// Fits to runs of one GPU on one stack, all read alike. Runs of which nothing is known are passed over.
    ///
    /// Three forms compete: the estimate as it is, an offset, and from 20 rows on an offset with a scale. Each is judged
    /// by the mean absolute logarithm of measurement over estimate on networks that were left out of its fit, whole, for
    /// that is what a line is for; with fewer than three networks on single runs. What runs say of jobs like them is judged
    /// on both.
    ///
    /// # Errors
    /// Fewer than [`Adaptation::LEAST_ROWS`] measured rows.
    pub fn fit(gpu: &str, label: Label, stack: Stack, readings: &[Reading]) -> Result<Self> {
        let usable = |reading: &&Reading| reading.estimate.peak_memory_mib.is_some_and(f64::is_finite);
        let (mut rows, mut censored) = (Vec::new(), Vec::new());
        for reading in readings.iter().filter(usable) {
            let row = |mib: f64| Row {
                estimate: reading.estimate,
                place: &reading.place,
                architecture: &reading.architecture,
                mib: mib.max(LEAST_MIB),
            };
            match reading.outcome {
                Outcome::Measured { peak_mib } => rows.push(row(peak_mib)),
                Outcome::OutOfMemory { above_mib } => censored.push(row(above_mib)),
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
        let pairs: Vec<(f64, f64)> = rows.iter().map(|row| (row.peak_mib(), row.mib)).collect();
        let networks = networks(&rows);
        let (form, left_out) = best_form(&pairs, &parts_of(&networks));
        let line = form.fit(&pairs);
        // Of measured rows, what was learned without them; of others, what was learned of all.
        let mut moves: Vec<Move> = left_out.into_iter().map(|line| Move { line, log_factor: 0.0 }).collect();
        let error_before_pct = median_error_pct(&pairs, |_| Move::NONE);
        let judge = |moves: &[Move], neighbours: Option<&Neighbours>, independent: usize| {
            let censored = censored.iter().map(|row| {
                let log_factor = neighbours.map_or(0.0, |neighbours| neighbours.at(row.place).0);
                (row, Move { line, log_factor }, true)
            });
            let measured = rows.iter().zip(moves).map(|(row, moved)| (row, *moved, false));
            log_bounds(&measured.chain(censored).collect::<Vec<_>>(), independent)
        };
        let count = networks.iter().max().map_or(0, |last| last + 1);
        let (log_bounds, certified) = judge(&moves, None, count);
        let places: Vec<&Place> = rows.iter().map(|row| row.place).collect();
        let misses: Vec<f64> = pairs.iter().map(|pair| line.log_miss(*pair)).collect();
        let neighbours = Neighbours::fit(&places, &networks, &misses, WORTH).map(|fitted| {
            moves = fitted.left_out.iter().map(|&log_factor| Move { line, log_factor }).collect();
            let (log_bounds, _) = judge(&moves, Some(&fitted.neighbours), rows.len());
            Neighbours { log_bounds, ..fitted.neighbours }
        });
        Ok(Self {
            gpu: gpu.to_owned(),
            label,
            stack,
            scale: line.scale,
            offset_mib: line.offset_mib,
            log_bounds,
            certified,
            neighbours,
            rows: rows.len(),
            censored_rows: censored.len(),
            error_before_pct,
            error_after_pct: median_error_pct(&pairs, |row| moves[row]),
            data_hash: String::new(),
        })
    }

    /// Whether it speaks for a reading of a GPU by a label definition that adds up the same quantities, on software that may
    /// be the same.
    pub fn speaks_for(&self, gpu: &str, label: Label, stack: Stack) -> bool {
        self.gpu == gpu
            && label != Label::Simulated
            && parts(self.label) == parts(label)
            && self.stack.agrees_with(stack)
    }

    /// An estimate as this GPU would have it, of a job at a place.
    ///
    /// Bounds are those of the runs as far as the job is like one of them, and those of a job like none for the rest.
    #[must_use]
    pub fn apply(&self, estimate: &Estimate, place: &Place) -> Estimate {
        let line = Line { scale: self.scale, offset_mib: self.offset_mib };
        let (log_factor, nearest) = self.neighbours.as_ref().map_or((0.0, 0.0), |neighbours| neighbours.at(place));
        let near = self.neighbours.as_ref().map_or(self.log_bounds, |neighbours| neighbours.log_bounds);
        let mut estimate = Move { line, log_factor }.of(estimate);
        estimate.bounds = estimate.bounds.map(|bounds| {
            let bounds = bounds.to_array();
            Bounds::from_logarithms(std::array::from_fn(|level| {
                let log_bound = nearest * near[level] + (1.0 - nearest) * self.log_bounds[level];
                bounds[level].max(LEAST_MIB).ln() + log_bound
            }))
        });
        estimate
    }

    /// Whether its numbers, which may come from a file, can be worked with.
    pub(crate) fn is_sound(&self, features: usize) -> bool {
        self.neighbours.as_ref().is_none_or(|neighbours| neighbours.is_sound(features))
            && (0.01..=100.0).contains(&self.scale)
            && self.offset_mib.abs() <= 1e9
            && are_sound(&self.log_bounds)
    }
}

/// Whether these are logarithms of factors: of more than e to the 100 none is.
fn are_sound(log_bounds: &[f64; 4]) -> bool {
    log_bounds.iter().all(|log_bound| log_bound.abs() <= 100.0)
}

fn is_unknown(stack: &Stack) -> bool {
    stack.is_unknown()
}

/// A run that counts, with what was measured or known to be exceeded, MiB.
struct Row<'a> {
    estimate: Estimate,
    place: &'a Place,
    architecture: &'a str,
    mib: f64,
}

impl Row<'_> {
    fn peak_mib(&self) -> f64 {
        self.estimate.peak_memory_mib.unwrap_or(LEAST_MIB)
    }
}

/// What becomes of an estimate.
#[derive(Clone, Copy)]
struct Move {
    line: Line,
    /// What neighbours add to its logarithm.
    log_factor: f64,
}

impl Move {
    const NONE: Self = Self { line: Line::UNCHANGED, log_factor: 0.0 };

    fn at(self, mib: f64) -> f64 {
        (self.line.at(mib) * self.log_factor.exp()).max(LEAST_MIB)
    }

    /// An estimate moved; its bounds keep their ratios to it.
    fn of(self, estimate: &Estimate) -> Estimate {
        let Some(before) = estimate.peak_memory_mib else { return *estimate };
        let after = self.at(before);
        let shift = after.ln() - before.max(LEAST_MIB).ln();
        let bounds = estimate
            .bounds
            .map(|bounds| Bounds::from_logarithms(bounds.to_array().map(|mib| mib.max(LEAST_MIB).ln() + shift)));
        Estimate { peak_memory_mib: Some(after), bounds, ..*estimate }
    }
}

/// What the logarithms of moved bounds lack at each level on rows, the last of each triple saying whether it ran out of
/// memory, and which levels so many independent scores certify.
fn log_bounds(judged: &[(&Row<'_>, Move, bool)], independent: usize) -> ([f64; 4], [bool; 4]) {
    let (mut log_bounds, mut certified) = ([0.0; 4], [false; 4]);
    for (level, share) in LEVELS.into_iter().enumerate() {
        let score = |(row, moved, is_censored): &(&Row<'_>, Move, bool)| {
            let bounds = moved.of(&row.estimate).bounds?;
            Some((row.mib.ln() - bounds.to_array()[level].max(LEAST_MIB).ln(), *is_censored))
        };
        let scores: Vec<(f64, bool)> = judged.iter().filter_map(score).collect();
        if !scores.iter().any(|(_, is_censored)| !is_censored) {
            continue;
        }
        let needed = conformal_quantile(scores, share);
        let independent = independent as f64;
        certified[level] = share <= independent / (independent + 1.0);
        log_bounds[level] = if certified[level] { needed } else { needed.max(0.0) };
    }
    (log_bounds, certified)
}

/// The form that says most of rows it was not fitted to, with what it says of each such row.
fn best_form(pairs: &[(f64, f64)], parts: &[usize]) -> (Form, Vec<Line>) {
    let mut best: Option<(f64, Form, Vec<Line>)> = None;
    for form in Form::ALL.into_iter().filter(|form| pairs.len() >= form.least_rows()) {
        let lines = left_out(form, pairs, parts);
        let error = |(&pair, line): (&(f64, f64), &Line)| line.log_miss(pair).abs();
        let error = pairs.iter().zip(&lines).map(error).sum::<f64>();
        if best.as_ref().is_none_or(|(least, ..)| error < WORTH * least) {
            best = Some((error, form, lines));
        }
    }
    let (_, form, lines) = best.expect("the estimate as it is needs no rows");
    (form, lines)
}

/// For each row, the line through the rows of other parts.
fn left_out(form: Form, pairs: &[(f64, f64)], parts: &[usize]) -> Vec<Line> {
    let line = |part: usize| {
        let others = pairs.iter().zip(parts).filter(|(_, of)| **of != part);
        form.fit(&others.map(|(pair, _)| *pair).collect::<Vec<_>>())
    };
    let count = parts.iter().max().map_or(0, |last| last + 1);
    let lines: Vec<Line> = (0..count).map(line).collect();
    parts.iter().map(|&part| lines[part]).collect()
}

/// The network of each row, as a number.
fn networks(rows: &[Row<'_>]) -> Vec<usize> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut place = |architecture| {
        let next = places.len();
        *places.entry(architecture).or_insert(next)
    };
    rows.iter().map(|row| place(row.architecture)).collect()
}

/// The part that each row is left out with: its network's where there are enough of them, or its own.
fn parts_of(networks: &[usize]) -> Vec<usize> {
    let count = networks.iter().max().map_or(0, |last| last + 1);
    let of_row = |(row, network): (usize, &usize)| if count >= LEAST_NETWORKS { *network } else { row };
    networks.iter().enumerate().map(of_row).map(|part| part % MOST_PARTS).collect()
}

fn median_error_pct(pairs: &[(f64, f64)], moved: impl Fn(usize) -> Move) -> f64 {
    let error = |(row, &(estimate, mib)): (usize, &(f64, f64))| 100.0 * (moved(row).at(estimate) / mib - 1.0).abs();
    let mut errors: Vec<f64> = pairs.iter().enumerate().map(error).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    if errors.len() % 2 == 1 { errors[middle] } else { f64::midpoint(errors[middle - 1], errors[middle]) }
}

#[cfg(test)]
mod tests;
