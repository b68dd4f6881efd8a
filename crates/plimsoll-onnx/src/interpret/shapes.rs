//! Which rule tells the shape of what an operator computes.

use plimsoll_graph::{DType, Dim, Shape};

use super::call::{Context, Outcome, few_elements};
use super::{elementwise, layout, picking, reductions, sequences, windows};
use crate::constant::{Constant, dtype};
use crate::error::Result;
use crate::proto::DataType;
use crate::quantity::Quantity;

/// Domains beside ONNX's own whose operators are known here.
pub(super) fn is_known_domain(domain: &str) -> bool {
    matches!(domain, "com.microsoft" | "ai.onnx.ml")
}

/// Operators whose results differ from run to run.
pub(super) fn is_random(op: &str) -> bool {
    matches!(
        op,
        "RandomUniform" | "RandomUniformLike" | "RandomNormal" | "RandomNormalLike" | "Bernoulli" | "Multinomial"
    )
}

/// What a call gives; `None` if no rule knows.
pub(super) fn infer(cx: Context<'_>) -> Result<Option<Vec<Outcome>>> {
    if !cx.call.domain.is_empty() && !is_known_domain(&cx.call.domain) {
        return Ok(None);
    }
    let outcomes = match cx.call.op.as_str() {
        "Shape" => layout::shape(cx)?,
        "Size" => layout::size(cx)?,
        "Reshape" => layout::reshape(cx)?,
        "Transpose" => layout::transpose(cx)?,
        "Flatten" => layout::flatten(cx)?,
        "Squeeze" => layout::squeeze(cx)?,
        "Unsqueeze" => layout::unsqueeze(cx)?,
        "Expand" => layout::expand(cx)?,
        "Tile" => layout::tile(cx)?,
        "Pad" => layout::pad(cx)?,
        "DepthToSpace" | "SpaceToDepth" => layout::blocks(cx)?,
        "Concat" => layout::concat(cx)?,
        "Split" => picking::split(cx)?,
        "Slice" => picking::slice(cx)?,
        "Gather" => picking::gather(cx)?,
        "GatherElements" => Outcome::one(cx.dtype(0)?, cx.dims(1)?.iter().copied())?,
        "GatherND" => picking::gather_nd(cx)?,
        "Scatter" | "ScatterElements" | "ScatterND" => first_as_it_is(cx)?,
        "TopK" => picking::top_k(cx)?,
        "NonZero" => picking::non_zero(cx)?,
        "OneHot" => picking::one_hot(cx)?,
        "Range" => picking::range(cx)?,
        "ConstantOfShape" => constant_of_shape(cx)?,
        "EyeLike" => constant_like(cx)?,
        "RandomUniform" | "RandomNormal" => random(cx)?,
        "RandomUniformLike" | "RandomNormalLike" | "Bernoulli" => random_like(cx)?,
        "Conv" | "FusedConv" => windows::conv(cx)?,
        "ConvTranspose" => windows::conv_transpose(cx)?,
        "MaxPool" | "AveragePool" | "LpPool" => windows::pool(cx)?,
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => windows::global_pool(cx)?,
        "Resize" | "Upsample" => windows::resize(cx)?,
        "GridSample" => windows::grid_sample(cx)?,
        "RoiAlign" | "MaxRoiPool" => return Ok(None),
        "MatMul" | "FusedMatMul" => reductions::mat_mul(cx)?,
        "Gemm" | "FusedGemm" => reductions::gemm(cx)?,
        "Einsum" => reductions::einsum(cx)?,
        "ArgMax" | "ArgMin" => reductions::arg(cx)?,
        "SoftmaxCrossEntropyLoss" | "NegativeLogLikelihoodLoss" => Outcome::one(cx.dtype(0)?, [])?,
        "LSTM" | "GRU" | "RNN" => sequences::recurrent(cx)?,
        "Attention" | "MultiHeadAttention" => sequences::attention(cx)?,
        "Dropout" => elementwise::dropout(cx)?,
        "BatchNormalization" => elementwise::batch_norm(cx)?,
        "LayerNormalization" | "SimplifiedLayerNormalization" | "RMSNormalization" => elementwise::row_norm(cx)?,
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => elementwise::skip_norm(cx)?,
        op if op.starts_with("Reduce") => reductions::reduce(cx)?,
        op => return elementwise::infer(cx, op),
    };
    Ok(Some(outcomes))
}

/// An output of the first input's type and shape.
pub(super) fn first_as_it_is(cx: Context<'_>) -> Result<Vec<Outcome>> {
    Outcome::one(cx.dtype(0)?, cx.dims(0)?.iter().copied())
}

/// The element type that an attribute asks for.
pub(super) fn asked_dtype(cx: Context<'_>, attribute: &str) -> Result<Option<DType>> {
    let Some(number) = cx.call.attributes.int(attribute) else { return Ok(None) };
    let asked = i32::try_from(number).ok().and_then(|number| DataType::try_from(number).ok()).and_then(dtype);
    asked.map(Some).ok_or_else(|| cx.bad("a type of numbers", number.to_string()))
}

/// Extents from the elements of an input.
pub(super) fn listed_dims(cx: Context<'_>, input: usize) -> Result<Vec<Dim>> {
    let numbers = cx.numbers(input)?.unwrap_or_default();
    if numbers.len() > Shape::MAX_RANK {
        return Err(cx.bad(format!("at most {} dimensions", Shape::MAX_RANK), numbers.len().to_string()));
    }
    numbers.iter().map(|&number| cx.dim(number)).collect()
}

fn constant_of_shape(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dims = listed_dims(cx, 0)?;
    let value = cx.call.attributes.tensor("value").and_then(Constant::of);
    let dtype = value.as_ref().map_or(DType::Float32, |value| value.dtype);
    let fill = value.and_then(|value| value.numbers).and_then(|numbers| numbers.first().copied());
    let fill = fill.unwrap_or(Quantity::new(0.0));
    let numbers = few_elements(&dims).map(|count| vec![fill; count]);
    Ok(vec![Outcome::Known(dtype, Shape::new(dims), numbers)])
}

fn constant_like(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dtype = asked_dtype(cx, "dtype")?.map_or_else(|| cx.dtype(0), Ok)?;
    Ok(vec![Outcome::Known(dtype, cx.value(0)?.shape.clone(), None)])
}

fn random(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dtype = asked_dtype(cx, "dtype")?.unwrap_or(DType::Float32);
    let extents = cx.call.attributes.ints("shape").unwrap_or_default();
    let dims = extents.iter().map(|&extent| cx.dim(Quantity::new(extent as f64)));
    Outcome::one(dtype, dims.collect::<Result<Vec<_>>>()?)
}

fn random_like(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let dtype = asked_dtype(cx, "dtype")?.map_or_else(|| cx.dtype(0), Ok)?;
    Outcome::one(dtype, cx.dims(0)?.iter().copied())
}
