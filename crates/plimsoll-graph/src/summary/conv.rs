//! Convolutions: which input, kernel and groups a parameter count allows.

use super::weights::{self, Spec};
use super::window;
use crate::op::Conv;
use crate::shape::{Dim, Shape};

/// What is printed of a convolution; the output has a batch, channels and at least one spatial dimension.
pub(super) struct Filter<'a> {
    pub(super) count: u64,
    pub(super) output: &'a Shape,
    /// Kernel extents; empty if they are not printed.
    pub(super) kernel: Vec<u64>,
    pub(super) transposed: bool,
}

/// A convolution that has the printed parameter count.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    pub(super) conv: Conv,
    /// Input channels.
    width: u64,
    /// Output channels.
    channels: u64,
    bias: bool,
}

/// What kind of convolution is looked for, the likeliest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// One group and an odd square kernel, or one that cuts the input into patches.
    Plain,
    /// As many groups as channels, and a small odd square kernel.
    Depthwise,
    /// A kernel along one axis.
    Line,
    /// Some groups.
    Grouped,
    /// One group and any square kernel.
    Any,
    /// As many groups as channels, and any square kernel.
    AnyDepthwise,
}

/// Every style, in order.
pub(super) const STYLES: [Style; 6] =
    [Style::Plain, Style::Depthwise, Style::Line, Style::Grouped, Style::Any, Style::AnyDepthwise];

/// Square kernels that are tried where the input's channels are not known, the likeliest first.
const SIDES: [u64; 7] = [3, 1, 5, 7, 9, 11, 13];

/// The same for transposed convolutions.
const TRANSPOSED_SIDES: [u64; 5] = [4, 2, 3, 5, 1];

impl Fit {
    /// Weight and bias.
    pub(super) fn specs(&self) -> Vec<Spec> {
        let (first, second) =
            if self.conv.transposed { (self.width, self.channels) } else { (self.channels, self.width) };
        let mut extents = vec![first, second / self.conv.groups];
        extents.extend(&self.conv.kernel);
        weights::weight_and_bias(&extents, self.bias.then_some(self.channels))
    }
}

impl Filter<'_> {
    /// Spatial dimensions.
    pub(super) fn rank(&self) -> usize {
        self.output.rank().saturating_sub(2)
    }

    fn channels(&self) -> u64 {
        self.output.dims().get(1).map_or(0, |dim| dim.factor())
    }

    /// Weights per output channel, with and without a bias.
    pub(super) fn per_channel(&self) -> impl Iterator<Item = (u64, bool)> {
        let channels = self.channels();
        let exact = if channels > 0 && self.count.is_multiple_of(channels) { self.count / channels } else { 0 };
        [(exact, false), (exact.saturating_sub(1), true)].into_iter().filter(|&(per, _)| per > 0)
    }

    /// The convolution of a style that takes an input to the output with the printed count.
    pub(super) fn fit(&self, input: &Shape, style: Style) -> Option<Fit> {
        self.fit_by(input, style, |kernel| self.steps(input, kernel))
    }

    /// The same with any stride, for dilated kernels and rare strides.
    pub(super) fn fit_loosely(&self, input: &Shape, style: Style) -> Option<Fit> {
        let ratio = |(from, to): (&Dim, &Dim)| {
            let (more, less) = if self.transposed { (to, from) } else { (from, to) };
            more.factor().checked_div(less.factor()).filter(|&ratio| ratio > 0).map(|ratio| (ratio, 0))
        };
        let steps = || input.dims()[2..].iter().zip(&self.output.dims()[2..]).map(ratio).collect();
        self.fit_by(input, style, |kernel| if kernel.len() == self.rank() { steps() } else { None })
    }

    fn fit_by(&self, input: &Shape, style: Style, steps: impl Fn(&[u64]) -> Option<Vec<window::Step>>) -> Option<Fit> {
        if input.rank() != self.output.rank() {
            return None;
        }
        let width = input.dims()[1].factor();
        self.per_channel().find_map(|(per, bias)| {
            self.kernels(per, width, input, style).into_iter().find_map(|(kernel, groups)| {
                let (stride, padding) = steps(&kernel)?.into_iter().unzip();
                let conv = Conv { kernel, stride, padding, dilation: Vec::new(), groups, transposed: self.transposed };
                Some(Fit { conv, width, channels: self.channels(), bias })
            })
        })
    }

    /// Kernels and groups that make `per` weights an output channel out of `width` input channels.
    pub(super) fn kernels(&self, per: u64, width: u64, input: &Shape, style: Style) -> Vec<(Vec<u64>, u64)> {
        let rank = self.rank();
        let power = rank as u32;
        if width == 0 {
            return Vec::new();
        }
        if !self.kernel.is_empty() {
            let area = self.kernel.iter().try_fold(1_u64, |area, &extent| area.checked_mul(extent));
            let Some(inside) = area.filter(|&area| area > 0 && per.is_multiple_of(area)).map(|area| per / area) else {
                return Vec::new();
            };
            let fits = width.is_multiple_of(inside) && self.channels().is_multiple_of(width / inside);
            return if fits && style == Style::Plain {
                vec![(self.kernel.clone(), width / inside)]
            } else {
                Vec::new()
            };
        }
        let whole = per.is_multiple_of(width).then(|| per / width);
        let side = |area| window::root(area, power);
        let square = |side| vec![side; rank];
        match style {
            Style::Plain | Style::Any => {
                let usual =
                    |side: u64| (side % 2 == 1 && side <= 15) || self.transposed || self.is_patches(input, side);
                let side = whole.and_then(side).filter(|&side| style == Style::Any || usual(side));
                side.map(|side| (square(side), 1)).into_iter().collect()
            }
            Style::Depthwise | Style::AnyDepthwise if width > 1 && self.channels().is_multiple_of(width) => {
                let usual = |side: &u64| style == Style::AnyDepthwise || [3, 5, 7].contains(side);
                side(per).filter(usual).map(|side| (square(side), width)).into_iter().collect()
            }
            Style::Line if rank == 2 => match whole {
                Some(length) if [3, 5, 7, 9].contains(&length) => {
                    vec![(vec![1, length], 1), (vec![length, 1], 1)]
                }
                _ => Vec::new(),
            },
            Style::Grouped => {
                let sides = [3_u64, 5, 7].into_iter().filter_map(|side| {
                    let area = side.pow(power);
                    let inside = per.is_multiple_of(area).then(|| per / area)?;
                    let groups = width.is_multiple_of(inside).then(|| width / inside)?;
                    (groups > 1 && self.channels().is_multiple_of(groups)).then(|| (square(side), groups))
                });
                sides.collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_patches(&self, input: &Shape, side: u64) -> bool {
        let mut pairs = input.dims()[2..].iter().zip(&self.output.dims()[2..]);
        pairs.all(|(from, to)| from.factor() / side == to.factor())
    }

    /// Stride and padding along every axis; `None` if the kernel cannot take the input to the output.
    fn steps(&self, input: &Shape, kernel: &[u64]) -> Option<Vec<window::Step>> {
        let pairs = input.dims()[2..].iter().zip(&self.output.dims()[2..]);
        let step = if self.transposed { window::grow } else { window::slide };
        (kernel.len() == self.rank()).then(|| {
            pairs.zip(kernel).map(|((from, to), &kernel)| step(from.factor(), to.factor(), kernel)).collect()
        })?
    }

    /// Input channels, with the kernel's side, that one group and the printed or a usual kernel leave.
    pub(super) fn widths(&self) -> Vec<(u64, u64)> {
        let power = self.rank() as u32;
        let sides: Vec<(u64, u64)> = if self.kernel.is_empty() {
            let sides = if self.transposed { &TRANSPOSED_SIDES[..] } else { &SIDES };
            sides.iter().map(|&side| (side, side.pow(power))).collect()
        } else {
            let area = self.kernel.iter().fold(1_u64, |area, &extent| area.saturating_mul(extent));
            vec![(self.kernel.iter().copied().max().unwrap_or(1), area.max(1))]
        };
        let mut widths = Vec::new();
        for (side, area) in sides {
            let fitting = self.per_channel().filter(|(per, _)| per.is_multiple_of(area));
            widths.extend(fitting.map(|(per, _)| (per / area, side)));
        }
        widths
    }

    /// The output's shape with other channels, and every spatial extent changed.
    pub(super) fn input_shape(&self, width: u64, extent: impl Fn(u64) -> u64) -> Shape {
        let dims = self.output.dims();
        let spatial = dims[2..].iter().map(|dim| Dim::Fixed(extent(dim.factor())));
        Shape::new([dims[0], Dim::Fixed(width)].into_iter().chain(spatial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(count: u64, input: &[u64], output: &[u64]) -> Option<(Vec<u64>, u64, bool)> {
        let output = Shape::batched(output);
        let filter = Filter { count, output: &output, kernel: Vec::new(), transposed: false };
        let fit = STYLES.into_iter().find_map(|style| filter.fit(&Shape::batched(input), style))?;
        let elements = |spec: &Spec| spec.extents.iter().product::<u64>();
        assert_eq!(fit.specs().iter().map(elements).sum::<u64>(), count);
        Some((fit.conv.kernel, fit.conv.groups, fit.bias))
    }

    #[test]
    fn kernel_groups_and_bias_are_told_from_the_count() {
        assert_eq!(fit(9_408, &[3, 224, 224], &[64, 112, 112]), Some((vec![7, 7], 1, false)));
        assert_eq!(fit(590_592, &[3, 224, 224], &[768, 14, 14]), Some((vec![16, 16], 1, true)));
        assert_eq!(fit(288, &[32, 56, 56], &[32, 56, 56]), Some((vec![3, 3], 32, false)));
        assert_eq!(fit(4_608, &[128, 56, 56], &[128, 56, 56]), Some((vec![3, 3], 32, false)));
        assert_eq!(fit(114_688, &[128, 17, 17], &[128, 17, 17]), Some((vec![1, 7], 1, false)));
        assert_eq!(fit(5 * 8 * 16 + 16, &[8, 100], &[16, 96]), Some((vec![5], 1, true)));
        // No convolution of this input has this count, or takes it to this grid.
        assert_eq!(fit(8_192, &[128, 28, 28], &[128, 28, 28]), None);
        assert_eq!(fit(9_408, &[3, 224, 224], &[64, 500, 500]), None);
        assert_eq!(fit(u64::MAX, &[3, 8, 8], &[64, 8, 8]), None);
    }

    #[test]
    fn a_rare_stride_is_taken_from_the_grids() {
        let (input, output) = (Shape::batched(&[8, 90, 90]), Shape::batched(&[8, 29, 29]));
        let filter = Filter { count: 8 * 8 * 25, output: &output, kernel: vec![5, 5], transposed: false };
        assert_eq!(filter.fit(&input, Style::Plain), None);
        let fit = filter.fit_loosely(&input, Style::Plain).expect("the count fits");
        assert_eq!((fit.conv.stride, fit.conv.kernel), (vec![3, 3], vec![5, 5]));
    }
}
