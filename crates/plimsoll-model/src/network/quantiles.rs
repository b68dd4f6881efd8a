//! The head that says how far above the estimate memory may lie.

use burn::module::Module;
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::Dense;
use super::labels::SHIFTED;

/// Steps between levels: from the median to 90 %, on to 95 %, on to 99 %.
pub const STEPS: usize = 3;
/// Logarithms of the steps of an untrained head, themselves logarithms of memory: 2 %, 1 % and 3 %.
pub const STEP_CENTRES: [f64; STEPS] = [-3.9, -4.6, -3.5];
/// Half the range of the logarithm of a step: from a fiftieth to fifty times its centre.
pub const STEP_RANGE: f64 = 4.0;

/// Upper quantiles of the logarithm of truth over estimate, each a positive step above the one before, so that none
/// can cross.
///
/// It has a trunk of its own over summary features: what it learns of the spread does not bend the estimate. The GPU's
/// descriptor is not among them: what a few GPUs show says nothing of the spread on another, for which bounds widen instead.
#[derive(Module, Debug)]
pub struct QuantileHead {
    /// The trunk.
    pub trunk: Dense,
    /// What a label definition adds to the trunk's output.
    pub label: Linear,
    /// Output layer.
    pub output: Linear,
}

impl QuantileHead {
    pub(super) fn new(input: usize, hidden: usize, dropout: f64, device: &Device) -> Self {
        let zeros = |input, output, bias| {
            LinearConfig::new(input, output).with_bias(bias).with_initializer(Initializer::Zeros).init(device)
        };
        Self {
            trunk: Dense::new(input, hidden, 1, dropout, device),
            label: zeros(SHIFTED.len(), hidden, false),
            output: zeros(hidden, STEPS, true),
        }
    }

    /// Logarithms of quantile over median at 90, 95 and 99 %.
    ///
    /// # Shapes
    /// `x` is `[b, input]`, `label` is `[b, 4]`; `[b, 3]` out.
    pub(crate) fn forward(&self, x: Tensor<2>, label: Tensor<2>) -> Tensor<2> {
        let hidden = self.trunk.forward(x) + self.label.forward(label);
        let centres = Tensor::<1>::from_floats(STEP_CENTRES.map(|centre| centre as f32), &hidden.device());
        let raw = (self.output.forward(hidden) / STEP_RANGE).tanh() * STEP_RANGE;
        let steps = (raw + centres.unsqueeze::<2>()).exp();
        let step = |index: usize| steps.clone().narrow(1, index, 1);
        let (p90, p95) = (step(0), step(0) + step(1));
        Tensor::cat(vec![p90, p95.clone(), p95 + step(2)], 1)
    }
}
