//! The part of the training rows that judges a fit: that calibrates bounds and tempers corrections.
//!
//! A single network gives up a share of its rows for that. Of an ensemble each network is fitted without another part
//! and judged on that part, so that all rows are fitted to by most of the networks and all rows judge.

use plimsoll_dataset::{Carve, Label, Sample, Split, SplitKey};

use crate::calibration::LEAST_ROWS;
use crate::error::Result;
use crate::settings::CalibrationSettings;

/// Training rows by what they are for.
pub(crate) struct Division<'a> {
    /// What is fitted to.
    pub(crate) fitted: Vec<&'a Sample>,
    /// For each of these, the network of an ensemble that does not see it.
    pub(crate) hidden_from: Vec<Option<usize>>,
    /// What judges.
    pub(crate) judges: Vec<Judge<'a>>,
}

/// A row that judges a fit.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    /// The row.
    pub(crate) sample: &'a Sample,
    /// The network that was fitted without it; `None` where none has seen it.
    pub(crate) member: Option<usize>,
}

impl<'a> Division<'a> {
    fn without_judges(training: &[&'a Sample]) -> Self {
        Self { fitted: training.to_vec(), hidden_from: vec![None; training.len()], judges: Vec::new() }
    }
}

/// Divides training rows for so many networks.
///
/// Simulated rows that accompany measured ones are always fitted to: bounds are about measurements. Where too few
/// measured rows or groups would be left to judge, everything is fitted to.
pub(crate) fn divide<'a>(
    training: &[&'a Sample],
    settings: CalibrationSettings,
    networks: usize,
) -> Result<Division<'a>> {
    let only_simulated = training.iter().all(|sample| sample.label == Label::Simulated);
    let (candidates, company): (Vec<&Sample>, Vec<&Sample>) =
        training.iter().partition(|sample| only_simulated || sample.label != Label::Simulated);
    let keys: Vec<SplitKey> = candidates.iter().map(|sample| SplitKey::from(*sample)).collect();
    if settings.fraction == 0.0 || Split::groups(&keys, settings.by) < LEAST_GROUPS.max(networks) {
        return Ok(Division::without_judges(training));
    }
    let division = match networks {
        1 => apart(&candidates, &keys, &company, settings)?,
        _ => crossed(&candidates, &keys, &company, settings, networks)?,
    };
    let measured =
        |rows: &mut dyn Iterator<Item = &Sample>| rows.filter(|row| row.outcome.peak_mib().is_some()).count();
    let judges = measured(&mut division.judges.iter().map(|judge| judge.sample));
    if judges < LEAST_ROWS || measured(&mut division.fitted.iter().copied()) == 0 {
        return Ok(Division::without_judges(training));
    }
    Ok(division)
}

/// A share of the candidates judges, the rest is fitted to.
fn apart<'a>(
    candidates: &[&'a Sample],
    keys: &[SplitKey],
    company: &[&'a Sample],
    settings: CalibrationSettings,
) -> Result<Division<'a>> {
    let split = Split::ratio(keys, settings.by, 0.0, settings.fraction, settings.seed)?;
    let pick = |rows: &[usize]| rows.iter().map(|&row| candidates[row]).collect::<Vec<&'a Sample>>();
    let fitted = [pick(&split.training), company.to_vec()].concat();
    let judges = pick(&split.test).into_iter().map(|sample| Judge { sample, member: None }).collect();
    Ok(Division { hidden_from: vec![None; fitted.len()], fitted, judges })
}

/// Every candidate is hidden from one network, which it judges.
fn crossed<'a>(
    candidates: &[&'a Sample],
    keys: &[SplitKey],
    company: &[&'a Sample],
    settings: CalibrationSettings,
    networks: usize,
) -> Result<Division<'a>> {
    let none = Carve { share: 0.0, by: settings.by };
    let parts = Split::k_fold(keys, settings.by, networks, none, settings.seed)?;
    let mut hidden_from = vec![None; candidates.len() + company.len()];
    let mut judges = Vec::with_capacity(candidates.len());
    for (member, part) in parts.iter().enumerate() {
        for &row in &part.test {
            hidden_from[row] = Some(member);
            judges.push(Judge { sample: candidates[row], member: Some(member) });
        }
    }
    Ok(Division { fitted: [candidates, company].concat(), hidden_from, judges })
}

/// With fewer groups than this, the part kept out would be one or two of them.
const LEAST_GROUPS: usize = 10;
