//! From files of any kind to samples.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use plimsoll_graph::GpuCatalogue;
use rayon::prelude::*;

use crate::error::{DatasetError, Result};
use crate::hash::content_hash;
use crate::ingest::{IngestOptions, ingest};
use crate::measurement::{Measurement, Rejection};
use crate::parquet::{MAGIC, RowGroups, SAMPLE_COLUMNS, SampleReader};
use crate::sample::Sample;

/// Samples of one or more files.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The samples in the order of files and rows, each with an id of its own.
    pub samples: Vec<Sample>,
    /// Rows that could not be used.
    pub rejected: Vec<Rejection>,
    /// Operators that no rule knows.
    pub unknown_operators: BTreeSet<String>,
    /// Columns of tables that mean nothing to the reader.
    pub ignored_columns: BTreeSet<String>,
    /// Fingerprint of the samples.
    pub hash: String,
}

/// Measurements are given their features in batches of this many, on all cores.
const BATCH: usize = 1_024;

/// Reads measurements in any layout of [`ingest`](crate::ingest()), or samples that already have features.
///
/// Files of samples are told by their columns. Ids that occur twice get a number, so that predictions can be told
/// apart.
///
/// # Errors
/// As [`ingest`](crate::ingest()) and [`SampleReader::open`], and files without a single usable row.
pub fn load_samples(paths: &[PathBuf], options: &IngestOptions, catalogue: &GpuCatalogue) -> Result<Loaded> {
    let mut loaded = Loaded {
        samples: Vec::new(),
        rejected: Vec::new(),
        unknown_operators: BTreeSet::new(),
        ignored_columns: BTreeSet::new(),
        hash: String::new(),
    };
    // Runs of paths that are not samples are read together, for ids that tell their files apart.
    let mut raw: Vec<PathBuf> = Vec::new();
    for path in paths {
        match open_samples(path)? {
            Some(reader) => {
                loaded.take_raw(&std::mem::take(&mut raw), options, catalogue)?;
                for chunk in reader {
                    loaded.samples.extend(chunk?);
                }
            }
            None => raw.push(path.clone()),
        }
    }
    loaded.take_raw(&raw, options, catalogue)?;
    if loaded.samples.is_empty() {
        let what: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let expected = match loaded.rejected.first() {
            Some(first) => format!(
                "usable rows, but all {} were rejected; the first, {}: {}",
                loaded.rejected.len(),
                first.id,
                first.reason
            ),
            None => "rows".into(),
        };
        return Err(DatasetError::Empty { what: what.join(", "), expected });
    }
    number_repeated_ids(&mut loaded.samples);
    loaded.hash = content_hash(&loaded.samples);
    Ok(loaded)
}

impl Loaded {
    fn take_raw(&mut self, paths: &[PathBuf], options: &IngestOptions, catalogue: &GpuCatalogue) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let Self { samples, rejected, .. } = self;
        let mut waiting: Vec<Measurement> = Vec::with_capacity(BATCH);
        let counts = ingest(paths, options, catalogue, &mut |row| {
            match row {
                Ok(measurement) => waiting.push(measurement),
                Err(rejection) => rejected.push(rejection),
            }
            if waiting.len() >= BATCH {
                samples.par_extend(waiting.par_iter().map(Sample::from_measurement));
                waiting.clear();
            }
            Ok(())
        })?;
        samples.par_extend(waiting.par_iter().map(Sample::from_measurement));
        self.unknown_operators.extend(counts.unknown_operators);
        self.ignored_columns.extend(counts.ignored_columns);
        Ok(())
    }
}

/// A reader if the path is a file of samples.
fn open_samples(path: &PathBuf) -> Result<Option<SampleReader>> {
    let failed = |source| DatasetError::File { action: "read", path: path.clone(), source };
    if std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(None);
    }
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MAGIC.len() as u64), &mut start).map_err(failed)?;
    if start != MAGIC {
        return Ok(None);
    }
    let groups = RowGroups::open(path)?;
    // The columns that nothing else has: a file of samples that lacks others is told so by its reader.
    let marks = &SAMPLE_COLUMNS[22..26];
    if !marks.iter().all(|mark| groups.columns().iter().any(|column| column == mark)) {
        return Ok(None);
    }
    SampleReader::new(groups).map(Some)
}

fn number_repeated_ids(samples: &mut [Sample]) {
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(samples.len());
    for sample in samples {
        let times = seen.entry(sample.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            sample.id = format!("{}#{times}", sample.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{graph, measurement};
    use crate::parquet::{MeasurementWriter, SampleWriter};

    const TABLE: &str =
        "workload,batch_size,gpu,peak_memory_mib,gputl_pct\na.json,8,t4,1500,33.3\na.json,0,t4,1500,1\n";

    #[test]
    fn raw_files_measurements_and_samples_load_to_the_same() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.json"), plimsoll_graph::json::write(&graph(3))).expect("writes");
        std::fs::write(path("runs.csv"), TABLE).expect("writes");
        let load = |names: &[&str]| {
            let paths: Vec<PathBuf> = names.iter().map(|name| path(name)).collect();
            load_samples(&paths, &IngestOptions::default(), GpuCatalogue::built_in())
        };
        let raw = load(&["runs.csv"]).expect("loads");
        assert_eq!((raw.samples.len(), raw.rejected.len()), (1, 1));

        let mut measurements = MeasurementWriter::create(&path("measurements.parquet")).expect("creates");
        ingest(&[path("runs.csv")], &IngestOptions::default(), GpuCatalogue::built_in(), &mut |row| {
            row.map_or(Ok(()), |row| measurements.write(&row))
        })
        .expect("reads");
        measurements.finish().expect("finishes");
        let mut samples = SampleWriter::create(&path("samples.parquet")).expect("creates");
        for sample in &raw.samples {
            samples.write(sample).expect("writes");
        }
        samples.finish().expect("finishes");
        for file in ["measurements.parquet", "samples.parquet"] {
            let loaded = load(&[file]).expect("loads");
            assert_eq!(loaded.samples, raw.samples, "{file}");
            assert_eq!(loaded.hash, raw.hash, "{file}");
        }

        let twice = load(&["samples.parquet", "runs.csv"]).expect("loads");
        let ids: Vec<&str> = twice.samples.iter().map(|sample| sample.id.as_str()).collect();
        assert_eq!(ids, ["runs.csv:2", "runs.csv:2#2"]);
    }

    #[test]
    fn many_rows_keep_their_order() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("measurements.parquet");
        let mut writer = MeasurementWriter::create(&path).expect("creates");
        let ids: Vec<String> = (0..BATCH * 2 + 5).map(|index| index.to_string()).collect();
        let mut row = measurement(1, 8);
        for id in &ids {
            row.id.clone_from(id);
            writer.write(&row).expect("writes");
        }
        writer.finish().expect("finishes");
        let loaded = load_samples(&[path], &IngestOptions::default(), GpuCatalogue::built_in()).expect("loads");
        assert!(loaded.samples.iter().map(|sample| &sample.id).eq(&ids));
    }

    #[test]
    fn nothing_usable_is_an_error_with_the_first_reason() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("runs.csv");
        std::fs::write(&path, "workload,batch_size,gpu,peak_memory_mib\nnone.json,8,t4,1500\n").expect("writes");
        let error = load_samples(&[path], &IngestOptions::default(), GpuCatalogue::built_in()).expect_err("nothing");
        assert!(error.to_string().contains("none.json"), "{error}");
    }
}
