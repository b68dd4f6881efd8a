//! Measurements, and the samples that estimators are fitted to and judged by.
//!
//! In go files of measurements in any supported layout ([`ingest`](fn@ingest)); out come [`Measurement`]s and, for
//! rows that cannot be used, [`Rejection`]s with their reason. [`Sample`]s are measurements with features;
//! [`Split`]s divide them, a [`Scaler`] learns its statistics from the training part only, and Parquet files hold
//! either form, written and read in pieces so that memory stays bounded. [`load_samples`] does it all for data that
//! fits into memory.
//!
//! The crate deliberately knows nothing of networks and of how estimates are made.

mod bins;
mod error;
#[cfg(test)]
mod fixtures;
mod hash;
mod ingest;
mod load;
mod measurement;
mod parquet;
mod sample;
mod scaler;
mod split;
mod stack;
mod target;
mod target_path;
mod workspaces;

pub use bins::Bins;
pub use error::{DatasetError, Result};
pub use hash::{ContentHasher, content_hash};
pub use ingest::{
    Converted, Format, GraphFolder, GraphSource, IngestCounts, IngestOptions, JudgedRun, Layout, Run, Sink, convert,
    ingest, ingest_all,
};
pub use load::{Loaded, load_samples};
pub use measurement::{Doubt, Label, Measurement, Outcome, Rejection};
pub use parquet::{MeasurementReader, MeasurementWriter, SampleReader, SampleWriter, read_measurements};
pub use sample::Sample;
pub use scaler::{Scaler, ScalerFit, Standardization};
pub use split::{Carve, Split, SplitBy, SplitKey};
pub use stack::{Software, Stack, UnknownStack};
pub use target::{Target, UTILISATION};
pub use target_path::output_path;
pub use workspaces::{WorkspaceRow, WorkspaceTable, read_workspaces};
