//! What networks are measured against: boosted trees and analytic quantities, fitted to the same rows.

use anyhow::{Result, bail};
use plimsoll_dataset::Sample;
use plimsoll_model::{Analytic, BoostedFit, Estimator, Fit};

use crate::config::Config;
use crate::{interrupt, progress};

/// A fitted rival.
pub(super) struct Rival {
    pub(super) estimator: Box<dyn Estimator>,
    /// What was fitted, where that is more than a constant.
    pub(super) size_bytes: Option<u64>,
}

/// Fits all rivals that a config asks for. They draw no numbers from generators that fits share, and take seconds, so they
/// need no process of their own.
pub(super) fn fit(config: &Config, training: &[&Sample]) -> Result<Vec<Rival>> {
    let mut rivals = Vec::new();
    for named in &config.boosted {
        if interrupt::is_requested() {
            bail!("interrupted");
        }
        let fit =
            BoostedFit { name: named.name.clone(), settings: named.settings.clone(), calibration: named.calibration };
        let spinner = progress::spinner(&named.name);
        spinner.set_position(training.len() as u64);
        let trees = fit.fit(training, &[]);
        spinner.finish_and_clear();
        let trees = trees?;
        rivals.push(Rival { size_bytes: Some(trees.size_bytes()), estimator: Box::new(trees) });
    }
    if config.baselines {
        rivals.push(Rival { estimator: Box::new(Analytic::Simulated), size_bytes: None });
        for analytic in Analytic::ALL {
            rivals.push(Rival { estimator: Box::new(analytic.fit(training, &[])?), size_bytes: None });
        }
    }
    Ok(rivals)
}
