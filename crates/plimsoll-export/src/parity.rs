//! Inputs with the outputs that Plimsoll itself computes, against which other runtimes are checked.

use std::path::Path;

use plimsoll_dataset::{Sample, UTILISATION};
use plimsoll_features::FeatureSchema;
use plimsoll_model::batch::Table;
use plimsoll_model::network::Widths;
use plimsoll_model::{Estimator, Learned, OutputSettings};
use serde::{Deserialize, Serialize};

use crate::error::{ExportError, Result};
use crate::files;
use crate::inputs::RawInputs;
use crate::interface::{
    self, BIN_PROBABILITIES, OUT_OF_DISTRIBUTION, PEAK_MEMORY, Port, QUANTILES, SCALE, UTILISATION_RATIOS,
};
use crate::onnx::ElementType;
use crate::weights;

/// Name of the parity cases in a folder.
pub const PARITY_FILE: &str = "parity.json";
/// The largest relative difference that counts as the same.
pub const TOLERANCE: f64 = 1e-4;
/// Ratios and probabilities below this are compared as if they were this: runtimes compute sigmoid and softmax to
/// an absolute precision, and a utilisation of a millionth is none.
pub const RATIO_FLOOR: f64 = 0.01;

/// Batch sizes and padding of the cases, over and over: a row alone, small batches, one that is padded further.
const SHAPES: [(usize, usize); 5] = [(1, 0), (2, 0), (5, 3), (16, 0), (3, 17)];

/// Parity cases as they stand in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParityCases {
    /// Version of this format.
    pub plimsoll_parity: u32,
    /// The largest relative difference that counts as the same.
    pub tolerance: f64,
    /// Outputs other than `peak_memory_mib`, its quantiles and `scale` are compared as if they were at least this.
    pub ratio_floor: f64,
    /// The cases.
    pub cases: Vec<ParityCase>,
}

/// One batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParityCase {
    /// Raw inputs.
    pub inputs: Vec<NamedTensor>,
    /// What Plimsoll computes of them.
    pub outputs: Vec<NamedTensor>,
}

/// A tensor in a parity file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedTensor {
    /// Name of the input or output.
    pub name: String,
    /// Type of its elements.
    pub dtype: ElementType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements, row by row.
    pub data: Elements,
}

/// Elements of a tensor in a parity file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Elements {
    /// Flags.
    Flags(Vec<bool>),
    /// Whole numbers.
    Wholes(Vec<i64>),
    /// Numbers.
    Numbers(Vec<f32>),
}

impl ParityCases {
    /// Version of the format that this build writes.
    pub const VERSION: u32 = 2;

    /// Runs samples through a network, in batches of several sizes.
    ///
    /// # Errors
    /// No samples, and samples whose features are of another schema or not finite.
    pub fn new(learned: &Learned, samples: &[&Sample]) -> Result<Self> {
        if samples.is_empty() {
            return Err(ExportError::Inputs {
                what: "a parity check".into(),
                expected: "at least one sample".into(),
                found: "none".into(),
            });
        }
        let (mut rest, mut cases) = (samples, Vec::new());
        for (rows, padding) in SHAPES.into_iter().cycle() {
            let (batch, after) = rest.split_at(rows.min(rest.len()));
            cases.push(case(learned, batch, padding)?);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        Ok(Self { plimsoll_parity: Self::VERSION, tolerance: TOLERANCE, ratio_floor: RATIO_FLOOR, cases })
    }
}

/// Writes samples as raw inputs with Plimsoll's own outputs, for a script that runs the model elsewhere.
///
/// # Errors
/// As [`ParityCases::new`], and a file that cannot be written.
pub fn write_parity_cases(learned: &Learned, samples: &[&Sample], path: &Path) -> Result<()> {
    let cases = ParityCases::new(learned, samples)?;
    let bytes = serde_json::to_vec(&cases).expect("our own types always serialise");
    files::write(path, &bytes)
}

/// The difference of two values relative to the larger; values below the floor count as the floor.
pub fn relative_difference(one: f64, other: f64, floor: f64) -> f64 {
    let difference = (one - other).abs() / one.abs().max(other.abs()).max(floor);
    // Two zeros are equal; anything that is no number is as far away as can be.
    if one == other {
        0.0
    } else if difference.is_nan() {
        f64::INFINITY
    } else {
        difference
    }
}

/// The floor under which values of an output are not told apart.
pub fn comparison_floor(output: &str) -> f64 {
    if matches!(output, PEAK_MEMORY | QUANTILES | SCALE) { 0.0 } else { RATIO_FLOOR }
}

fn case(learned: &Learned, samples: &[&Sample], padding: usize) -> Result<ParityCase> {
    let description = learned.description();
    let raw = RawInputs::new(samples, learned.network().reads_layers(), padding)?;
    let layers = raw.sequence.as_ref().map_or(0, |sequence| sequence.layers);
    let tensor = |port: &Port, data: Elements| NamedTensor {
        name: port.name.clone(),
        dtype: port.dtype,
        shape: interface::shape(port, samples.len(), layers),
        data,
    };
    let inputs = interface::inputs(&description.settings, &FeatureSchema::current());
    let outputs = interface::outputs(description);
    Ok(ParityCase {
        inputs: inputs.iter().zip(elements(raw)).map(|(port, data)| tensor(port, data)).collect(),
        outputs: outputs.iter().map(|port| tensor(port, expected(learned, samples, &port.name))).collect(),
    })
}

/// Raw inputs in the order of [`interface::inputs`].
fn elements(raw: RawInputs) -> Vec<Elements> {
    let mut elements = [raw.summary, raw.gpu, raw.simulated_mib].map(Elements::Numbers).to_vec();
    elements.push(Elements::Wholes(raw.label));
    elements.push(Elements::Numbers(raw.stack));
    if let Some(sequence) = raw.sequence {
        elements.push(Elements::Wholes(sequence.tokens));
        elements.push(Elements::Numbers(sequence.numbers));
        elements.push(Elements::Flags(sequence.mask));
    }
    elements
}

/// What Plimsoll computes for an output.
fn expected(learned: &Learned, samples: &[&Sample], output: &str) -> Elements {
    // What was learned of single GPUs after the fit is not part of the model.
    let estimates = learned.unadapted().estimate(samples);
    let known = "a learned estimator knows all its outputs";
    let column = |value: &dyn Fn(usize) -> Option<f64>| {
        Elements::Numbers((0..samples.len()).map(|row| value(row).expect(known) as f32).collect())
    };
    match output {
        PEAK_MEMORY => column(&|row| estimates[row].peak_memory_mib),
        SCALE => column(&|row| estimates[row].log_scale),
        OUT_OF_DISTRIBUTION => column(&|row| Some(estimates[row].ood)),
        QUANTILES => {
            let bounds = estimates.iter().flat_map(|estimate| estimate.bounds.expect(known).to_array());
            Elements::Numbers(bounds.map(|mib| mib as f32).collect())
        }
        UTILISATION_RATIOS => {
            let ratios = estimates.iter().flat_map(|estimate| estimate.utilisation);
            // A metric that the training data lacked is not estimated; the exported column is 0.
            let ratios: Vec<f32> = ratios.map(|ratio| ratio.unwrap_or_default() as f32).collect();
            debug_assert_eq!(ratios.len(), samples.len() * UTILISATION.len());
            Elements::Numbers(ratios)
        }
        BIN_PROBABILITIES => Elements::Numbers(bin_probabilities(learned, samples)),
        other => unreachable!("`{other}` is no output"),
    }
}

/// Estimates carry the most probable bin only, so the logits are asked for.
fn bin_probabilities(learned: &Learned, samples: &[&Sample]) -> Vec<f32> {
    let (network, description) = (learned.network(), learned.description());
    let OutputSettings::Bins { count, .. } = description.settings.output else {
        unreachable!("only classifiers have the output");
    };
    let settings = &description.settings;
    let table = Table::new(samples, &description.scaler, Widths::current(), network.reads_layers(), settings);
    let rows: Vec<usize> = (0..samples.len()).collect();
    let outputs = network.forward(&table.batch(&rows, &weights::device(network)));
    let logits = outputs.bin_logits.expect("the network was built for its output").into_data();
    let logits: Vec<f64> = logits.iter::<f32>().map(f64::from).collect();
    logits
        .chunks(count)
        .flat_map(|logits| {
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(move |power| (power / sum) as f32)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_and_what_is_no_number_is_far_away() {
        assert!((relative_difference(100.0, 101.0, 0.0) - 1.0 / 101.0).abs() < 1e-12);
        assert_eq!(relative_difference(0.0, 0.0, 0.0), 0.0);
        assert!((relative_difference(0.0, 1e-6, RATIO_FLOOR) - 1e-4).abs() < 1e-12);
        assert_eq!(relative_difference(f64::NAN, 1.0, 0.0), f64::INFINITY);
        assert_eq!(relative_difference(f64::INFINITY, 1.0, 0.0), f64::INFINITY);
    }
}
