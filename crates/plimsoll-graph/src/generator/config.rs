//! What the generator draws from.

use serde::{Deserialize, Serialize};

use crate::architectures::{CnnShape, MAX_DEPTH, MAX_SIDE, MAX_WIDTH, TransformerConfig};
use crate::error::{GraphError, Result};
use crate::family::Family;
use crate::setup::{Optimizer, TrainingSetup};

/// A range of whole numbers, both ends included. Draws are uniform in the logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Smallest value.
    pub low: u64,
    /// Largest value.
    pub high: u64,
}

impl Span {
    /// The range from one number to another.
    pub const fn new(low: u64, high: u64) -> Self {
        Self { low, high }
    }

    fn check(self, what: &str, limit: u64) -> Result<()> {
        if self.low >= 1 && self.low <= self.high && self.high <= limit {
            return Ok(());
        }
        Err(GraphError::OutOfRange {
            what: format!("range of {what}"),
            expected: format!("a low and a high end from 1 to {limit}, in this order"),
            found: format!("{} to {}", self.low, self.high),
        })
    }
}

/// Ranges of fully connected networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MlpRanges {
    /// Features of a sample.
    pub inputs: Span,
    /// Outputs; never more than there are inputs.
    pub outputs: Span,
    /// Hidden layers.
    pub depth: Span,
    /// Samples per step; at least two where there is batch normalisation.
    pub batch: Span,
}

impl Default for MlpRanges {
    fn default() -> Self {
        Self {
            inputs: Span::new(16, 16_384),
            outputs: Span::new(2, 4_096),
            depth: Span::new(1, 32),
            batch: Span::new(2, 65_536),
        }
    }
}

/// Ranges of convolutional networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CnnRanges {
    /// Channels from which a shape develops.
    pub base_filters: Span,
    /// 3x3 convolutions.
    pub depth: Span,
    /// Side of the input image.
    pub input_size: Span,
    /// Classes.
    pub classes: Span,
    /// Samples per step; at least two where there is batch normalisation.
    pub batch: Span,
}

impl Default for CnnRanges {
    fn default() -> Self {
        Self {
            base_filters: Span::new(8, 512),
            depth: Span::new(1, 48),
            input_size: Span::new(16, 512),
            classes: Span::new(2, 1_000),
            batch: Span::new(2, 4_096),
        }
    }
}

/// Ranges of Transformer encoders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerRanges {
    /// Width of a token, rounded down to whole heads.
    pub width: Span,
    /// Encoder layers.
    pub layers: Span,
    /// Tokens of a sample.
    pub sequence_length: Span,
    /// Rows of the embedding.
    pub vocabulary: Span,
    /// Classes.
    pub classes: Span,
    /// Samples per step.
    pub batch: Span,
}

impl Default for TransformerRanges {
    fn default() -> Self {
        Self {
            width: Span::new(64, 2_048),
            layers: Span::new(1, 48),
            sequence_length: Span::new(16, 4_096),
            vocabulary: Span::new(256, 1_000_000),
            classes: Span::new(2, 1_000),
            batch: Span::new(1, 4_096),
        }
    }
}

/// What to draw, from where, and how many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorConfig {
    /// Families, each as likely as the others: `mlp`, `cnn` or `transformer`.
    pub families: Vec<Family>,
    /// Names of GPUs, each as likely as the others.
    pub gpus: Vec<String>,
    /// Optimisers, each as likely as the others.
    pub optimizers: Vec<Optimizer>,
    /// Number of workloads.
    pub count: u64,
    /// Seed; equal seeds give equal workloads.
    pub seed: u64,
    /// Share of workloads in plain fp32; the rest spreads over the other precisions.
    pub fp32_share: f64,
    /// Memory to aim at, in MiB.
    pub memory_mib: Span,
    /// Networks tried per workload, until one comes near the memory aimed at.
    pub candidates: u32,
    /// Ranges of fully connected networks.
    pub mlp: MlpRanges,
    /// Ranges of convolutional networks.
    pub cnn: CnnRanges,
    /// Ranges of Transformer encoders.
    pub transformer: TransformerRanges,
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self {
            families: vec![Family::Mlp, Family::Cnn, Family::Transformer],
            gpus: vec!["a100-40".into()],
            optimizers: vec![Optimizer::Adam, Optimizer::AdamW, Optimizer::Sgd, Optimizer::SgdMomentum],
            count: 1_000,
            seed: 0,
            fp32_share: 0.8,
            memory_mib: Span::new(100, 65_536),
            candidates: 16,
            mlp: MlpRanges::default(),
            cnn: CnnRanges::default(),
            transformer: TransformerRanges::default(),
        }
    }
}

impl GeneratorConfig {
    /// Largest feed-forward width, in widths of a token.
    pub(super) const FEED_FORWARD_RATIO: u64 = 4;

    /// Checks every range, and that the largest workload they allow can be counted.
    ///
    /// # Errors
    /// Empty lists, families that are not generated, reversed or absurd ranges.
    pub fn check(&self) -> Result<()> {
        let lists = [
            ("families", self.families.is_empty()),
            ("gpus", self.gpus.is_empty()),
            ("optimizers", self.optimizers.is_empty()),
        ];
        if let Some((what, _)) = lists.iter().find(|(_, empty)| *empty) {
            return Err(out_of_range(format!("list of {what}"), "at least one entry", "none"));
        }
        for family in &self.families {
            if !matches!(family, Family::Mlp | Family::Cnn | Family::Transformer) {
                return Err(out_of_range("family".into(), "mlp, cnn or transformer", family.name()));
            }
        }
        if !(0.0..=1.0).contains(&self.fp32_share) {
            return Err(out_of_range("share of fp32".into(), "0 to 1", &self.fp32_share.to_string()));
        }
        Span::new(1, u64::from(self.candidates)).check("candidates", 1_000)?;
        self.memory_mib.check("memory", 1 << 30)?;
        let (mlp, cnn, transformer) = (&self.mlp, &self.cnn, &self.transformer);
        for (what, span, limit) in [
            ("MLP inputs", mlp.inputs, MAX_WIDTH),
            ("MLP outputs", mlp.outputs, MAX_WIDTH),
            ("MLP depth", mlp.depth, MAX_DEPTH - 1),
            ("MLP batch", mlp.batch, TrainingSetup::MAX_BATCH_SIZE),
            ("base filters", cnn.base_filters, MAX_WIDTH),
            ("CNN depth", cnn.depth, MAX_DEPTH),
            ("input size", cnn.input_size, MAX_SIDE),
            ("CNN classes", cnn.classes, MAX_WIDTH),
            ("CNN batch", cnn.batch, TrainingSetup::MAX_BATCH_SIZE),
            ("embedding width", transformer.width, MAX_WIDTH / Self::FEED_FORWARD_RATIO),
            ("layers", transformer.layers, TransformerConfig::MAX_LAYERS),
            ("sequence length", transformer.sequence_length, MAX_WIDTH),
            ("vocabulary", transformer.vocabulary, MAX_WIDTH),
            ("Transformer classes", transformer.classes, MAX_WIDTH),
            ("Transformer batch", transformer.batch, TrainingSetup::MAX_BATCH_SIZE),
        ] {
            span.check(what, limit)?;
        }
        // Below both limits of a workload (2^58 parameters, 2^56 bytes) with room to spare for what is crude here.
        let limit = 2_f64.powi(54);
        for family in &self.families {
            let bytes = self.largest_bytes(*family);
            if bytes > limit {
                return Err(out_of_range(
                    format!("largest {family} of these ranges"),
                    &format!("at most {limit:.0} bytes"),
                    &format!("{bytes:.0}"),
                ));
            }
        }
        Ok(())
    }

    /// An upper bound for the weights and the activations of any network of a family, at the largest batch.
    fn largest_bytes(&self, family: Family) -> f64 {
        let real = |value: u64| value as f64;
        let (layers, width, pixels, batch, outputs, table) = match family {
            Family::Mlp => {
                let ranges = &self.mlp;
                let width = ranges.inputs.high.max(ranges.outputs.high);
                (ranges.depth.high, width, 1.0, ranges.batch.high, ranges.outputs.high, 0.0)
            }
            Family::Cnn => {
                let ranges = &self.cnn;
                // A dense network gains a growth rate per layer and starts from a handful of channels.
                let width = (2 * ranges.base_filters.high).max(CnnShape::MAX_CHANNELS).max(64 + 32 * ranges.depth.high);
                let pixels = real(ranges.input_size.high).powi(2);
                (ranges.depth.high, width, pixels, ranges.batch.high, ranges.classes.high, 0.0)
            }
            _ => {
                let ranges = &self.transformer;
                let width = Self::FEED_FORWARD_RATIO * ranges.width.high;
                let rows = real(ranges.vocabulary.high) + real(ranges.sequence_length.high);
                let tokens = real(ranges.sequence_length.high);
                (ranges.layers.high, width, tokens, ranges.batch.high, ranges.classes.high, rows * real(width))
            }
        };
        // No layer has more than thirty tensors, nor more than ten square matrices (3x3 windows, twice in a block).
        let layers = real(layers) + 2.0;
        let weights = 20.0 * layers * real(width) * real(width) + real(width) * real(outputs) + table;
        let activations = real(batch) * (30.0 * layers * real(width) * pixels + 4.0 * real(outputs));
        4.0 * weights.max(activations)
    }
}

fn out_of_range(what: String, expected: &str, found: &str) -> GraphError {
    GraphError::OutOfRange { what, expected: expected.into(), found: found.into() }
}
