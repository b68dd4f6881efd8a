//! Forward graphs from ONNX files.
//!
//! In goes an ONNX model, as the exporters of frameworks write it: with its weights inline or in other files (which are
//! never opened, for only shapes matter), in training or evaluation mode, with a symbolic batch or a fixed one. Out
//! comes a [`Graph`](plimsoll_graph::Graph) of the operators that the framework ran before they were exported: chains
//! that exporters decompose are recognised, shape arithmetic is computed away, batch normalisations that were folded
//! into convolutions are put back. What could not be told for certain is said in warnings.
//!
//! The crate deliberately knows nothing of memory: what a training step keeps of an operator is told in
//! `plimsoll-simulate`. It computes with no weight and runs no model.

mod attributes;
mod constant;
mod emit;
mod error;
mod interpret;
mod program;
pub mod proto;
mod quantity;
mod read;
mod rewrite;
mod slim;

pub use error::{OnnxError, Result};
pub use read::{OnnxGraph, ReadOptions, is_onnx, parse, parse_with, read, read_with};
