//! Checkpoints: nothing is lost, interrupted fits go on to the same result, damage is told.

mod support;

use std::cell::Cell;
use std::path::Path;

use plimsoll_dataset::{Label, Outcome, Sample, Stack};
use plimsoll_model::{Description, DeviceKind, Epoch, Estimator, Fit, Learned, ModelError, Observer};
use support::{SILENT, fit, one_at_a_time, samples, transformer};

/// Stops after an epoch, in the middle of the next one.
struct StopAfter {
    epoch: usize,
    done: Cell<usize>,
}

impl Observer for StopAfter {
    fn epoch(&self, epoch: &Epoch) {
        self.done.set(epoch.epoch);
    }

    fn should_stop(&self) -> bool {
        self.done.get() >= self.epoch
    }
}

fn load(folder: &Path) -> Result<Learned, ModelError> {
    Learned::load(folder, &DeviceKind::Cpu.open().expect("always there"))
}

#[test]
fn an_interrupted_fit_goes_on_to_the_same_result() {
    let _turn = one_at_a_time();
    let samples = samples(30);
    let (training, validation): (Vec<&Sample>, Vec<&Sample>) =
        (samples[..24].iter().collect(), samples[24..].iter().collect());
    for patience in [0, 2] {
        let whole = {
            let mut settings = fit(transformer(0.2), 6, &SILENT);
            settings.settings.training.patience = patience;
            settings.fit(&training, &validation).expect("fits")
        };
        let folder = tempfile::tempdir().expect("temporary folder");
        for stop in [1, 3, 4, 99] {
            let observer = StopAfter { epoch: stop, done: Cell::new(0) };
            let mut settings = fit(transformer(0.2), 6, &observer);
            settings.settings.training.patience = patience;
            settings.folder = Some(folder.path().into());
            match settings.fit(&training, &validation) {
                Ok(learned) => {
                    assert_eq!(learned.estimate(&training), whole.estimate(&training));
                    assert_eq!(learned.description().history, whole.description().history);
                }
                Err(ModelError::Interrupted { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(load(folder.path()).expect("finished").estimate(&training), whole.estimate(&training));
    }
}

#[test]
fn a_checkpoint_keeps_every_estimate() {
    let _turn = one_at_a_time();
    let samples = samples(10);
    let samples: Vec<&Sample> = samples.iter().collect();
    let learned = fit(transformer(0.0), 2, &SILENT).fit(&samples, &[]).expect("fits");
    let folder = tempfile::tempdir().expect("temporary folder");
    learned.save(folder.path()).expect("saved");
    let loaded = load(folder.path()).expect("loads");
    assert_eq!(loaded.estimate(&samples), learned.estimate(&samples));
    // Saving adds the hash of the weights, and nothing else.
    assert_eq!(loaded.description().weights_hash.len(), 64);
    let saved = Description { weights_hash: String::new(), ..loaded.description().clone() };
    assert_eq!(&saved, learned.description());
    assert!(loaded.description().unfamiliar(&samples[0].features).is_empty());
    let mut strange = samples[0].features.clone();
    strange.summary[0] = 1e6;
    assert_eq!(loaded.description().unfamiliar(&strange), [loaded.description().schema.summary[0].as_str()]);
}

#[test]
fn damage_and_other_versions_are_told() {
    let _turn = one_at_a_time();
    let samples = samples(6);
    let samples: Vec<&Sample> = samples.iter().collect();
    let learned = fit(transformer(0.0), 1, &SILENT).fit(&samples, &[]).expect("fits");
    let folder = tempfile::tempdir().expect("temporary folder");
    let description = folder.path().join("checkpoint.json");
    let weights = folder.path().join("weights.bpk");
    let restore = || learned.save(folder.path()).expect("saved");

    restore();
    let text = std::fs::read_to_string(&description).expect("read");
    for (from, to, word) in [
        ("\"plimsoll_checkpoint\": 5", "\"plimsoll_checkpoint\": 7", "version 7"),
        ("\"log_layers\"", "\"log_lawyers\"", "log_lawyers"),
        ("\"hidden\": 32", "\"hidden\": 31", "weights.bpk"),
        ("\"hidden\": 32", "\"hidden\": 99999999", "hidden"),
    ] {
        assert!(text.contains(from), "{from} must occur");
        std::fs::write(&description, text.replacen(from, to, 1)).expect("written");
        let error = load(folder.path()).expect_err(to).to_string();
        assert!(error.contains(word), "{to}: {error}");
    }
    for content in ["", "{", "[1, 2]", "{\"plimsoll_checkpoint\": \"one\"}"] {
        std::fs::write(&description, content).expect("written");
        assert!(load(folder.path()).is_err(), "{content}");
    }
    restore();
    let bytes = std::fs::read(&weights).expect("read");
    for length in [0, 3, 10, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&weights, &bytes[..length]).expect("written");
        assert!(load(folder.path()).is_err(), "{length} bytes");
    }
    std::fs::remove_file(&weights).expect("removed");
    assert!(load(folder.path()).is_err());
    assert!(load(Path::new("/nonexistent/checkpoint")).is_err());
}

#[test]
fn damaged_weights_are_told() {
    let _turn = one_at_a_time();
    let samples = samples(6);
    let samples: Vec<&Sample> = samples.iter().collect();
    let learned = fit(transformer(0.0), 1, &SILENT).fit(&samples, &[]).expect("fits");
    let folder = tempfile::tempdir().expect("temporary folder");
    learned.save(folder.path()).expect("saved");
    let (description, weights) = (folder.path().join("checkpoint.json"), folder.path().join("weights.bpk"));
    let mut bytes = std::fs::read(&weights).expect("read");
    // The end of the file is weights.
    let word = bytes.len() - 4;
    let sound = bytes.clone();

    bytes[word..].copy_from_slice(&0.5_f32.to_le_bytes());
    std::fs::write(&weights, &bytes).expect("written");
    let error = load(folder.path()).expect_err("another number").to_string();
    assert!(error.contains("weights.bpk") && error.contains("hash"), "{error}");

    bytes[word..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&weights, &bytes).expect("written");
    let error = load(folder.path()).expect_err("not a number").to_string();
    assert!(error.contains("weights.bpk") && error.contains("hash"), "{error}");
    // The content of the two files without the folder, as the binary carries them.
    let text = std::fs::read(&description).expect("read");
    let parsed = |text: &[u8], bytes: &[u8]| {
        Learned::parse(text, bytes.to_vec(), Path::new("built-in"), &DeviceKind::Cpu.open().expect("always there"))
    };
    assert!(parsed(&text, &sound).is_ok());
    assert!(parsed(&text, &bytes).is_err());

    // Checkpoints of before the hash was kept.
    let mut value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    value.as_object_mut().expect("an object").remove("weights_hash").expect("written by save");
    let text = value.to_string();
    assert!(parsed(text.as_bytes(), &sound).is_ok());
    for stray in [f32::NAN, f32::INFINITY] {
        bytes[word..].copy_from_slice(&stray.to_le_bytes());
        let error = parsed(text.as_bytes(), &bytes).expect_err("not finite").to_string();
        assert!(error.contains("expected finite weights, found 1 "), "{error}");
    }
}

#[test]
fn another_fit_in_the_same_folder_starts_afresh_and_replaces_only_when_done() {
    let _turn = one_at_a_time();
    let samples = samples(12);
    let samples: Vec<&Sample> = samples.iter().collect();
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut first = fit(transformer(0.0), 2, &SILENT);
    first.folder = Some(folder.path().into());
    let finished = first.fit(&samples, &[]).expect("fits");
    let observer = StopAfter { epoch: 1, done: Cell::new(0) };
    let mut second = fit(transformer(0.0), 5, &observer);
    second.folder = Some(folder.path().into());
    assert!(matches!(second.fit(&samples, &[]), Err(ModelError::Interrupted { epochs: 1 })));
    assert_eq!(load(folder.path()).expect("the first one").estimate(&samples), finished.estimate(&samples));
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let _turn = one_at_a_time();
    let samples = samples(6);
    let samples: Vec<&Sample> = samples.iter().collect();
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    let mut settings = fit(transformer(0.0), 1, &SILENT);
    settings.folder = Some(file.path().join("below-a-file"));
    assert!(settings.fit(&samples, &[]).is_err());
    settings.folder = None;
    settings.events = Some(file.path().join("below-a-file"));
    assert!(settings.fit(&samples, &[]).is_err());
}

fn stack(text: &str) -> Stack {
    text.parse().expect("versions")
}

#[test]
fn an_adaptation_moves_the_estimates_of_its_gpu_alone_and_is_kept() {
    let _turn = one_at_a_time();
    let rows = samples(24);
    let rows: Vec<&Sample> = rows.iter().collect();
    let learned = fit(transformer(0.0), 2, &SILENT).fit(&rows, &[]).expect("fits");
    let before = learned.estimate(&rows);
    let runs: Vec<Sample> = rows
        .iter()
        .zip(&before)
        .filter(|(row, _)| row.gpu == "t4")
        .map(|(row, estimate)| {
            let peak_mib = estimate.peak_memory_mib.expect("a peak") + 700.0;
            Sample { label: Label::NvidiaSmiDevice, outcome: Outcome::Measured { peak_mib }, ..(*row).clone() }
        })
        .collect();
    assert!(runs.len() >= 3, "{}", runs.len());
    let adapted = learned.adapt(&runs.iter().collect::<Vec<_>>()).expect("adapts");
    let folder = tempfile::tempdir().expect("temporary folder");
    adapted.save(folder.path()).expect("saved");
    let loaded = load(folder.path()).expect("loads");
    assert_eq!(loaded.description().adaptations, adapted.description().adaptations);
    let asked: Vec<Sample> =
        rows.iter().map(|row| Sample { label: Label::NvidiaSmiProcess, ..(*row).clone() }).collect();
    let asked: Vec<&Sample> = asked.iter().collect();
    for ((row, after), before) in asked.iter().zip(loaded.estimate(&asked)).zip(learned.estimate(&asked)) {
        let moved = after.peak_memory_mib.expect("a peak") - before.peak_memory_mib.expect("a peak");
        let expected = if row.gpu == "t4" { 700.0 } else { 0.0 };
        assert!((moved - expected).abs() < 1.0, "{}: {moved}", row.gpu);
    }
    assert_eq!(loaded.unadapted().estimate(&asked), learned.estimate(&asked));
    // The same GPU again replaces what was known of it.
    let again = loaded.adapt(&runs.iter().collect::<Vec<_>>()).expect("adapts");
    assert_eq!(again.description().adaptations, loaded.description().adaptations);
    // Another stack is known beside it, and each speaks for its own.
    let old: Vec<Sample> = runs
        .iter()
        .map(|run| {
            let peak_mib = run.outcome.peak_mib().expect("measured") - 1000.0;
            Sample { stack: stack("pytorch 1.13"), outcome: Outcome::Measured { peak_mib }, ..run.clone() }
        })
        .collect();
    let of_both = again.adapt(&old.iter().collect::<Vec<_>>()).expect("adapts");
    assert_eq!(of_both.description().adaptations.len(), again.description().adaptations.len() + 1);
    let offset = |text: &str| {
        let known = of_both.description().adaptation("t4", Label::NvidiaSmiDevice, stack(text));
        known.map_or(f64::NAN, |known| known.offset_mib)
    };
    for (text, expected) in [("pytorch 1.10", -300.0), ("pytorch 2.6", 700.0)] {
        assert!((offset(text) - expected).abs() < 1.0, "{} MiB for {text}", offset(text));
    }
    let error = learned.adapt(&[]).expect_err("no rows").to_string();
    assert!(error.contains("at least 3"), "{error}");

    let path = folder.path().join("checkpoint.json");
    let text = std::fs::read_to_string(&path).expect("read");
    let damaged = text.replace("\"scale\": 1.0", "\"scale\": 0.0");
    assert_ne!(text, damaged);
    std::fs::write(&path, damaged).expect("written");
    assert!(load(folder.path()).expect_err("damaged").to_string().contains("adaptation"));
}
