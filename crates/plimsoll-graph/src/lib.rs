//! What a training job *is*, before anything runs.
//!
//! In goes a file (our JSON graph, a printed layer summary), a configuration of one of the generated
//! architectures, or a name from the GPU catalogue. Out comes a [`Workload`]: a computation [`Graph`], a
//! [`TrainingSetup`] and a [`Gpu`], checked so that every later step may compute with it without overflow.
//!
//! The crate deliberately knows nothing of memory, time, features or measurements. Rules of what a training
//! step allocates live in `plimsoll-simulate`; measured numbers live in `plimsoll-dataset`.

mod builder;
mod dtype;
mod error;
mod family;
mod gpu;
mod graph;
mod op;
mod op_check;
mod setup;
mod shape;
mod step_record;
mod workload;

pub mod architectures;
pub mod generator;
pub mod gpumemnet;
pub mod huggingface;
pub mod json;
pub mod summary;

pub use builder::{GraphBuilder, Value};
pub use dtype::DType;
pub use error::{GraphError, Result};
pub use family::Family;
pub use gpu::{Gpu, GpuCatalogue, MigSlice};
pub use graph::{Graph, GraphParts, Node, NodeId, TensorId, TensorSpec, Weight, WeightId, WeightKind};
pub use op::{Activation, AttentionKernel, Binary, Conv, Op, PadMode, Pool, PoolKind, RecurrentCell, Reduction};
pub use setup::{Loss, Optimizer, Precision, TrainingSetup};
pub use shape::{Dim, Shape};
pub use step_record::{ConvolutionPass, RecordedEvent, Size, StepRecord};
pub use workload::Workload;
