//! Masks of the keys that a query may see, as the library builds them from positions.

use super::module::Module;
use super::network::Value;
use crate::dtype::DType;
use crate::op::Binary;
use crate::shape::Dim;

impl Module<'_> {
    /// Positions of a sample's tokens.
    pub(super) fn positions(&mut self, tokens: u64) -> Value {
        let counted = self.counted(tokens);
        self.shift(counted)
    }

    /// A mask of later tokens, and with a window of those far before. A fused kernel masks later tokens by itself, so
    /// that it needs one only for a window that is no longer than the sample.
    pub(super) fn causal_mask(&mut self, tokens: u64, window: Option<u64>, is_eager: bool) -> Option<Value> {
        if !is_eager && window.is_none_or(|window| tokens < window) {
            return None;
        }
        let (one, all) = (Dim::Fixed(1), Dim::Fixed(tokens));
        let queries = self.positions(tokens);
        let keys = self.positions(tokens);
        let queries = self.view("queries", queries, &[one, one, all, one]);
        let keys = self.view("keys", keys, &[one, one, one, all]);
        let mask = if window.is_some() {
            let everything = self.constant("new_ones", &[], DType::Bool);
            let start = self.scalar("sub", Binary::Add, queries);
            let near = self.compare("gt", &[keys, start]);
            let near = self.compare("and", &[everything, near]);
            let earlier = self.compare("le", &[keys, queries]);
            self.compare("and", &[near, earlier])
        } else {
            self.compare("le", &[keys, queries])
        };
        let mask = self.view("expand", mask, &[Dim::Batch(1), one, all, all]);
        Some(if is_eager { self.additive_mask(mask) } else { mask })
    }

    /// Zero where a mask says yes, and a large negative number elsewhere.
    fn additive_mask(&mut self, mask: Value) -> Value {
        let [yes, no] = ["zeros", "scalar_tensor"].map(|name| self.constant(name, &[], DType::Float32));
        self.choose(mask, yes, no)
    }
}
