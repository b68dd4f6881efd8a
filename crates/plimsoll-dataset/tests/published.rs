//! The one table of measurements that ships with the project.

use std::path::Path;

use plimsoll_dataset::{IngestOptions, Label, ingest_all};
use plimsoll_graph::GpuCatalogue;

#[test]
fn every_published_real_model_is_read() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let options = IngestOptions::default();
    let (accepted, rejected, counts) =
        ingest_all(&[data.join("published_real_models.csv")], &options, GpuCatalogue::built_in()).expect("readable");
    assert_eq!((accepted.len(), rejected.as_slice()), (24, &[][..]));
    assert!(counts.ignored_columns.is_empty(), "{:?}", counts.ignored_columns);
    for row in &accepted {
        assert!(row.outcome.peak_mib().is_some(), "{}", row.id);
        assert_eq!((row.label, row.workload.gpu().name.as_str()), (Label::NvidiaSmiDevice, "a100-40"));
        assert!(row.published_estimates.iter().any(|(estimator, _)| estimator == "gpumemnet"), "{}", row.id);
    }
    let architectures: std::collections::BTreeSet<&str> =
        accepted.iter().map(|row| row.architecture.as_str()).collect();
    assert_eq!(architectures.len(), 12);

    // The folder holds the same rows: its graphs belong to the table and are no workloads of their own.
    let (whole, _, _) = ingest_all(&[data], &options, GpuCatalogue::built_in()).expect("readable");
    assert_eq!(whole, accepted);
}
