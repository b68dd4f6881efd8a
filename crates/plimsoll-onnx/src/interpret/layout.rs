//! Operators that change a shape and no element.

use plimsoll_graph::{DType, Dim, Shape};

use super::call::{Context, Outcome, Volume};
use super::picked::picked;
use super::shapes::listed_dims;
use crate::constant::MAX_ELEMENTS;
use crate::error::Result;
use crate::quantity::Quantity;

pub(super) fn shape(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dims = cx.dims(0)?;
    let rank = dims.len() as i64;
    let clamp = |axis: i64| if axis < 0 { axis.saturating_add(rank) } else { axis }.clamp(0, rank) as usize;
    let start = clamp(cx.call.attributes.int_or("start", 0));
    let end = clamp(cx.call.attributes.int_or("end", rank)).max(start);
    Ok(Outcome::list(DType::Int64, dims[start..end].iter().map(|&dim| Quantity::of_dim(dim)).collect()))
}

pub(super) fn size(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let product = |total: Option<Quantity>, &dim: &Dim| total.and_then(|total| total.times(Quantity::of_dim(dim)));
    let size = cx.dims(0)?.iter().fold(Some(Quantity::new(1.0)), product);
    let size = size.ok_or_else(|| cx.unknown("counts elements that grow with the square of the batch".into()))?;
    Ok(vec![Outcome::Known(DType::Int64, Shape::default(), Some(vec![size]))])
}

pub(super) fn reshape(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let from_attribute = cx
        .call
        .attributes
        .ints("shape")
        .map(|extents| extents.iter().map(|&extent| Quantity::new(extent as f64)).collect());
    let target: Vec<Quantity> = match from_attribute {
        Some(target) => target,
        None => cx.numbers(1)?.ok_or_else(|| cx.bad("a shape", "none"))?.to_vec(),
    };
    let dims = reshaped(cx, input.dims(), &target)?;
    keeping(cx, dims)
}

/// A view of the input; small constants keep their elements.
fn keeping(cx: Context<'_>, dims: Vec<Dim>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    if let Some(numbers) = input.folded() {
        return Ok(vec![Outcome::Known(input.dtype, Shape::new(dims), Some(numbers.to_vec()))]);
    }
    Outcome::view(input.dtype, dims)
}

/// The extents that a reshape asks for: 0 is the input's, -1 what is left.
fn reshaped(cx: Context<'_>, from: &[Dim], target: &[Quantity]) -> Result<Vec<Dim>> {
    let allows_zero = cx.call.attributes.flag("allowzero");
    let mut dims = Vec::with_capacity(target.len());
    let mut free = None;
    for (axis, &extent) in target.iter().enumerate() {
        let dim = match extent.known() {
            Some(0.0) if !allows_zero => {
                *from.get(axis).ok_or_else(|| cx.bad_shape("an input with as many dimensions as are copied", from))?
            }
            Some(-1.0) if free.is_none() => {
                free = Some(axis);
                Dim::Fixed(1)
            }
            _ => cx.dim(extent)?,
        };
        dims.push(dim);
    }
    let volume =
        |dims: &[Dim]| Volume::of(dims).ok_or_else(|| cx.bad_shape("a number of elements that can be counted", dims));
    let whole = volume(from)?;
    let mut rest = volume(&dims)?;
    if let Some(batch) = cx.assumed_batch
        && whole.degree == rest.degree + 1
        && let Some(axis) = batch_axis(from, &dims, free, batch)
    {
        dims[axis] = Dim::Batch(dims[axis].factor() / batch);
        rest = volume(&dims)?;
    }
    let mismatch = || {
        let (from, to) = (Shape::new(from.iter().copied()), Shape::new(dims.iter().copied()));
        cx.bad(format!("as many elements as {from} has"), to.to_string())
    };
    let Some(axis) = free else {
        return if whole == rest { Ok(dims) } else { Err(mismatch()) };
    };
    if rest.factor == 0 {
        dims[axis] = Dim::Fixed(0);
        return Ok(dims);
    }
    let extent = u64::try_from(whole.factor / rest.factor).map_err(|_| mismatch())?;
    dims[axis] = match whole.degree.checked_sub(rest.degree) {
        _ if whole.factor % rest.factor != 0 => return Err(mismatch()),
        Some(0) => Dim::Fixed(extent),
        Some(1) => Dim::Batch(extent),
        _ => return Err(mismatch()),
    };
    Ok(dims)
}

/// The axis of a target in numbers where the batch stood when the model was exported.
fn batch_axis(from: &[Dim], to: &[Dim], free: Option<usize>, batch: u64) -> Option<usize> {
    let fits = |axis: usize| {
        Some(axis) != free
            && matches!(to[axis], Dim::Fixed(extent) if batch > 0 && extent > 0 && extent.is_multiple_of(batch))
    };
    let stood = from.iter().position(|dim| dim.scales_with_batch())?;
    // Where it stood it mostly stays, alone or with what was in front of or behind it; a free extent in front takes it.
    if stood < to.len() && fits(stood) && to[stood].factor() == from[stood].factor().saturating_mul(batch) {
        return Some(stood);
    }
    let first = (0..to.len()).find(|&axis| fits(axis));
    match (first, free) {
        (Some(axis), Some(free)) if free < axis => None,
        (first, _) => first,
    }
}

pub(super) fn transpose(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let rank = input.rank();
    let order = match cx.call.attributes.ints("perm") {
        Some(order) => cx.axes(order, rank)?,
        None => (0..rank).rev().collect(),
    };
    let mut seen = order.clone();
    seen.sort_unstable();
    if !seen.iter().copied().eq(0..rank) {
        return Err(cx.bad(format!("an order of {rank} dimensions"), format!("{order:?}")));
    }
    let dims: Vec<Dim> = order.iter().map(|&axis| input.dims()[axis]).collect();
    let numbers = input.folded().and_then(|numbers| {
        picked(numbers, input.dims(), &dims, |place| {
            let mut source = vec![0; rank];
            order.iter().zip(place).for_each(|(&axis, &at)| source[axis] = at);
            Some(source)
        })
    });
    match numbers {
        Some(numbers) => Ok(vec![Outcome::Known(input.dtype, Shape::new(dims), Some(numbers))]),
        None => Outcome::view(input.dtype, dims),
    }
}

pub(super) fn flatten(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dims = cx.dims(0)?;
    let rank = dims.len() as i64;
    let axis = cx.call.attributes.int_or("axis", 1);
    let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
    let axis = usize::try_from(axis).ok().filter(|&axis| axis <= dims.len());
    let axis = axis.ok_or_else(|| cx.bad(format!("an axis of {rank} dimensions"), "another"))?;
    let (front, back) = dims.split_at(axis);
    keeping(cx, vec![joined(cx, front)?, joined(cx, back)?])
}

/// Dimensions made one.
pub(super) fn joined(cx: Context<'_>, dims: &[Dim]) -> Result<Dim> {
    let volume = Volume::of(dims).and_then(|volume| Some((u64::try_from(volume.factor).ok()?, volume.degree)));
    match volume {
        Some((factor, 0)) => Ok(Dim::Fixed(factor)),
        Some((factor, 1)) => Ok(Dim::Batch(factor)),
        _ => Err(cx.bad_shape("dimensions that can be one", dims)),
    }
}

pub(super) fn squeeze(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dims = cx.dims(0)?;
    let dropped = match cx.ints("axes", 1)? {
        Some(axes) => cx.axes(&axes, dims.len())?,
        None => (0..dims.len()).filter(|&axis| dims[axis] == Dim::Fixed(1)).collect(),
    };
    let kept = dims.iter().enumerate().filter(|(axis, _)| !dropped.contains(axis));
    keeping(cx, kept.map(|(_, &dim)| dim).collect())
}

pub(super) fn unsqueeze(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dims = cx.dims(0)?;
    let axes = cx.ints("axes", 1)?.ok_or_else(|| cx.bad("axes", "none"))?;
    let rank = dims.len() + axes.len().min(Shape::MAX_RANK);
    let axes = cx.axes(&axes, rank)?;
    let mut rest = dims.iter().copied();
    let dims =
        (0..rank).map(|axis| if axes.contains(&axis) { Dim::Fixed(1) } else { rest.next().unwrap_or(Dim::Fixed(1)) });
    keeping(cx, dims.collect())
}

pub(super) fn expand(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let target = listed_dims(cx, 1)?;
    let dims = cx.broadcast(&[input.dims(), &target])?;
    if dims == input.dims() {
        return Ok(vec![Outcome::Same(cx.id(0)?)]);
    }
    let Some(numbers) = input.folded() else { return Outcome::view(input.dtype, dims) };
    let added = dims.len() - input.rank();
    let numbers = picked(numbers, input.dims(), &dims, |place| {
        let own = input.dims().iter().zip(&place[added..]);
        Some(own.map(|(&dim, &at)| if dim == Dim::Fixed(1) { 0 } else { at }).collect())
    });
    Ok(vec![Outcome::Known(input.dtype, Shape::new(dims), numbers)])
}

pub(super) fn tile(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let repeats = cx.numbers(1)?.unwrap_or_default();
    if repeats.len() != input.rank() {
        return Err(cx.bad(format!("{} repeats", input.rank()), repeats.len().to_string()));
    }
    let dims = input.dims().iter().zip(repeats).map(|(&dim, &times)| {
        let product = Quantity::of_dim(dim).times(times);
        product.map_or_else(
            || Err(cx.unknown("repeats the batch as often as the batch is large".into())),
            |extent| cx.dim(extent),
        )
    });
    let dims = dims.collect::<Result<Vec<_>>>()?;
    if dims == input.dims() {
        return Ok(vec![Outcome::Same(cx.id(0)?)]);
    }
    if let Some(numbers) = input.folded() {
        let numbers = picked(numbers, input.dims(), &dims, |place| {
            Some(input.dims().iter().zip(place).map(|(dim, &at)| at % dim.factor().max(1) as usize).collect())
        });
        return Ok(vec![Outcome::Known(input.dtype, Shape::new(dims), numbers)]);
    }
    Outcome::one(input.dtype, dims)
}

pub(super) fn pad(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let rank = input.rank();
    let pads = cx.ints("pads", 1)?.ok_or_else(|| cx.bad("paddings", "none"))?;
    let axes = match cx.ints("", 3)? {
        Some(axes) => cx.axes(&axes, rank)?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(cx.bad(format!("{} paddings", 2 * axes.len()), pads.len().to_string()));
    }
    let mut dims = input.dims().to_vec();
    for (place, &axis) in axes.iter().enumerate() {
        let more = pads[place] as f64 + pads[axes.len() + place] as f64;
        dims[axis] = cx.dim(Quantity::of_dim(dims[axis]).plus(Quantity::new(more)))?;
    }
    Outcome::one(input.dtype, dims)
}

pub(super) fn blocks(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dims = cx.dims(0)?;
    let size = u64::try_from(cx.call.attributes.int_or("blocksize", 0)).ok().filter(|&size| size > 0);
    let (Some(size), &[batch, channels, height, width]) = (size, dims) else {
        return Err(cx.bad_shape("a block size and four dimensions", dims));
    };
    let square = size.checked_mul(size).filter(|&square| square <= 1 << 40);
    let square = square.ok_or_else(|| cx.bad("a smaller block size", size.to_string()))?;
    let scaled = |dim: Dim, up: u64, down: u64| {
        let product = Quantity::of_dim(dim).scaled(up as f64).over(Quantity::new(down as f64), false);
        product.map_or_else(|| Err(cx.bad("blocks that fit", dim.to_string())), |extent| cx.dim(extent))
    };
    let dims = if cx.call.op == "DepthToSpace" {
        [batch, scaled(channels, 1, square)?, scaled(height, size, 1)?, scaled(width, size, 1)?]
    } else {
        [batch, scaled(channels, square, 1)?, scaled(height, 1, size)?, scaled(width, 1, size)?]
    };
    Outcome::one(cx.dtype(0)?, dims)
}

pub(super) fn concat(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let first = cx.value(0)?;
    if cx.call.inputs.len() == 1 {
        return Ok(vec![Outcome::Same(cx.id(0)?)]);
    }
    let axis = cx.axis(cx.call.attributes.int_or("axis", 1), first.rank())?;
    let mut dims = first.dims().to_vec();
    let mut total = Quantity::new(0.0);
    let mut numbers: Option<Vec<Quantity>> = Some(Vec::new());
    for index in 0..cx.call.inputs.len() {
        let value = cx.value(index)?;
        if value.rank() != dims.len() {
            return Err(cx.bad_shape(&format!("{} dimensions", dims.len()), value.dims()));
        }
        for (other, &dim) in value.dims().iter().enumerate().filter(|&(other, _)| other != axis) {
            dims[other] = cx
                .same(dims[other], dim)
                .ok_or_else(|| cx.bad_shape("shapes that agree but for one axis", value.dims()))?;
        }
        total = total.plus(Quantity::of_dim(value.dims()[axis]));
        numbers = numbers.zip(value.folded()).map(|(mut all, more)| {
            all.extend_from_slice(more);
            all
        });
    }
    dims[axis] = cx.dim(total)?;
    let numbers = numbers.filter(|numbers| dims.len() == 1 && numbers.len() as u64 <= MAX_ELEMENTS);
    Ok(vec![match numbers {
        Some(numbers) => Outcome::Known(first.dtype, Shape::new(dims), Some(numbers)),
        None => Outcome::New(first.dtype, Shape::new(dims)),
    }])
}
