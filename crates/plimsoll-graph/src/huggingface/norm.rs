//! Root-mean-square normalisation as the library writes it: operator by operator.

use super::module::Module;
use super::network::Value;
use crate::dtype::DType;
use crate::op::{Binary, Op, Reduction};
use crate::shape::{Dim, Shape};

impl Module<'_> {
    pub(super) fn new_rms_norm(&mut self, name: &str, width: u64) {
        self.new_weights(name, &[width], None);
    }

    /// Llama's and T5's: the weight times the normalised input.
    pub(super) fn rms_norm(&mut self, name: &str, x: Value) -> Value {
        let mut module = self.child(name);
        let normalised = module.rms_normalised(x);
        let weight = module.weight("weight");
        module.like("mul", Op::Binary { function: Binary::Multiply, inplace: false }, &[normalised], vec![weight])
    }

    /// Gemma's: one more than the weight.
    pub(super) fn shifted_rms_norm(&mut self, name: &str, x: Value) -> Value {
        let mut module = self.child(name);
        let normalised = module.rms_normalised(x);
        let weight = module.weight("weight");
        let shape = Shape::new([module.shape(x).last()]);
        let add = Op::Binary { function: Binary::Add, inplace: false };
        let scale = module.node("add", add, &[], vec![weight], shape, DType::Float32);
        module.multiply(normalised, scale)
    }

    fn rms_normalised(&mut self, x: Value) -> Value {
        let squares = self.scalar("", Binary::Other, x);
        let mut dims = self.shape(x).dims().to_vec();
        dims.pop();
        dims.push(Dim::Fixed(1));
        let mean = self.node(
            "mean",
            Op::Reduce { function: Reduction::Mean },
            &[squares],
            vec![],
            Shape::new(dims),
            DType::Float32,
        );
        let mean = self.shift(mean);
        let root = self.other("rsqrt", "rsqrt", mean);
        self.multiply(x, root)
    }
}
