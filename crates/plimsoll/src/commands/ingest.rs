//! `plimsoll ingest`

use std::path::Path;

use anyhow::{Context, Result, ensure};
use plimsoll_dataset::{MeasurementWriter, Rejection, ingest};
use serde_json::json;

use super::source;
use crate::cli::IngestArguments;
use crate::{interrupt, output, progress};

/// Reads measurements row by row and keeps them as Parquet; memory stays bounded.
pub(super) fn run(arguments: &IngestArguments) -> Result<()> {
    let catalogue = source::catalogue(arguments.source.gpu_file.as_deref())?;
    let options = source::options(&arguments.source, &arguments.setup, &catalogue)?;
    let mut writer = MeasurementWriter::create(&arguments.out)?;
    let mut rejected: Vec<Rejection> = Vec::new();
    let spinner = progress::spinner("ingest");
    let mut is_interrupted = false;
    let counts = ingest(&arguments.files, &options, &catalogue, &mut |row| {
        if interrupt::is_requested() {
            is_interrupted = true;
            return Err(plimsoll_dataset::DatasetError::Empty {
                what: "the rest of the input".into(),
                expected: "no interruption".into(),
            });
        }
        spinner.inc(1);
        match row {
            Ok(measurement) => writer.write(&measurement),
            Err(rejection) => {
                rejected.push(rejection);
                Ok(())
            }
        }
    });
    spinner.finish_and_clear();
    ensure!(!is_interrupted, "interrupted; {} was not written", arguments.out.display());
    let counts = counts?;
    if let Some(path) = &arguments.rejects {
        write_rejects(path, &rejected)?;
    }
    source::tell(&rejected, &counts.unknown_operators, &counts.ignored_columns);
    source::strict(arguments.source.strict, &rejected)?;
    ensure!(counts.accepted > 0, "no usable row: {} rows were rejected, and nothing was written", counts.rejected);
    writer.finish()?;
    if arguments.json {
        return output::json(&json!({
            "files": counts.files,
            "accepted": counts.accepted,
            "rejected": counts.rejected,
            "merged": counts.merged,
            "unknown_operators": counts.unknown_operators,
            "ignored_columns": counts.ignored_columns,
            "out": arguments.out,
        }));
    }
    output::line(format!("accepted {}, rejected {} -> {}", counts.accepted, counts.rejected, arguments.out.display()))
}

/// Rejected rows as CSV, whole or not at all.
pub(super) fn write_rejects(path: &Path, rejected: &[Rejection]) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let target = plimsoll_dataset::output_path(path).with_context(failed)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    let mut writer = csv::Writer::from_writer(&file);
    writer.write_record(["id", "reason", "content"]).with_context(failed)?;
    for rejection in rejected {
        writer.write_record([&rejection.id, &rejection.reason, &rejection.content]).with_context(failed)?;
    }
    writer.flush().with_context(failed)?;
    drop(writer);
    file.persist(&target).with_context(failed)?;
    Ok(())
}
