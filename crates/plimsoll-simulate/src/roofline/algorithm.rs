//! Which algorithm cuDNN picks for a convolution, as far as it decides which units work.
//!
//! TF32 is allowed unasked, but not always taken: tensors must be brought to another layout first, which for few
//! channels takes longer than tensor cores save.

use plimsoll_graph::Conv;

use super::kernel::Pipe;
use crate::trace::Direction;

/// Channels that are loaded at once in single precision.
pub(super) const VECTOR: f64 = 4.0;
/// Up to so many filters cuDNN runs the forward pass without TF32, which shows in counters and in workspaces. It does not
/// show where both input channels and rows fill whole vectors. Both chosen by looking at measurements.
const NARROW_FILTERS: f64 = 48.0;
/// With fewer input channels than a vector holds, nothing but the data gradient runs on tensor cores.
const NARROW_CHANNELS: f64 = 4.0;
/// Up to so many channels on both sides the data gradient of a plain 3 by 3 convolution runs without TF32. Of random ones
/// with 4 to 160 channels over 100,000 positions or more, that tells for 78 % whether the first plan that cuDNN 9.8 offers
/// on an A100 uses tensor cores.
const WINOGRAD_CHANNELS: f64 = 42.0;

/// How one direction of a convolution runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// As an implicit product on the units of the job's precision.
    Product,
    /// As one that gathers its inputs, on ordinary units although tensor cores are allowed.
    Gather,
    /// As Winograd's, on ordinary units although tensor cores are allowed.
    Winograd,
}

impl Algorithm {
    pub(super) const fn pipe(self, allowed: Pipe) -> Pipe {
        match self {
            Self::Product => allowed,
            Self::Gather | Self::Winograd => Pipe::Fp32,
        }
    }
}

/// What of a convolution decides its algorithm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Input channels of a group.
    pub(super) channels: f64,
    /// Output channels of a group.
    pub(super) filters: f64,
    /// Extent of the input's last axis.
    pub(super) row: f64,
    /// Whether Winograd's transforms apply: [`is_plain_3_by_3`].
    pub(super) is_plain_3_by_3: bool,
}

impl Shape {
    /// The algorithm of a direction, where TF32 or whatever else is allowed.
    pub(super) fn algorithm(&self, allowed: Pipe, direction: Direction) -> Algorithm {
        if allowed != Pipe::Tf32 {
            return Algorithm::Product;
        }
        let few_channels = self.channels < NARROW_CHANNELS;
        let fills_vectors = self.channels % VECTOR == 0.0 && self.row % VECTOR == 0.0;
        let gathers = match direction {
            Direction::Forward => few_channels || (self.filters <= NARROW_FILTERS && !fills_vectors),
            Direction::DataGradient => {
                let is_narrow = self.channels.max(self.filters) <= WINOGRAD_CHANNELS;
                return if self.is_plain_3_by_3 && is_narrow { Algorithm::Winograd } else { Algorithm::Product };
            }
            Direction::FilterGradient => few_channels,
        };
        if gathers { Algorithm::Gather } else { Algorithm::Product }
    }

    /// Times as much arithmetic as padding channels to whole vectors makes.
    pub(super) fn padding(&self, pipe: Pipe) -> f64 {
        let step = match pipe {
            Pipe::Fp32 => 1.0,
            Pipe::Tf32 => VECTOR,
            Pipe::Half => 2.0 * VECTOR,
        };
        let padded = |count: f64| (count / step).ceil() * step / count;
        padded(self.channels) * padded(self.filters)
    }
}

/// Whether a convolution is of the one kind that Winograd's transforms are made for.
pub(super) fn is_plain_3_by_3(conv: &Conv) -> bool {
    let all = |extents: &[u64], value| extents.iter().all(|&extent| extent == value);
    let is_3_by_3 = conv.kernel.len() == 2 && all(&conv.kernel, 3);
    is_3_by_3 && all(&conv.stride, 1) && all(&conv.dilation, 1) && conv.groups <= 1 && !conv.transposed
}
