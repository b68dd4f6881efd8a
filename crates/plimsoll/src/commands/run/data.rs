//! The samples of a run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use plimsoll_dataset::{IngestOptions, Label, Loaded, Rejection, Sample, SampleWriter, content_hash, load_samples};
use plimsoll_model::DataDescription;
use rayon::prelude::*;

use crate::commands::{generate, source};
use crate::config::{Config, Data, GeneratedWorkloads};
use crate::{interrupt, progress};

/// Samples ready to be split.
pub(super) struct Prepared {
    pub(super) samples: Vec<Sample>,
    pub(super) rejected: Vec<Rejection>,
    pub(super) hash: String,
}

impl Prepared {
    /// Reads or generates what the config names.
    pub(super) fn load(config: &Config) -> Result<Self> {
        match &config.data {
            Data::Files { paths, format, gpu_file, keep_contradictions, all_repeats, without_gpus } => {
                let options = IngestOptions {
                    keeps_contradictions: *keep_contradictions,
                    all_repeats: *all_repeats,
                    ..IngestOptions::default()
                };
                let mut loaded = load_files(paths, format.as_deref(), gpu_file.as_deref(), &options)?;
                if !without_gpus.is_empty() {
                    loaded.samples.retain(|sample| !without_gpus.contains(&sample.gpu));
                    loaded.hash = content_hash(&loaded.samples);
                }
                Ok(Self { samples: loaded.samples, rejected: loaded.rejected, hash: loaded.hash })
            }
            Data::Generated(workloads) => Self::generate(workloads),
        }
    }

    /// Generates workloads and simulates them, on all cores.
    pub(super) fn generate(workloads: &GeneratedWorkloads) -> Result<Self> {
        let generator = generate::generator(workloads)?;
        let bar = progress::bar("generate", workloads.count);
        let samples: Vec<Sample> = (0..workloads.count)
            .into_par_iter()
            .filter(|_| !interrupt::is_requested())
            .map(|index| {
                bar.inc(1);
                generate::sample(generator.generate(index))
            })
            .collect();
        bar.finish_and_clear();
        if interrupt::is_requested() {
            bail!("interrupted before the first fit");
        }
        let hash = content_hash(&samples);
        Ok(Self { samples, rejected: Vec::new(), hash })
    }

    /// Keeps the samples for the workers, with others behind them.
    pub(super) fn write_samples(&self, path: &Path, company: &[Sample]) -> Result<()> {
        if path.exists() {
            return Ok(());
        }
        let mut writer = SampleWriter::create(path)?;
        self.samples.iter().chain(company).try_for_each(|sample| writer.write(sample))?;
        writer.finish()?;
        Ok(())
    }

    /// What a fit to some rows is made from.
    pub(super) fn describe(&self, config: &Config, training: &[usize], fold: Option<u32>) -> DataDescription {
        let rows: Vec<&Sample> = training.iter().map(|&row| &self.samples[row]).collect();
        let names = |name: fn(&Sample) -> String| -> Vec<String> {
            rows.iter().map(|sample| name(sample)).collect::<BTreeSet<_>>().into_iter().collect()
        };
        let labels: BTreeSet<Label> = rows.iter().map(|sample| sample.label).collect();
        let part = match (fold, config.split.folds) {
            (Some(fold), _) => format!("{}, training part of fold {fold}", config.split.describe()),
            (None, Some(_)) => "all rows but the validation part".into(),
            (None, None) => format!("{}, training part", config.split.describe()),
        };
        DataDescription {
            name: config.name.clone(),
            split: part,
            // Rows of several definitions have none in common.
            label: if labels.len() == 1 { labels.first().copied().unwrap_or_default() } else { Label::Unknown },
            hash: content_hash(rows.iter().copied()),
            training_rows: rows.len(),
            censored_rows: rows.iter().filter(|sample| sample.outcome.is_censored()).count(),
            gpus: names(|sample| sample.gpu.clone()),
            families: names(|sample| sample.family.name().to_owned()),
        }
    }
}

/// Reads files of any layout and tells a person what was left out.
pub(super) fn load_files(
    paths: &[PathBuf],
    format: Option<&str>,
    gpu_file: Option<&Path>,
    options: &IngestOptions,
) -> Result<Loaded> {
    let catalogue = source::catalogue(gpu_file)?;
    let options =
        IngestOptions { format: source::format(format)?, graphs: Some(source::named::graphs()), ..options.clone() };
    let spinner = progress::spinner("read");
    let loaded = load_samples(paths, &options, &catalogue);
    spinner.finish_and_clear();
    let loaded = loaded?;
    source::tell(&loaded.rejected, &loaded.unknown_operators, &loaded.ignored_columns);
    Ok(loaded)
}
