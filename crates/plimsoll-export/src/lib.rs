//! Fitted networks as files that other programs run.
//!
//! In goes a [`Learned`](plimsoll_model::Learned) estimator. Out come `model.onnx`, which takes raw features and gives
//! estimates in their units (the scaling is part of the graph), and `manifest.json` with everything that its use
//! needs: feature names, vocabularies, label definition, data, settings, metrics. [`write_parity_cases`] adds inputs
//! with Plimsoll's own outputs, so that any runtime can be checked against it.
//!
//! The crate deliberately knows nothing of how networks are fitted and judged, and runs no exported model itself.

mod error;
mod export;
mod files;
mod gpus;
mod graph;
mod inputs;
mod manifest;
mod metadata;
mod parity;
mod weights;

pub mod interface;
pub mod onnx;

pub use error::{ExportError, Result};
pub use export::{ExportSettings, encode, export};
pub use gpus::{GpuVector, GpuVocabulary};
pub use inputs::{RawInputs, RawSequence};
pub use interface::{Column, Port};
pub use manifest::{MANIFEST_FILE, MODEL_FILE, Manifest, ModelFile, Parity};
pub use parity::{
    Elements, NamedTensor, PARITY_FILE, ParityCase, ParityCases, RATIO_FLOOR, TOLERANCE, comparison_floor,
    relative_difference, write_parity_cases,
};
