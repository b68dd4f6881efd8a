//! Output heads, conditioned on the GPU, the software under it and on how memory is read.
//!
//! Memory is what the context and libraries take plus what the allocator reserves, or a part of that, as the label
//! definition says. All quantities are simulated; the head predicts the logarithms of the ratios of measurement to
//! simulation. They start at zero, so that an untrained network is the simulator itself, and a trained one says what the
//! simulator misses. FP32A is the roofline's in the same way, on the scale of logits.

use burn::module::Module;
use burn::nn::{Gelu, Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_dataset::Stack;

use super::labels::{QUANTITIES, SHIFTED};
use crate::batch::Batch;
use crate::settings::OutputSettings;

/// The multiplier on reserved bytes lies within e to plus or minus this: an estimate far from all training data stays
/// a simulation.
pub const RESERVED_RANGE: f64 = 1.2;
/// The multiplier on context and libraries lies within e to plus or minus this.
pub const CONTEXT_RANGE: f64 = 2.0;
/// The multiplier on live bytes lies within e to plus or minus this.
pub const LIVE_RANGE: f64 = 1.2;
/// No job takes less than this, MiB.
pub const LEAST_MIB: f64 = 1.0;
/// Centre of the logarithm of the scale.
pub const LOG_SCALE_CENTRE: f64 = -3.5;
/// Half the range of the logarithm of the scale: from e to the -6, a quarter of a percent, to e to the -1.
///
/// Where rows that are simulated to ten-thousandths may claim an ever smaller scale, each of their likelihoods outweighs
/// those of many rows that have something to teach: with a least scale of e to the -8 the correction of convolutional
/// networks fitted beside multilayer perceptrons was worth nothing (MAPE 3.56 instead of 3.08 %, GPUMemNet's 1,262 rows,
/// architectures held out).
pub const LOG_SCALE_RANGE: f64 = 2.5;

/// What a network says of a batch.
#[derive(Debug, Clone)]
pub struct Outputs {
    /// Logarithms of measurement over simulation for each quantity, `[b, 3]`; `None` for a classifier.
    pub residuals: Option<Tensor<2>>,
    /// Logarithm of the median of peak memory in MiB, `[b]`; `None` for a classifier.
    pub log_memory: Option<Tensor<1>>,
    /// Logarithm of the scale of its logistic distribution, `[b]`; `None` for a classifier.
    pub log_scale: Option<Tensor<1>>,
    /// Logarithms of quantile over median at 90, 95 and 99 %, `[b, 3]`; `None` for a classifier.
    pub log_quantiles: Option<Tensor<2>>,
    /// Logits of the memory bins, `[b, bins]`; `None` for a regressor.
    pub bin_logits: Option<Tensor<2>>,
    /// Logits of the utilisation ratios, `[b, 6]`.
    pub utilisation_logits: Tensor<2>,
}

impl Outputs {
    /// The mean of several networks' outputs: residuals, scales and quantiles are logarithms, so their mean is a
    /// geometric one.
    pub(super) fn mean(outputs: &[Self], batch: &Batch) -> Self {
        let residuals = mean(outputs, |outputs| outputs.residuals.as_ref());
        Self {
            log_memory: residuals.as_ref().map(|residuals| log_memory(residuals, batch)),
            residuals,
            log_scale: mean(outputs, |outputs| outputs.log_scale.as_ref()),
            log_quantiles: mean(outputs, |outputs| outputs.log_quantiles.as_ref()),
            bin_logits: mean(outputs, |outputs| outputs.bin_logits.as_ref()),
            utilisation_logits: mean(outputs, |outputs| Some(&outputs.utilisation_logits)).expect("always there"),
        }
    }
}

fn mean<const D: usize>(outputs: &[Outputs], get: impl Fn(&Outputs) -> Option<&Tensor<D>>) -> Option<Tensor<D>> {
    let sum = outputs.iter().filter_map(get).cloned().reduce(|sum, tensor| sum + tensor)?;
    Some(if outputs.len() == 1 { sum } else { sum / outputs.len() as f64 })
}

/// The logarithm of memory: simulated quantities, corrected, of which a label definition adds up some.
fn log_memory(residuals: &Tensor<2>, batch: &Batch) -> Tensor<1> {
    let corrected = batch.simulated_mib.clone() * residuals.clone().exp() * batch.parts.clone();
    corrected.sum_dim(1).squeeze_dim::<1>(1).clamp_min(LEAST_MIB).log()
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

/// The memory head: four numbers for a regressor, one per bin for a classifier.
#[derive(Module, Debug)]
pub struct MemoryHead {
    /// Hidden layer.
    pub hidden: Linear,
    /// What a label definition adds to the hidden layer; zero until rows of it were seen.
    pub label: Linear,
    /// What software other than today's adds to the hidden layer; zero until rows of it were seen.
    pub stack: Linear,
    /// Output layer.
    pub output: Linear,
    is_classifier: bool,
}

impl MemoryHead {
    /// Whether its outputs are classes.
    pub const fn is_classifier(&self) -> bool {
        self.is_classifier
    }
}

impl Heads {
    /// Heads over a trunk of a width, conditioned on GPU features of a width.
    pub fn new(trunk: usize, gpu: usize, output: &OutputSettings, device: &Device) -> Self {
        let (outputs, is_classifier) = match output {
            OutputSettings::Regression => (QUANTITIES + 1, false),
            OutputSettings::Bins { count, .. } => (*count, true),
        };
        // Zero is "as simulated". Classes start at random, as usual.
        let start = if is_classifier { LinearConfig::new(trunk, outputs).initializer } else { Initializer::Zeros };
        let shift = |inputs: usize| {
            LinearConfig::new(inputs, trunk).with_bias(false).with_initializer(Initializer::Zeros).init(device)
        };
        Self {
            memory: MemoryHead {
                hidden: LinearConfig::new(trunk + gpu, trunk).init(device),
                label: shift(SHIFTED.len()),
                stack: shift(Stack::NUMBERS.len()),
                output: LinearConfig::new(trunk, outputs).with_initializer(start).init(device),
                is_classifier,
            },
            utilisation_hidden: LinearConfig::new(trunk + gpu, trunk).init(device),
            utilisation_output: LinearConfig::new(trunk, 6).init(device),
            gelu: Gelu::new(),
        }
    }

    /// Runs both heads. Quantiles have a head of their own and are left out.
    ///
    /// # Shapes
    /// `trunks` are `[b, hidden]` each, for memory and for utilisation.
    pub(super) fn forward(&self, trunks: [Tensor<2>; 2], batch: &Batch) -> Outputs {
        let [memory, utilisation] = trunks.map(|trunk| Tensor::cat(vec![trunk, batch.gpu.clone()], 1));
        let hidden = self.gelu.forward(self.utilisation_hidden.forward(utilisation));
        let utilisation_logits = self.utilisation_output.forward(hidden) + batch.roofline.clone();
        let hidden = self.memory.hidden.forward(memory)
            + self.memory.label.forward(batch.label.clone())
            + self.memory.stack.forward(batch.stack.clone());
        let memory = self.memory.output.forward(self.gelu.forward(hidden));
        let mut outputs = Outputs {
            residuals: None,
            log_memory: None,
            log_scale: None,
            log_quantiles: None,
            bin_logits: None,
            utilisation_logits,
        };
        if self.memory.is_classifier {
            outputs.bin_logits = Some(memory);
            return outputs;
        }
        let bounded = |index: usize, range: f64| (memory.clone().narrow(1, index, 1) / range).tanh() * range;
        let residuals = vec![bounded(0, RESERVED_RANGE), bounded(1, CONTEXT_RANGE), bounded(2, LIVE_RANGE)];
        let residuals = Tensor::cat(residuals, 1);
        outputs.log_memory = Some(log_memory(&residuals, batch));
        outputs.residuals = Some(residuals);
        outputs.log_scale = Some((bounded(3, LOG_SCALE_RANGE) + LOG_SCALE_CENTRE).squeeze_dim(1));
        outputs
    }
}
