//! The public tables of real models, where a developer has them: `PLIMSOLL_DATA` is the folder that holds them.
//!
//! Tables of the same layouts may hold other rows elsewhere, so that only what holds of any such table is asserted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_dataset::{Converted, IngestOptions, Layout, Outcome, convert};
use plimsoll_graph::GpuCatalogue;

/// A table with its verdicts, or `None` (and a line that says so) without the data.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn table(file: &str, options: &IngestOptions) -> Option<(Converted, usize)> {
    let path = std::env::var_os("PLIMSOLL_DATA").map(|folder| PathBuf::from(folder).join(file));
    let Some(path) = path.filter(|path| path.is_file()) else {
        eprintln!("skipped: PLIMSOLL_DATA is not set, or has no {file}");
        return None;
    };
    let lines = std::fs::read_to_string(&path).expect("readable").lines().count() - 1;
    let converted = convert(&path, None, options, GpuCatalogue::built_in()).expect("converts");
    assert_eq!(converted.runs.len() + converted.merged + converted.rejected.len(), lines, "{file}");
    let mut doubts = BTreeMap::<&str, usize>::new();
    for doubt in converted.runs.iter().filter_map(|judged| judged.doubt.as_ref()) {
        *doubts.entry(&doubt.reason).or_default() += 1;
    }
    eprintln!("{file}: {lines} rows, {} rejected, doubts: {doubts:#?}", converted.rejected.len());
    Some((converted, lines))
}

fn good(converted: &Converted) -> usize {
    converted.runs.iter().filter(|judged| matches!(judged.outcome, Outcome::Measured { .. })).count()
}

#[test]
fn every_timm_row_is_read_and_most_are_believed() {
    let Some((converted, lines)) = table("timm_a100_runs.csv", &IngestOptions::default()) else { return };
    assert_eq!((converted.layout, converted.rejected.len()), (Layout::Timm, 0));
    assert!(good(&converted) * 4 > lines * 3, "{} of {lines}", good(&converted));
    for judged in &converted.runs {
        // A run that is believed read no more than the card has, and one at its brim grew evenly to there.
        if let Outcome::Measured { peak_mib } = judged.outcome {
            assert!(peak_mib < 40_960.0, "{}", judged.run.id);
        }
    }
}

#[test]
fn every_schedtune_row_is_read_and_none_that_is_beyond_its_card_is_believed() {
    let Some((converted, lines)) = table("schedtune_5gpu_cnn.csv", &IngestOptions::default()) else { return };
    assert_eq!((converted.layout, converted.rejected.len()), (Layout::Schedtune, 0));
    assert!(good(&converted) * 5 > lines * 4, "{} of {lines}", good(&converted));
    for judged in &converted.runs {
        let beyond = judged.run.reading_mib > 1.01 * judged.run.gpu.memory_mib as f64;
        assert!(!beyond || judged.doubt.is_some(), "{}", judged.run.id);
    }
}

#[test]
fn milabench_rows_of_known_models_are_read_once_a_run() {
    let options = IngestOptions::default();
    let Some((converted, _)) = table("milabench_scaling.csv", &options) else { return };
    assert!(converted.rejected.iter().all(|rejection| rejection.reason.contains("is not known")));
    assert!(good(&converted) * 10 > converted.runs.len() * 9);
    let Some((all, _)) = table("milabench_scaling.csv", &IngestOptions { all_repeats: true, ..options }) else {
        return;
    };
    assert_eq!(all.runs.len(), converted.runs.len() + converted.merged);
}

#[test]
fn the_published_models_are_all_believed() {
    let Some((converted, lines)) = table("published_real_models.csv", &IngestOptions::default()) else { return };
    assert_eq!((converted.layout, good(&converted)), (Layout::Published, lines));
    assert!(converted.runs.iter().all(|judged| !judged.run.published_estimates.is_empty()));
}
