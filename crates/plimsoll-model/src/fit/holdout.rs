//! The part of the training rows that calibrates bounds.

use plimsoll_dataset::{Label, Sample, Split, SplitKey};

use crate::calibration::LEAST_ROWS;
use crate::error::Result;
use crate::settings::CalibrationSettings;

/// Training rows in two parts: what is fitted to, and what calibrates.
///
/// Simulated rows that accompany measured ones are always fitted to: bounds are about measurements. Where too few
/// measured rows or groups would be left to calibrate on, everything is fitted to.
pub(crate) fn divide<'a>(
    training: &[&'a Sample],
    settings: CalibrationSettings,
) -> Result<(Vec<&'a Sample>, Vec<&'a Sample>)> {
    let only_simulated = training.iter().all(|sample| sample.label == Label::Simulated);
    let (candidates, company): (Vec<&Sample>, Vec<&Sample>) =
        training.iter().partition(|sample| only_simulated || sample.label != Label::Simulated);
    let everything = || (training.to_vec(), Vec::new());
    let keys: Vec<SplitKey> = candidates.iter().map(|sample| SplitKey::from(*sample)).collect();
    if settings.fraction == 0.0 || Split::groups(&keys, settings.by) < LEAST_GROUPS {
        return Ok(everything());
    }
    let split = Split::ratio(&keys, settings.by, 0.0, settings.fraction, settings.seed)?;
    let pick = |rows: &[usize]| -> Vec<&'a Sample> { rows.iter().map(|&row| candidates[row]).collect() };
    let (mut fitted, calibration) = (pick(&split.training), pick(&split.test));
    let measured = |rows: &[&Sample]| rows.iter().filter(|sample| sample.outcome.peak_mib().is_some()).count();
    if measured(&calibration) < LEAST_ROWS || measured(&fitted) == 0 {
        return Ok(everything());
    }
    fitted.extend(company);
    Ok((fitted, calibration))
}

/// With fewer groups than this, the part kept out would be one or two of them.
const LEAST_GROUPS: usize = 10;
