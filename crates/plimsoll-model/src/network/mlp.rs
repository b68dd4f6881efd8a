//! The network over summary features.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::{Dense, Heads, Outputs, QuantileHead, Widths};
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
    /// Upper quantiles of memory, for a regressor.
    pub quantiles: Option<QuantileHead>,
}

impl MlpNetwork {
    pub(super) fn new(settings: &NetworkSettings, output: &OutputSettings, widths: Widths, device: &Device) -> Self {
        let NetworkSettings::Mlp { hidden, blocks, dropout } = *settings else {
            unreachable!("the caller matched the kind");
        };
        let input = widths.summary + widths.gpu;
        let trunk = || Dense::new(input, hidden, blocks, dropout, device);
        Self {
            trunk: trunk(),
            utilisation_trunk: trunk(),
            heads: Heads::new(hidden, widths.gpu, output, device),
            quantiles: super::quantile_head(output, widths.summary, hidden, dropout, device),
        }
    }

    pub(super) fn forward(&self, batch: &Batch, with_quantiles: bool) -> Outputs {
        let x = Tensor::cat(vec![batch.summary.clone(), batch.gpu.clone()], 1);
        let trunks = [self.trunk.forward(x.clone()), self.utilisation_trunk.forward(x)];
        let quantiles = self.quantiles.as_ref().filter(|_| with_quantiles);
        let log_quantiles = quantiles.map(|head| head.forward(batch.summary.clone(), batch.label.clone()));
        Outputs { log_quantiles, ..self.heads.forward(trunks, batch) }
    }
}
