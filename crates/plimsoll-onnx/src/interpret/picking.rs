//! Operators that pick elements: slices, rows by index, ranges.

use plimsoll_graph::{DType, Dim, Shape};

use super::call::{Context, Outcome, few_elements};
use super::picked::picked;
use crate::constant::MAX_ELEMENTS;
use crate::error::Result;
use crate::quantity::Quantity;

pub(super) fn split(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let axis = cx.axis(cx.call.attributes.int_or("axis", 0), input.rank())?;
    let parts = cx.call.outputs.len() as u64;
    let whole = input.dims()[axis];
    let sizes: Option<Vec<Quantity>> = match (cx.numbers(1)?, cx.call.attributes.ints("split")) {
        (Some(sizes), _) => Some(sizes.to_vec()),
        (None, Some(sizes)) => Some(sizes.iter().map(|&size| Quantity::new(size as f64)).collect()),
        (None, None) => None,
    };
    let extents: Vec<Dim> = if let Some(sizes) = sizes {
        sizes.into_iter().map(|size| cx.dim(size)).collect::<Result<_>>()?
    } else {
        let whole = cx.fixed(whole)?;
        let each = whole.div_ceil(parts.max(1));
        (0..parts).map(|part| Dim::Fixed(each.min(whole.saturating_sub(part.saturating_mul(each))))).collect()
    };
    if extents.len() as u64 != parts {
        return Err(cx.bad(format!("{parts} sizes, one an output"), extents.len().to_string()));
    }
    let part = |extent| {
        let mut dims = input.dims().to_vec();
        dims[axis] = extent;
        Outcome::View(input.dtype, Shape::new(dims))
    };
    Ok(extents.into_iter().map(part).collect())
}

pub(super) fn slice(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let rank = input.rank();
    let list = |attribute: &str, index: usize| -> Result<Option<Vec<Quantity>>> {
        if let Some(ints) = cx.call.attributes.ints(attribute) {
            return Ok(Some(ints.iter().map(|&int| Quantity::new(int as f64)).collect()));
        }
        Ok(cx.numbers(index)?.map(<[Quantity]>::to_vec))
    };
    let starts = list("starts", 1)?.ok_or_else(|| cx.bad("starts", "none"))?;
    let ends = list("ends", 2)?.ok_or_else(|| cx.bad("ends", "none"))?;
    let axes = match cx.ints("axes", 3)? {
        Some(axes) => cx.axes(&axes, rank)?,
        None => (0..starts.len()).map(|axis| cx.axis(axis as i64, rank)).collect::<Result<_>>()?,
    };
    let steps = cx.ints("", 4)?.unwrap_or_else(|| vec![1; axes.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(cx.bad("as many ends, axes and steps as starts", ends.len().to_string()));
    }
    let mut dims = input.dims().to_vec();
    let mut ranges = Vec::with_capacity(axes.len());
    for (place, &axis) in axes.iter().enumerate() {
        let step = steps[place];
        if step == 0 {
            return Err(cx.bad("steps", "0"));
        }
        let extent = Quantity::of_dim(dims[axis]);
        let (start, count) = range_of(extent, starts[place], ends[place], step)
            .ok_or_else(|| cx.unknown("cuts a number of samples that depends on the batch in another way".into()))?;
        dims[axis] = cx.dim(count)?;
        ranges.push((start, count, step));
    }
    if let Some(numbers) = input.folded() {
        let numbers = picked(numbers, input.dims(), &dims, |place| {
            let mut source = place.to_vec();
            for (&axis, &(start, _, step)) in axes.iter().zip(&ranges) {
                let at = step.checked_mul(place[axis] as i64)?.checked_add(start.whole()?)?;
                source[axis] = usize::try_from(at).ok()?;
            }
            Some(source)
        });
        return Ok(vec![Outcome::Known(input.dtype, Shape::new(dims), numbers)]);
    }
    if dims == input.dims() && steps.iter().all(|&step| step == 1) {
        return Ok(vec![Outcome::Same(cx.id(0)?)]);
    }
    Outcome::view(input.dtype, dims)
}

/// Start and number of the elements between two places.
fn range_of(extent: Quantity, start: Quantity, end: Quantity, step: i64) -> Option<(Quantity, Quantity)> {
    use std::cmp::Ordering::{Greater, Less};
    let zero = Quantity::new(0.0);
    let place = |at: Quantity, low: Quantity, high: Quantity| {
        let at = if at.compare(zero)? == Less { at.plus(extent) } else { at };
        Some(if at.compare(low)? == Less {
            low
        } else if at.compare(high)? == Greater {
            high
        } else {
            at
        })
    };
    let (start, length) = if step > 0 {
        let (start, end) = (place(start, zero, extent)?, place(end, zero, extent)?);
        (start, end.minus(start))
    } else {
        let (low, high) = (Quantity::new(-1.0), extent.minus(Quantity::new(1.0)));
        let start = place(start, zero, high)?;
        // An end far below zero means the very first element.
        let end = if end.plus(extent).compare(zero)? == Less { low } else { place(end, low, high)? };
        (start, start.minus(end))
    };
    if length.compare(zero)? != Greater {
        return Some((start, zero));
    }
    let step = step.unsigned_abs() as f64;
    let count = match length.known() {
        Some(length) => Quantity::new((length / step).ceil()),
        None => length.over(Quantity::new(step), true)?,
    };
    Some((start, count))
}

pub(super) fn gather(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let (input, indices) = (cx.value(0)?, cx.value(1)?);
    let axis = cx.axis(cx.call.attributes.int_or("axis", 0), input.rank())?;
    let mut dims = input.dims()[..axis].to_vec();
    dims.extend(indices.dims());
    dims.extend(&input.dims()[axis + 1..]);
    if let (Some(numbers), Some(places)) = (input.folded(), indices.folded()) {
        let length = input.dims()[axis].factor() as i64;
        let inner: Vec<usize> = indices.dims().iter().map(|dim| dim.factor() as usize).collect();
        let numbers = picked(numbers, input.dims(), &dims, |place| {
            let index =
                place[axis..axis + inner.len()].iter().zip(&inner).fold(0, |index, (&at, &extent)| index * extent + at);
            let at = places.get(index)?.whole()?;
            let at = usize::try_from(if at < 0 { at.saturating_add(length) } else { at }).ok()?;
            Some([&place[..axis], &[at], &place[axis + inner.len()..]].concat())
        });
        return Ok(vec![Outcome::Known(input.dtype, Shape::new(dims), numbers)]);
    }
    // One row by a known index is a view; of a weight it would pass for the whole weight.
    if indices.rank() == 0 && indices.folded().is_some() && input.weight().is_none() {
        return Outcome::view(input.dtype, dims);
    }
    Outcome::one(input.dtype, dims)
}

pub(super) fn gather_nd(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let (input, indices) = (cx.dims(0)?, cx.dims(1)?);
    let batch_dims = usize::try_from(cx.call.attributes.int_or("batch_dims", 0)).unwrap_or(usize::MAX);
    let Some((&depth, outer)) = indices.split_last() else {
        return Err(cx.bad_shape("indices", indices));
    };
    let depth = cx.fixed(depth)? as usize;
    let rest = batch_dims.checked_add(depth).and_then(|from| input.get(from..));
    let rest = rest.ok_or_else(|| cx.bad_shape("as many dimensions as indices have", input))?;
    Outcome::one(cx.dtype(0)?, outer.iter().chain(rest).copied())
}

pub(super) fn top_k(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let axis = cx.axis(cx.call.attributes.int_or("axis", -1), input.rank())?;
    let count = match (cx.call.attributes.int("k"), cx.numbers(1)?) {
        (Some(count), _) => Quantity::new(count as f64),
        (None, Some(&[count])) => count,
        _ => return Err(cx.bad("one number of elements", "none")),
    };
    let mut dims = input.dims().to_vec();
    dims[axis] = cx.dim(count)?;
    let shape = Shape::new(dims);
    Ok(vec![Outcome::New(input.dtype, shape.clone()), Outcome::New(DType::Int64, shape)])
}

pub(super) fn non_zero(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let numbers = cx.numbers(0)?.unwrap_or_default();
    let extents: Vec<u64> = input.dims().iter().map(|&dim| cx.fixed(dim)).collect::<Result<_>>()?;
    let found: Vec<usize> = (0..numbers.len()).filter(|&place| numbers[place] != Quantity::new(0.0)).collect();
    let mut rows = Vec::with_capacity(extents.len() * found.len());
    let mut stride: u64 = extents.iter().product();
    for &extent in &extents {
        stride /= extent.max(1);
        rows.extend(found.iter().map(|&place| Quantity::new((place as u64 / stride.max(1) % extent.max(1)) as f64)));
    }
    let shape = Shape::fixed(&[extents.len() as u64, found.len() as u64]);
    Ok(vec![Outcome::Known(DType::Int64, shape, Some(rows))])
}

pub(super) fn one_hot(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let indices = cx.dims(0)?;
    let depth = cx.numbers(1)?.and_then(|numbers| numbers.first().copied());
    let depth = cx.dim(depth.ok_or_else(|| cx.bad("a depth", "none"))?)?;
    let axis = cx.axis(cx.call.attributes.int_or("axis", -1), indices.len() + 1)?;
    let mut dims = indices.to_vec();
    dims.insert(axis, depth);
    let values = cx.value(2)?;
    if let (Some(places), Some(&[off, on]), Dim::Fixed(depth)) = (cx.value(0)?.folded(), values.folded(), depth) {
        // The places of a shape without the axis, and along it.
        let own = Shape::new(indices.iter().copied());
        let extents: Vec<usize> = own.dims().iter().map(|dim| dim.factor() as usize).collect();
        let inner: usize = extents[axis..].iter().product();
        let count = few_elements(&dims).unwrap_or(0);
        let numbers = (0..count).map(|index| {
            let (outer, at, rest) = (index / (depth as usize * inner), index / inner % depth as usize, index % inner);
            let place = places.get(outer * inner + rest).and_then(|place| place.whole())?;
            let place = if place < 0 { place + depth as i64 } else { place };
            Some(if place == at as i64 { on } else { off })
        });
        let numbers = numbers.collect::<Option<Vec<Quantity>>>().filter(|numbers| !numbers.is_empty());
        return Ok(vec![Outcome::Known(values.dtype, Shape::new(dims), numbers)]);
    }
    Outcome::one(values.dtype, dims)
}

pub(super) fn range(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let number = |index: usize| -> Result<Quantity> {
        let numbers = cx.numbers(index)?.unwrap_or_default();
        numbers.first().copied().ok_or_else(|| cx.bad("start, end and step", "less"))
    };
    let (start, end, step) = (number(0)?, number(1)?, number(2)?);
    let length = end.minus(start);
    let count = match (length.known(), step.known()) {
        (_, None | Some(0.0)) => None,
        (Some(length), Some(step)) => Some(Quantity::new((length / step).ceil().max(0.0))),
        (None, Some(_)) => length.over(step, true),
    };
    let count = count.ok_or_else(|| cx.unknown("counts in steps that depend on the batch".into()))?;
    let dim = cx.dim(count)?;
    let numbers = match dim {
        Dim::Fixed(count) if count <= MAX_ELEMENTS => {
            Some((0..count).map(|index| start.plus(step.scaled(index as f64))).collect())
        }
        _ => None,
    };
    Ok(vec![Outcome::Known(cx.dtype(0)?, Shape::new([dim]), numbers)])
}
