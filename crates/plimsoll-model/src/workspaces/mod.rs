//! Fitting of the workspace model: one small network for each direction of a convolution.
//!
//! What is fitted here runs in `plimsoll-simulate` without Burn. [`WorkspaceFit`] makes the weights,
//! [`WorkspaceNetwork`] is the same network as a module, which a test holds against the other.

mod batch;
mod fit;
mod loss;
mod network;

pub use fit::WorkspaceFit;
pub use network::WorkspaceNetwork;
