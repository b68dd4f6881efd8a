//! Fully connected networks.

use serde::{Deserialize, Serialize};

use super::{MAX_DEPTH, MAX_WIDTH, activate, check_activation, check_range, check_rate, probabilities, switches};
use crate::builder::GraphBuilder;
use crate::dtype::DType;
use crate::error::Result;
use crate::family::Family;
use crate::graph::Graph;
use crate::op::Activation;
use crate::shape::Shape;

/// How the widths of the hidden layers develop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MlpShape {
    /// Every layer is as wide as the input.
    Uniform,
    /// Every layer is half as wide as the one before, but never narrower than the output.
    Pyramid,
    /// A pyramid with one more layer.
    Bottleneck,
    /// Widths fall in equal steps from the input's to the output's.
    Gradual,
}

impl MlpShape {
    /// Every shape, in order.
    pub const ALL: [Self; 4] = [Self::Uniform, Self::Pyramid, Self::Bottleneck, Self::Gradual];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Pyramid => "pyramid",
            Self::Bottleneck => "bottleneck",
            Self::Gradual => "gradual",
        }
    }

    /// Widths of the hidden layers.
    pub fn widths(self, inputs: u64, outputs: u64, depth: u64) -> Vec<u64> {
        let layers = depth + u64::from(self == Self::Bottleneck);
        // Rounded towards negative infinity, should the output be the wider end.
        let step = (i128::from(inputs) - i128::from(outputs)).div_euclid(i128::from(depth.max(1)));
        let mut width = inputs;
        (0..layers)
            .map(|_| {
                width = match self {
                    Self::Uniform => width,
                    Self::Pyramid | Self::Bottleneck => (width / 2).max(outputs),
                    Self::Gradual => u64::try_from(i128::from(width) - step).unwrap_or(0).max(outputs),
                };
                width
            })
            .collect()
    }
}

/// A chain of linear layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MlpConfig {
    /// How the widths develop.
    pub shape: MlpShape,
    /// Features of a sample.
    pub inputs: u64,
    /// Outputs of a sample.
    pub outputs: u64,
    /// Number of hidden layers; a bottleneck has one more.
    pub depth: u64,
    /// Function after each hidden layer.
    pub activation: Activation,
    /// Whether each hidden layer is batch-normalised before its activation.
    #[serde(default)]
    pub batch_norm: bool,
    /// Rate of the dropout after each activation; none means no such modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Whether the network takes its input through a view and ends in a softmax (a sigmoid for one output).
    #[serde(default)]
    pub softmax: bool,
}

impl MlpConfig {
    /// Identifies the architecture; two configurations that differ in dropout rate only have the same.
    pub fn id(&self) -> String {
        let Self { inputs, outputs, depth, .. } = self;
        let switches =
            switches(&[(self.batch_norm, "batchnorm"), (self.dropout.is_some(), "dropout"), (self.softmax, "softmax")]);
        format!(
            "mlp-{}-inputs{inputs}-outputs{outputs}-depth{depth}-{}{switches}",
            self.shape.name(),
            self.activation.name()
        )
    }

    fn check(&self) -> Result<()> {
        check_range("number of inputs", self.inputs, MAX_WIDTH)?;
        check_range("number of outputs", self.outputs, MAX_WIDTH)?;
        check_range("depth", self.depth, MAX_DEPTH)?;
        check_activation(self.activation)?;
        self.dropout.map_or(Ok(()), check_rate)
    }

    /// Builds the graph.
    ///
    /// # Errors
    /// Sizes of zero or over the caps of this module, a dropout rate outside [0, 1), too many parameters.
    pub fn build(&self) -> Result<Graph> {
        self.check()?;
        let mut builder = GraphBuilder::new(self.id(), Family::Mlp);
        let mut value = builder.input("input", Shape::batched(&[self.inputs]), DType::Float32);
        if self.softmax {
            value = builder.flatten("view", value)?;
        }
        // All modules stand in one `nn.Sequential`, which numbers them.
        let mut names = (0_u64..).map(|index| format!("model.{index}"));
        let mut name = || names.next().unwrap_or_default();
        for width in self.shape.widths(self.inputs, self.outputs, self.depth) {
            value = builder.linear(&name(), value, width, true)?;
            if self.batch_norm {
                value = builder.batch_norm(&name(), value)?;
            }
            value = activate(&mut builder, &name(), value, self.activation);
            if let Some(rate) = self.dropout {
                value = builder.dropout(&name(), value, rate);
            }
        }
        value = builder.linear(&name(), value, self.outputs, true)?;
        if self.softmax {
            value = probabilities(&mut builder, &name(), value, self.outputs);
        }
        builder.finish(&[value])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;

    fn config(shape: MlpShape) -> MlpConfig {
        MlpConfig {
            shape,
            inputs: 40,
            outputs: 6,
            depth: 3,
            activation: Activation::Relu,
            batch_norm: false,
            dropout: None,
            softmax: false,
        }
    }

    #[test]
    fn widths_develop_as_their_shape_says() {
        assert_eq!(MlpShape::Uniform.widths(40, 6, 3), [40, 40, 40]);
        assert_eq!(MlpShape::Pyramid.widths(41, 6, 4), [20, 10, 6, 6]);
        assert_eq!(MlpShape::Bottleneck.widths(41, 6, 2), [20, 10, 6]);
        assert_eq!(MlpShape::Gradual.widths(40, 6, 3), [29, 18, 7]);
        // From narrow to wide the output's width is the floor, so it is reached at once.
        assert_eq!(MlpShape::Gradual.widths(6, 40, 3), [40, 52, 64]);
        assert_eq!(MlpShape::Pyramid.widths(1, 1, 2), [1, 1]);
    }

    #[test]
    fn parameters_are_those_of_the_layers() {
        let graph = config(MlpShape::Gradual).build().expect("valid");
        assert_eq!(graph.parameter_count(), 41 * 29 + 30 * 18 + 19 * 7 + 8 * 6);
        let full = MlpConfig { batch_norm: true, dropout: Some(0.5), softmax: true, ..config(MlpShape::Uniform) };
        let graph = full.build().expect("valid");
        assert_eq!(graph.parameter_count(), 3 * (41 * 40 + 2 * 40) + 41 * 6);
        let tokens: Vec<_> = graph.nodes().iter().take(5).map(|node| node.op.token()).collect();
        assert_eq!(tokens, ["view", "linear", "batch_norm", "relu", "dropout"]);
        assert_eq!(graph.nodes().last().map(|node| &node.op), Some(&Op::Softmax));
    }

    #[test]
    fn an_identity_takes_no_memory() {
        let graph = MlpConfig { activation: Activation::Identity, ..config(MlpShape::Uniform) }.build().expect("valid");
        assert!(graph.nodes().iter().any(|node| node.op.token() == "identity" && node.op.shares_storage()));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let good = config(MlpShape::Uniform);
        for bad in [
            MlpConfig { inputs: 0, ..good.clone() },
            MlpConfig { outputs: 1 << 40, ..good.clone() },
            MlpConfig { depth: 1_000_000_000, ..good.clone() },
            MlpConfig { dropout: Some(f64::NAN), ..good.clone() },
            MlpConfig { dropout: Some(1.0), ..good.clone() },
            MlpConfig { activation: Activation::Glu, ..good.clone() },
            MlpConfig { inputs: MAX_WIDTH, depth: MAX_DEPTH, ..good },
        ] {
            assert!(bad.build().is_err(), "{bad:?}");
        }
    }
}
