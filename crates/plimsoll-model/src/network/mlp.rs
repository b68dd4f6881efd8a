//! The network over summary features.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::{Dense, Heads, Outputs, Widths};
use crate::batch::Batch;
use crate::settings::{NetworkSettings, OutputSettings};

/// Summary and GPU through a residual multilayer perceptron.
#[derive(Module, Debug)]
pub struct MlpNetwork {
    /// The trunk under the memory head.
    pub trunk: Dense,
    /// The trunk under the utilisation head: what serves one target would bend the other.
    pub utilisation_trunk: Dense,
    /// The heads.
    pub heads: Heads,
}

impl MlpNetwork {
    pub(super) fn new(settings: &NetworkSettings, output: &OutputSettings, widths: Widths, device: &Device) -> Self {
        let NetworkSettings::Mlp { hidden, blocks, dropout } = *settings else {
            unreachable!("the caller matched the kind");
        };
        let trunk = || Dense::new(widths.summary + widths.gpu, hidden, blocks, dropout, device);
        Self { trunk: trunk(), utilisation_trunk: trunk(), heads: Heads::new(hidden, widths.gpu, output, device) }
    }

    pub(super) fn forward(&self, batch: &Batch) -> Outputs {
        let x = Tensor::cat(vec![batch.summary.clone(), batch.gpu.clone()], 1);
        let trunks = [self.trunk.forward(x.clone()), self.utilisation_trunk.forward(x)];
        self.heads.forward(trunks, &batch.gpu, &batch.simulated_mib)
    }
}
