//! Estimators: what turns features into estimates.
//!
//! Two traits carry the design. An [`Estimator`] is fitted or needs no fitting: samples in, one [`Estimate`] each
//! out. A [`Fit`] is settings: with data it makes a *new* fitted value, so that an unfitted thing cannot predict
//! and two folds cannot share weights. [`LearnedFit`] makes a [`Learned`] network; [`Analytic`] quantities with a
//! constant and [`BoostedTrees`] are what it is measured against.
//!
//! The crate deliberately knows nothing of scores, reports and export formats.

mod adaptation;
mod baseline;
mod boosted;
mod bounds;
mod calibration;
mod checkpoint;
mod device;
mod error;
mod estimate;
mod estimator;
mod events;
mod familiarity;
mod fit;
mod learned;
mod objective;
mod settings;
mod strength;

pub mod batch;
pub mod network;
pub mod workspaces;

pub use adaptation::{Adaptation, Neighbour, Neighbours, Place, Reading};
pub use baseline::{Analytic, WithConstant};
pub use boosted::{BoostedFit, BoostedOn, BoostedSettings, BoostedTrees};
pub use bounds::{Bounds, LEVELS};
pub use calibration::{Calibration, LabelOffsets, Offsets, family_flags};
pub use checkpoint::{DataDescription, Description};
pub use device::DeviceKind;
pub use error::{ModelError, Result};
pub use estimate::Estimate;
pub use estimator::{Estimator, Fit};
pub use events::{Epoch, EventSink, Observer, Silent, TensorBoard};
pub use familiarity::{EXCESS_UNIT, Familiarity};
pub use fit::LearnedFit;
pub use learned::{Learned, OOD_WIDENING};
pub use objective::loss;
pub use settings::TrainingSettings;
pub use settings::{
    BaseSettings, BinEstimate, CalibrationSettings, InputSettings, NetworkSettings, OutputSettings, Settings,
};
pub use strength::{Strength, Strengths};
