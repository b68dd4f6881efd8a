//! Rows in groups that stay together, and how groups are dealt out.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{SplitBy, SplitKey};
use crate::error::{DatasetError, Result};

/// Rows by group, in the order of the groups' names.
pub(super) struct Groups {
    by: SplitBy,
    groups: Vec<(String, Vec<usize>)>,
}

impl Groups {
    /// Groups these rows.
    pub(super) fn new(keys: &[SplitKey], by: SplitBy, rows: impl Iterator<Item = usize>) -> Result<Self> {
        let groups: Vec<(String, Vec<usize>)> = if by == SplitBy::Row {
            rows.map(|row| (String::new(), vec![row])).collect()
        } else {
            let mut named = BTreeMap::<(&str, &str), Vec<usize>>::new();
            for row in rows {
                let key = &keys[row];
                let name = match by {
                    SplitBy::Row => unreachable!("handled above"),
                    SplitBy::Architecture => (key.architecture.as_str(), ""),
                    SplitBy::Family => (key.family.name(), ""),
                    SplitBy::Gpu => (key.gpu.as_str(), ""),
                    // Shapes of the same name in two families have nothing in common.
                    SplitBy::Shape => (key.family.name(), key.shape.as_str()),
                    SplitBy::ModelFamily => (key.model_family(), ""),
                };
                named.entry(name).or_default().push(row);
            }
            let joined = |(outer, inner): (&str, &str)| match inner {
                "" => outer.to_owned(),
                _ => format!("{outer}/{inner}"),
            };
            named.into_iter().map(|(name, rows)| (joined(name), rows)).collect()
        };
        if groups.is_empty() {
            return Err(DatasetError::Empty { what: "the data to split".into(), expected: "rows".into() });
        }
        Ok(Self { by, groups })
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// How many groups there are and, if few, which.
    pub(super) fn describe(&self) -> String {
        let names: Vec<&str> = self.groups.iter().map(|(name, _)| name.as_str()).collect();
        match names.len() {
            count if count > 5 || self.by == SplitBy::Row => count.to_string(),
            count => format!("{count} ({})", names.join(", ")),
        }
    }

    /// The groups with their names; rows are named by their index.
    pub(super) fn into_named(self) -> Vec<(String, Vec<usize>)> {
        let mut groups = self.groups;
        if self.by == SplitBy::Row {
            for (name, rows) in &mut groups {
                *name = rows[0].to_string();
            }
        }
        groups
    }

    /// As [`Groups::deal_many`], for a fixed number of parts.
    pub(super) fn deal<const N: usize>(&self, shares: [f64; N], seed: u64) -> Result<[Vec<usize>; N]> {
        let parts = self.deal_many(&shares, seed)?;
        Ok(parts.try_into().expect("as many parts as shares"))
    }

    /// Deals groups out to parts by their shares of the rows. A part with a share above 0 gets a group at least.
    pub(super) fn deal_many(&self, shares: &[f64], seed: u64) -> Result<Vec<Vec<usize>>> {
        let wanted = shares.iter().filter(|&&share| share > 0.0).count();
        if self.len() < wanted {
            return Err(DatasetError::Split {
                what: format!("by {} into {wanted} parts", self.by.name()),
                expected: format!("{wanted} or more groups"),
                found: self.describe(),
            });
        }
        let mut order: Vec<&Vec<usize>> = self.groups.iter().map(|(_, rows)| rows).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        // A stable sort: groups of one size stay shuffled.
        order.sort_by_key(|rows| std::cmp::Reverse(rows.len()));

        let total: usize = order.iter().map(|rows| rows.len()).sum();
        let targets: Vec<f64> = shares.iter().map(|share| share * total as f64).collect();
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); shares.len()];
        let mut unserved = wanted;
        for (dealt, rows) in order.iter().enumerate() {
            let left = order.len() - dealt;
            let lacks = |part: usize| targets[part] - parts[part].len() as f64;
            let eligible = (0..shares.len())
                .filter(|&part| shares[part] > 0.0)
                // The last groups go to parts that have none yet.
                .filter(|&part| left > unserved || parts[part].is_empty());
            let part = eligible.max_by(|&a, &b| lacks(a).total_cmp(&lacks(b)).then(b.cmp(&a)));
            let part = part.expect("a part has a share above 0");
            unserved -= usize::from(parts[part].is_empty());
            parts[part].extend_from_slice(rows);
        }
        for part in &mut parts {
            part.sort_unstable();
        }
        Ok(parts)
    }
}
