//! The networks inside learned estimators.
//!
//! Both read a [`Batch`] and end in the same [`Heads`]; they differ in what they see: the
//! [`MlpNetwork`] summary and GPU, the [`TransformerNetwork`] the layer sequence as well.

mod dense;
mod heads;
mod mlp;
mod transformer;

use burn::module::Module;
use burn::tensor::Device;

pub use dense::{Dense, Residual};
pub use heads::{CONTEXT_RANGE, Heads, LOG_SCALE_CENTRE, LOG_SCALE_RANGE, MemoryHead, Outputs, RESERVED_RANGE};
pub use mlp::MlpNetwork;
pub use transformer::TransformerNetwork;

use crate::batch::Batch;
use crate::settings::{NetworkSettings, OutputSettings};

/// Numbers of features: the widths of a network's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// Tokens in the vocabulary.
    pub tokens: usize,
    /// Numbers of a layer.
    pub layer: usize,
    /// Numbers of a workload.
    pub summary: usize,
    /// Numbers of a GPU.
    pub gpu: usize,
}

impl Widths {
    /// The widths under this build's feature schema.
    pub fn current() -> Self {
        let schema = plimsoll_features::FeatureSchema::current();
        Self {
            tokens: schema.tokens.len(),
            layer: schema.layer.len(),
            summary: schema.summary.len(),
            gpu: schema.gpu.len(),
        }
    }
}

/// A network of either kind.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "one value exists per estimator")]
pub enum Network {
    /// Over summary features.
    Mlp(MlpNetwork),
    /// Over the layer sequence.
    Transformer(TransformerNetwork),
}

impl Network {
    /// A freshly initialised network. Parameters are drawn at once and in a fixed order, so that the device's
    /// seed decides them.
    pub fn new(settings: &NetworkSettings, output: &OutputSettings, widths: Widths, device: &Device) -> Self {
        match settings {
            NetworkSettings::Mlp { .. } => Self::Mlp(MlpNetwork::new(settings, output, widths, device)),
            NetworkSettings::Transformer { .. } => {
                Self::Transformer(TransformerNetwork::new(settings, output, widths, device))
            }
        }
        .materialize()
    }

    /// Whether the network reads the layer sequence.
    pub const fn reads_layers(&self) -> bool {
        matches!(self, Self::Transformer(_))
    }

    /// Runs the network.
    ///
    /// # Shapes
    /// A batch of `b` rows in; outputs of `b` rows out.
    pub fn forward(&self, batch: &Batch) -> Outputs {
        match self {
            Self::Mlp(network) => network.forward(batch),
            Self::Transformer(network) => network.forward(batch),
        }
    }
}
