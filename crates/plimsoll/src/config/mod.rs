//! Experiments: TOML files, read into a raw form and checked whole before any work starts.

mod raw;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plimsoll_graph::Family;
use plimsoll_model::{BoostedSettings, CalibrationSettings, DeviceKind, Settings};
use serde::{Deserialize, Serialize};

use crate::errors::Hint;

/// A checked experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) device: DeviceKind,
    pub(crate) data: Data,
    pub(crate) pretraining: Option<Pretraining>,
    pub(crate) split: Split,
    /// Networks; the first is exported.
    pub(crate) estimators: Vec<NamedSettings>,
    /// Boosted trees beside them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) boosted: Vec<NamedBoosted>,
    pub(crate) baselines: bool,
    pub(crate) bin_width_mib: f64,
    pub(crate) held_out: Vec<PathBuf>,
}

/// An estimator of an experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NamedSettings {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Whether it goes through the stage before the fits, where the experiment has one.
    #[serde(default = "always", skip_serializing_if = "is_always")]
    pub(crate) is_pretrained: bool,
}

const fn always() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_always(value: &bool) -> bool {
    *value
}

/// Boosted trees of an experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NamedBoosted {
    pub(crate) name: String,
    pub(crate) settings: BoostedSettings,
    pub(crate) calibration: CalibrationSettings,
}

/// Where samples come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Data {
    /// Files in any layout that ingest knows.
    Files {
        paths: Vec<PathBuf>,
        format: Option<String>,
        gpu_file: Option<PathBuf>,
        keep_contradictions: bool,
        /// Each repeat of a run is a row; their median is otherwise.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all_repeats: bool,
        /// Rows of these GPUs are left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        without_gpus: Vec<String>,
    },
    /// Synthetic workloads.
    Generated(GeneratedWorkloads),
}

/// Synthetic workloads with simulated labels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GeneratedWorkloads {
    pub(crate) count: u64,
    pub(crate) seed: u64,
    pub(crate) families: Vec<Family>,
    pub(crate) gpus: Vec<String>,
    /// Draw from everything: all shapes, optimisers, precisions, kernels and batches.
    pub(crate) varied: bool,
}

/// A stage before the fits: networks learn from simulated workloads first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pretraining {
    pub(crate) data: GeneratedWorkloads,
    pub(crate) epochs: usize,
    pub(crate) learning_rate: f64,
    /// Simulated samples for each measured one in the later fits.
    pub(crate) mix: f64,
}

/// How rows are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Grouping {
    Row,
    Architecture,
    Family,
    Shape,
    Gpu,
    ModelFamily,
}

impl Grouping {
    pub(crate) const fn split_by(self) -> plimsoll_dataset::SplitBy {
        use plimsoll_dataset::SplitBy;
        match self {
            Self::Row => SplitBy::Row,
            Self::Architecture => SplitBy::Architecture,
            Self::Family => SplitBy::Family,
            Self::Shape => SplitBy::Shape,
            Self::Gpu => SplitBy::Gpu,
            Self::ModelFamily => SplitBy::ModelFamily,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Architecture => "architecture",
            Self::Family => "family",
            Self::Shape => "shape",
            Self::Gpu => "gpu",
            Self::ModelFamily => "model family",
        }
    }
}

/// The folds of a cross-validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of folds, or \"each\"")]
pub(crate) enum Folds {
    /// So many, each of several groups.
    Count(usize),
    /// By another rule than a number.
    Rule(FoldRule),
}

/// Folds whose number follows from the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FoldRule {
    /// One a group: each is left out once.
    Each,
}

/// The division of an experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Split {
    pub(crate) by: Grouping,
    /// Folds of a cross-validation; `None` for one training and one test part.
    pub(crate) folds: Option<Folds>,
    pub(crate) validation: f64,
    pub(crate) test: f64,
    pub(crate) seed: u64,
}

impl Split {
    /// The split in words, as reports name it.
    pub(crate) fn describe(&self) -> String {
        let by = self.by.name();
        let seed = self.seed;
        self.folds.map_or_else(
            || format!("{:.0} % test by {by}, seed {seed}", 100.0 * self.test),
            |folds| match folds {
                Folds::Count(folds) => format!("{folds}-fold by {by}, seed {seed}"),
                Folds::Rule(FoldRule::Each) => format!("each {by} left out, seed {seed}"),
            },
        )
    }
}

impl Config {
    /// The largest config file that is read.
    const MAX_FILE_BYTES: u64 = 1 << 20;

    /// Reads and checks a config file. Relative paths count from the working directory; `${NAME}` stands for an
    /// environment variable.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = plimsoll_graph::json::read_text(path, Self::MAX_FILE_BYTES)?;
        let raw: raw::RawConfig = toml::from_str(&text).map_err(|error| explain(path, &text, &error))?;
        raw.check().with_context(|| format!("{} is not a usable config", path.display()))
    }

    /// The estimator of a name, or the first.
    pub(crate) fn estimator(&self, name: Option<&str>) -> Result<&NamedSettings> {
        match name {
            None => self.estimators.first().context("the config names no estimator"),
            Some(name) => self.estimators.iter().find(|known| known.name == name).with_context(|| {
                let known: Vec<&str> = self.estimators.iter().map(|known| known.name.as_str()).collect();
                format!("no estimator `{name}`: expected one of {}", known.join(", "))
            }),
        }
    }
}

/// A TOML error with its line, and for an unknown key the nearest known one.
fn explain(path: &Path, text: &str, error: &toml::de::Error) -> anyhow::Error {
    let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let message = error.message().trim();
    let described = anyhow::anyhow!("{}, line {line}: {message}", path.display());
    let mut quoted = message.split('`').skip(1).step_by(2);
    match (message.starts_with("unknown field"), quoted.next()) {
        (true, Some(unknown)) => {
            let nearest =
                quoted.max_by(|a, b| strsim::jaro_winkler(unknown, a).total_cmp(&strsim::jaro_winkler(unknown, b)));
            match nearest {
                Some(nearest) => {
                    anyhow::Error::new(Hint(format!("did you mean `{nearest}`?"))).context(described.to_string())
                }
                None => described,
            }
        }
        _ => described,
    }
}

/// Replaces `${NAME}` by the environment's value.
fn expand(path: &str) -> Result<PathBuf> {
    let mut expanded = String::new();
    let mut rest = path;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { bail!("`{path}` has no closing brace") };
        let name = &rest[start + 2..start + length];
        let value = std::env::var(name).map_err(|_| {
            anyhow::Error::new(Hint(format!(
                "data/README.md says where to fetch the data; then set {name} to its folder"
            )))
            .context(format!("`{path}` needs the environment variable {name}, which is not set"))
        })?;
        expanded.push_str(&rest[..start]);
        expanded.push_str(&value);
        rest = &rest[start + length + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), text).expect("written");
        Config::read(file.path())
    }

    const GOOD: &str =
        "name = \"test\"\n[data]\ngenerate = { count = 10 }\n[[estimator]]\nnetwork = { kind = \"mlp\" }\n";

    #[test]
    fn a_small_config_is_complete() {
        let config = read(GOOD).expect("valid");
        assert_eq!(config.estimators[0].name, "mlp");
        assert_eq!(config.split.describe(), "20 % test by architecture, seed 0");
    }

    #[test]
    fn a_typo_is_met_with_the_nearest_key() {
        let error = read(&format!("{GOOD}training = {{ epohcs = 3 }}\n")).expect_err("unknown key");
        let text = format!("{error:#}");
        assert!(text.contains("epohcs") && text.contains("`epochs`") && text.contains("line 6"), "{text}");
    }

    #[test]
    fn numbers_out_of_range_are_refused_before_any_work() {
        for line in [
            "training = { epochs = 0 }",
            "training = { learning_rate = nan }",
            "output = { kind = \"bins\", width_mib = 0.0, count = 5 }",
        ] {
            assert!(read(&format!("{GOOD}{line}\n")).is_err(), "{line}");
        }
        assert!(read(&GOOD.replace("count = 10", "count = 0")).is_err());
        assert!(read(&format!("{GOOD}[split]\nfolds = 1\n")).is_err());
    }

    #[test]
    fn an_estimator_is_a_network_or_trees() {
        let with = |lines: &str| read(&format!("{GOOD}[[estimator]]\n{lines}\n"));
        let config = with("boosted = { on = \"features\", trees = 10 }").expect("valid");
        let trees = &config.boosted[0];
        assert_eq!((trees.name.as_str(), trees.settings.trees, config.estimators.len()), ("boosted-trees", 10, 1));
        for bad in [
            "name = \"neither\"",
            "network = { kind = \"mlp\" }\nboosted = { on = \"features\" }",
            "boosted = { on = \"features\" }\ntraining = { epochs = 3 }",
            "boosted = { on = \"features\", trees = 0 }",
            "boosted = { on = \"nothing\" }",
            "name = \"mlp\"\nboosted = { on = \"features\" }",
        ] {
            assert!(with(bad).is_err(), "{bad}");
        }
        let alone = GOOD.replace("network = { kind = \"mlp\" }", "boosted = { on = \"features\" }");
        assert!(format!("{:#}", read(&alone).expect_err("no network")).contains("exported"));
    }

    #[test]
    fn an_ingredient_may_be_left_out_but_not_of_what_is_exported() {
        let second = "[[estimator]]\nname = \"without\"\nnetwork = { kind = \"mlp\" }\n";
        let config = read(&format!("{GOOD}{second}base = \"torchinfo\"\npretraining = false\n")).expect("valid");
        assert!(config.estimators[0].is_pretrained && !config.estimators[1].is_pretrained);
        let error = format!("{:#}", read(&format!("{GOOD}base = \"torchinfo\"\n")).expect_err("exported"));
        assert!(error.contains("first network"), "{error}");
    }

    #[test]
    fn each_group_may_be_left_out_once() {
        let split = |lines: &str| read(&format!("{GOOD}[split]\n{lines}\n"));
        let config = split("by = \"gpu\"\nfolds = \"each\"").expect("valid");
        assert_eq!(config.split.describe(), "each gpu left out, seed 0");
        let config = split("by = \"model_family\"\nfolds = 5").expect("valid");
        assert_eq!(config.split.describe(), "5-fold by model family, seed 0");
        assert!(split("folds = \"all\"").is_err());
        assert!(split("by = \"row\"\nfolds = \"each\"").is_err());
    }

    #[test]
    fn a_missing_variable_is_named() {
        let text = GOOD.replace("generate = { count = 10 }", "files = [\"${PLIMSOLL_NO_SUCH_VARIABLE}/x.csv\"]");
        let error = format!("{:#}", read(&text).expect_err("not set"));
        assert!(error.contains("PLIMSOLL_NO_SUCH_VARIABLE"), "{error}");
    }
}
