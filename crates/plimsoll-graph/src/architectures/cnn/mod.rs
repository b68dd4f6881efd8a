//! Convolutional networks.

mod convolution;
mod shape;

pub use convolution::Convolution;
pub use shape::CnnShape;

use serde::{Deserialize, Serialize};

use super::{
    MAX_DEPTH, MAX_SIDE, MAX_WIDTH, activate, check_activation, check_range, check_rate, probabilities, switches,
};
use crate::builder::{GraphBuilder, Value};
use crate::dtype::DType;
use crate::error::Result;
use crate::family::Family;
use crate::graph::Graph;
use crate::op::{Activation, PoolKind};
use crate::shape::Shape;

/// A chain of convolutions, or of residual or dense blocks, with a linear classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CnnConfig {
    /// How channels develop and layers connect.
    pub shape: CnnShape,
    /// Channels of the input image.
    pub channels: u64,
    /// Side of the square input image.
    pub input_size: u64,
    /// Number of classes.
    pub classes: u64,
    /// Number of convolutions, stem apart; residual and dense networks round it down to whole blocks.
    pub depth: u64,
    /// Channels from which the shape develops. A dense network makes no use of them.
    pub base_filters: u64,
    /// Function after each convolution.
    pub activation: Activation,
    /// Whether each convolution is batch-normalised before its activation.
    #[serde(default)]
    pub batch_norm: bool,
    /// Rate of the dropout after each activation; none means no such modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Convolutions between maximum poolings in a plain chain; 0 means no pooling.
    #[serde(default)]
    pub pool_every: u64,
    /// Dense blocks between transitions, which halve channels and side. The first block always has one.
    #[serde(default = "CnnConfig::default_transition_every")]
    pub transition_every: u64,
    /// How the convolutions are made.
    #[serde(default, skip_serializing_if = "Convolution::is_default")]
    pub convolution: Convolution,
}

/// One convolution with what follows it.
#[derive(Clone, Copy)]
struct Layer {
    channels: u64,
    kernel: u64,
    stride: u64,
    activation: Activation,
    dropout: Option<f64>,
}

/// What the blocks begin with.
#[derive(Clone, Copy)]
struct Start {
    value: Value,
    channels: u64,
    side: u64,
}

impl CnnConfig {
    /// Channels that each layer of a dense block adds.
    pub const GROWTH_RATE: u64 = 32;
    /// Layers of a dense block.
    pub const DENSE_LAYERS: u64 = 4;
    /// Images this small are not made smaller.
    pub const SMALLEST_SIDE: u64 = 7;

    const fn default_transition_every() -> u64 {
        5
    }

    /// The interval of poolings or transitions that spreads over the depth as many as an image can bear.
    pub fn paced_interval(depth: u64, input_size: u64) -> u64 {
        let halvings = (input_size / Self::SMALLEST_SIDE).checked_ilog2().map_or(1, u64::from).max(1);
        depth.div_ceil(halvings).max(1)
    }

    const fn dense_blocks(&self) -> u64 {
        self.depth / Self::DENSE_LAYERS
    }

    /// The same network with the shortest interval of transitions that gives it, so that equal networks are equal.
    #[must_use]
    pub fn normalised(mut self) -> Self {
        if self.shape == CnnShape::Dense {
            self.transition_every = self.transition_every.min(self.dense_blocks().saturating_sub(1)).max(1);
        }
        self
    }

    /// Identifies the architecture; two configurations that differ in dropout rate only have the same.
    pub fn id(&self) -> String {
        let Self { channels, input_size, classes, depth, base_filters, .. } = self;
        let width = match self.shape {
            CnnShape::Dense => format!("transition{}", self.clone().normalised().transition_every),
            CnnShape::Residual => format!("filters{base_filters}"),
            _ => format!("filters{base_filters}-pool{}", self.pool_every),
        };
        let switches = switches(&[(self.batch_norm, "batchnorm"), (self.dropout.is_some(), "dropout")]);
        format!(
            "cnn-{}-channels{channels}-side{input_size}-classes{classes}-depth{depth}-{width}-{}{switches}{}",
            self.shape.name(),
            self.activation.name(),
            self.convolution.id()
        )
    }

    fn check(&self) -> Result<()> {
        check_range("number of input channels", self.channels, MAX_WIDTH)?;
        check_range("side of the input image", self.input_size, MAX_SIDE)?;
        check_range("number of classes", self.classes, MAX_WIDTH)?;
        check_range("depth", self.depth, MAX_DEPTH)?;
        check_range("number of base filters", self.base_filters, MAX_WIDTH)?;
        check_range("interval of transitions", self.transition_every, MAX_DEPTH)?;
        check_activation(self.activation)?;
        self.convolution.check()?;
        self.dropout.map_or(Ok(()), check_rate)
    }

    /// Builds the graph.
    ///
    /// # Errors
    /// Sizes of zero or over the caps of this module, a dropout rate outside [0, 1), too many parameters.
    pub fn build(&self) -> Result<Graph> {
        self.check()?;
        let mut builder = GraphBuilder::new(self.id(), Family::Cnn);
        let image = Shape::batched(&[self.channels, self.input_size, self.input_size]);
        let input = builder.input("input", image, DType::Float32);
        let start = self.stem(&mut builder, input)?;
        let features = match self.shape {
            CnnShape::Residual => self.residual_blocks(&mut builder, start)?,
            CnnShape::Dense => self.dense_chain(&mut builder, start)?,
            _ => self.plain_chain(&mut builder, start)?,
        };
        let pooled = builder.global_average_pool("global_avg_pool", features);
        let flat = builder.flatten("flatten", pooled)?;
        let scores = builder.linear("fc", flat, self.classes, true)?;
        let output = probabilities(&mut builder, "final_activation", scores, self.classes);
        builder.finish(&[output])
    }

    const fn layer(&self, channels: u64, stride: u64) -> Layer {
        let Convolution { kernel, .. } = self.convolution;
        Layer { channels, kernel, stride, activation: self.activation, dropout: self.dropout }
    }

    /// A 7x7 window and a pooling, which quarter the image before anything else, as residual networks begin.
    fn stem(&self, builder: &mut GraphBuilder, input: Value) -> Result<Start> {
        if !self.convolution.stem {
            return Ok(Start { value: input, channels: self.channels, side: self.input_size });
        }
        let channels = self.base_filters;
        let layer = Layer { kernel: 7, dropout: None, ..self.layer(channels, 2) };
        let value = self.conv_block(builder, "stem.conv", input, layer)?;
        let value = builder.pool2d("stem.pool", value, PoolKind::Max, 3, 2, 1)?;
        let side = builder.shape(value).last().factor();
        Ok(Start { value, channels, side })
    }

    /// Convolution, batch normalisation, activation and dropout in an `nn.Sequential` called `block`. A separable
    /// convolution is two of that, the first over each channel alone.
    fn conv_block(&self, builder: &mut GraphBuilder, path: &str, input: Value, layer: Layer) -> Result<Value> {
        let mut names = (0_u64..).map(|index| format!("{path}.block.{index}"));
        let mut name = || names.next().unwrap_or_default();
        let Layer { channels, kernel, stride, activation, dropout } = layer;
        let mut value = input;
        for (channels, window) in self.convolution.windows(builder.shape(input), channels, kernel, stride) {
            value = builder.conv(&name(), value, channels, window, true)?;
            if self.batch_norm {
                value = builder.batch_norm(&name(), value)?;
            }
            value = activate(builder, &name(), value, activation);
        }
        if let Some(rate) = dropout {
            value = builder.dropout(&name(), value, rate);
        }
        Ok(value)
    }

    fn plain_chain(&self, builder: &mut GraphBuilder, start: Start) -> Result<Value> {
        let (mut value, mut side, mut module) = (start.value, start.side, 0);
        for (index, channels) in self.shape.channels(self.base_filters, self.depth).into_iter().enumerate() {
            value = self.conv_block(builder, &format!("blocks.{module}"), value, self.layer(channels, 1))?;
            module += 1;
            let pools = index > 0 && (index as u64).checked_rem(self.pool_every) == Some(0);
            if pools && side > Self::SMALLEST_SIDE {
                value = builder.pool2d(&format!("blocks.{module}"), value, PoolKind::Max, 2, 2, 0)?;
                module += 1;
                side /= 2;
            }
        }
        Ok(value)
    }

    fn residual_blocks(&self, builder: &mut GraphBuilder, start: Start) -> Result<Value> {
        let Start { mut value, channels: mut width, mut side } = start;
        for (index, channels) in self.shape.channels(self.base_filters, self.depth).into_iter().enumerate() {
            let path = format!("blocks.{index}");
            let stride = if index % 2 == 1 && side > Self::SMALLEST_SIDE { 2 } else { 1 };
            let mut shortcut = value;
            // The shortcut runs first, and its result lives until the block's end.
            if width != channels || stride != 1 {
                shortcut = builder.conv2d(&format!("{path}.shortcut.0"), value, channels, 1, stride, 0, true)?;
                if self.batch_norm {
                    shortcut = builder.batch_norm(&format!("{path}.shortcut.1"), shortcut)?;
                }
            }
            value = self.conv_block(builder, &format!("{path}.conv1"), value, self.layer(channels, stride))?;
            value = self.conv_block(builder, &format!("{path}.conv2"), value, self.layer(channels, 1))?;
            value = builder.add(&format!("{path}.add"), value, shortcut);
            width = channels;
            // The side is tracked as if halving rounded down, though the convolutions round up.
            side /= stride;
            if side <= Self::SMALLEST_SIDE {
                break;
            }
        }
        Ok(value)
    }

    fn dense_chain(&self, builder: &mut GraphBuilder, start: Start) -> Result<Value> {
        let Start { mut value, channels: mut width, mut side } = start;
        let mut module = 0;
        let blocks = self.dense_blocks();
        for block in 0..blocks {
            value = self.dense_block(builder, &format!("blocks.{module}"), value)?;
            module += 1;
            width += Self::GROWTH_RATE * Self::DENSE_LAYERS;
            if block % self.transition_every == 0 && block + 1 != blocks {
                let path = format!("blocks.{module}");
                module += 1;
                width /= 2;
                // Transitions are always rectified and never have dropout.
                let layer =
                    Layer { channels: width, kernel: 1, stride: 1, activation: Activation::Relu, dropout: None };
                value = self.conv_block(builder, &format!("{path}.conv"), value, layer)?;
                if side > 1 {
                    value = builder.pool2d(&format!("{path}.pool"), value, PoolKind::Average, 2, 2, 0)?;
                    side /= 2;
                }
            }
        }
        Ok(value)
    }

    /// Every layer sees a fresh concatenation; even that of a single tensor is a copy.
    fn dense_block(&self, builder: &mut GraphBuilder, path: &str, input: Value) -> Result<Value> {
        let mut features = vec![input];
        for index in 0..Self::DENSE_LAYERS {
            let layer = format!("{path}.layers.{index}");
            let joined = builder.concat(&format!("{layer}.cat"), &features, 1)?;
            features.push(self.conv_block(builder, &layer, joined, self.layer(Self::GROWTH_RATE, 1))?);
        }
        builder.concat(&format!("{path}.cat"), &features, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;

    fn config(shape: CnnShape) -> CnnConfig {
        CnnConfig {
            shape,
            channels: 3,
            input_size: 32,
            classes: 10,
            depth: 4,
            base_filters: 128,
            activation: Activation::Relu,
            batch_norm: false,
            dropout: None,
            pool_every: 0,
            transition_every: 5,
            convolution: Convolution::default(),
        }
    }

    fn count(graph: &Graph, token: &str) -> usize {
        graph.nodes().iter().filter(|node| node.op.token() == token).count()
    }

    #[test]
    fn a_residual_network_adds_its_shortcuts() {
        let graph = config(CnnShape::Residual).build().expect("valid");
        let (first, second) = (128, 256);
        let block = |from: u64, to: u64| (from + 1) * to + (9 * from + 1) * to + (9 * to + 1) * to;
        assert_eq!(graph.parameter_count(), block(3, first) + block(first, second) + (second + 1) * 10);
        assert_eq!(count(&graph, "add"), 2);
        // The second block halves the side.
        let last = graph.nodes().iter().rfind(|node| node.op.token() == "add").expect("there are two");
        assert_eq!(graph.tensor(last.outputs[0]).shape, Shape::batched(&[second, 16, 16]));
    }

    #[test]
    fn a_residual_network_of_one_layer_has_no_block() {
        let graph = CnnConfig { depth: 1, ..config(CnnShape::Residual) }.build().expect("valid");
        assert_eq!(graph.parameter_count(), 4 * 10);
    }

    #[test]
    fn a_dense_network_concatenates_and_halves() {
        let graph = CnnConfig { depth: 9, batch_norm: true, ..config(CnnShape::Dense) }.build().expect("valid");
        let block = |width: u64| (0..4).map(|layer| (9 * (width + 32 * layer) + 1 + 2) * 32).sum::<u64>();
        let width = 3 + 128;
        let half = width / 2;
        let transition = (width + 1 + 2) * half;
        assert_eq!(graph.parameter_count(), block(3) + transition + block(half) + (half + 128 + 1) * 10);
        assert_eq!(count(&graph, "concat"), 10);
        assert_eq!(count(&graph, "pool_average"), 2, "one transition and the last pooling");
    }

    #[test]
    fn pooling_stops_at_small_images() {
        let deep = CnnConfig { depth: 12, pool_every: 1, ..config(CnnShape::Uniform) };
        let graph = deep.build().expect("valid");
        assert_eq!(count(&graph, "pool_max"), 3, "32, 16, 8, then 4 is too small");
        assert_eq!(CnnConfig::paced_interval(28, 224), 6);
        assert_eq!(CnnConfig::paced_interval(10, 3), 10);
    }

    #[test]
    fn equal_networks_have_equal_identifiers() {
        let short = CnnConfig { depth: 16, transition_every: 5, ..config(CnnShape::Dense) };
        let long = CnnConfig { transition_every: 9, base_filters: 7, ..short.clone() };
        assert_eq!(short.id(), long.id());
        assert_eq!(short.build().expect("valid"), long.build().expect("valid"));
        assert_ne!(short.id(), CnnConfig { transition_every: 1, ..short.clone() }.id());
    }

    #[test]
    fn every_shape_takes_every_convolution() {
        for shape in CnnShape::ALL {
            for kernel in [1, 3, 5, 7] {
                for (stem, separable) in [(false, false), (false, true), (true, false), (true, true)] {
                    let convolution = Convolution { kernel, groups: 4, stem, separable };
                    for input_size in [1, 8, 33] {
                        let config = CnnConfig { convolution, input_size, depth: 8, pool_every: 2, ..config(shape) };
                        let graph = config.build().expect("valid");
                        assert_eq!(graph.nodes().iter().any(|node| node.name == "stem.pool"), stem);
                    }
                }
            }
        }
    }

    #[test]
    fn a_wider_window_keeps_the_side() {
        let convolution = Convolution { kernel: 5, ..Convolution::default() };
        let graph = CnnConfig { convolution, depth: 2, ..config(CnnShape::Uniform) }.build().expect("valid");
        assert_eq!(graph.parameter_count(), (3 * 25 + 1) * 128 + (128 * 25 + 1) * 128 + 129 * 10);
        let conv = graph.nodes().iter().find(|node| node.op.token() == "conv").expect("there are two");
        assert_eq!(graph.tensor(conv.outputs[0]).shape, Shape::batched(&[128, 32, 32]));
    }

    #[test]
    fn groups_divide_the_weights_where_they_divide_the_channels() {
        let convolution = Convolution { groups: 32, ..Convolution::default() };
        let graph = CnnConfig { convolution, depth: 2, ..config(CnnShape::Uniform) }.build().expect("valid");
        assert_eq!(graph.parameter_count(), (3 * 9 + 1) * 128 + (128 / 32 * 9 + 1) * 128 + 129 * 10);
        assert_eq!((count(&graph, "conv"), count(&graph, "conv_grouped")), (1, 1));
    }

    #[test]
    fn a_separable_convolution_is_one_over_each_channel_and_one_over_each_pixel() {
        let convolution = Convolution { separable: true, ..Convolution::default() };
        let config = CnnConfig { convolution, depth: 2, batch_norm: true, ..config(CnnShape::Uniform) };
        let graph = config.build().expect("valid");
        let block = |from: u64, to: u64| (9 + 1 + 2) * from + (from + 1 + 2) * to;
        assert_eq!(graph.parameter_count(), block(3, 128) + block(128, 128) + 129 * 10);
        assert_eq!((count(&graph, "relu"), count(&graph, "batch_norm")), (4, 4));
    }

    #[test]
    fn a_stem_quarters_the_image() {
        let convolution = Convolution { stem: true, ..Convolution::default() };
        let graph = CnnConfig { convolution, ..config(CnnShape::Residual) }.build().expect("valid");
        let pool = graph.nodes().iter().find(|node| node.name == "stem.pool").expect("there");
        assert_eq!(graph.tensor(pool.outputs[0]).shape, Shape::batched(&[128, 8, 8]));
        // The first block now needs no shortcut, for its channels are those of the stem.
        assert!(!graph.nodes().iter().any(|node| node.name.starts_with("blocks.0.shortcut")));
    }

    #[test]
    fn plain_convolutions_are_neither_written_nor_named() {
        let plain = config(CnnShape::Pyramid);
        assert!(!serde_json::to_string(&plain).expect("serialises").contains("convolution"));
        assert_eq!(plain.id(), "cnn-pyramid-channels3-side32-classes10-depth4-filters128-pool0-relu");
        let convolution = Convolution { kernel: 5, groups: 8, stem: true, separable: true };
        let other = CnnConfig { convolution, ..plain };
        assert!(other.id().ends_with("-relu-kernel5-groups8-stem-separable"), "{}", other.id());
        let text = serde_json::to_string(&other).expect("serialises");
        assert_eq!(serde_json::from_str::<CnnConfig>(&text).ok(), Some(other));
    }

    #[test]
    fn one_class_ends_in_a_sigmoid() {
        let graph = CnnConfig { classes: 1, ..config(CnnShape::Uniform) }.build().expect("valid");
        let last = graph.nodes().last().map(|node| node.op.clone());
        assert_eq!(last, Some(Op::Activation { function: Activation::Sigmoid, inplace: false }));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for shape in CnnShape::ALL {
            let good = config(shape);
            for bad in [
                CnnConfig { channels: 0, ..good.clone() },
                CnnConfig { input_size: 1 << 40, ..good.clone() },
                CnnConfig { depth: 1_000_000_000, ..good.clone() },
                CnnConfig { base_filters: u64::MAX, ..good.clone() },
                CnnConfig { transition_every: 0, ..good.clone() },
                CnnConfig { convolution: Convolution { kernel: 4, ..Convolution::default() }, ..good.clone() },
                CnnConfig { convolution: Convolution { kernel: 1 << 41, ..Convolution::default() }, ..good.clone() },
                CnnConfig { convolution: Convolution { groups: 0, ..Convolution::default() }, ..good.clone() },
                CnnConfig { classes: 0, ..good },
            ] {
                assert!(bad.build().is_err(), "{bad:?}");
            }
        }
        let heavy = CnnConfig { depth: MAX_DEPTH, base_filters: MAX_WIDTH, ..config(CnnShape::Uniform) };
        assert!(heavy.build().is_err(), "parameters overflow");
    }
}
