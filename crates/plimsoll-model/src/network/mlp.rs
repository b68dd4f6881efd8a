//! The network over summary features.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::{Dense, Heads, Outputs, Widths};
use crate::batch::Batch;
use crate::settings::{NetworkSettings, OutputSettings};

/// Summary and GPU through a residual multilayer perceptron.
#[derive(Module, Debug)]
pub struct MlpNetwork {
    /// The trunk.
    pub trunk: Dense,
    /// The heads.
    pub heads: Heads,
}

impl MlpNetwork {
    pub(super) fn new(settings: &NetworkSettings, output: &OutputSettings, widths: Widths, device: &Device) -> Self {
        let NetworkSettings::Mlp { hidden, blocks, dropout } = *settings else {
            unreachable!("the caller matched the kind");
        };
        Self {
            trunk: Dense::new(widths.summary + widths.gpu, hidden, blocks, dropout, device),
            heads: Heads::new(hidden, widths.gpu, output, device),
        }
    }

    pub(super) fn forward(&self, batch: &Batch) -> Outputs {
        let trunk = self.trunk.forward(Tensor::cat(vec![batch.summary.clone(), batch.gpu.clone()], 1));
        self.heads.forward(trunk, batch.gpu.clone(), batch.simulated_mib.clone())
    }
}
