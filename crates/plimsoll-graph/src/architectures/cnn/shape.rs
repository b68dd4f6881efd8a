//! How the channels of a convolutional network develop.

use serde::{Deserialize, Serialize};

use crate::architectures::grown;

/// How the channels develop, and how the layers are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CnnShape {
    /// Every layer has the same channels.
    Uniform,
    /// Channels grow by a constant factor towards the limit.
    Pyramid,
    /// The first layer has twice the channels of the second, from where they grow.
    Bottleneck,
    /// A pyramid that ends at the geometric mean of first and limit.
    Gradual,
    /// Channels grow over the first half of the layers and shrink over the second.
    Hourglass,
    /// Blocks of two layers, each with a shortcut.
    Residual,
    /// Blocks of four layers, each of which sees all earlier outputs of its block.
    Dense,
}

impl CnnShape {
    /// Every shape, in order.
    pub const ALL: [Self; 7] =
        [Self::Uniform, Self::Pyramid, Self::Bottleneck, Self::Gradual, Self::Hourglass, Self::Residual, Self::Dense];

    /// Growth stops here.
    pub const MAX_CHANNELS: u64 = 2048;

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Pyramid => "pyramid",
            Self::Bottleneck => "bottleneck",
            Self::Gradual => "gradual",
            Self::Hourglass => "hourglass",
            Self::Residual => "residual",
            Self::Dense => "dense",
        }
    }

    /// Channels of each convolution; of each block of a residual network; nothing for a dense one, whose channels
    /// follow from its input's.
    pub fn channels(self, base: u64, depth: u64) -> Vec<u64> {
        let room = Self::MAX_CHANNELS as f64 / base as f64;
        let growth = |steps: u64| room.powf(1.0 / steps as f64);
        let capped = |factor: f64, power: u64| grown(base, factor, power).min(Self::MAX_CHANNELS);
        let contracting = depth / 2;
        match self {
            Self::Uniform => vec![base; depth as usize],
            Self::Pyramid => (0..depth).map(|layer| capped(growth(depth), layer)).collect(),
            Self::Gradual => (0..depth).map(|layer| capped(growth(2 * depth), layer)).collect(),
            Self::Bottleneck => {
                let factor = if depth <= 2 { 2.0 } else { growth(depth - 1) };
                (0..depth).map(|layer| if layer == 0 { 2 * base } else { capped(factor, layer - 1) }).collect()
            }
            Self::Hourglass => (0..depth)
                .map(|layer| {
                    if layer < contracting {
                        capped(growth(contracting), layer)
                    } else {
                        grown(base, growth(depth - contracting), depth - layer - 1).max(base)
                    }
                })
                .collect(),
            Self::Residual => (0..depth / 2).map(|block| capped(growth(depth), block)).collect(),
            Self::Dense => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_develop_as_their_shape_says() {
        assert_eq!(CnnShape::Uniform.channels(128, 3), [128; 3]);
        // From 128 to 2048 is four doublings.
        assert_eq!(CnnShape::Pyramid.channels(128, 4), [128, 256, 512, 1024]);
        assert_eq!(CnnShape::Gradual.channels(128, 2), [128, 256]);
        assert_eq!(CnnShape::Bottleneck.channels(128, 5), [256, 128, 256, 512, 1024]);
        assert_eq!(CnnShape::Bottleneck.channels(128, 2), [256, 128]);
        assert_eq!(CnnShape::Hourglass.channels(128, 4), [128, 512, 512, 128]);
        assert_eq!(CnnShape::Hourglass.channels(128, 1), [128]);
        assert_eq!(CnnShape::Residual.channels(128, 5).len(), 2);
        assert!(CnnShape::Dense.channels(128, 8).is_empty());
    }

    #[test]
    fn the_limit_holds_from_above_too() {
        assert!(CnnShape::Pyramid.channels(5000, 6).iter().all(|&channels| channels == CnnShape::MAX_CHANNELS));
    }
}
