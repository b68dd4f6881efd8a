//! Split-conformal calibration: bounds that hold on rows which the fit had not seen.
//!
//! A part of the training groups is kept out of the fit. On it the network's bound at each level either held or missed
//! by some factor; the logarithm of that factor is the row's score. Raising the bound by the right quantile of the
//! scores makes it hold for the promised share of new rows from the same source, whatever the network learned.
//!
//! How far the network's own spread can be trusted is told on the same rows: of the whole of it, parts of it and none, what
//! gives the tightest bounds stays.
//!
//! Families miss in ways of their own: one offset for all would cover exact multilayer perceptrons too often, and
//! convolutions with their workspaces too rarely. So each family gets the offsets of its own rows, where there are enough.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use plimsoll_dataset::{Label, Outcome, Sample};
use plimsoll_features::{FeatureSchema, Features};
use plimsoll_graph::Family;
use serde::{Deserialize, Serialize};

use crate::bounds::{Bounds, LEVELS};

/// Fewer measured rows than this say too little of an upper tail to promise anything.
pub(crate) const LEAST_ROWS: usize = 20;
/// A group with fewer rows than this takes the offsets of a larger one.
const LEAST_GROUP_ROWS: usize = 50;

/// What is added to the logarithms of the network's bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Over all rows.
    pub overall: Offsets,
    /// By label definition, where there are enough rows of it.
    #[serde(default)]
    pub labels: BTreeMap<Label, LabelOffsets>,
}

/// The offsets of one label definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelOffsets {
    /// Over all its rows.
    pub overall: Offsets,
    /// By family, where there are enough rows of it.
    #[serde(default)]
    pub families: BTreeMap<Family, Offsets>,
}

/// The offsets of one group of rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offsets {
    /// Measured rows they were found on.
    pub rows: usize,
    /// Rows that ran out of memory, of which only a lower limit is known.
    pub censored_rows: usize,
    /// Logarithms in the order of [`LEVELS`].
    pub log: [f64; 4],
    /// Share of the network's own steps above its estimate that stands in the bounds.
    #[serde(default = "whole")]
    pub spread: f64,
}

const fn whole() -> f64 {
    1.0
}

/// Shares of the network's own spread that are tried.
const SPREADS: [f64; 5] = [1.0, 0.75, 0.5, 0.25, 0.0];

/// How far a row lay above the network's estimate, and how far its bounds did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scores {
    pub(crate) label: Label,
    pub(crate) family: Family,
    /// Logarithm of truth over estimate; of the lower limit over it for a run out of memory.
    pub(crate) above: f64,
    pub(crate) steps: Steps,
    pub(crate) is_censored: bool,
}

/// How far the bounds of a row lie above its estimate before calibration, as logarithms in the order of [`LEVELS`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Steps {
    /// What the network says itself.
    pub(crate) spread: [f64; 4],
    /// What is added because the row is unlike what was fitted to.
    pub(crate) widening: [f64; 4],
}

impl Steps {
    /// The calibrated step at a level.
    pub(crate) fn at(&self, level: usize, offsets: &Offsets) -> f64 {
        offsets.spread * self.spread[level] + self.widening[level] + offsets.log[level]
    }
}

impl Scores {
    /// A row's scores against the logarithm of an estimate; `None` where nothing is known of its memory.
    pub(crate) fn of(sample: &Sample, log_mib: f64, steps: Steps) -> Option<Self> {
        let (mib, is_censored) = match sample.outcome {
            Outcome::Measured { peak_mib } => (peak_mib, false),
            Outcome::OutOfMemory { above_mib } => (above_mib, true),
            Outcome::Unknown => return None,
        };
        let truth = mib.max(1.0).ln();
        let (label, family) = (sample.label, family_of(&sample.features));
        Some(Self { label, family, above: truth - log_mib, steps, is_censored })
    }
}

impl Calibration {
    /// Offsets from scores; `None` from too few measured rows.
    pub(crate) fn of(scores: &[Scores]) -> Option<Self> {
        let all: Vec<&Scores> = scores.iter().collect();
        let overall = Offsets::of(&all, LEAST_ROWS)?;
        let of_label = |label: Label| {
            let rows: Vec<&Scores> = scores.iter().filter(|row| row.label == label).collect();
            let overall = Offsets::of(&rows, LEAST_GROUP_ROWS)?;
            let of_family = |family: Family| {
                let rows: Vec<&Scores> = rows.iter().copied().filter(|row| row.family == family).collect();
                Some((family, Offsets::of(&rows, LEAST_GROUP_ROWS)?))
            };
            let families = Family::ALL.into_iter().filter_map(of_family).collect();
            Some((label, LabelOffsets { overall, families }))
        };
        Some(Self { overall, labels: Label::ALL.into_iter().filter_map(of_label).collect() })
    }

    /// The offsets for a label definition and a family: of the smallest group that has enough rows.
    pub fn offsets(&self, label: Label, family: Family) -> &Offsets {
        match self.labels.get(&label) {
            None => &self.overall,
            Some(label) => label.families.get(&family).unwrap_or(&label.overall),
        }
    }

    /// Bounds around an estimate that knows no spread of its own: the logarithm of its MiB, raised by the offsets.
    pub(crate) fn around(&self, log_mib: f64, sample: &Sample) -> Bounds {
        let offsets = self.offsets(sample.label, family_of(&sample.features));
        Bounds::from_logarithms(offsets.log.map(|offset| log_mib + offset))
    }

    /// Whether every offset, which may come from a file, is a number.
    pub(crate) fn is_sound(&self) -> bool {
        let of_labels = self.labels.values().flat_map(|label| label.families.values().chain([&label.overall]));
        let is_sound = |offsets: &Offsets| {
            offsets.log.iter().all(|offset| offset.is_finite()) && (0.0..=1.0).contains(&offsets.spread)
        };
        of_labels.chain([&self.overall]).all(is_sound)
    }
}

/// The family that a workload's features name, as exported networks see it: the one whose flag is largest.
pub(crate) fn family_of(features: &Features) -> Family {
    let flags = family_flags();
    let flag = |index: usize| features.summary.get(flags[index]).copied().unwrap_or_default();
    let largest = (1..flags.len()).fold(0, |best, index| if flag(index) > flag(best) { index } else { best });
    Family::ALL[largest]
}

/// Where the flags of the families stand in the summary, in the order of [`Family::ALL`].
///
/// # Panics
/// A feature schema without them, which no build has.
pub fn family_flags() -> &'static [usize] {
    static FLAGS: OnceLock<Vec<usize>> = OnceLock::new();
    let find = || {
        let names = FeatureSchema::current().summary;
        let place = |family: Family| names.iter().position(|name| *name == format!("family_{family}"));
        Family::ALL.into_iter().map(|family| place(family).expect("every family has its flag")).collect()
    };
    FLAGS.get_or_init(find)
}

impl Offsets {
    fn of(rows: &[&Scores], least: usize) -> Option<Self> {
        let measured = rows.iter().filter(|row| !row.is_censored).count();
        if measured < least {
            return None;
        }
        let tried = SPREADS.map(|spread| {
            let offsets = Self::with_spread(rows, measured, spread);
            (offsets, offsets.looseness(rows))
        });
        let tightest = tried.into_iter().reduce(|best, other| if other.1 < best.1 { other } else { best });
        tightest.map(|(offsets, _)| offsets)
    }

    fn with_spread(rows: &[&Scores], measured: usize, spread: f64) -> Self {
        let uncalibrated = Self { rows: measured, censored_rows: rows.len() - measured, log: [0.0; 4], spread };
        let log = std::array::from_fn(|level| {
            let score = |row: &&Scores| (row.above - row.steps.at(level, &uncalibrated), row.is_censored);
            conformal_quantile(rows.iter().map(score).collect(), LEVELS[level])
        });
        Self { log, ..uncalibrated }
    }

    /// Pinball loss of the bounds above the median over measured rows: what they cost where they hold, and how far they
    /// miss where they do not.
    fn looseness(&self, rows: &[&Scores]) -> f64 {
        let of_row = |row: &&&Scores| -> f64 {
            let loss = |level: usize| {
                let gap = row.above - row.steps.at(level, self);
                gap.max(0.0) * LEVELS[level] + (-gap).max(0.0) * (1.0 - LEVELS[level])
            };
            (1..LEVELS.len()).map(loss).sum()
        };
        rows.iter().filter(|row| !row.is_censored).map(|row| of_row(&row)).sum()
    }
}

/// The `ceil((n + 1) level)`-th smallest score.
///
/// Of a run out of memory only a lower limit of the score is known. Its weight is shared among the rows above that
/// limit (Kaplan and Meier's estimate, as Efron describes it), so that what fits a GPU is not mistaken for all there
/// is. Where the level lies beyond the last known score, that score stands for it.
pub(crate) fn conformal_quantile(mut scores: Vec<(f64, bool)>, level: f64) -> f64 {
    // Known scores come before limits of the same size: the run was above the limit.
    scores.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let rows = scores.len();
    // One part in n + 1 belongs to the row to come.
    let (mut weight, mut below) = (1.0 / (rows + 1) as f64, 0.0);
    let mut last = f64::NEG_INFINITY;
    for (index, &(score, is_censored)) in scores.iter().enumerate() {
        if is_censored {
            // The rows that are left, the one to come among them, take over its weight.
            let left = (rows - index) as f64;
            weight *= 1.0 + 1.0 / left;
            continue;
        }
        below += weight;
        last = score;
        if below >= level - 1e-12 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(scores: impl IntoIterator<Item = f64>) -> Vec<(f64, bool)> {
        scores.into_iter().map(|score| (score, false)).collect()
    }

    #[test]
    fn without_limits_it_is_the_conformal_rank() {
        let scores: Vec<f64> = (1..=199).map(f64::from).collect();
        for level in LEVELS {
            let rank = (200.0 * level - 1e-9).ceil();
            assert_eq!(conformal_quantile(known(scores.iter().rev().copied()), level), rank, "{level}");
        }
        assert_eq!(conformal_quantile(known([1.0, 3.0, 2.0]), 0.99), 3.0, "the largest stands for what lies beyond");
    }

    #[test]
    fn a_limit_shares_its_weight_among_the_rows_above_it() {
        // Half of the rows ran out at a low limit: what is left decides alone.
        let mut scores = known((1..=99).map(f64::from));
        scores.extend((0..100).map(|_| (0.5, true)));
        assert_eq!(conformal_quantile(scores, 0.9), conformal_quantile(known((1..=99).map(f64::from)), 0.9));
        // Limits above everything known push the quantile up, and never down.
        let mut scores = known((1..=99).map(f64::from));
        scores.extend((0..20).map(|_| (500.0, true)));
        assert_eq!(conformal_quantile(scores.clone(), 0.5), 60.0);
        assert_eq!(conformal_quantile(scores, 0.95), 99.0);
    }

    #[test]
    fn new_rows_are_covered_as_promised() {
        // A skewed stream; every block of 101 calibrates on 100 and tests the last.
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
            uniform.powi(8)
        };
        let blocks = 4_000;
        for level in [0.5, 0.9, 0.95] {
            let mut covered = 0;
            for _ in 0..blocks {
                let scores = known((0..100).map(|_| draw()));
                covered += usize::from(draw() <= conformal_quantile(scores, level));
            }
            let share = f64::from(covered as u32) / f64::from(blocks);
            assert!((share - level).abs() < 0.015, "{share} for {level}");
        }
    }

    #[test]
    fn groups_with_few_rows_take_the_offsets_of_larger_ones() {
        let row =
            |label, family, above: f64| Scores { label, family, above, steps: Steps::default(), is_censored: false };
        let device = Label::NvidiaSmiDevice;
        let mut scores: Vec<Scores> = (0..200).map(|index| row(device, Family::Mlp, f64::from(index) / 1e4)).collect();
        scores.extend((0..60).map(|_| row(device, Family::Cnn, 0.5)));
        scores.extend((0..40).map(|_| row(device, Family::Transformer, 0.1)));
        scores.extend((0..30).map(|_| row(Label::Reserved, Family::Mlp, 1.0)));
        let calibration = Calibration::of(&scores).expect("enough rows");
        let rows = |label, family| calibration.offsets(label, family).rows;
        assert_eq!((rows(device, Family::Mlp), rows(device, Family::Cnn)), (200, 60));
        assert_eq!((rows(device, Family::Transformer), rows(Label::Reserved, Family::Mlp)), (300, 330));
        assert_eq!(calibration.offsets(device, Family::Cnn).log, [0.5; 4]);
        assert!(Calibration::of(&scores[..LEAST_ROWS - 1]).is_none());
    }

    #[test]
    fn a_spread_counts_as_far_as_rows_bear_it_out() {
        let rows = |is_told: bool| -> Vec<Scores> {
            let row = |index: u32| {
                // Every fifth row spreads ten times as far as the others.
                let width = if index.is_multiple_of(5) { 0.1 } else { 0.01 };
                let told = if is_told { width } else { 0.11 - width };
                let steps = Steps { spread: [0.0, 0.8 * told, 0.9 * told, told], ..Steps::default() };
                let above = width * f64::from(index % 100) / 99.0;
                Scores { label: Label::NvidiaSmiDevice, family: Family::Cnn, above, steps, is_censored: false }
            };
            (0..400).map(row).collect()
        };
        let spread = |is_told| Calibration::of(&rows(is_told)).expect("enough rows").overall.spread;
        assert_eq!((spread(true), spread(false)), (1.0, 0.0));
    }

    #[test]
    fn the_flags_name_the_family() {
        let mut features = Features {
            tokens: Vec::new(),
            layers: Vec::new(),
            summary: vec![0.0; FeatureSchema::current().summary.len()],
            gpu: Vec::new(),
            analytic: plimsoll_features::Analytic::default(),
        };
        for (family, place) in Family::ALL.into_iter().zip(family_flags().iter().copied()) {
            features.summary[place] = 1.0;
            assert_eq!(family_of(&features), family);
            features.summary[place] = 0.0;
        }
    }
}
