//! Output heads, conditioned on the GPU.
//!
//! Memory is what the context and libraries take plus what the allocator reserves. Both are simulated; the head
//! predicts the logarithms of two ratios of measurement to simulation. They start at zero, so that an untrained network
//! is the simulator itself, and a trained one says what the simulator misses.

use burn::module::Module;
use burn::nn::{Gelu, Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use crate::settings::OutputSettings;

/// The multiplier on reserved bytes lies within e to plus or minus this: an estimate far from all training data stays
/// a simulation.
pub const RESERVED_RANGE: f64 = 1.2;
/// The multiplier on context and libraries lies within e to plus or minus this.
pub const CONTEXT_RANGE: f64 = 2.0;
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
        // Zero is "as simulated". Classes start at random, as usual.
        let start = if is_classifier { LinearConfig::new(trunk, outputs).initializer } else { Initializer::Zeros };
        Self {
            memory: MemoryHead {
                hidden: LinearConfig::new(trunk + gpu, trunk).init(device),
                output: LinearConfig::new(trunk, outputs).with_initializer(start).init(device),
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
    /// `trunks` are `[b, hidden]` each, for memory and for utilisation; `gpu` is `[b, g]`, `simulated_mib` is `[b, 2]`:
    /// reserved, context.
    pub fn forward(&self, trunks: [Tensor<2>; 2], gpu: &Tensor<2>, simulated_mib: &Tensor<2>) -> Outputs {
        let [memory, utilisation] = trunks.map(|trunk| Tensor::cat(vec![trunk, gpu.clone()], 1));
        let hidden = self.gelu.forward(self.utilisation_hidden.forward(utilisation));
        let utilisation_logits = self.utilisation_output.forward(hidden);
        let memory = self.memory.output.forward(self.gelu.forward(self.memory.hidden.forward(memory)));
        if self.memory.is_classifier {
            return Outputs { log_memory: None, log_scale: None, bin_logits: Some(memory), utilisation_logits };
        }
        let bounded = |index: usize, range: f64| (memory.clone().narrow(1, index, 1) / range).tanh() * range;
        let reserved = simulated_mib.clone().narrow(1, 0, 1) * bounded(0, RESERVED_RANGE).exp();
        let context = simulated_mib.clone().narrow(1, 1, 1) * bounded(1, CONTEXT_RANGE).exp();
        Outputs {
            log_memory: Some((reserved + context).log().squeeze_dim(1)),
            log_scale: Some((bounded(2, LOG_SCALE_RANGE) + LOG_SCALE_CENTRE).squeeze_dim(1)),
            bin_logits: None,
            utilisation_logits,
        }
    }
}
