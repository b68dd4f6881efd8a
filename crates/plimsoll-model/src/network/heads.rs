//! Output heads, conditioned on the GPU.
//!
//! Memory is what the context and libraries take plus what the step holds, so the head predicts two multipliers:
//! one on the analytically counted live bytes, one on a nominal context. Both are near one, whatever the size of
//! the workload, and an untrained network already is a sensible formula.

use burn::module::Module;
use burn::nn::{Gelu, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use crate::settings::OutputSettings;

/// Nominal memory of context and libraries, MiB; the head's second multiplier corrects it.
pub const CONTEXT_MIB: f64 = 1024.0;
/// The multiplier on live bytes lies within e to plus or minus this: what allocators and workspaces add is bounded,
/// and an estimate far from all training data stays a formula.
pub const LIVE_RANGE: f64 = 1.2;
/// The multiplier on the nominal context lies within e to plus or minus this.
pub const CONTEXT_RANGE: f64 = 3.0;
/// Centre of the logarithm of the scale.
pub const LOG_SCALE_CENTRE: f64 = -4.0;
/// Half the range of the logarithm of the scale.
pub const LOG_SCALE_RANGE: f64 = 4.0;

/// What a network says of a batch.
#[derive(Debug, Clone)]
pub struct Outputs {
    /// Logarithm of the median of peak memory in MiB, `[b]`; `None` for a classifier.
    pub log_memory: Option<Tensor<1>>,
    /// Logarithm of the scale of its logistic distribution, `[b]`; `None` for a classifier.
    pub log_scale: Option<Tensor<1>>,
    /// Logits of the memory bins, `[b, bins]`; `None` for a regressor.
    pub bin_logits: Option<Tensor<2>>,
    /// Logits of the utilisation ratios, `[b, 6]`.
    pub utilisation_logits: Tensor<2>,
}

/// Both heads.
#[derive(Module, Debug)]
pub struct Heads {
    /// Memory.
    pub memory: MemoryHead,
    /// Hidden layer of the utilisation head.
    pub utilisation_hidden: Linear,
    /// Output layer of the utilisation head.
    pub utilisation_output: Linear,
    gelu: Gelu,
}

/// The memory head: three numbers for a regressor, one per bin for a classifier.
#[derive(Module, Debug)]
pub struct MemoryHead {
    /// Hidden layer.
    pub hidden: Linear,
    /// Output layer.
    pub output: Linear,
    is_classifier: bool,
}

impl Heads {
    /// Heads over a trunk of a width, conditioned on GPU features of a width.
    pub fn new(trunk: usize, gpu: usize, output: &OutputSettings, device: &Device) -> Self {
        let (outputs, is_classifier) = match output {
            OutputSettings::Regression => (3, false),
            OutputSettings::Bins { count, .. } => (*count, true),
        };
        Self {
            memory: MemoryHead {
                hidden: LinearConfig::new(trunk + gpu, trunk).init(device),
                output: LinearConfig::new(trunk, outputs).init(device),
                is_classifier,
            },
            utilisation_hidden: LinearConfig::new(trunk + gpu, trunk).init(device),
            utilisation_output: LinearConfig::new(trunk, 6).init(device),
            gelu: Gelu::new(),
        }
    }

    /// Runs both heads.
    ///
    /// # Shapes
    /// `trunk` is `[b, hidden]`, `gpu` is `[b, g]`, `live_mib` is `[b, 1]`.
    pub fn forward(&self, trunk: Tensor<2>, gpu: Tensor<2>, live_mib: Tensor<2>) -> Outputs {
        let joined = Tensor::cat(vec![trunk, gpu], 1);
        let hidden = self.gelu.forward(self.utilisation_hidden.forward(joined.clone()));
        let utilisation_logits = self.utilisation_output.forward(hidden);
        let memory = self.memory.output.forward(self.gelu.forward(self.memory.hidden.forward(joined)));
        if self.memory.is_classifier {
            return Outputs { log_memory: None, log_scale: None, bin_logits: Some(memory), utilisation_logits };
        }
        let bounded = |index: usize, range: f64| (memory.clone().narrow(1, index, 1) / range).tanh() * range;
        let live = live_mib * bounded(0, LIVE_RANGE).exp();
        let context = bounded(1, CONTEXT_RANGE).exp() * CONTEXT_MIB;
        Outputs {
            log_memory: Some((live + context).log().squeeze_dim(1)),
            log_scale: Some((bounded(2, LOG_SCALE_RANGE) + LOG_SCALE_CENTRE).squeeze_dim(1)),
            bin_logits: None,
            utilisation_logits,
        }
    }
}
