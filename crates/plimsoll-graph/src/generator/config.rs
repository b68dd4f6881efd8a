//! What the generator draws from.

use serde::{Deserialize, Serialize};

use super::ranges::{CnnRanges, MlpRanges, Span, TransformerRanges, check_list, check_share, out_of_range};
use crate::error::Result;
use crate::family::Family;
use crate::setup::{Optimizer, Precision};

/// What to draw, from where, and how many.
///
/// An entry that stands in a list several times is as much likelier. What the defaults give for a seed stays the same
/// from version to version; [`GeneratorConfig::varied`] asks for everything there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorConfig {
    /// Families, each as likely as the others: `mlp`, `cnn` or `transformer`.
    pub families: Vec<Family>,
    /// Names of GPUs, each as likely as the others; [`GeneratorConfig::ALL_GPUS`] stands for the whole catalogue.
    pub gpus: Vec<String>,
    /// Optimisers, each as likely as the others.
    pub optimizers: Vec<Optimizer>,
    /// Number of workloads.
    pub count: u64,
    /// Seed; equal seeds give equal workloads.
    pub seed: u64,
    /// Share of workloads in plain fp32.
    pub fp32_share: f64,
    /// Precisions of the rest, each as likely as the others; by default all but fp32.
    pub precisions: Vec<Precision>,
    /// Share of batches that are powers of two, as people choose them; by default half.
    pub round_batch_share: f64,
    /// Memory to aim at, in MiB.
    pub memory_mib: Span,
    /// Networks tried per workload, until one comes near the memory aimed at.
    pub candidates: u32,
    /// Ranges of fully connected networks.
    pub mlp: MlpRanges,
    /// Ranges of convolutional networks.
    pub cnn: CnnRanges,
    /// Ranges of Transformers.
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
            precisions: Precision::ALL[1..].to_vec(),
            round_batch_share: 0.5,
            memory_mib: Span::new(100, 65_536),
            candidates: 16,
            mlp: MlpRanges::default(),
            cnn: CnnRanges::default(),
            transformer: TransformerRanges::default(),
        }
    }
}

impl GeneratorConfig {
    /// The name that stands for every GPU of the catalogue, MIG slices included.
    pub const ALL_GPUS: &'static str = "all";

    /// Every shape, kind of convolution, precision but pure bf16, and GPU, as often as people train with it: mostly
    /// 3x3 windows, and Adam or `AdamW` for three workloads of four.
    pub fn varied() -> Self {
        use Optimizer::{Adam, AdamW, Sgd, SgdMomentum};
        Self {
            gpus: vec![Self::ALL_GPUS.into()],
            optimizers: vec![Adam, AdamW, Adam, AdamW, Adam, AdamW, Sgd, SgdMomentum],
            fp32_share: 0.4,
            precisions: vec![Precision::Tf32, Precision::AmpFp16, Precision::AmpBf16],
            cnn: CnnRanges::varied(),
            transformer: TransformerRanges::varied(),
            ..Self::default()
        }
    }

    /// Checks every range, and that the largest workload they allow can be counted.
    ///
    /// # Errors
    /// Empty lists, families that are not generated, reversed or absurd ranges, shares outside 0 to 1.
    pub fn check(&self) -> Result<()> {
        check_list("families", &self.families)?;
        check_list("gpus", &self.gpus)?;
        check_list("optimizers", &self.optimizers)?;
        check_list("precisions", &self.precisions)?;
        for family in &self.families {
            if !matches!(family, Family::Mlp | Family::Cnn | Family::Transformer) {
                return Err(out_of_range("family".into(), "mlp, cnn or transformer", family.name()));
            }
        }
        check_share("share of fp32", self.fp32_share)?;
        check_share("share of round batches", self.round_batch_share)?;
        Span::new(1, u64::from(self.candidates)).check("candidates", 1_000)?;
        self.memory_mib.check("memory", 1 << 30)?;
        self.mlp.check()?;
        self.cnn.check()?;
        self.transformer.check()?;
        // Below both limits of a workload (2^58 parameters, 2^56 bytes) with room to spare for what is crude here.
        let limit = 2_f64.powi(54);
        for family in &self.families {
            let bytes = match family {
                Family::Mlp => self.mlp.largest_bytes(),
                Family::Cnn => self.cnn.largest_bytes(),
                _ => self.transformer.largest_bytes(),
            };
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
}
