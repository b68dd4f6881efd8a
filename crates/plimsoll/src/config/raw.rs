//! A config as it stands in its file.

use anyhow::{Result, ensure};
use plimsoll_graph::generator::GeneratorConfig;
use plimsoll_graph::{Family, GpuCatalogue};
use plimsoll_model::{
    BaseSettings, BoostedSettings, CalibrationSettings, DeviceKind, InputSettings, NetworkSettings, OutputSettings,
    Settings, TrainingSettings,
};
use serde::Deserialize;

use super::{
    Config, Data, FoldRule, Folds, GeneratedWorkloads, Grouping, NamedBoosted, NamedSettings, Pretraining, Split,
    expand,
};

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
    /// A stage before the fits.
    pretraining: Option<RawPretraining>,
    #[serde(default)]
    split: RawSplit,
    /// What is kept out of each fit to make its bounds hold.
    #[serde(default)]
    calibration: RawCalibration,
    /// The first network is the one that is exported.
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
    /// Keep utilisation counters that contradict each other.
    #[serde(default)]
    keep_contradictions: bool,
    /// Each repeat of a run is a row; their median is otherwise.
    #[serde(default)]
    all_repeats: bool,
    /// Rows of these GPUs are left out.
    #[serde(default)]
    without_gpus: Vec<String>,
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
    /// Draw from everything: all shapes, optimisers, precisions, kernels and batches.
    #[serde(default)]
    varied: bool,
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
    folds: Option<Folds>,
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
#[serde(deny_unknown_fields, default)]
struct RawCalibration {
    /// Share of the measured training rows; 0 leaves bounds out.
    fraction: f64,
    /// What is never shared with the rest of the training part; by architecture unless the split is by row.
    by: Option<Grouping>,
    seed: u64,
}

impl Default for RawCalibration {
    fn default() -> Self {
        let CalibrationSettings { fraction, seed, .. } = CalibrationSettings::default();
        Self { fraction, by: None, seed }
    }
}

impl RawCalibration {
    /// Families and GPUs are few: holding some of them out would cost the fit too much, so that their architectures are
    /// held out instead.
    fn check(&self, split: Grouping) -> CalibrationSettings {
        let by = self.by.unwrap_or(if split == Grouping::Row { Grouping::Row } else { Grouping::Architecture });
        CalibrationSettings { fraction: self.fraction, by: by.split_by(), seed: self.seed }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEstimator {
    /// Name on the leaderboard; what kind it is if left out.
    name: Option<String>,
    /// Either a network,
    network: Option<NetworkSettings>,
    /// or trees. What follows is of networks.
    boosted: Option<BoostedSettings>,
    inputs: Option<InputSettings>,
    base: Option<BaseSettings>,
    output: Option<OutputSettings>,
    training: Option<TrainingSettings>,
    /// Networks that are fitted side by side and averaged.
    ensemble: Option<usize>,
    /// `false` leaves out the stage before the fits, and its samples beside the measured ones.
    pretraining: Option<bool>,
}

/// An estimator of either kind.
enum Either {
    Network(NamedSettings),
    Boosted(NamedBoosted),
}

impl RawEstimator {
    fn check(self, calibration: CalibrationSettings) -> Result<Either> {
        let Self { name, network, boosted, inputs, base, output, training, ensemble, pretraining } = self;
        let is_plain = inputs.is_none()
            && base.is_none()
            && output.is_none()
            && training.is_none()
            && ensemble.is_none()
            && pretraining.is_none();
        match (network, boosted) {
            (Some(network), None) => {
                let output = output.unwrap_or_default();
                let form = if matches!(output, OutputSettings::Bins { .. }) { "-bins" } else { "" };
                let name = name.unwrap_or_else(|| format!("{}{form}", network.name()));
                let settings = Settings {
                    network,
                    inputs: inputs.unwrap_or_default(),
                    base: base.unwrap_or_default(),
                    output,
                    training: training.unwrap_or_default(),
                    calibration,
                    ensemble: ensemble.unwrap_or(1),
                };
                settings.check()?;
                Ok(Either::Network(NamedSettings { name, settings, is_pretrained: pretraining.unwrap_or(true) }))
            }
            (None, Some(settings)) => {
                ensure!(
                    is_plain,
                    "estimator: expected `inputs`, `base`, `output`, `training`, `ensemble` and `pretraining` with a \
                     network only, found one beside `boosted`"
                );
                settings.check()?;
                let name = name.unwrap_or_else(|| "boosted-trees".to_owned());
                Ok(Either::Boosted(NamedBoosted { name, settings, calibration }))
            }
            _ => anyhow::bail!("estimator: expected either `network` or `boosted`"),
        }
    }
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
        let calibration = self.calibration.check(self.split.by);
        let (mut estimators, mut boosted) = (Vec::new(), Vec::new());
        let mut names: Vec<String> = Vec::new();
        for raw in self.estimator {
            let either = raw.check(calibration)?;
            let (Either::Network(NamedSettings { name, .. }) | Either::Boosted(NamedBoosted { name, .. })) = &either;
            ensure!(is_name(name), "estimator.name: expected letters, digits, `-`, `_` and `.`, found `{name}`");
            ensure!(!names.contains(name), "estimator.name: expected different names, found `{name}` twice");
            names.push(name.clone());
            match either {
                Either::Network(named) => estimators.push(named),
                Either::Boosted(named) => boosted.push(named),
            }
        }
        ensure!(!estimators.is_empty(), "estimator: expected at least one `network`, which is exported, found none");
        ensure!(
            estimators[0].settings.base.is_default(),
            "estimator.base: expected \"simulation\" of the first network, which is exported, found another"
        );
        Ok(Config {
            name: self.name,
            description: self.description,
            device: self.device,
            data: self.data.check()?,
            pretraining: self.pretraining.map(RawPretraining::check).transpose()?,
            split: self.split.check()?,
            estimators,
            boosted,
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

/// Simulated workloads that networks learn from before the measurements, and beside them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPretraining {
    generate: RawGenerate,
    #[serde(default = "RawPretraining::default_epochs")]
    epochs: usize,
    #[serde(default = "RawPretraining::default_learning_rate")]
    learning_rate: f64,
    /// Simulated samples for each measured one in the later fits.
    #[serde(default)]
    mix: f64,
}

impl RawPretraining {
    const fn default_epochs() -> usize {
        10
    }

    const fn default_learning_rate() -> f64 {
        1e-3
    }

    fn check(self) -> Result<Pretraining> {
        let Self { epochs, learning_rate, mix, .. } = self;
        ensure!((1..=10_000).contains(&epochs), "pretraining.epochs: expected 1 to 10000, found {epochs}");
        ensure!(
            (1e-9..=10.0).contains(&learning_rate),
            "pretraining.learning_rate: expected 1e-9 to 10, found {learning_rate}"
        );
        ensure!((0.0..=100.0).contains(&mix), "pretraining.mix: expected 0 to 100, found {mix}");
        Ok(Pretraining { data: self.generate.check("pretraining.generate")?, epochs, learning_rate, mix })
    }
}

impl RawGenerate {
    fn check(self, key: &str) -> Result<GeneratedWorkloads> {
        let count = self.count;
        ensure!((1..=100_000_000).contains(&count), "{key}.count: expected 1 to 100000000, found {count}");
        ensure!(!self.families.is_empty(), "{key}.families: expected at least one, found none");
        ensure!(!self.gpus.is_empty(), "{key}.gpus: expected at least one, found none");
        for gpu in self.gpus.iter().filter(|name| *name != GeneratorConfig::ALL_GPUS) {
            GpuCatalogue::built_in().find(gpu)?;
        }
        let Self { seed, families, gpus, varied, .. } = self;
        Ok(GeneratedWorkloads { count, seed, families, gpus, varied })
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
                    keep_contradictions: self.keep_contradictions,
                    all_repeats: self.all_repeats,
                    without_gpus: self.without_gpus,
                })
            }
            (None, Some(generate)) => Ok(Data::Generated(generate.check("data.generate")?)),
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
        match self.folds {
            Some(Folds::Count(folds)) => {
                ensure!((2..=1000).contains(&folds), "split.folds: expected 2 to 1000, found {folds}");
            }
            Some(Folds::Rule(FoldRule::Each)) => {
                ensure!(self.by != Grouping::Row, "split.folds: expected a number, for a row alone is no fold");
            }
            None => {}
        }
        Ok(Split { by: self.by, folds: self.folds, validation: self.validation, test: self.test, seed: self.seed })
    }
}
