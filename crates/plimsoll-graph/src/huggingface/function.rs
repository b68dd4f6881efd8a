//! Activation functions under the library's names: some are one kernel, some are arithmetic written in Python.

use super::module::Module;
use super::network::Value;
use crate::op::{Activation, Binary};

/// An activation function as the library runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// One kernel of PyTorch.
    Kernel(Activation),
    /// `gelu_new`: the approximation with a hyperbolic tangent, term by term.
    NewGelu,
    /// `gelu_fast`: the same with its factors in another order.
    FastGelu,
    /// `quick_gelu`: the input times a sigmoid.
    QuickGelu,
}

impl Function {
    pub(super) const KNOWN: &'static str = "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu, relu6, leaky_relu, silu, swish, mish, tanh, \
         sigmoid or hardswish";

    pub(super) fn from_name(name: &str) -> Option<Self> {
        let kernel = match name {
            "gelu_new" => return Some(Self::NewGelu),
            "gelu_fast" => return Some(Self::FastGelu),
            "quick_gelu" => return Some(Self::QuickGelu),
            "gelu" | "gelu_pytorch_tanh" => Activation::Gelu,
            "relu" => Activation::Relu,
            "relu6" => Activation::Relu6,
            "leaky_relu" => Activation::LeakyRelu,
            "silu" | "swish" => Activation::Silu,
            "mish" => Activation::Mish,
            "tanh" => Activation::Tanh,
            "sigmoid" => Activation::Sigmoid,
            "hardswish" => Activation::HardSwish,
            _ => return None,
        };
        Some(Self::Kernel(kernel))
    }
}

impl Module<'_> {
    /// Runs an activation module.
    pub(super) fn activation(&mut self, name: &str, function: Function, x: Value) -> Value {
        let mut module = self.child(name);
        match function {
            Function::Kernel(kernel) => module.function("", kernel, x),
            Function::NewGelu => {
                let half = module.scalar("", Binary::Multiply, x);
                let cube = module.scalar("pow", Binary::Other, x);
                let cube = module.scale(cube);
                let sum = module.add(x, cube);
                let inner = module.scale(sum);
                module.gelu_of(half, inner)
            }
            Function::FastGelu => {
                let half = module.scalar("", Binary::Multiply, x);
                let scaled = module.scale(x);
                let square = module.scale(x);
                let square = module.multiply(square, x);
                let sum = module.shift(square);
                let inner = module.multiply(scaled, sum);
                module.gelu_of(half, inner)
            }
            Function::QuickGelu => {
                let scaled = module.scalar("", Binary::Multiply, x);
                let gate = module.function("sigmoid", Activation::Sigmoid, scaled);
                module.multiply(x, gate)
            }
        }
    }

    fn gelu_of(&mut self, half: Value, inner: Value) -> Value {
        let tanh = self.function("tanh", Activation::Tanh, inner);
        let sum = self.shift(tanh);
        self.multiply(half, sum)
    }
}
