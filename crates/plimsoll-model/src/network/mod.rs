//! The networks inside learned estimators.
//!
//! Both read a [`Batch`] and end in the same [`Heads`]; they differ in what they see: the
//! [`MlpNetwork`] summary and GPU, the [`TransformerNetwork`] the layer sequence as well.

mod dense;
mod heads;
mod mlp;
mod quantiles;
mod transformer;

pub mod labels;

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{Device, Tensor};

pub use dense::{Dense, Residual};
pub use heads::{CONTEXT_RANGE, LEAST_MIB, LIVE_RANGE, LOG_SCALE_CENTRE, LOG_SCALE_RANGE, RESERVED_RANGE};
pub use heads::{Heads, MemoryHead, Outputs};
pub use mlp::MlpNetwork;
pub use quantiles::{QuantileHead, STEP_CENTRES, STEP_RANGE, STEPS};
pub use transformer::TransformerNetwork;

use crate::batch::Batch;
use crate::settings::{NetworkSettings, OutputSettings, Settings};

/// Numbers of features: the widths of a network's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// Tokens in the vocabulary.
    pub tokens: usize,
    /// Numbers of a layer.
    pub layer: usize,
    /// Numbers of a workload.
    pub summary: usize,
    /// Numbers of a GPU.
    pub gpu: usize,
}

impl Widths {
    /// The widths under this build's feature schema.
    pub fn current() -> Self {
        let schema = plimsoll_features::FeatureSchema::current();
        Self {
            tokens: schema.tokens.len(),
            layer: schema.layer.len(),
            summary: schema.summary.len(),
            gpu: schema.gpu.len(),
        }
    }
}

/// One network, or a few that were fitted side by side and whose outputs are averaged.
#[derive(Module, Debug)]
pub struct Network {
    /// The networks, alike but for their weights.
    pub members: Vec<Member>,
}

/// A network of either kind.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "few values exist per estimator")]
pub enum Member {
    /// Over summary features.
    Mlp(MlpNetwork),
    /// Over the layer sequence.
    Transformer(TransformerNetwork),
}

impl Network {
    /// Freshly initialised networks. Parameters are drawn at once and in a fixed order, so that the device's
    /// seed decides them.
    pub fn new(settings: &Settings, widths: Widths, device: &Device) -> Self {
        let member = |_| Member::new(&settings.network, &settings.output, widths, device);
        Self { members: (0..settings.ensemble).map(member).collect() }
    }

    /// One network as the start of several; any other number of them as they are.
    pub(crate) fn repeated(self, members: usize) -> Self {
        match <[Member; 1]>::try_from(self.members) {
            // Gradients and states of an optimiser are kept by a parameter's name: copies need names of their own.
            Ok([member]) => Self { members: (0..members).map(|_| member.clone().map(&mut Renamed)).collect() },
            Err(members) => Self { members },
        }
    }

    /// One of the networks by itself.
    pub(crate) fn only(&self, member: usize) -> Self {
        Self { members: vec![self.members[member].clone()] }
    }

    /// Whether the networks read the layer sequence.
    pub fn reads_layers(&self) -> bool {
        matches!(self.members.first(), Some(Member::Transformer(_)))
    }

    /// Runs the networks and averages what they say.
    ///
    /// # Shapes
    /// A batch of `b` rows in; outputs of `b` rows out.
    pub fn forward(&self, batch: &Batch) -> Outputs {
        let outputs: Vec<Outputs> = self.members.iter().map(|member| member.forward(batch, true)).collect();
        Outputs::mean(&outputs, batch)
    }
}

impl Member {
    fn new(settings: &NetworkSettings, output: &OutputSettings, widths: Widths, device: &Device) -> Self {
        match settings {
            NetworkSettings::Mlp { .. } => Self::Mlp(MlpNetwork::new(settings, output, widths, device)),
            NetworkSettings::Transformer { .. } => {
                Self::Transformer(TransformerNetwork::new(settings, output, widths, device))
            }
        }
        .materialize()
    }

    /// Its head for upper quantiles; a classifier has none.
    pub(crate) const fn quantiles(&self) -> Option<&QuantileHead> {
        match self {
            Self::Mlp(network) => network.quantiles.as_ref(),
            Self::Transformer(network) => network.quantiles.as_ref(),
        }
    }

    pub(crate) fn set_quantiles(&mut self, head: Option<QuantileHead>) {
        match self {
            Self::Mlp(network) => network.quantiles = head,
            Self::Transformer(network) => network.quantiles = head,
        }
    }

    /// Runs one network by itself, with its upper quantiles or without.
    ///
    /// A fit must not ask for what its loss does not read: Burn keeps the operations of an output that is never
    /// differentiated, and each step gets slower than the one before.
    ///
    /// # Shapes
    /// A batch of `b` rows in; outputs of `b` rows out.
    pub fn forward(&self, batch: &Batch, with_quantiles: bool) -> Outputs {
        match self {
            Self::Mlp(network) => network.forward(batch, with_quantiles),
            Self::Transformer(network) => network.forward(batch, with_quantiles),
        }
    }
}

/// Gives parameters new names, and tensors that no gradient is shared with.
struct Renamed;

impl ModuleMapper for Renamed {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (_, tensor, mapper) = param.consume();
        let has_gradient = tensor.is_require_grad();
        Param::from_mapped_value(ParamId::new(), tensor.detach().set_require_grad(has_gradient), mapper)
    }
}

/// The head for upper quantiles, half as wide as the rest; a classifier has none.
fn quantile_head(
    output: &OutputSettings,
    input: usize,
    hidden: usize,
    dropout: f64,
    device: &Device,
) -> Option<QuantileHead> {
    let is_regressor = matches!(output, OutputSettings::Regression);
    is_regressor.then(|| QuantileHead::new(input, (hidden / 2).max(4), dropout, device))
}
