//! How strong a fitted correction is: as strong as rows that the fit has not seen bear out.
//!
//! For each family, in cuDNN's benchmark mode and without, corrections are held against weaker ones, down to the
//! simulation with a constant context (with the learned context of each, where GPUs are several), and the one that does
//! best on the rows that judge the fit stays.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_dataset::{Label, Sample};
use plimsoll_graph::Family;

use super::holdout::{Division, Judge};
use crate::calibration::family_of;
use crate::learned::{Answer, Learned};
use crate::network::CONTEXT_RANGE;
use crate::settings::BaseSettings;
use crate::strength::{Strength, Strengths};

/// Shares of the correction that are tried, the whole of it first.
const SHARES: [f64; 5] = [1.0, 0.75, 0.5, 0.25, 0.0];
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
        let tried = SHARES.map(|share| {
            let strength = Strength { share, log_context };
            (strength, mean_error(rows, strength))
        });
        let best = tried.into_iter().reduce(|best, other| if other.1 < best.1 { other } else { best });
        best.map_or(Strength::WHOLE, |(strength, _)| strength)
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

/// Mean error of the logarithm, of each family on each GPU first, then of these: that many runs of one kind are exact says
/// nothing of the others.
fn mean_error(rows: &[&Judged<'_>], strength: Strength) -> f64 {
    let mut groups: BTreeMap<(Family, &str), (f64, usize)> = BTreeMap::new();
    for row in rows {
        let (sum, rows) = groups.entry((row.family, row.sample.gpu.as_str())).or_default();
        *sum += (row.answer.log_memory_at(strength) - row.log_measured).abs().min(LARGEST_ERROR);
        *rows += 1;
    }
    let means = groups.values().map(|(sum, rows)| sum / *rows as f64);
    means.sum::<f64>() / groups.len().max(1) as f64
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
