//! The network as Burn sees it.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_simulate::workspace::NetworkWeights;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Three linear layers with rectifiers between. What goes in is [`NetworkWeights::inputs`].
#[derive(Module, Debug)]
pub struct WorkspaceNetwork {
    /// From inputs to the hidden width.
    pub first: Linear,
    /// From the hidden width to itself.
    pub second: Linear,
    /// From the hidden width to the forms.
    pub third: Linear,
}

impl WorkspaceNetwork {
    /// A freshly initialised network: uniform within one over the square root of a layer's inputs. Burn's own generator
    /// is shared by the whole process, so a seed would not decide what it draws.
    pub(super) fn new(hidden: usize, generator: &mut ChaCha8Rng, device: &Device) -> Self {
        let mut layer = |[inputs, outputs]: [usize; 2]| {
            let bound = 1.0 / (inputs as f32).sqrt();
            let mut draw = |count: usize| (0..count).map(|_| generator.random_range(-bound..=bound)).collect();
            linear([inputs, outputs], draw(inputs * outputs), draw(outputs), device)
        };
        let [first, second, third] = NetworkWeights::shapes(hidden);
        Self { first: layer(first), second: layer(second), third: layer(third) }
    }

    /// The network of given weights.
    pub fn from_weights(weights: &NetworkWeights, device: &Device) -> Self {
        let shapes = NetworkWeights::shapes(weights.hidden);
        let layer =
            |index: usize| linear(shapes[index], weights.weights[index].clone(), weights.biases[index].clone(), device);
        Self { first: layer(0), second: layer(1), third: layer(2) }
    }

    /// Runs the network.
    ///
    /// # Shapes
    /// `[b, INPUT_COUNT]` in, `[b, OUTPUT_COUNT]` out.
    pub fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let hidden = relu(self.second.forward(relu(self.first.forward(inputs))));
        self.third.forward(hidden)
    }

    /// Matrices and biases of the layers, as plain numbers.
    pub(super) fn numbers(&self) -> ([Vec<f32>; 3], [Vec<f32>; 3]) {
        let layers = [&self.first, &self.second, &self.third];
        let matrices = layers.map(|layer| layer.weight.val().into_data().iter::<f32>().collect());
        let biases = layers.map(|layer| {
            layer.bias.as_ref().map(|bias| bias.val().into_data().iter::<f32>().collect()).unwrap_or_default()
        });
        (matrices, biases)
    }
}

fn linear([inputs, outputs]: [usize; 2], matrix: Vec<f32>, bias: Vec<f32>, device: &Device) -> Linear {
    let matrix = Tensor::from_data(TensorData::new(matrix, [inputs, outputs]), device);
    let bias = Tensor::from_data(TensorData::new(bias, [outputs]), device);
    Linear { weight: Param::from_tensor(matrix), bias: Some(Param::from_tensor(bias)) }
}
