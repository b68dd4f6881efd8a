//! Heads that several families share.

use super::module::Module;
use super::network::Value;
use crate::dtype::DType;
use crate::op::{Binary, Op, Reduction};
use crate::shape::{Dim, Shape};

impl Module<'_> {
    /// Scores of an answer's start and end.
    pub(super) fn answer(&mut self, hidden: Value) -> Vec<Value> {
        let scores = self.linear("qa_outputs", hidden);
        let tokens = self.shape(scores).dims()[1];
        let parts = self.split(scores, 2, &[Dim::Batch(1), tokens, Dim::Fixed(1)]);
        let mut ends = Vec::with_capacity(2);
        for part in parts {
            let part = self.view("squeeze", part, &[Dim::Batch(1), tokens]);
            ends.push(self.copy("clone", part));
        }
        ends
    }

    /// Scores of the classes at every sample's last token that is no padding: a decoder's classifier.
    pub(super) fn last_token_classes(&mut self, tokens: Value, hidden: Value) -> Value {
        let scores = self.linear("score", hidden);
        let (count, labels) = (self.shape(scores).dims()[1], self.shape(scores).last());
        let is_token = self.compare("ne", &[tokens]);
        let is_token = self.cast(is_token, DType::Int32);
        let places = self.constant("arange", &[count], DType::Int32);
        let shape = Shape::new([Dim::Batch(1), count]);
        let multiply = Op::Binary { function: Binary::Multiply, inplace: false };
        let places = self.node("mul", multiply, &[places, is_token], vec![], shape, DType::Int32);
        let last = self.node(
            "argmax",
            Op::Reduce { function: Reduction::Index },
            &[places],
            vec![],
            Shape::new([Dim::Batch(1)]),
            DType::Int64,
        );
        let samples = self.constant("arange", &[Dim::Batch(1)], DType::Int64);
        let shape = Shape::new([Dim::Batch(1), labels]);
        self.node("index", Op::Gather, &[scores, samples, last], vec![], shape, DType::Float32)
    }
}
