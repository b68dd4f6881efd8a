//! Time and activity of a training step, kernel by kernel, from a GPU's published figures.
//!
//! A step is lowered to the [`Kernel`]s that PyTorch would launch. Each takes as long as the slower of its arithmetic,
//! in whole waves of thread blocks over the multiprocessors, and its memory traffic. The host puts them into a queue
//! that the GPU works off; where launches come slower than kernels end, the GPU idles. Nothing is fitted: the
//! constants are round figures of PyTorch on a recent host, and learned estimators correct what they get wrong.

mod activity;
mod algorithm;
mod attention;
mod convolution;
mod host;
mod kernel;
mod lower;
mod machine;
mod matrix;
mod optimizer;
mod products;
mod scene;
mod step;
mod streams;
#[cfg(test)]
mod tests;

pub use activity::Activity;
pub use host::HostTime;
pub use kernel::{Kernel, KernelKind, Pipe};
pub use lower::kernels;
pub use step::StepTime;
