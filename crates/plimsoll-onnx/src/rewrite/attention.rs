//! Scaled dot-product attention that was one operator before it was exported.

use plimsoll_graph::{AttentionKernel, Dim, Op};

use super::web::Web;
use crate::program::ValueId;

/// Replaces products, softmax and product by one attention, where the framework ran it as one.
///
/// PyTorch's exporters scale queries and keys by the root of the scale each, which no model does by hand; a chain with
/// one scale stays as it is, for it ran step by step.
pub(super) fn recognise(web: &mut Web<'_>) {
    for softmax in 0..web.len() {
        if web.step(softmax).is_some_and(|step| step.op() == "Softmax")
            && let Some(found) = found(web, softmax)
        {
            let Found { query, turned, value, mask, dropout, chain, last } = found;
            let heads = |id: ValueId| web.value(id).dims().get(1).map_or(1, |dim| dim.factor());
            let (count, kv_heads) = (heads(query), heads(turned));
            let widths = [query, value].map(|id| web.value(id).shape.last());
            // The fused kernels of CUDA want rows of 16 bytes, and as many heads in keys as in queries; PyTorch runs others
            // step by step, as exported.
            let is_fused =
                kv_heads == count && widths.iter().all(|width| matches!(width, Dim::Fixed(width) if width % 4 == 0));
            if !is_fused {
                continue;
            }
            let op =
                Op::Attention { heads: count, kv_heads: 0, kernel: AttentionKernel::Fused, causal: false, dropout };
            let key = unturned(web, turned).unwrap_or_else(|| web.turned_before(last, turned));
            let mut inputs = vec![Some(query), Some(key), Some(value)];
            inputs.extend(mask.map(Some));
            web.replace(last, &chain, op, inputs);
        }
    }
}

struct Found {
    query: ValueId,
    /// The keys, a column each.
    turned: ValueId,
    value: ValueId,
    mask: Option<ValueId>,
    dropout: f64,
    chain: Vec<usize>,
    last: usize,
}

fn found(web: &Web<'_>, softmax: usize) -> Option<Found> {
    let mut chain = vec![softmax];
    let mut scores = web.input(softmax, 0)?;
    let mut mask = None;
    if let Some(add) = web.writer(scores, &["Add"]) {
        let (one, other) = (web.input(add, 0)?, web.input(add, 1)?);
        let is_product = |id| web.writer(id, &["MatMul"]).is_some();
        let (product, bias) = if is_product(one) { (one, other) } else { (other, one) };
        chain.push(add);
        (scores, mask) = (product, Some(bias));
    }
    let product = web.writer(scores, &["MatMul"])?;
    chain.push(product);
    let (query, of_query) = scaled(web, web.input(product, 0)?)?;
    let (turned, of_key) = scaled(web, web.input(product, 1)?)?;
    chain.extend([of_query, of_key]);
    (web.value(query).rank() == 4).then_some(())?;
    let mut weights = web.output(softmax)?;
    let mut dropout = 0.0;
    // Rows that are masked as a whole are set to zero.
    if let Some(guard) = guarded(web, weights) {
        chain.extend(guard);
        weights = web.output(guard[1])?;
    }
    let mut last = web.only_reader(weights)?;
    if web.step(last)?.op() == "Dropout" {
        dropout = web.input(last, 1).and_then(|id| web.scalar(id)).unwrap_or(0.0);
        chain.push(last);
        weights = web.output(last)?;
        last = web.only_reader(weights)?;
    }
    let step = web.step(last).filter(|step| step.op() == "MatMul" && step.input(0) == Some(weights))?;
    let value = step.input(1)?;
    chain.push(last);
    let inner = chain.iter().filter(|&&index| index != last);
    inner.clone().all(|&index| web.output(index).is_some_and(|id| web.is_inside(id, &chain))).then_some(())?;
    Some(Found { query, turned, value, mask, dropout: dropout.clamp(0.0, 1.0), chain, last })
}

/// A value that is multiplied or divided by a number.
fn scaled(web: &Web<'_>, id: ValueId) -> Option<(ValueId, usize)> {
    let index = web.writer(id, &["Mul", "Div"])?;
    web.scaled(index).map(|(value, _)| (value, index))
}

/// The value whose last two dimensions were swapped, directly or as a matrix of all heads.
fn unturned(web: &Web<'_>, id: ValueId) -> Option<ValueId> {
    let is_swap = |turn: usize| {
        let order = web.step(turn).and_then(|step| step.attributes.ints("perm"));
        matches!(order, Some([0, 1, 3, 2] | [0, 2, 1]))
    };
    if let Some(turn) = web.writer(id, &["Transpose"]) {
        return if is_swap(turn) { web.input(turn, 0) } else { None };
    }
    let back = web.writer(id, &["Reshape"])?;
    let turn = web.writer(web.input(back, 0)?, &["Transpose"]).filter(|&turn| is_swap(turn))?;
    let matrices = web.input(turn, 0)?;
    let source = match web.writer(matrices, &["Reshape"]) {
        Some(flat) => web.input(flat, 0)?,
        None => matrices,
    };
    (web.value(source).rank() == 4).then_some(source)
}

/// `where(isnan(weights), 0, weights)`: its two steps.
fn guarded(web: &Web<'_>, weights: ValueId) -> Option<[usize; 2]> {
    let readers: Vec<usize> = web.readers(weights).take(4).collect();
    let &[one, other, ..] = readers.as_slice() else { return None };
    let named = |index: usize, op: &str| web.step(index).is_some_and(|step| step.op() == op);
    (readers.len() < 4 && named(one, "IsNaN") && named(other, "Where")).then_some([one, other])
}
