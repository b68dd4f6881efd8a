//! Fully connected building blocks.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Gelu, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

/// `x + W₂ gelu(W₁ norm(x))`.
#[derive(Module, Debug)]
pub struct Residual {
    /// Normalises the input.
    pub norm: LayerNorm,
    /// First layer.
    pub first: Linear,
    /// Second layer.
    pub second: Linear,
    dropout: Dropout,
    gelu: Gelu,
}

impl Residual {
    fn new(width: usize, dropout: f64, device: &Device) -> Self {
        Self {
            norm: LayerNormConfig::new(width).init(device),
            first: LinearConfig::new(width, width).init(device),
            second: LinearConfig::new(width, width).init(device),
            dropout: DropoutConfig::new(dropout).init(),
            gelu: Gelu::new(),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let inner = self.gelu.forward(self.first.forward(self.norm.forward(x.clone())));
        x + self.second.forward(self.dropout.forward(inner))
    }
}

/// A linear layer with GELU, then residual blocks.
#[derive(Module, Debug)]
pub struct Dense {
    /// From the input's width to the hidden one.
    pub input: Linear,
    /// Residual blocks.
    pub blocks: Vec<Residual>,
    gelu: Gelu,
}

impl Dense {
    /// A stack of `blocks` residual blocks.
    pub fn new(input: usize, hidden: usize, blocks: usize, dropout: f64, device: &Device) -> Self {
        Self {
            input: LinearConfig::new(input, hidden).init(device),
            blocks: (0..blocks).map(|_| Residual::new(hidden, dropout, device)).collect(),
            gelu: Gelu::new(),
        }
    }

    /// Runs the stack.
    ///
    /// # Shapes
    /// `[b, input]` in, `[b, hidden]` out.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let x = self.gelu.forward(self.input.forward(x));
        self.blocks.iter().fold(x, |x, block| block.forward(x))
    }
}
