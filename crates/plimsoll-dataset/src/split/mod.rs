//! Dividing rows into training, validation and test parts.
//!
//! Rows that share a group never straddle two parts, so that an estimator is judged on what it has not seen. What a
//! group is, [`SplitBy`] says. Splits are lists of row indices over light [`SplitKey`]s; the samples themselves may
//! stay in a file.

mod groups;

use plimsoll_graph::Family;
use serde::{Deserialize, Serialize};

use crate::error::{DatasetError, Result};
use crate::sample::Sample;
use groups::Groups;

/// What stays together when rows are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitBy {
    /// Nothing: near-twin rows (one architecture at two batch sizes) may land on both sides. Published figures are
    /// mostly made this way, and they flatter.
    Row,
    /// Rows of one architecture.
    #[default]
    Architecture,
    /// Rows of one architecture family.
    Family,
    /// Rows of one GPU.
    Gpu,
    /// Rows of one shape within a family, such as the residual CNNs.
    Shape,
    /// Rows of one family of models, such as all residual networks, whatever their graphs are taken for. Rows that name no
    /// shape are grouped by architecture.
    ModelFamily,
}

impl SplitBy {
    /// Every way, in order.
    pub const ALL: [Self; 6] = [Self::Row, Self::Architecture, Self::Family, Self::Gpu, Self::Shape, Self::ModelFamily];

    /// The name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Architecture => "architecture",
            Self::Family => "family",
            Self::Gpu => "gpu",
            Self::Shape => "shape",
            Self::ModelFamily => "model_family",
        }
    }

    /// The way of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.name() == name)
    }
}

/// What splits look at of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitKey {
    /// Architecture apart from batch size and setup.
    pub architecture: String,
    /// Architecture family.
    pub family: Family,
    /// Name of the GPU.
    pub gpu: String,
    /// Finer than the family, or empty.
    pub shape: String,
}

impl SplitKey {
    /// The family of models, or the architecture where none is named.
    fn model_family(&self) -> &str {
        if self.shape.is_empty() { &self.architecture } else { &self.shape }
    }
}

impl From<&Sample> for SplitKey {
    fn from(sample: &Sample) -> Self {
        Self {
            architecture: sample.architecture.clone(),
            family: sample.family,
            gpu: sample.gpu.clone(),
            shape: sample.shape.clone(),
        }
    }
}

/// How the validation part is carved out of what is not tested.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Carve {
    /// Share of the rows that are not tested, from 0 up to, but not including, 1.
    pub share: f64,
    /// What stays together. Usually the split's own way; finer where that leaves too few groups, as when one of three
    /// families is held out.
    pub by: SplitBy,
}

/// Rows of each part, as indices in ascending order. Every row is in one part.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Split {
    /// What estimators are fitted to.
    pub training: Vec<usize>,
    /// What decides when fitting stops.
    pub validation: Vec<usize>,
    /// What estimators are judged on.
    pub test: Vec<usize>,
}

impl Split {
    /// How many groups these rows make; none of no rows.
    pub fn groups(keys: &[SplitKey], by: SplitBy) -> usize {
        Groups::new(keys, by, 0..keys.len()).map_or(0, |groups| groups.len())
    }

    /// Divides rows once, by shares of the rows; training takes what validation and test leave.
    ///
    /// Groups are dealt out largest first to the part that lacks most, so that shares come out as close as group
    /// sizes let them. The same keys and seed give the same split.
    ///
    /// # Errors
    /// No rows, shares that leave no training part, and fewer groups than parts.
    pub fn ratio(keys: &[SplitKey], by: SplitBy, validation_share: f64, test_share: f64, seed: u64) -> Result<Self> {
        check_share("validation", validation_share)?;
        check_share("test", test_share)?;
        let training_share = 1.0 - validation_share - test_share;
        if training_share <= 0.0 {
            return Err(DatasetError::Split {
                what: format!("by {}", by.name()),
                expected: "shares that leave a training part".into(),
                found: format!("{validation_share} for validation and {test_share} for test"),
            });
        }
        let groups = Groups::new(keys, by, 0..keys.len())?;
        let [training, validation, test] = groups.deal([training_share, validation_share, test_share], seed)?;
        Ok(Self { training, validation, test })
    }

    /// Divides rows `k` times so that each row is tested exactly once.
    ///
    /// # Errors
    /// No rows, fewer than two folds, and fewer groups than folds or parts.
    pub fn k_fold(keys: &[SplitKey], by: SplitBy, k: usize, validation: Carve, seed: u64) -> Result<Vec<Self>> {
        check_share("validation", validation.share)?;
        if k < 2 {
            return Err(DatasetError::Split {
                what: format!("by {}", by.name()),
                expected: "2 or more folds".into(),
                found: k.to_string(),
            });
        }
        let groups = Groups::new(keys, by, 0..keys.len())?;
        if groups.len() < k {
            return Err(DatasetError::Split {
                what: format!("by {} into {k} folds", by.name()),
                expected: format!("{k} or more groups"),
                found: groups.describe(),
            });
        }
        let folds = groups.deal_many(&vec![1.0 / k as f64; k], seed)?;
        let with_test = |(index, test): (usize, Vec<usize>)| Self::around(keys, test, validation, seed, index);
        folds.into_iter().enumerate().map(with_test).collect()
    }

    /// Holds out each group once; returns the group's name beside its split.
    ///
    /// # Errors
    /// No rows, a single group, and more than [`Split::MAX_LEFT_OUT`] groups: that many fits are never meant.
    pub fn leave_one_out(keys: &[SplitKey], by: SplitBy, validation: Carve, seed: u64) -> Result<Vec<(String, Self)>> {
        check_share("validation", validation.share)?;
        let groups = Groups::new(keys, by, 0..keys.len())?;
        if !(2..=Self::MAX_LEFT_OUT).contains(&groups.len()) {
            return Err(DatasetError::Split {
                what: format!("by {}, leaving one out", by.name()),
                expected: format!("2 to {} groups", Self::MAX_LEFT_OUT),
                found: groups.describe(),
            });
        }
        let with_test = |(index, (name, test)): (usize, (String, Vec<usize>))| {
            Ok((name, Self::around(keys, test, validation, seed, index)?))
        };
        groups.into_named().into_iter().enumerate().map(with_test).collect()
    }

    /// The most groups of which each is left out once.
    pub const MAX_LEFT_OUT: usize = 1_000;

    /// Training and validation parts of everything outside a test part.
    fn around(keys: &[SplitKey], test: Vec<usize>, validation: Carve, seed: u64, fold: usize) -> Result<Self> {
        let mut tested = vec![false; keys.len()];
        for &row in &test {
            tested[row] = true;
        }
        let rest = Groups::new(keys, validation.by, (0..keys.len()).filter(|&row| !tested[row]))?;
        // Each fold draws its own validation part; the odd constant keeps neighbouring seeds apart.
        let fold_seed = seed ^ (fold as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let [training, validation] = rest.deal([1.0 - validation.share, validation.share], fold_seed)?;
        Ok(Self { training, validation, test })
    }
}

fn check_share(part: &str, share: f64) -> Result<()> {
    if (0.0..1.0).contains(&share) {
        return Ok(());
    }
    Err(DatasetError::OutOfRange {
        what: format!("{part} share"),
        expected: "0 up to, but not including, 1".into(),
        found: share.to_string(),
    })
}

#[cfg(test)]
mod tests;
