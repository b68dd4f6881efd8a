//! `plimsoll run`: data, split, fits, scores, report, export, as one story.

mod data;
mod jobs;
mod pretraining;
mod record;
mod rivals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use plimsoll_dataset::{Carve, IngestOptions, Sample, Split, SplitKey};
use plimsoll_evaluation::{
    Cost, Leaderboard, LeaderboardRow, Prediction, RunName, Scores, predict, published_predictions,
};
use plimsoll_evaluation::{read_predictions, write_predictions, write_scores};
use plimsoll_model::{DataDescription, DeviceKind, Estimator, Fit, Learned, Settings};

pub(super) use record::RunRecord;

use super::evaluate::summary;
use super::worker::Job;
use crate::cli::RunArguments;
use crate::config::{Config, FoldRule, Folds, NamedSettings};
use crate::{interrupt, output};
use data::Prepared;
use pretraining::Stage;
use record::{Part, SectionRecord};
use rivals::Rival;

/// Everything a config describes.
pub(super) fn run(arguments: &RunArguments) -> Result<()> {
    let config = Config::read(&arguments.config)?;
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&config.name));
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let run = Run::prepare(config, &arguments.config, &out)?;
    let jobs = arguments.jobs.map_or_else(jobs::cores, usize::from);
    let scores = run.execute(jobs)?;
    if arguments.json {
        return output::json(&scores);
    }
    for scores in &scores {
        output::line(summary(scores))?;
        output::line("")?;
    }
    output::line(format!("report       {}", out.join("report.html").display()))?;
    output::line(format!("leaderboard  {}", out.join("leaderboard.csv").display()))?;
    output::line(format!("network      {}", out.join("model.onnx").display()))
}

/// A run under way.
struct Run {
    config: Config,
    out: PathBuf,
    work: PathBuf,
    prepared: Prepared,
    pretraining: Option<Stage>,
    record: RunRecord,
    splits: Vec<Split>,
    final_split: Split,
}

impl Run {
    fn prepare(config: Config, config_path: &Path, out: &Path) -> Result<Self> {
        let prepared = Prepared::load(&config)?;
        let pretraining = Stage::load(&config)?;
        let run_id = run_id(&config, &prepared.hash, pretraining.as_ref().map(Stage::hash));
        // Work of another config or other data does not fit this run; what it wrote is replaced when this one is done.
        let work = out.join("work").join(&run_id);
        std::fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
        let company = pretraining.as_ref().map_or(&[][..], |stage| stage.company(prepared.samples.len()));
        prepared.write_samples(&samples_path(&work), company)?;
        if let Some(stage) = &pretraining {
            stage.write(&work)?;
        }
        let keys: Vec<SplitKey> = prepared.samples.iter().map(SplitKey::from).collect();
        let (splits, final_split) = split(&config, &keys)?;
        let config_text = std::fs::read_to_string(config_path).unwrap_or_default();
        let record = RunRecord::new(run_id, &config, config_text, &prepared);
        Ok(Self { config, out: out.into(), work, prepared, pretraining, record, splits, final_split })
    }

    fn execute(mut self, parallel: usize) -> Result<Vec<Scores>> {
        if let Some(stage) = &self.pretraining {
            let jobs = stage.jobs(&self.config, &self.work, &self.out.join("events"));
            jobs::run_all(&jobs, &self.work, parallel)?;
        }
        let jobs = self.jobs();
        jobs::run_all(&jobs, &self.work, parallel)?;
        let tested = self.tested(&jobs)?;
        let predictions_path = self.out.join("predictions.parquet");
        write_predictions(&predictions_path, &tested)?;
        self.record.sections.push(SectionRecord {
            title: "Rows held out of the fit".into(),
            text: String::new(),
            data: self.config.name.clone(),
            split: self.config.split.describe(),
            rejected: self.prepared.rejected.len(),
            bin_width_mib: self.config.bin_width_mib,
            predictions: "predictions.parquet".into(),
        });
        let finals = self.finals()?;
        let rivals = rivals::fit(&self.config, &self.pick(&self.final_split.training))?;
        self.held_out(&finals, &rivals)?;
        self.export(&finals)?;
        self.finish(&finals, &rivals)
    }

    /// One job a fold and estimator, and with folds one more on everything.
    fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for named in &self.config.estimators {
            if self.config.split.folds.is_some() {
                let folds = self.splits.iter().enumerate();
                jobs.extend(folds.map(|(fold, split)| self.job(named, split, Some(fold as u32))));
            }
            jobs.push(self.job(named, &self.final_split, None));
        }
        jobs
    }

    fn job(&self, named: &NamedSettings, split: &Split, fold: Option<u32>) -> Job {
        let folder = self.job_folder(&named.name, fold);
        // Samples that accompany the measured ones stand behind them in the file.
        let measured = self.prepared.samples.len();
        let stage = self.pretraining.as_ref().filter(|_| named.is_pretrained);
        let company = stage.map_or(0, |stage| stage.company(measured).len());
        let training = split.training.iter().copied().chain(measured..measured + company).collect();
        Job {
            name: named.name.clone(),
            settings: named.settings.clone(),
            device: self.config.device,
            data: self.prepared.describe(&self.config, &split.training, fold),
            samples: samples_path(&self.work),
            training,
            validation: split.validation.clone(),
            test: split.test.clone(),
            fold,
            folder,
            start: stage.map(|_| pretraining::folder(&self.work, &named.name)),
            events: self.out.join("events").join(fit_name(&named.name, fold)),
        }
    }

    fn job_folder(&self, estimator: &str, fold: Option<u32>) -> PathBuf {
        self.work.join(fit_name(estimator, fold))
    }

    /// Estimates of rows that the estimator in question had not seen: learned ones first, then baselines.
    fn tested(&self, jobs: &[Job]) -> Result<Vec<Prediction>> {
        let mut predictions = Vec::new();
        let wants_folds = self.config.split.folds.is_some();
        for job in jobs.iter().filter(|job| job.fold.is_some() == wants_folds) {
            predictions.extend(read_predictions(&job.predictions())?);
        }
        let fitted = self.splits.iter().map(|split| rivals::fit(&self.config, &self.pick(&split.training)));
        let fitted: Vec<Vec<Rival>> = fitted.collect::<Result<_>>()?;
        let rivals = fitted.first().map_or(0, Vec::len);
        for place in 0..rivals {
            for (fold, (split, rivals)) in self.splits.iter().zip(&fitted).enumerate() {
                let fold = wants_folds.then_some(fold as u32);
                predictions.extend(predict(rivals[place].estimator.as_ref(), fold, &self.pick(&split.test)));
            }
        }
        let samples: Vec<&Sample> = self.splits.iter().flat_map(|split| self.pick(&split.test)).collect();
        predictions.extend(published_predictions(samples));
        Ok(predictions)
    }

    fn pick(&self, rows: &[usize]) -> Vec<&Sample> {
        rows.iter().map(|&row| &self.prepared.samples[row]).collect()
    }

    /// The estimators fitted to everything (or to the training part, without folds).
    fn finals(&self) -> Result<Vec<(String, Learned)>> {
        let device = self.config.device.open()?;
        let load = |named: &NamedSettings| {
            let learned = Learned::load(&self.job_folder(&named.name, None), &device)?;
            Ok((named.name.clone(), learned))
        };
        self.config.estimators.iter().map(load).collect()
    }

    /// Judges the final estimators on files that no part of training saw.
    fn held_out(&mut self, finals: &[(String, Learned)], rivals: &[Rival]) -> Result<()> {
        for path in self.config.held_out.clone() {
            let loaded = data::load_files(std::slice::from_ref(&path), None, None, &IngestOptions::default())?;
            let name = path.file_stem().map_or_else(|| "held-out".into(), |stem| stem.to_string_lossy().into_owned());
            let samples: Vec<&Sample> = loaded.samples.iter().collect();
            let mut predictions = Vec::new();
            for (estimator, learned) in finals {
                predictions.extend(named(predict(learned, None, &samples), estimator));
            }
            for rival in rivals {
                predictions.extend(predict(rival.estimator.as_ref(), None, &samples));
            }
            predictions.extend(published_predictions(samples.iter().copied()));
            let file = format!("held-out-{name}.parquet");
            write_predictions(&self.out.join(&file), &predictions)?;
            self.record.data.push(Part::new(&name, loaded.samples.as_slice(), &loaded.rejected));
            self.record.sections.push(SectionRecord {
                title: format!("Never seen: {name}"),
                text: "No row of this file took part in any fit.".into(),
                data: name,
                split: "all rows, held out whole".into(),
                rejected: loaded.rejected.len(),
                bin_width_mib: self.config.bin_width_mib,
                predictions: file,
            });
        }
        Ok(())
    }

    /// The first estimator's checkpoint, network and manifest.
    fn export(&self, finals: &[(String, Learned)]) -> Result<()> {
        let (name, learned) = finals.first().context("a config has at least one estimator")?;
        learned.save(&self.out.join("checkpoint"))?;
        let predictions = read_predictions(&self.out.join("predictions.parquet"))?;
        let own: Vec<Prediction> = predictions.into_iter().filter(|row| row.estimator == *name).collect();
        let scores = Scores::of(&own, &self.record.sections[0].context());
        let rows: Vec<&Sample> = self.prepared.samples.iter().take(256).collect();
        super::export::write(learned, &rows, &self.out, serde_json::to_value(&scores)?)
    }

    /// Scores, leaderboard and report.
    fn finish(self, finals: &[(String, Learned)], rivals: &[Rival]) -> Result<Vec<Scores>> {
        let learned = finals.iter().map(|(name, learned)| {
            (name.as_str(), self.cost(learned, Some(4 * learned.description().parameters as u64)))
        });
        let others =
            rivals.iter().map(|rival| (rival.estimator.name(), self.cost(rival.estimator.as_ref(), rival.size_bytes)));
        let costs: BTreeMap<&str, Cost> = learned.chain(others).collect();
        let run = RunName { id: &self.record.run_id, config: &self.config.name };
        let mut all = Vec::new();
        let mut rows = Vec::new();
        for section in &self.record.sections {
            let predictions = read_predictions(&self.out.join(&section.predictions))?;
            for scores in Scores::by_estimator(&predictions, &section.context()) {
                let cost = costs.get(scores.estimator.as_str()).copied().unwrap_or_default();
                rows.extend(LeaderboardRow::of(run, &scores, cost));
                all.push(scores);
            }
        }
        write_scores(&self.out.join("scores.json"), &all)?;
        // The run's own board holds this run alone; `plimsoll leaderboard` collects runs.
        let mut board = Leaderboard::default();
        board.merge(rows);
        board.write(&self.out.join("leaderboard.csv"))?;
        self.record.write(&self.out)?;
        self.record.report(&self.out)?.write(&self.out)?;
        Ok(all)
    }

    /// Size of what was fitted, and the time of one estimate by itself, of a workload whose features are known.
    fn cost(&self, estimator: &dyn Estimator, size_bytes: Option<u64>) -> Cost {
        let rows: Vec<&Sample> = self.prepared.samples.iter().take(50).collect();
        let start = Instant::now();
        for row in &rows {
            estimator.estimate(&[row]);
        }
        Cost { size_bytes, latency_ms: Some(start.elapsed().as_secs_f64() * 1e3 / rows.len().max(1) as f64) }
    }
}

fn named(mut predictions: Vec<Prediction>, estimator: &str) -> Vec<Prediction> {
    for prediction in &mut predictions {
        estimator.clone_into(&mut prediction.estimator);
    }
    predictions
}

/// What a fit is called in folders: the estimator with its fold, or as the final one.
fn fit_name(estimator: &str, fold: Option<u32>) -> String {
    fold.map_or_else(|| format!("{estimator}-final"), |fold| format!("{estimator}-fold-{fold}"))
}

fn samples_path(work: &Path) -> PathBuf {
    work.join("samples.parquet")
}

/// The same config on the same data is the same run.
fn run_id(config: &Config, data_hash: &str, pretraining_hash: Option<&str>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&serde_json::to_vec(config).unwrap_or_default());
    hasher.update(data_hash.as_bytes());
    hasher.update(pretraining_hash.unwrap_or_default().as_bytes());
    hasher.finalize().to_hex()[..12].to_owned()
}

/// The splits that are tested, and the one of the final fit.
fn split(config: &Config, keys: &[SplitKey]) -> Result<(Vec<Split>, Split)> {
    let settings = &config.split;
    let by = settings.by.split_by();
    let Some(folds) = settings.folds else {
        let split = Split::ratio(keys, by, settings.validation, settings.test, settings.seed)?;
        return Ok((vec![split.clone()], split));
    };
    let carve = Carve { share: settings.validation, by };
    let splits = match folds {
        Folds::Count(folds) => Split::k_fold(keys, by, folds, carve, settings.seed)?,
        Folds::Rule(FoldRule::Each) => {
            let named = Split::leave_one_out(keys, by, carve, settings.seed)?;
            named.into_iter().map(|(_, split)| split).collect()
        }
    };
    let everything = Split::ratio(keys, by, settings.validation, 0.0, settings.seed)?;
    Ok((splits, everything))
}

/// Fits one estimator of a config in this process.
pub(super) fn fit_one(config: &Config, named: &NamedSettings, folder: &Path) -> Result<Learned> {
    let prepared = Prepared::load(config)?;
    let stage = if named.is_pretrained { Stage::load(config)? } else { None };
    let keys: Vec<SplitKey> = prepared.samples.iter().map(SplitKey::from).collect();
    let split = Split::ratio(&keys, config.split.by.split_by(), config.split.validation, 0.0, config.split.seed)?;
    let pick = |rows: &[usize]| -> Vec<&Sample> { rows.iter().map(|&row| &prepared.samples[row]).collect() };
    let mut start = None;
    if let Some(stage) = &stage {
        let folder = pretraining::folder(folder, &named.name);
        let rows: Vec<usize> = (0..stage.samples().len()).collect();
        let data = stage.describe(config, &rows);
        let samples: Vec<&Sample> = stage.samples().iter().collect();
        let part = FitPart { settings: stage.settings(named), data, training: samples, validation: Vec::new() };
        fit_part(config, &part, &folder, None, &format!("{} pretraining", named.name))?;
        start = Some(folder);
    }
    let company = stage.as_ref().map_or(&[][..], |stage| stage.company(prepared.samples.len()));
    let part = FitPart {
        settings: named.settings.clone(),
        data: prepared.describe(config, &split.training, None),
        training: pick(&split.training).into_iter().chain(company).collect(),
        validation: pick(&split.validation),
    };
    fit_part(config, &part, folder, start, &named.name)
}

/// What one fit in this process is made from.
struct FitPart<'a> {
    settings: Settings,
    data: DataDescription,
    training: Vec<&'a Sample>,
    validation: Vec<&'a Sample>,
}

fn fit_part(config: &Config, part: &FitPart<'_>, folder: &Path, start: Option<PathBuf>, name: &str) -> Result<Learned> {
    let bar = crate::progress::FitBar::new(name);
    let fit = plimsoll_model::LearnedFit {
        settings: part.settings.clone(),
        data: part.data.clone(),
        device: DeviceKind::open(config.device)?,
        observer: &bar,
        folder: Some(folder.into()),
        start,
        events: Some(folder.join("events")),
    };
    let learned = fit.fit(&part.training, &part.validation)?;
    if interrupt::is_requested() {
        bail!("interrupted");
    }
    Ok(learned)
}
