//! Products of matrices, and what is summed over dimensions.

use std::collections::BTreeMap;

use plimsoll_graph::{DType, Dim, Shape};

use super::call::{Context, Outcome};
use crate::error::Result;
use crate::quantity::Quantity;

pub(super) fn mat_mul(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let (left, right) = (cx.value(0)?, cx.value(1)?);
    let turned = |dims: &[Dim], attribute: &str| {
        let mut dims = dims.to_vec();
        let rank = dims.len();
        if cx.call.attributes.flag(attribute) && rank > 1 {
            dims.swap(rank - 1, rank - 2);
        }
        dims
    };
    let (mut one, mut other) = (turned(left.dims(), "transA"), turned(right.dims(), "transB"));
    if one.is_empty() || other.is_empty() {
        return Err(cx.bad("matrices", "a number"));
    }
    let (is_row, is_column) = (one.len() == 1, other.len() == 1);
    if is_row {
        one.insert(0, Dim::Fixed(1));
    }
    if is_column {
        other.push(Dim::Fixed(1));
    }
    let (rows, inner) = (one[one.len() - 2], one[one.len() - 1]);
    let (height, columns) = (other[other.len() - 2], other[other.len() - 1]);
    if cx.same(inner, height).is_none() {
        let texts = [left, right].map(|value| value.shape.to_string());
        return Err(cx.bad("matrices whose inner dimensions agree", texts.join(" and ")));
    }
    let mut dims = cx.broadcast(&[&one[..one.len() - 2], &other[..other.len() - 2]])?;
    if !is_row {
        dims.push(rows);
    }
    if !is_column {
        dims.push(columns);
    }
    let dtype = if left.dtype.is_float() { left.dtype } else { DType::Float32 };
    Outcome::one(dtype, dims)
}

pub(super) fn gemm(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let matrix = |index: usize, attribute: &str| -> Result<[Dim; 2]> {
        match (cx.dims(index)?, cx.call.attributes.flag(attribute)) {
            (&[rows, columns], false) => Ok([rows, columns]),
            (&[rows, columns], true) => Ok([columns, rows]),
            (other, _) => Err(cx.bad_shape("a matrix", other)),
        }
    };
    let ([rows, inner], [height, columns]) = (matrix(0, "transA")?, matrix(1, "transB")?);
    if cx.same(inner, height).is_none() {
        return Err(cx.bad("matrices whose inner dimensions agree", format!("{inner} and {height}")));
    }
    Outcome::one(cx.dtype(0)?, [rows, columns])
}

pub(super) fn reduce(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let rank = input.rank();
    let given = cx.ints("axes", 1)?.filter(|axes| !axes.is_empty());
    let axes = match given {
        Some(axes) => cx.axes(&axes, rank)?,
        None if cx.call.attributes.flag("noop_with_empty_axes") => return Ok(vec![Outcome::Same(cx.id(0)?)]),
        None => (0..rank).collect(),
    };
    let keeps = cx.call.attributes.int_or("keepdims", 1) != 0;
    let dims = input
        .dims()
        .iter()
        .enumerate()
        .filter_map(|(axis, &dim)| if axes.contains(&axis) { keeps.then_some(Dim::Fixed(1)) } else { Some(dim) });
    let shape = Shape::new(dims);
    if let (Some(numbers), true) = (input.folded(), axes.len() == rank) {
        let number = match cx.call.op.as_str() {
            "ReduceProd" => numbers.iter().try_fold(Quantity::new(1.0), |product, &number| product.times(number)),
            "ReduceSum" => Some(numbers.iter().fold(Quantity::new(0.0), |sum, &number| sum.plus(number))),
            "ReduceMax" => extreme(numbers, std::cmp::Ordering::Greater),
            "ReduceMin" => extreme(numbers, std::cmp::Ordering::Less),
            _ => None,
        };
        if let Some(number) = number {
            return Ok(vec![Outcome::Known(input.dtype, shape, Some(vec![number]))]);
        }
    }
    Ok(vec![Outcome::New(input.dtype, shape)])
}

fn extreme(numbers: &[Quantity], wanted: std::cmp::Ordering) -> Option<Quantity> {
    let mut best = *numbers.first()?;
    for &number in &numbers[1..] {
        if number.compare(best)? == wanted {
            best = number;
        }
    }
    Some(best)
}

pub(super) fn arg(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dims = cx.dims(0)?;
    let axis = cx.axis(cx.call.attributes.int_or("axis", 0), dims.len())?;
    let keeps = cx.call.attributes.int_or("keepdims", 1) != 0;
    let dims = dims
        .iter()
        .enumerate()
        .filter_map(|(place, &dim)| if place == axis { keeps.then_some(Dim::Fixed(1)) } else { Some(dim) });
    Outcome::one(DType::Int64, dims)
}

pub(super) fn einsum(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let equation: String =
        cx.call.attributes.text("equation").unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
    let (terms, result) = match equation.split_once("->") {
        Some((terms, result)) => (terms, Some(result.to_owned())),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = terms.split(',').collect();
    if terms.len() != cx.call.inputs.len() {
        return Err(cx.bad(format!("{} operands", terms.len()), cx.call.inputs.len().to_string()));
    }
    let mut extents: BTreeMap<char, Dim> = BTreeMap::new();
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    let mut outer: Vec<Dim> = Vec::new();
    for (index, term) in terms.iter().enumerate() {
        let dims = cx.dims(index)?;
        let letters: Vec<char> = term.chars().filter(|letter| *letter != '.').collect();
        let hidden = dims.len().checked_sub(letters.len()).filter(|&hidden| hidden == 0 || term.contains("..."));
        let hidden = hidden.ok_or_else(|| cx.bad_shape(&format!("the dimensions `{term}`"), dims))?;
        let front = term.find("...").unwrap_or(0);
        outer = cx.broadcast(&[&outer, dims.get(front..front + hidden).unwrap_or_default()])?;
        for (place, &letter) in letters.iter().enumerate() {
            let dim = dims[if place < front { place } else { place + hidden }];
            let known = extents.entry(letter).or_insert(dim);
            *known = match (*known, dim) {
                (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => other,
                (known, dim) => cx
                    .same(known, dim)
                    .ok_or_else(|| cx.bad(format!("one extent for `{letter}`"), format!("{known} and {dim}")))?,
            };
            *counts.entry(letter).or_default() += 1;
        }
    }
    let result = result.unwrap_or_else(|| {
        let once = counts.iter().filter(|(_, count)| **count == 1).map(|(letter, _)| *letter);
        "...".chars().chain(once).collect()
    });
    let mut dims = Vec::new();
    if let Some((front, back)) = result.split_once("...") {
        dims.extend(front.chars().filter_map(|letter| extents.get(&letter)));
        dims.extend(&outer);
        dims.extend(back.chars().filter_map(|letter| extents.get(&letter)));
    } else {
        dims.extend(result.chars().filter_map(|letter| extents.get(&letter)));
    }
    Outcome::one(cx.dtype(0)?, dims)
}
