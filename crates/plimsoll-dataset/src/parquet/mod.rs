//! Parquet files of measurements and of samples, written and read one row group at a time.

mod limits;
mod measurements;
mod read;
mod samples;
mod seal;
mod write;

pub use measurements::{MeasurementReader, MeasurementWriter, read_measurements};
pub use samples::{SampleReader, SampleWriter};

pub(crate) use measurements::COLUMNS as MEASUREMENT_COLUMNS;
pub(crate) use read::{Chunk, RowGroups};
pub(crate) use samples::COLUMNS as SAMPLE_COLUMNS;

/// The first bytes of every Parquet file.
pub(crate) const MAGIC: &[u8] = b"PAR1";

use crate::measurement::{Doubt, Outcome};

/// How an outcome stands in a file: its status, the measured peak and the lower bound.
pub(crate) fn outcome_cells(outcome: Outcome) -> (&'static str, Option<f64>, Option<f64>) {
    match outcome {
        Outcome::Measured { peak_mib } => ("ok", Some(peak_mib), None),
        Outcome::OutOfMemory { above_mib } => ("oom", None, Some(above_mib)),
        Outcome::Unknown => ("unknown", None, None),
    }
}

/// The outcome that [`outcome_cells`] wrote, or what is wrong with it.
pub(crate) fn outcome_of(status: &str, peak: Option<f64>, above: Option<f64>) -> Result<Outcome, String> {
    let usable = |name, value: Option<f64>| match value {
        Some(mib) if mib.is_finite() && mib > 0.0 => Ok(mib),
        Some(mib) => Err(format!("`{name}` should be a number of MiB above 0, is {mib}")),
        None => Err(format!("`status` is `{status}`, but `{name}` is empty")),
    };
    match status {
        "ok" => Ok(Outcome::Measured { peak_mib: usable("peak_memory_mib", peak)? }),
        "oom" => Ok(Outcome::OutOfMemory { above_mib: usable("above_mib", above)? }),
        "unknown" => Ok(Outcome::Unknown),
        other => Err(format!("`status` should be `ok`, `oom` or `unknown`, is `{other}`")),
    }
}

/// The doubt of two cells: its reason, empty where there is none, and the reading.
pub(crate) fn doubt_of(reason: &str, reading: Option<f64>) -> Result<Option<Doubt>, String> {
    match reading {
        _ if reason.is_empty() => Ok(None),
        Some(reading_mib) if reading_mib.is_finite() && reading_mib >= 0.0 => {
            Ok(Some(Doubt { reason: reason.to_owned(), reading_mib }))
        }
        _ => Err("`doubt` is given, but no reading in `reading_mib`".into()),
    }
}

#[cfg(test)]
mod tests;
