//! What a run leaves for its report to be written again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use plimsoll_dataset::{Rejection, Sample};
use plimsoll_evaluation::{DataDescription, Leaderboard, Report, ScoreContext, Section, read_predictions};
use serde::{Deserialize, Serialize};

use super::data::Prepared;
use crate::config::Config;

/// The run, apart from its predictions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::commands) struct RunRecord {
    pub(super) run_id: String,
    name: String,
    description: String,
    config: String,
    pub(super) data: Vec<Part>,
    pub(super) sections: Vec<SectionRecord>,
}

/// A data set of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Part {
    name: String,
    accepted: usize,
    rejected: BTreeMap<String, usize>,
    censored: usize,
    text: String,
}

/// A section of the report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SectionRecord {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) data: String,
    pub(super) split: String,
    pub(super) rejected: usize,
    pub(super) bin_width_mib: f64,
    /// File of the predictions, in the run's folder.
    pub(super) predictions: String,
}

impl SectionRecord {
    /// How its predictions are scored.
    pub(super) fn context(&self) -> ScoreContext {
        ScoreContext {
            rejected: self.rejected,
            bin_width_mib: self.bin_width_mib,
            ..ScoreContext::new(&self.data, &self.split)
        }
    }
}

impl Part {
    pub(super) fn new(name: &str, samples: &[Sample], rejected: &[Rejection]) -> Self {
        let mut reasons = BTreeMap::new();
        for rejection in rejected {
            *reasons.entry(rejection.reason.clone()).or_insert(0) += 1;
        }
        let simulated = samples.iter().any(|sample| sample.label == plimsoll_dataset::Label::Simulated);
        Self {
            name: name.into(),
            accepted: samples.len(),
            rejected: reasons,
            censored: samples.iter().filter(|sample| sample.outcome.is_censored()).count(),
            text: if simulated {
                "Synthetic workloads. Their labels are simulated, not measured: the replay of a training step and a roofline.".into()
            } else {
                String::new()
            },
        }
    }
}

impl RunRecord {
    const FILE: &str = "run.json";

    pub(super) fn new(run_id: String, config: &Config, config_text: String, prepared: &Prepared) -> Self {
        Self {
            run_id,
            name: config.name.clone(),
            description: config.description.clone(),
            config: config_text,
            data: vec![Part::new(&config.name, &prepared.samples, &prepared.rejected)],
            sections: Vec::new(),
        }
    }

    /// Reads the record of a finished run.
    pub(in crate::commands) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(Self::FILE);
        let bytes = std::fs::read(&path)
            .with_context(|| format!("cannot read {}: expected the folder of a finished run", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", folder.join(Self::FILE).display());
        let mut file = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
        file.write_all(&serde_json::to_vec_pretty(self)?).with_context(failed)?;
        file.persist(folder.join(Self::FILE)).with_context(failed)?;
        Ok(())
    }

    /// The report over the predictions in the run's folder.
    pub(in crate::commands) fn report(&self, folder: &Path) -> Result<Report> {
        let sections = self
            .sections
            .iter()
            .map(|section| {
                let predictions = read_predictions(&folder.join(&section.predictions))?;
                Ok(Section {
                    text: section.text.clone(),
                    ..Section::new(&section.title, section.context(), predictions)
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let data = self.data.iter().map(|part| DataDescription {
            name: part.name.clone(),
            text: part.text.clone(),
            accepted: part.accepted,
            rejected: part.rejected.clone(),
            censored: part.censored,
        });
        let title = if self.description.is_empty() {
            format!("Plimsoll: {}", self.name)
        } else {
            format!("Plimsoll: {} — {}", self.name, self.description)
        };
        Ok(Report {
            title,
            run_id: self.run_id.clone(),
            created: None,
            config: self.config.clone(),
            data: data.collect(),
            sections,
            leaderboard: Some(Leaderboard::read(&folder.join("leaderboard.csv"))?),
        })
    }
}
