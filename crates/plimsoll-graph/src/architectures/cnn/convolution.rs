//! The convolutions that a network is made of.

use serde::{Deserialize, Serialize};

use crate::architectures::{MAX_WIDTH, check_range, switches};
use crate::error::{GraphError, Result};
use crate::op::Conv;
use crate::shape::Shape;

/// How convolutions are made. By default they are plain, with windows of 3x3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Convolution {
    /// Side of the window: odd, so that padding keeps the image's side.
    pub kernel: u64,
    /// Groups of channels. A convolution has the largest number of groups that divides this one and its channels.
    pub groups: u64,
    /// Whether a 7x7 convolution to the base filters and a pooling come first; each halves the image.
    pub stem: bool,
    /// Whether each convolution is one over single channels and one over single pixels.
    pub separable: bool,
}

impl Default for Convolution {
    fn default() -> Self {
        Self { kernel: 3, groups: 1, stem: false, separable: false }
    }
}

impl Convolution {
    /// Wider windows mean a broken or hostile configuration.
    pub const MAX_KERNEL: u64 = 31;

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The part of an identifier that tells these convolutions from plain ones.
    pub(super) fn id(&self) -> String {
        let number = |name: &str, value: u64, usual: u64| {
            if value == usual { String::new() } else { format!("-{name}{value}") }
        };
        let switches = switches(&[(self.stem, "stem"), (self.separable, "separable")]);
        number("kernel", self.kernel, 3) + &number("groups", self.groups, 1) + &switches
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_range("groups of channels", self.groups, MAX_WIDTH)?;
        if self.kernel % 2 == 1 && self.kernel <= Self::MAX_KERNEL {
            return Ok(());
        }
        Err(GraphError::OutOfRange {
            what: "side of the window".into(),
            expected: format!("an odd number up to {}", Self::MAX_KERNEL),
            found: self.kernel.to_string(),
        })
    }

    /// The convolutions that stand for one with a window of `kernel`, each with its output's channels.
    pub(super) fn windows(&self, input: &Shape, channels: u64, kernel: u64, stride: u64) -> Vec<(u64, Conv)> {
        let width = input.dims().get(1).map_or(1, |dim| dim.factor());
        let groups = |channels: u64| common_divisor(self.groups, common_divisor(width, channels));
        // A window of one pixel is what the second half of a separable convolution is.
        if self.separable && kernel > 1 {
            vec![(width, window(kernel, stride, width)), (channels, window(1, 1, groups(channels)))]
        } else {
            vec![(channels, window(kernel, stride, groups(channels)))]
        }
    }
}

fn window(kernel: u64, stride: u64, groups: u64) -> Conv {
    Conv {
        kernel: vec![kernel; 2],
        stride: vec![stride; 2],
        padding: vec![kernel / 2; 2],
        dilation: Vec::new(),
        groups,
        transposed: false,
    }
}

const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
