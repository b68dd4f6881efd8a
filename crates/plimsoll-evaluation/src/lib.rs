//! How good estimates are.
//!
//! In go estimates beside what was measured ([`Prediction`], one row each, kept as Parquet or CSV). Out come
//! [`Scores`] for every target, family, GPU and memory size; a [`Leaderboard`] that gathers the runs in one CSV
//! file; and a [`Report`] as Markdown and as one HTML page that needs no other file. Estimates that others published
//! for the same rows become estimators of their own ([`published_predictions`]), scored by the same code. A
//! [`Timeline`] draws what a GPU holds over a training step, a [`Comparison`] what a job takes on many GPUs,
//! [`LearningCurves`] what measured runs are worth.
//!
//! The crate deliberately knows nothing of networks and training, and never mixes label definitions silently: every
//! number is shown with its data, split, label definition and count.

mod comparison;
mod drawing;
mod error;
mod job_file;
mod leaderboard;
mod learning_curve;
mod prediction;
mod prediction_file;
mod replace_file;
mod report;
mod scores;
mod timeline;
mod workspaces;

pub use comparison::{Comparison, ComparisonLine};
pub use error::{EvaluationError, Result};
pub use job_file::{EstimatedJob, JobFormat, JobRow, JobWriter};
pub use leaderboard::{Cost, Leaderboard, LeaderboardRow, RunName};
pub use learning_curve::{CurvePoint, LearningCurve, LearningCurves, learning_curve};
pub use prediction::{Prediction, predict, published_predictions};
pub use prediction_file::{read_predictions, write_predictions};
pub use report::{DataDescription, Report, ReportFiles, Section};
pub use scores::{
    Bootstrap, BoundScores, DecisionScores, Interval, Intervals, LevelScores, MemoryScores, ScoreContext, Scores,
    SizeClass, TargetMap, TargetScores, write_scores,
};
pub use timeline::{Timeline, TimelineMoment, TimelineTable};
pub use workspaces::WorkspaceScores;
