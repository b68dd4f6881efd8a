//! Convolutions, pooling and interpolation.

use plimsoll_graph::{DType, Dim, Shape};

use super::call::{Context, Outcome};
use crate::error::Result;
use crate::quantity::Quantity;

/// Extents of a window along one axis.
#[derive(Clone, Copy)]
struct Window {
    kernel: u64,
    stride: u64,
    dilation: u64,
    padding: u64,
    rounds_up: bool,
}

/// A parameter's whole number at an axis.
fn at(cx: Context<'_>, attribute: &str, axis: usize, default: u64) -> Result<u64> {
    let Some(list) = cx.call.attributes.ints(attribute) else { return Ok(default) };
    match list.get(axis) {
        None => Ok(default),
        Some(&value) => u64::try_from(value)
            .ok()
            .filter(|&value| value <= 1 << 20)
            .ok_or_else(|| cx.bad(format!("`{attribute}` of 0 to {}", 1 << 20), value.to_string())),
    }
}

fn window(cx: Context<'_>, axis: usize, spatial: usize, kernel: u64) -> Result<Window> {
    Ok(Window {
        kernel,
        stride: at(cx, "strides", axis, 1)?.max(1),
        dilation: at(cx, "dilations", axis, 1)?.max(1),
        padding: at(cx, "pads", axis, 0)? + at(cx, "pads", axis + spatial, 0)?,
        rounds_up: cx.call.attributes.flag("ceil_mode"),
    })
}

impl Window {
    /// Positions along an extent; `None` if there are none.
    fn positions(self, extent: u64, automatic: &str) -> Option<u64> {
        let reach = self.dilation.checked_mul(self.kernel.checked_sub(1)?)?.checked_add(1)?;
        match automatic {
            "SAME_UPPER" | "SAME_LOWER" => return Some(extent.div_ceil(self.stride)),
            _ => {}
        }
        let padding = if automatic == "VALID" { 0 } else { self.padding };
        let room = extent.checked_add(padding)?.checked_sub(reach)?;
        let positions = room / self.stride + 1;
        // A last window must start within the extent or its front padding.
        let one_more =
            self.rounds_up && room % self.stride != 0 && positions * self.stride < extent + padding.div_ceil(2);
        Some(positions + u64::from(one_more))
    }
}

fn slid(cx: Context<'_>, spatial: &[Dim], kernel: &[u64]) -> Result<Vec<Dim>> {
    let automatic = cx.call.attributes.text("auto_pad").unwrap_or("NOTSET");
    if spatial.len() != kernel.len() {
        return Err(cx.bad_shape(&format!("{} spatial dimensions", kernel.len()), spatial));
    }
    let mut dims = Vec::with_capacity(spatial.len());
    for (axis, (&dim, &kernel)) in spatial.iter().zip(kernel).enumerate() {
        let extent = cx.fixed(dim)?;
        let positions = window(cx, axis, spatial.len(), kernel)?.positions(extent, automatic);
        let positions =
            positions.ok_or_else(|| cx.bad(format!("room for a kernel of {kernel}"), extent.to_string()))?;
        dims.push(Dim::Fixed(positions));
    }
    Ok(dims)
}

/// Batch, channels and spatial dimensions.
fn planes(cx: Context<'_>, index: usize) -> Result<(Dim, Dim, &[Dim])> {
    match cx.dims(index)? {
        [batch, channels, spatial @ ..] => Ok((*batch, *channels, spatial)),
        other => Err(cx.bad_shape("batch, channels and spatial dimensions", other)),
    }
}

pub(super) fn conv(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let (batch, _, spatial) = planes(cx, 0)?;
    let (channels, _, kernel) = planes(cx, 1)?;
    let kernel: Vec<u64> = kernel.iter().map(|&dim| cx.fixed(dim)).collect::<Result<_>>()?;
    let mut dims = vec![batch, channels];
    dims.extend(slid(cx, spatial, &kernel)?);
    let dtype = if cx.dtype(0)?.is_float() { cx.dtype(0)? } else { DType::Float32 };
    Outcome::one(dtype, dims)
}

pub(super) fn conv_transpose(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let (batch, _, spatial) = planes(cx, 0)?;
    let (_, channels, kernel) = planes(cx, 1)?;
    if spatial.len() != kernel.len() {
        return Err(cx.bad_shape(&format!("{} spatial dimensions", kernel.len()), spatial));
    }
    let groups = cx.call.attributes.int_or("group", 1).max(1) as f64;
    let mut dims = vec![batch, cx.dim(Quantity::of_dim(channels).scaled(groups))?];
    for (axis, (&dim, &kernel)) in spatial.iter().zip(kernel).enumerate() {
        let (extent, kernel) = (cx.fixed(dim)? as f64, cx.fixed(kernel)? as f64);
        let window = window(cx, axis, spatial.len(), 1)?;
        let (stride, dilation) = (window.stride as f64, window.dilation as f64);
        let given = cx
            .call
            .attributes
            .ints("output_shape")
            .and_then(|shape| shape.get(shape.len().saturating_sub(spatial.len()) + axis).copied());
        let is_same = matches!(cx.call.attributes.text("auto_pad"), Some("SAME_UPPER" | "SAME_LOWER"));
        let reach = dilation * (kernel - 1.0) + 1.0 + at(cx, "output_padding", axis, 0)? as f64;
        let out = match given {
            Some(given) => given as f64,
            None if is_same => extent * stride,
            None => (extent - 1.0) * stride + reach - window.padding as f64,
        };
        dims.push(cx.dim(Quantity::new(out))?);
    }
    Outcome::one(cx.dtype(0)?, dims)
}

pub(super) fn pool(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let (batch, channels, spatial) = planes(cx, 0)?;
    let kernel = (0..spatial.len()).map(|axis| at(cx, "kernel_shape", axis, 1)).collect::<Result<Vec<_>>>()?;
    let mut dims = vec![batch, channels];
    dims.extend(slid(cx, spatial, &kernel)?);
    let shape = Shape::new(dims);
    Ok(vec![Outcome::New(cx.dtype(0)?, shape.clone()), Outcome::New(DType::Int64, shape)])
}

pub(super) fn global_pool(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let (batch, channels, spatial) = planes(cx, 0)?;
    Outcome::one(cx.dtype(0)?, [batch, channels].into_iter().chain(spatial.iter().map(|_| Dim::Fixed(1))))
}

pub(super) fn resize(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let input = cx.value(0)?;
    let rank = input.rank();
    let axes = match cx.call.attributes.ints("axes") {
        Some(axes) => cx.axes(axes, rank)?,
        None => (0..rank).collect(),
    };
    let place = if cx.call.op == "Upsample" || cx.call.opset < 11 { 1 } else { 2 };
    let listed = cx
        .call
        .attributes
        .floats("scales")
        .map(|scales| scales.iter().map(|&scale| Quantity::new(f64::from(scale))).collect::<Vec<_>>());
    let scales = listed.or_else(|| cx.find(place).and_then(|value| value.numbers.as_deref()).map(<[Quantity]>::to_vec));
    let mut dims = input.dims().to_vec();
    let set = |place: usize, dims: &mut Vec<Dim>, extent: Quantity| -> Result<()> {
        let axis = *axes.get(place).ok_or_else(|| cx.bad(format!("{} extents", axes.len()), "more"))?;
        let extent = cx.dim(extent)?;
        dims[axis] = cx.same(dims[axis], extent).unwrap_or(extent);
        Ok(())
    };
    if cx.find(3).is_some_and(|sizes| sizes.rank() == 1 && sizes.dims() != [Dim::Fixed(0)]) {
        for (place, &size) in cx.numbers(3)?.unwrap_or_default().iter().enumerate() {
            set(place, &mut dims, size)?;
        }
    } else {
        let scales = scales.ok_or_else(|| cx.unknown("has scales that only a run of the model tells".into()))?;
        for (place, scale) in scales.into_iter().enumerate() {
            let extent = axes.get(place).map_or(Quantity::new(1.0), |&axis| Quantity::of_dim(dims[axis]));
            let scaled = extent.times(scale).ok_or_else(|| cx.unknown("scales by the batch".into()))?;
            // Extents are rounded down; the slack is for scales that are no exact binary fractions.
            let whole = scaled.map(|extent| (extent + 1e-4).floor()).unwrap_or(scaled);
            set(place, &mut dims, whole)?;
        }
    }
    if dims == input.dims() {
        return Ok(vec![Outcome::Same(cx.id(0)?)]);
    }
    Outcome::one(input.dtype, dims)
}

pub(super) fn grid_sample(cx: Context<'_>) -> Result<Vec<Outcome>> {
    let (batch, channels, _) = planes(cx, 0)?;
    let grid = cx.dims(1)?;
    let inner = grid.get(1..grid.len().saturating_sub(1)).unwrap_or_default();
    Outcome::one(cx.dtype(0)?, [batch, channels].into_iter().chain(inner.iter().copied()))
}
