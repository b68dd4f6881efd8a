//! A config as it stands in its file.

use anyhow::{Result, ensure};
use plimsoll_graph::{Family, GpuCatalogue};
use plimsoll_model::{DeviceKind, NetworkSettings, OutputSettings, Settings, TrainingSettings};
use serde::Deserialize;

use super::{Config, Data, Grouping, NamedSettings, Split, expand};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    /// Name of the experiment and of its default folder.
    name: String,
    /// A sentence for the report.
    #[serde(default)]
    description: String,
    #[serde(default)]
    device: DeviceKind,
    data: RawData,
    #[serde(default)]
    split: RawSplit,
    /// The first is the one that is exported.
    estimator: Vec<RawEstimator>,
    #[serde(default)]
    evaluation: RawEvaluation,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawData {
    files: Option<Vec<String>>,
    format: Option<String>,
    gpu_file: Option<String>,
    generate: Option<RawGenerate>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGenerate {
    count: u64,
    #[serde(default)]
    seed: u64,
    #[serde(default = "all_families")]
    families: Vec<Family>,
    #[serde(default = "default_gpus")]
    gpus: Vec<String>,
}

fn all_families() -> Vec<Family> {
    vec![Family::Mlp, Family::Cnn, Family::Transformer]
}

fn default_gpus() -> Vec<String> {
    vec!["a100-40".into()]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSplit {
    by: Grouping,
    folds: Option<usize>,
    validation: f64,
    test: f64,
    seed: u64,
}

impl Default for RawSplit {
    fn default() -> Self {
        Self { by: Grouping::Architecture, folds: None, validation: 0.1, test: 0.2, seed: 0 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEstimator {
    /// Name on the leaderboard; the network's kind if left out.
    name: Option<String>,
    network: NetworkSettings,
    #[serde(default)]
    output: OutputSettings,
    #[serde(default)]
    training: TrainingSettings,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawEvaluation {
    /// Width of the bins for bin accuracy, MiB.
    bin_width_mib: f64,
    /// Whether tensor sum and live peak, with a fitted constant, are judged too.
    baselines: bool,
    /// Files that no part of training sees.
    held_out: Vec<String>,
}

impl Default for RawEvaluation {
    fn default() -> Self {
        Self { bin_width_mib: 8192.0, baselines: true, held_out: Vec::new() }
    }
}

impl RawConfig {
    pub(super) fn check(self) -> Result<Config> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= 100
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
                && !name.starts_with('.')
        };
        ensure!(is_name(&self.name), "name: expected letters, digits, `-`, `_` and `.`, found `{}`", self.name);
        ensure!(!self.estimator.is_empty(), "estimator: expected at least one, found none");
        let mut estimators: Vec<NamedSettings> = Vec::new();
        for raw in self.estimator {
            let form = if matches!(raw.output, OutputSettings::Bins { .. }) { "-bins" } else { "" };
            let name = raw.name.unwrap_or_else(|| format!("{}{form}", raw.network.name()));
            ensure!(is_name(&name), "estimator.name: expected letters, digits, `-`, `_` and `.`, found `{name}`");
            ensure!(
                estimators.iter().all(|known| known.name != name),
                "estimator.name: expected different names, found `{name}` twice"
            );
            let settings = Settings { network: raw.network, output: raw.output, training: raw.training };
            settings.check()?;
            estimators.push(NamedSettings { name, settings });
        }
        Ok(Config {
            name: self.name,
            description: self.description,
            device: self.device,
            data: self.data.check()?,
            split: self.split.check()?,
            estimators,
            baselines: self.evaluation.baselines,
            bin_width_mib: {
                let width = self.evaluation.bin_width_mib;
                ensure!((1.0..=1e7).contains(&width), "evaluation.bin_width_mib: expected 1 to 1e7, found {width}");
                width
            },
            held_out: self.evaluation.held_out.iter().map(|path| expand(path)).collect::<Result<_>>()?,
        })
    }
}

impl RawData {
    fn check(self) -> Result<Data> {
        match (self.files, self.generate) {
            (Some(files), None) => {
                ensure!(!files.is_empty(), "data.files: expected at least one file, found none");
                Ok(Data::Files {
                    paths: files.iter().map(|path| expand(path)).collect::<Result<_>>()?,
                    format: self.format,
                    gpu_file: self.gpu_file.as_deref().map(expand).transpose()?,
                })
            }
            (None, Some(generate)) => {
                ensure!(
                    (1..=100_000_000).contains(&generate.count),
                    "data.generate.count: expected 1 to 100000000, found {}",
                    generate.count
                );
                ensure!(!generate.families.is_empty(), "data.generate.families: expected at least one, found none");
                ensure!(!generate.gpus.is_empty(), "data.generate.gpus: expected at least one, found none");
                for gpu in &generate.gpus {
                    GpuCatalogue::built_in().find(gpu)?;
                }
                Ok(Data::Generated {
                    count: generate.count,
                    seed: generate.seed,
                    families: generate.families,
                    gpus: generate.gpus,
                })
            }
            _ => anyhow::bail!("data: expected either `files` or `generate`"),
        }
    }
}

impl RawSplit {
    fn check(self) -> Result<Split> {
        ensure!(
            (0.0..=0.9).contains(&self.validation),
            "split.validation: expected 0 to 0.9, found {}",
            self.validation
        );
        ensure!(self.test > 0.0 && self.test <= 0.9, "split.test: expected over 0 to 0.9, found {}", self.test);
        ensure!(
            self.validation + self.test <= 0.95,
            "split: expected at least 5 % for training, found {} for validation and test",
            self.validation + self.test
        );
        if let Some(folds) = self.folds {
            ensure!((2..=1000).contains(&folds), "split.folds: expected 2 to 1000, found {folds}");
        }
        Ok(Split { by: self.by, folds: self.folds, validation: self.validation, test: self.test, seed: self.seed })
    }
}
