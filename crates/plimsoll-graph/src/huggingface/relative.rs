//! T5's bias of scores by distance: distances are sorted into buckets, and each bucket has a number for each head.

use super::module::Module;
use super::network::Value;
use crate::dtype::DType;
use crate::op::{Binary, Op};
use crate::shape::Dim;

/// The bias of every query and key, (1, heads, tokens, tokens).
pub(super) fn bias(own: &mut Module<'_>, tokens: u64, heads: u64, is_decoder: bool) -> Value {
    let (one, all) = (Dim::Fixed(1), Dim::Fixed(tokens));
    let queries = own.counted(tokens);
    let queries = own.view("unsqueeze", queries, &[all, one]);
    let queries = own.shift(queries);
    let keys = own.counted(tokens);
    let keys = own.view("unsqueeze", keys, &[one, all]);
    let distances = own.binary("sub", Binary::Add, keys, queries);
    let buckets = if is_decoder { one_sided(own, distances) } else { two_sided(own, distances) };
    let bias = own.embedding("relative_attention_bias", buckets);
    own.view("unsqueeze", bias, &[one, Dim::Fixed(heads), all, all])
}

/// Buckets of distances to either side.
fn two_sided(own: &mut Module<'_>, distances: Value) -> Value {
    let is_later = own.compare("gt", &[distances]);
    let side = own.cast(is_later, DType::Int64);
    let side = own.scale(side);
    let side = own.shift(side);
    let distances = own.other("abs", "abs", distances);
    let buckets = logarithmic(own, distances);
    own.like("add", Op::Binary { function: Binary::Add, inplace: true }, &[side, buckets], vec![])
}

/// Buckets of distances backwards; those forwards count as none.
fn one_sided(own: &mut Module<'_>, distances: Value) -> Value {
    let dims = own.shape(distances).dims().to_vec();
    let zeros = own.constant("zeros_like", &dims, DType::Int64);
    let distances = own.binary("minimum", Binary::Other, distances, zeros);
    let distances = own.other("neg", "neg", distances);
    let buckets = logarithmic(own, distances);
    own.shift(buckets)
}

/// Near distances have a bucket each, far ones share buckets that grow.
fn logarithmic(own: &mut Module<'_>, distances: Value) -> Value {
    let dims = own.shape(distances).dims().to_vec();
    let is_near = own.compare("lt", &[distances]);
    let far = own.cast(distances, DType::Float32);
    let far = own.scalar("div", Binary::Divide, far);
    let far = own.other("log", "log", far);
    let far = own.scalar("div", Binary::Divide, far);
    let far = own.scale(far);
    let far = own.cast(far, DType::Int64);
    let far = own.shift(far);
    let last = own.constant("full_like", &dims, DType::Int64);
    let far = own.binary("minimum", Binary::Other, far, last);
    own.choose(is_near, distances, far)
}

/// The bias with a large negative number wherever a key stands after its query.
pub(super) fn hide_later(own: &mut Module<'_>, bias: Value, tokens: u64) -> Value {
    let (one, all) = (Dim::Fixed(1), Dim::Fixed(tokens));
    let queries = own.counted(tokens);
    let queries = own.view("unsqueeze", queries, &[all, one]);
    let keys = own.counted(tokens);
    let keys = own.view("unsqueeze", keys, &[one, all]);
    let mask = own.compare("ge", &[queries, keys]);
    let mask = own.view("view", mask, &[one, one, all, all]);
    let hidden = own.constant("scalar_tensor", &[], DType::Float32);
    own.choose(mask, bias, hidden)
}
