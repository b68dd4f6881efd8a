//! The fitted model: which form cuDNN's workspace takes, and what else it might.

use std::sync::OnceLock;

use plimsoll_graph::{Gpu, Precision};

use super::features::features;
use super::file::{WorkspaceFileError, decode};
use super::forms::{FORM_COUNT, FORMS, Operands};
use super::network::{Network, NetworkWeights, OUTPUT_COUNT};
use super::query::{Format, Generation, GpuClass, WorkspaceQuery};
use crate::trace::Convolution;

/// The networks that ship with Plimsoll, written by `plimsoll fit-workspaces`.
const BUILT_IN: &[u8] = include_bytes!("weights.bin");

/// Bytes that cuDNN's plans take, told from the convolution alone. See `docs/workspaces.md`.
#[derive(Debug, Clone)]
pub struct WorkspaceModel {
    networks: [Network; 3],
}

/// Sizes that a workspace may have, and how likely each is.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkspaceOdds {
    /// Bytes of each form with its probability; together they are one.
    pub sizes: Vec<(u64, f64)>,
}

impl WorkspaceOdds {
    fn new(operands: &Operands, logits: &[f32]) -> Self {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> = logits.iter().map(|logit| f64::from(logit - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        Self { sizes: FORMS.iter().zip(weights).map(|(form, weight)| (form.bytes(operands), weight / sum)).collect() }
    }

    /// Probability of more than so many bytes.
    pub fn above(&self, bytes: u64) -> f64 {
        self.sizes.iter().filter(|(size, _)| *size > bytes).map(|(_, probability)| probability).sum()
    }
}

/// Both questions answered at once: the plan that runs without benchmark mode, and the largest that it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkspaceBytes {
    /// Of the plan that runs.
    pub first: u64,
    /// Of the largest plan, never below the first.
    pub largest: u64,
}

impl WorkspaceModel {
    /// The model that ships with Plimsoll, read once.
    ///
    /// # Panics
    /// A build whose weights are damaged, with what is wrong; a test holds that they are not.
    pub fn built_in() -> &'static Self {
        static MODEL: OnceLock<WorkspaceModel> = OnceLock::new();
        MODEL.get_or_init(|| match Self::from_bytes(BUILT_IN) {
            Ok(model) => model,
            Err(error) => panic!("the built-in weights are {error}"),
        })
    }

    /// Reads a model that `plimsoll fit-workspaces` wrote.
    ///
    /// # Errors
    /// Bytes of another kind, of another version, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WorkspaceFileError> {
        decode(bytes).map(Self::from_weights)
    }

    /// A model of fitted networks, in the order of [`crate::Direction`].
    pub fn from_weights(networks: [NetworkWeights; 3]) -> Self {
        Self { networks: networks.map(Network::new) }
    }

    /// Bytes of the workspace that PyTorch takes for a convolution without benchmark mode. Zero for convolutions that
    /// do not go to cuDNN, for GPUs before Volta and for those of other makers.
    pub fn bytes(&self, convolution: &Convolution, gpu: &Gpu, precision: Precision, generation: Generation) -> u64 {
        query(convolution, gpu, precision, generation).map_or(0, |query| self.answer(&query).first)
    }

    /// Bytes of the largest workspace among cuDNN's plans, which benchmark mode takes once.
    pub fn largest_bytes(
        &self,
        convolution: &Convolution,
        gpu: &Gpu,
        precision: Precision,
        generation: Generation,
    ) -> u64 {
        query(convolution, gpu, precision, generation).map_or(0, |query| self.answer(&query).largest)
    }

    /// What cuDNN most likely answers.
    pub fn answer(&self, query: &WorkspaceQuery) -> WorkspaceBytes {
        let operands = Operands::of(&query.convolution);
        let logits = self.logits(query);
        let likeliest = |logits: &[f32]| {
            // Of two alike the first, as in fitting.
            let (mut best, mut most) = (0, f32::NEG_INFINITY);
            for (index, &logit) in logits.iter().enumerate() {
                if logit > most {
                    (best, most) = (index, logit);
                }
            }
            FORMS[best].bytes(&operands)
        };
        let first = likeliest(&logits[..FORM_COUNT]);
        WorkspaceBytes { first, largest: likeliest(&logits[FORM_COUNT..]).max(first) }
    }

    /// What cuDNN may answer: odds of the plan that runs, and of the largest.
    pub fn odds(&self, query: &WorkspaceQuery) -> [WorkspaceOdds; 2] {
        let operands = Operands::of(&query.convolution);
        let logits = self.logits(query);
        [&logits[..FORM_COUNT], &logits[FORM_COUNT..]].map(|logits| WorkspaceOdds::new(&operands, logits))
    }

    /// The network's outputs: logits of the forms of the plan that runs, then of the largest plan.
    pub fn logits(&self, query: &WorkspaceQuery) -> [f32; OUTPUT_COUNT] {
        self.networks[query.convolution.direction as usize].logits(&features(query))
    }
}

/// What to ask cuDNN about a convolution of a job; nothing where PyTorch does not ask.
pub(super) fn query(
    convolution: &Convolution,
    gpu: &Gpu,
    precision: Precision,
    generation: Generation,
) -> Option<WorkspaceQuery> {
    let class = GpuClass::of(gpu)?;
    let format = Format::of(convolution, precision, class);
    super::depthwise::goes_to_cudnn(convolution, format).then_some(WorkspaceQuery {
        convolution: *convolution,
        class,
        format,
        is_channels_last: false,
        generation,
    })
}
