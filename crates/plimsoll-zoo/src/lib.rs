//! The zoo: graphs of well-known models, captured beforehand and kept in one compressed file.
//!
//! In goes a name such as `resnet50` or `torchvision/resnet50`, out comes the checked
//! [`Graph`](plimsoll_graph::Graph) that the capture tool made of that model. [`Zoo::built_in`] is part of the
//! program; [`Zoo::read`] takes another container from a file, [`pack`] makes one of a folder of graph files.
//!
//! A container is an index and groups of graphs (see `container.rs`). Looking up a name reads the index alone, and
//! opening a graph decompresses its group alone, so both take milliseconds however large the zoo is.
//!
//! The crate deliberately knows nothing of how models are captured, nor of what training them takes.

mod container;
mod entry;
mod error;
mod names;
mod pack;
mod zoo;

pub use entry::{Entry, Library};
pub use error::{Result, ZooError};
pub use pack::{Packed, pack};
pub use zoo::Zoo;
