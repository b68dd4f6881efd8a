//! The published measurements, where a developer has them: `PLIMSOLL_DATA` is the folder that holds `gpumemnet/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_dataset::{IngestOptions, Measurement, Outcome, Rejection, ingest_all};
use plimsoll_graph::{Family, GpuCatalogue};

/// A file's rows, or `None` (and a line that says so) without the data.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn rows(file: &str) -> Option<(Vec<Measurement>, Vec<Rejection>, usize)> {
    let Some(folder) = std::env::var_os("PLIMSOLL_DATA") else {
        eprintln!("skipped: PLIMSOLL_DATA is not set");
        return None;
    };
    let path = PathBuf::from(folder).join("gpumemnet").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (accepted, rejected, _) =
        ingest_all(&[path], &IngestOptions::default(), GpuCatalogue::built_in()).expect("readable");
    // No field of these files holds a line break.
    let lines = text.lines().count() - 1;
    assert_eq!(accepted.len() + rejected.len(), lines, "{file}");
    let mut reasons = BTreeMap::<&str, usize>::new();
    for rejection in &rejected {
        *reasons.entry(&rejection.reason).or_default() += 1;
    }
    eprintln!("{file}: {lines} rows, {} accepted, rejected: {reasons:#?}", accepted.len());
    Some((accepted, rejected, lines))
}

fn count(measurements: &[Measurement], holds: impl Fn(&Measurement) -> bool) -> usize {
    measurements.iter().filter(|measurement| holds(measurement)).count()
}

#[test]
fn every_mlp_row_is_good() {
    for (file, expected) in [("mlp_data_step1.csv", 2_436), ("mlp_data_step2.csv", 2_389)] {
        let Some((accepted, rejected, _)) = rows(file) else { return };
        assert_eq!((accepted.len(), rejected.len()), (expected, 0));
        assert_eq!(count(&accepted, |row| row.workload.graph().family() == Family::Mlp), expected);
        assert_eq!(count(&accepted, |row| row.outcome.peak_mib().is_some()), expected);
        assert_eq!(count(&accepted, |row| row.utilisation[..5].iter().all(Option::is_some)), expected);
    }
}

#[test]
fn the_cnn_rows_without_layers_are_rejected_and_no_other() {
    let Some((accepted, rejected, lines)) = rows("cnn_data_step1.csv") else { return };
    assert_eq!(lines, 1_643);
    let empty = rejected.iter().filter(|rejection| rejection.reason.contains("layer list is empty")).count();
    assert_eq!((empty, rejected.len()), (67, 67));
    let crashed = count(&accepted, |row| matches!(row.outcome, Outcome::OutOfMemory { .. }));
    assert!((250..=312).contains(&crashed), "{crashed}");
    assert_eq!(count(&accepted, |row| row.workload.setup().input_size.is_none()), 0);
}

#[test]
fn every_transformer_row_is_good() {
    let Some((accepted, rejected, _)) = rows("transformer_data.csv") else { return };
    assert_eq!((accepted.len(), rejected.len()), (846, 0));
    assert_eq!(count(&accepted, |row| row.outcome.is_censored()), 33);
    assert_eq!(count(&accepted, |row| row.utilisation.iter().any(Option::is_some)), 0);
}
