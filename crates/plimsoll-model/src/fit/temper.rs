//! How strong a fitted correction is: as strong as rows that the fit has not seen bear out.
//!
//! For each family, in cuDNN's benchmark mode and without, corrections are held against weaker ones, down to the
//! simulation with a constant context (with the learned context of each, where GPUs are several), on the rows that judge
//! the fit. What a correction has to reach to count is set as high as costs nothing there.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_dataset::{Label, Sample};
use plimsoll_graph::Family;

use super::holdout::{Division, Judge};
use crate::calibration::family_of;
use crate::learned::{Answer, Learned};
use crate::network::CONTEXT_RANGE;
use crate::settings::BaseSettings;
use crate::strength::{Strength, Strengths};

/// Shares of the correction that are tried, nothing first.
const SHARES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// Sizes of a correction up to which it is tried as noise, the largest first.
const THRESHOLDS: [f64; 5] = [0.03, 0.02, 0.015, 0.01, 0.0];
/// An error of the logarithm counts up to this: no strength turns a spike into anything else.
const LARGEST_ERROR: f64 = 0.2;
/// A kind with fewer rows takes the strength of all together.
const LEAST_ROWS: usize = 50;

/// A row that judges, by what has not seen it.
struct Judged<'a> {
    sample: &'a Sample,
    family: Family,
    answer: Answer,
    log_measured: f64,
}

/// The strengths that suit best the rows that judge.
pub(super) fn temper(learned: &Learned, division: &Division<'_>) -> Strengths {
    let is_measured = |judge: &&Judge<'_>| judge.sample.outcome.peak_mib().is_some();
    let judges: Vec<Judge<'_>> = division.judges.iter().filter(is_measured).copied().collect();
    let is_simulated = learned.description().settings.base == BaseSettings::Simulation;
    if judges.is_empty() || !is_simulated || learned.description().settings.output.bins().is_some() {
        return Strengths::default();
    }
    let rows: Vec<Judged<'_>> = judges
        .iter()
        .zip(learned.answers_unseen(&judges))
        .filter_map(|(judge, answer)| {
            let log_measured = judge.sample.outcome.peak_mib()?.ln();
            Some(Judged { sample: judge.sample, family: family_of(&judge.sample.features), answer, log_measured })
        })
        .collect();
    // Where GPUs differ so do their contexts, and a constant one is no alternative: what was learned of them stays whole.
    let measured = division.fitted.iter().filter(|row| row.label != Label::Simulated);
    let has_one_gpu = measured.map(|row| row.gpu.as_str()).collect::<BTreeSet<&str>>().len() <= 1;
    let best = |rows: &[&Judged<'_>]| {
        let log_context = has_one_gpu.then(|| constant_context(rows));
        weakest(rows, log_context)
    };
    let of_families = |is_benchmarked: bool| -> BTreeMap<Family, Strength> {
        let of_family = |family: Family| {
            let is_of_kind =
                |row: &&Judged<'_>| row.family == family && row.sample.features.is_benchmarked() == is_benchmarked;
            let rows: Vec<&Judged<'_>> = rows.iter().filter(is_of_kind).collect();
            (rows.len() >= LEAST_ROWS).then(|| (family, best(&rows)))
        };
        Family::ALL.into_iter().filter_map(of_family).collect()
    };
    Strengths {
        overall: best(&rows.iter().collect::<Vec<_>>()),
        families: of_families(false),
        benchmarked: of_families(true),
    }
}

/// The share with the least error, and for it the largest threshold that does as well as any, as far as the rows can tell;
/// nothing at all where that does as well.
///
/// As well means: the mean of what the error has more, row by row, is within one standard error of nothing (the rule by
/// which Breiman and others prune trees, 1984).
fn weakest(rows: &[&Judged<'_>], log_context: Option<f64>) -> Strength {
    let weights = weights(rows);
    let mean = |errors: &[f64]| errors.iter().zip(&weights).map(|(error, weight)| error * weight).sum::<f64>();
    let tried: Vec<(Strength, Vec<f64>)> = SHARES
        .iter()
        .flat_map(|&share| THRESHOLDS.iter().map(move |&threshold| Strength { share, threshold, log_context }))
        .map(|strength| (strength, errors(rows, strength)))
        .collect();
    let Some((best, least)) = tried.iter().min_by(|one, other| mean(&one.1).total_cmp(&mean(&other.1))) else {
        return Strength::WHOLE;
    };
    let does_as_well = |errors: &[f64]| {
        let more: Vec<f64> = errors.iter().zip(least).map(|(error, least)| error - least).collect();
        let excess = mean(&more);
        let variance = more.iter().zip(&weights).map(|(more, weight)| (weight * (more - excess)).powi(2)).sum::<f64>();
        excess <= variance.sqrt()
    };
    let is_candidate = |strength: &Strength| strength.share == 0.0 || strength.share == best.share;
    let weakest = tried.iter().find(|(strength, errors)| is_candidate(strength) && does_as_well(errors));
    weakest.map_or(*best, |(strength, _)| *strength)
}

/// Errors of the logarithm, row by row.
fn errors(rows: &[&Judged<'_>], strength: Strength) -> Vec<f64> {
    let error = |row: &&Judged<'_>| (row.answer.log_memory_at(strength) - row.log_measured).abs().min(LARGEST_ERROR);
    rows.iter().map(error).collect()
}

/// What each row counts for, in sum 1: all families on all GPUs alike, for that many runs of one kind are exact says
/// nothing of the others.
fn weights(rows: &[&Judged<'_>]) -> Vec<f64> {
    let group = |row: &&Judged<'_>| (row.family, row.sample.gpu.clone());
    let mut groups: BTreeMap<(Family, String), usize> = BTreeMap::new();
    for row in rows {
        *groups.entry(group(row)).or_default() += 1;
    }
    let count = groups.len() as f64;
    rows.iter().map(|row| 1.0 / (count * groups[&group(row)] as f64)).collect()
}

/// Logarithm of the median ratio of measured to nominal context, over rows whose reading has a context in it.
fn constant_context(rows: &[&Judged<'_>]) -> f64 {
    let ratio = |row: &&Judged<'_>| {
        let analytic = row.sample.features.analytic;
        let context = row.log_measured.exp() - f64::from(analytic.reserved_mib);
        let has_context = !matches!(row.sample.label, Label::Reserved | Label::Allocated);
        let ratio = context / f64::from(analytic.context_mib);
        (has_context && ratio.is_finite()).then_some(ratio)
    };
    let mut ratios: Vec<f64> = rows.iter().filter_map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
    median.max(f64::MIN_POSITIVE).ln().clamp(-CONTEXT_RANGE, CONTEXT_RANGE)
}
