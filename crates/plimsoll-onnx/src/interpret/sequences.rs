//! Recurrent layers and attention.

use plimsoll_graph::{Dim, Shape};

use super::call::{Context, Outcome};
use crate::error::Result;
use crate::quantity::Quantity;

pub(super) fn recurrent(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let &[sequence, batch, _] = input.dims() else {
        return Err(cx.bad_shape("sequence, batch and width", input.dims()));
    };
    let hidden = match (cx.call.attributes.int("hidden_size"), cx.dims(2)?) {
        (Some(hidden), _) => cx.dim(Quantity::new(hidden as f64))?,
        (None, &[_, _, hidden]) => hidden,
        (None, other) => return Err(cx.bad_shape("recurrent weights", other)),
    };
    let directions = Dim::Fixed(if cx.call.attributes.text("direction") == Some("bidirectional") { 2 } else { 1 });
    let (sequence, batch) = if cx.call.attributes.flag("layout") { (batch, sequence) } else { (sequence, batch) };
    let state = Shape::new([directions, batch, hidden]);
    let all = Shape::new([sequence, directions, batch, hidden]);
    let mut outcomes = vec![Outcome::New(input.dtype, all)];
    outcomes.extend((1..cx.call.outputs.len()).map(|_| Outcome::New(input.dtype, state.clone())));
    Ok(outcomes)
}

/// Attention of ONNX (operator set 23) and of ONNX Runtime.
pub(super) fn attention(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let query = cx.value(0)?;
    let mut dims = query.dims().to_vec();
    let is_packed = cx.call.domain == "com.microsoft" && cx.call.op == "Attention";
    if is_packed {
        // Queries, keys and values come from one product: the weight is three times as wide.
        let width = cx.dims(1)?.last().copied().unwrap_or(Dim::Fixed(0));
        let third = cx.dim(Quantity::new((cx.fixed(width)? / 3) as f64))?;
        if let Some(last) = dims.last_mut() {
            *last = third;
        }
        return Outcome::one(query.dtype, dims);
    }
    let value = cx.find(2).unwrap_or(query);
    if let (4, Some(last)) = (value.rank(), dims.last_mut()) {
        *last = value.dims()[3];
    } else if let (3, Some(last)) = (value.rank(), dims.last_mut()) {
        let heads = |name: &str| {
            cx.call.attributes.int(name).and_then(|heads| u64::try_from(heads).ok()).filter(|&heads| heads > 0)
        };
        let width = cx.fixed(value.dims()[2])?;
        let (queries, keys) = (heads("q_num_heads"), heads("kv_num_heads"));
        *last = match (queries, keys) {
            (Some(queries), Some(keys)) => cx.dim(Quantity::new(width as f64 / keys as f64 * queries as f64))?,
            _ => Dim::Fixed(width),
        };
    }
    let mut outcomes = vec![Outcome::New(query.dtype, Shape::new(dims))];
    for _ in 1..cx.call.outputs.len() {
        outcomes.push(Outcome::New(query.dtype, cx.value(1)?.shape.clone()));
    }
    Ok(outcomes)
}
