//! ONNX files: their messages, and a builder that makes valid graphs of them.
//!
//! The messages are written out by hand, so no protobuf compiler is needed to build Plimsoll.

mod builder;
pub mod proto;

pub use builder::{Attribute, ElementType, Extent, IR_VERSION, OPSET, OnnxBuilder, Value};
