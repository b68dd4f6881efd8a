//! Operators that work element by element, and norms.

use std::cmp::Ordering;

use plimsoll_graph::{DType, Dim, Shape};

use super::call::{Context, Outcome, few_elements};
use super::shapes::{asked_dtype, first_as_it_is};
use crate::error::Result;
use crate::quantity::Quantity;

pub(super) fn infer(cx: Context<'_>, op: &str) -> Result<Option<Vec<Outcome>>> {
    if let Some(outcomes) = folded(cx, op)? {
        return Ok(Some(outcomes));
    }
    let outcomes = match op {
        // What exporters multiply by one was no product before.
        "Mul" if is_one(cx, 1) => vec![Outcome::Same(cx.id(0)?)],
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Mod" | "Min" | "Max" | "Mean" | "Sum" | "PRelu" | "BitShift"
        | "BiasGelu" | "BiasAdd" => broadcast(cx, cx.dtype(0)?)?,
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor" => {
            broadcast(cx, DType::Bool)?
        }
        "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => broadcast(cx, cx.dtype(0)?)?,
        "Where" => broadcast(cx, cx.dtype(1)?)?,
        "Not" | "IsNaN" | "IsInf" => Outcome::one(DType::Bool, cx.dims(0)?.iter().copied())?,
        "Cast" => cast(cx, asked_dtype(cx, "to")?.ok_or_else(|| cx.bad("a type to cast to", "none"))?)?,
        "CastLike" => cast(cx, cx.dtype(1)?)?,
        "Dequantized" => dequantized(cx)?,
        "Identity" => vec![Outcome::Same(cx.id(0)?)],
        op if SAME_SHAPE.contains(&op) => first_as_it_is(cx)?,
        _ => return Ok(None),
    };
    Ok(Some(outcomes))
}

/// Whether an operand is the number one, and stretches nothing.
fn is_one(cx: Context<'_>, index: usize) -> bool {
    let (Some(first), Some(other)) = (cx.find(0), cx.find(index)) else { return false };
    first.is_runtime() && other.scalar() == Some(1.0) && other.weight().is_none() && other.rank() <= first.rank()
}

/// Operators whose first output is shaped and typed like their first input.
const SAME_SHAPE: [&str; 67] = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseNot",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "CumSum",
    "CumProd",
    "Elu",
    "Erf",
    "Exp",
    "FastGelu",
    "Floor",
    "Gelu",
    "GroupNormalization",
    "GroupNorm",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "InstanceNormalization",
    "LRN",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "Mish",
    "Neg",
    "QuickGelu",
    "Reciprocal",
    "Relu",
    "Relu6",
    "ReverseSequence",
    "RotaryEmbedding",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softmax",
    "SoftmaxGrad",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Trilu",
    "Inverse",
    "BitmaskDropout",
    "ScaledTanh",
    "ParametricSoftplus",
    "ImageScaler",
    "Crop",
    "Affine",
    "Rsqrt",
    "Silu",
];

fn broadcast(cx: Context<'_>, dtype: DType) -> Result<Vec<Outcome>> {
    let shapes: Vec<&[Dim]> = (0..cx.call.inputs.len()).map(|index| cx.dims(index)).collect::<Result<_>>()?;
    Outcome::one(dtype, cx.broadcast(&shapes)?)
}

/// A conversion between floats is left to the training setup's precision.
fn cast(cx: Context<'_>, to: DType) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let is_precision = to.is_float() && input.dtype.is_float() && input.folded().is_none();
    if to == input.dtype || is_precision {
        return Ok(vec![Outcome::Same(cx.id(0)?)]);
    }
    Outcome::one(to, input.dims().iter().copied())
}

/// A dequantised weight is the weight that is trained.
fn dequantized(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    if input.dtype.is_float() {
        return Ok(vec![Outcome::Same(cx.id(0)?)]);
    }
    Outcome::view(DType::Float32, input.dims().iter().copied())
}

pub(super) fn dropout(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let rate = match (cx.call.attributes.float("ratio"), cx.find(1)) {
        (Some(rate), _) => Some(f64::from(rate)),
        (None, Some(rate)) => rate.scalar(),
        (None, None) => Some(0.5),
    };
    // From operator set 12 on a dropout that trains says so.
    let trains = cx.call.opset < 12 || cx.find(2).is_some_and(|mode| mode.scalar() != Some(0.0));
    if !trains || rate == Some(0.0) {
        return Ok(vec![Outcome::Same(cx.id(0)?), Outcome::New(DType::Bool, input.shape.clone())]);
    }
    Ok(vec![Outcome::New(input.dtype, input.shape.clone()), Outcome::New(DType::Bool, input.shape.clone())])
}

pub(super) fn batch_norm(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let statistics = cx.value(3)?;
    let mut outcomes = vec![Outcome::New(input.dtype, input.shape.clone())];
    outcomes.extend((1..cx.call.outputs.len()).map(|_| Outcome::New(statistics.dtype, statistics.shape.clone())));
    Ok(outcomes)
}

/// Norms over the last dimensions, with their statistics.
pub(super) fn row_norm(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let axis = cx.axis(cx.call.attributes.int_or("axis", -1), input.rank())?;
    let dims = input.dims().iter().enumerate();
    let rows = Shape::new(dims.map(|(place, &dim)| if place < axis { dim } else { Dim::Fixed(1) }));
    let mut outcomes = vec![Outcome::New(input.dtype, input.shape.clone())];
    outcomes.extend((1..cx.call.outputs.len()).map(|_| Outcome::New(DType::Float32, rows.clone())));
    Ok(outcomes)
}

/// A sum and its norm, statistics between, and the sum once more.
pub(super) fn skip_norm(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let mut outcomes = row_norm(cx)?;
    let input = cx.value(0)?;
    if let Some(sum) = outcomes.get_mut(3) {
        *sum = Outcome::New(input.dtype, input.shape.clone());
    }
    Ok(outcomes)
}

/// The elements of what small constants give.
fn folded(cx: Context<'_>, op: &str) -> Result<Option<Vec<Outcome>>> {
    let mut operands = Vec::with_capacity(cx.call.inputs.len());
    for index in 0..cx.call.inputs.len() {
        match cx.find(index) {
            Some(value) if value.folded().is_some() => operands.push(value),
            Some(_) => return Ok(None),
            None => {}
        }
    }
    let Some(first) = operands.first() else { return Ok(None) };
    let is_whole = !first.dtype.is_float();
    let shapes: Vec<&[Dim]> = operands.iter().map(|value| value.dims()).collect();
    let Ok(dims) = cx.broadcast(&shapes) else { return Ok(None) };
    let Some(count) = few_elements(&dims) else { return Ok(None) };
    let dtype = match op {
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor" | "Not" => DType::Bool,
        "Where" => cx.dtype(1)?,
        "Cast" => asked_dtype(cx, "to")?.unwrap_or(first.dtype),
        "CastLike" => cx.dtype(1)?,
        _ => first.dtype,
    };
    let mut numbers = Vec::with_capacity(count);
    let places: Vec<Places> = operands.iter().map(|value| Places::of(value.dims(), &dims)).collect();
    for index in 0..count {
        let mut at = Vec::with_capacity(operands.len());
        for (value, places) in operands.iter().zip(&places) {
            let found = value.folded().and_then(|numbers| numbers.get(places.at(index)).copied());
            match found {
                Some(number) => at.push(number),
                None => return Ok(None),
            }
        }
        let number = match (op, dtype.is_float()) {
            // Casting to whole numbers cuts off; to true or false asks for zero.
            ("Cast" | "CastLike", false) => cast_whole(at[0], dtype),
            _ => number(op, &at, is_whole),
        };
        match number {
            Some(number) => numbers.push(number),
            None => return Ok(None),
        }
    }
    Ok(Some(vec![Outcome::Known(dtype, Shape::new(dims), Some(numbers))]))
}

fn cast_whole(number: Quantity, dtype: DType) -> Option<Quantity> {
    if dtype == DType::Bool {
        return Some(truth(number != Quantity::new(0.0)));
    }
    match number.known() {
        Some(value) => Some(Quantity::new(value.trunc())),
        None => (number.fixed.fract() == 0.0 && number.per_sample.fract() == 0.0).then_some(number),
    }
}

/// Where an element of a broadcast operand lies.
struct Places {
    /// Extent of the result and stride of the operand, the last dimension first.
    axes: Vec<(usize, usize)>,
}

impl Places {
    fn of(from: &[Dim], to: &[Dim]) -> Self {
        let mut stride = 1;
        let axes = (0..to.len()).map(|back| {
            let extent = to[to.len() - 1 - back].factor() as usize;
            let own = from.len().checked_sub(back + 1).map_or(1, |axis| from[axis].factor() as usize);
            let step = if own == 1 { 0 } else { stride };
            stride *= own;
            (extent.max(1), step)
        });
        Self { axes: axes.collect() }
    }

    fn at(&self, index: usize) -> usize {
        let mut rest = index;
        self.axes.iter().fold(0, |place, &(extent, step)| {
            let axis = rest % extent;
            rest /= extent;
            place + axis * step
        })
    }
}

const fn truth(is_true: bool) -> Quantity {
    Quantity::new(if is_true { 1.0 } else { 0.0 })
}

/// One element; `None` if the batch decides it or the operator is not followed.
fn number(op: &str, at: &[Quantity], is_whole: bool) -> Option<Quantity> {
    let zero = Quantity::new(0.0);
    let pair = || Some((*at.first()?, *at.get(1)?));
    let ordered = |wanted: fn(Ordering) -> bool| {
        let (left, right) = pair()?;
        left.compare(right).map(|ordering| truth(wanted(ordering)))
    };
    let logical = |join: fn(bool, bool) -> bool| pair().map(|(left, right)| truth(join(left != zero, right != zero)));
    let chosen = |wanted: Ordering| {
        let mut best = *at.first()?;
        for &other in &at[1..] {
            if other.compare(best)? == wanted {
                best = other;
            }
        }
        Some(best)
    };
    match op {
        "Add" | "Sum" => Some(at.iter().fold(zero, |sum, &number| sum.plus(number))),
        "Sub" => pair().map(|(left, right)| left.minus(right)),
        "Mul" => pair().and_then(|(left, right)| left.times(right)),
        "Div" => pair().and_then(|(left, right)| left.over(right, is_whole)),
        "Mod" => {
            let (left, right) = pair()?;
            let (left, right) = (left.known()?, right.known()?);
            (right != 0.0).then(|| Quantity::new(left.rem_euclid(right)))
        }
        "Pow" => {
            let (left, right) = pair()?;
            Some(Quantity::new(left.known()?.powf(right.known()?)))
        }
        "Min" => chosen(Ordering::Less),
        "Max" => chosen(Ordering::Greater),
        "Equal" => pair().map(|(left, right)| truth(left == right)),
        "Less" => ordered(Ordering::is_lt),
        "LessOrEqual" => ordered(Ordering::is_le),
        "Greater" => ordered(Ordering::is_gt),
        "GreaterOrEqual" => ordered(Ordering::is_ge),
        "And" => logical(|left, right| left && right),
        "Or" => logical(|left, right| left || right),
        "Xor" => logical(|left, right| left != right),
        "Not" => at.first().map(|&number| truth(number == zero)),
        "Where" => match at {
            [condition, yes, no] => Some(if *condition == zero { *no } else { *yes }),
            _ => None,
        },
        "Cast" | "CastLike" => at.first().copied(),
        "Neg" => at.first().map(|number| number.scaled(-1.0)),
        "Sqrt" => at.first()?.map(f64::sqrt),
        "Reciprocal" => at.first()?.map(f64::recip),
        "Exp" => at.first()?.map(f64::exp),
        "Log" => at.first()?.map(f64::ln),
        "Floor" => at.first()?.map(f64::floor),
        "Ceil" => at.first()?.map(f64::ceil),
        "Round" => at.first()?.map(f64::round_ties_even),
        "Abs" => at.first()?.map(f64::abs),
        "Sign" => at.first()?.map(f64::signum),
        _ => None,
    }
}
