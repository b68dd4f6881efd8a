//! Rotary position embeddings: heads turned by an angle that grows with the position.

use super::module::Module;
use super::network::Value;
use crate::dtype::DType;
use crate::op::{Binary, Op};
use crate::shape::{Dim, Shape};

/// Cosines and sines of every position, (1, tokens, width), or (1, 1, tokens, width) where heads are turned by them.
#[derive(Clone, Copy)]
pub(super) struct Angles {
    cosine: Value,
    sine: Value,
}

impl Module<'_> {
    /// The frequencies of a turned width, twice: the library keeps the original ones beside those it scaled.
    pub(super) fn new_rotary(&mut self, width: u64) {
        for name in ["rotary_emb.inv_freq", "rotary_emb.original_inv_freq"] {
            self.new_buffer(name, &[width / 2], DType::Float32);
        }
    }

    pub(super) fn rotary(&mut self, positions: Value, width: u64) -> Angles {
        let mut module = self.child("rotary_emb");
        let (one, tokens) = (Dim::Fixed(1), module.shape(positions).last());
        let positions = module.view("unsqueeze", positions, &[one, tokens, one]);
        let positions = module.cast(positions, DType::Float32);
        let (multiply, frequencies) =
            (Op::Binary { function: Binary::Multiply, inplace: false }, module.weight("inv_freq"));
        let shape = Shape::new([one, tokens, Dim::Fixed(width / 2)]);
        let half = module.node("", multiply, &[positions], vec![frequencies], shape, DType::Float32);
        let angles = module.concat(&[half, half], 2);
        let cosine = module.other("cos", "cos", angles);
        let cosine = module.scale(cosine);
        let sine = module.other("sin", "sin", angles);
        let sine = module.scale(sine);
        Angles { cosine, sine }
    }

    /// The angles with a dimension for heads.
    pub(super) fn for_heads(&mut self, angles: Angles) -> Angles {
        let (dims, one) = (self.shape(angles.cosine).dims().to_vec(), Dim::Fixed(1));
        let [cosine, sine] =
            [angles.cosine, angles.sine].map(|value| self.view("unsqueeze", value, &[one, one, dims[1], dims[2]]));
        Angles { cosine, sine }
    }

    /// Heads turned whole.
    pub(super) fn turn(&mut self, heads: Value, angles: Angles) -> Value {
        let straight = self.multiply(heads, angles.cosine);
        let width = self.shape(heads).last().factor();
        let first = self.slice(heads, width / 2);
        let second = self.slice(heads, width - width / 2);
        let second = self.other("neg", "neg", second);
        let crossed = self.concat(&[second, first], 3);
        let crossed = self.multiply(crossed, angles.sine);
        self.add(straight, crossed)
    }

    /// Some of the numbers of every head.
    pub(super) fn slice(&mut self, heads: Value, width: u64) -> Value {
        let mut dims = self.shape(heads).dims().to_vec();
        dims.pop();
        dims.push(Dim::Fixed(width));
        self.view("slice", heads, &dims)
    }
}
