//! The published measurements, where a developer has them: `PLIMSOLL_DATA` is the folder that holds `gpumemnet/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_dataset::{IngestOptions, Measurement, Rejection, ingest_all};
use plimsoll_graph::{Family, GpuCatalogue};

/// A file's rows as they are read by default, or `None` (and a line that says so) without the data.
fn rows(file: &str) -> Option<(Vec<Measurement>, Vec<Rejection>, usize)> {
    rows_with(file, &IngestOptions::default())
}

#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn rows_with(file: &str, options: &IngestOptions) -> Option<(Vec<Measurement>, Vec<Rejection>, usize)> {
    let Some(folder) = std::env::var_os("PLIMSOLL_DATA") else {
        eprintln!("skipped: PLIMSOLL_DATA is not set");
        return None;
    };
    let path = PathBuf::from(folder).join("gpumemnet").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (accepted, rejected, _) = ingest_all(&[path], options, GpuCatalogue::built_in()).expect("readable");
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

/// How many rows have counters, and how many of them lose them because they contradict each other.
fn recorded_and_masked(file: &str) -> Option<(usize, usize)> {
    let options = IngestOptions { keeps_contradictions: true, ..IngestOptions::default() };
    let (all, ..) = rows_with(file, &options)?;
    let (kept, ..) = rows(file)?;
    let recorded = |row: &Measurement| row.utilisation.iter().any(Option::is_some);
    let masked = all.iter().zip(&kept).filter(|(before, after)| before.utilisation != after.utilisation);
    assert_eq!(masked.clone().filter(|(_, after)| recorded(after)).count(), 0, "{file}: all counters of a row or none");
    Some((count(&all, recorded), masked.count()))
}

/// Rows of a network with one output whose run crashed before it trained.
fn crashed_early(rejected: &[Rejection]) -> usize {
    rejected.iter().filter(|rejection| rejection.reason.starts_with("one output")).count()
}

#[test]
fn mlp_rows_are_good_unless_their_run_crashed_early() {
    for (file, total, crashed) in [("mlp_data_step1.csv", 2_436, 18), ("mlp_data_step2.csv", 2_389, 0)] {
        let Some((accepted, rejected, lines)) = rows(file) else { return };
        assert_eq!((lines, rejected.len(), crashed_early(&rejected)), (total, crashed, crashed));
        assert_eq!(count(&accepted, |row| row.workload.graph().family() == Family::Mlp), accepted.len());
        assert_eq!(count(&accepted, |row| row.outcome.peak_mib().is_some()), accepted.len());
        let Some((with_counters, masked)) = recorded_and_masked(file) else { return };
        assert_eq!(with_counters, accepted.len());
        assert!(masked * 100 <= accepted.len(), "{masked} of {}", accepted.len());
        assert_eq!(count(&accepted, |row| row.utilisation[0].is_some()), accepted.len() - masked);
        let recorded = count(&accepted, |row| row.utilisation[..5].iter().all(Option::is_some));
        assert!(recorded * 10 > accepted.len() * 9, "{recorded} of {}", accepted.len());
    }
}

#[test]
fn cnn_rows_are_good_unless_they_have_no_layers_or_crashed_early() {
    let Some((accepted, rejected, lines)) = rows("cnn_data_step1.csv") else { return };
    let empty = rejected.iter().filter(|rejection| rejection.reason.contains("layer list is empty")).count();
    assert_eq!((lines, rejected.len(), empty, crashed_early(&rejected)), (1_643, 69, 67, 2));
    let out_of_memory = count(&accepted, |row| row.outcome.is_censored());
    assert!((250..=312).contains(&out_of_memory), "{out_of_memory}");
    assert_eq!(count(&accepted, |row| row.workload.setup().input_size.is_none()), 0);
    let Some((recorded, masked)) = recorded_and_masked("cnn_data_step1.csv") else { return };
    assert!(masked > 0 && masked * 100 <= recorded * 15, "{masked} of {recorded}");
}

#[test]
fn every_transformer_row_is_good() {
    let Some((accepted, rejected, _)) = rows("transformer_data.csv") else { return };
    assert_eq!((accepted.len(), rejected.len()), (846, 0));
    assert_eq!(count(&accepted, |row| row.outcome.is_censored()), 33);
    assert_eq!(count(&accepted, |row| row.utilisation.iter().any(Option::is_some)), 0);
}
