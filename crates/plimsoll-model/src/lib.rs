//! Estimators: what turns features into estimates.
//!
//! Two traits carry the design. An [`Estimator`] is fitted or needs no fitting: samples in, one [`Estimate`] each
//! out. A [`Fit`] is settings: with data it makes a *new* fitted value, so that an unfitted thing cannot predict
//! and two folds cannot share weights. [`LearnedFit`] makes a [`Learned`] network; [`Analytic`] quantities and a
//! constant are what it is measured against.
//!
//! The crate deliberately knows nothing of scores, reports and export formats.

mod baseline;
mod checkpoint;
mod device;
mod error;
mod estimate;
mod estimator;
mod events;
mod fit;
mod learned;
mod objective;
mod settings;

pub mod batch;
pub mod network;
pub mod workspaces;

pub use baseline::{Analytic, WithConstant};
pub use checkpoint::{DataDescription, Description};
pub use device::DeviceKind;
pub use error::{ModelError, Result};
pub use estimate::Estimate;
pub use estimator::{Estimator, Fit};
pub use events::{Epoch, EventSink, Observer, Silent, TensorBoard};
pub use fit::LearnedFit;
pub use learned::Learned;
pub use objective::loss;
pub use settings::{NetworkSettings, OutputSettings, Settings, TrainingSettings};
