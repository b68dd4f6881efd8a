//! ONNX files: a builder that makes valid graphs of their messages.

mod builder;

pub use plimsoll_onnx::proto;

pub use builder::{Attribute, ElementType, Extent, IR_VERSION, OPSET, OnnxBuilder, Value};
