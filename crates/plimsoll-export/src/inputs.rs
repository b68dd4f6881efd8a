//! Features as the raw inputs of exported networks.

use plimsoll_dataset::{Label, Sample};
use plimsoll_features::{FeatureSchema, Features};

use crate::error::{ExportError, Result};

/// Raw inputs of a batch, row by row; sequences are padded to the longest.
#[derive(Debug, Clone, PartialEq)]
pub struct RawInputs {
    /// Rows of the batch.
    pub rows: usize,
    /// Summary features, `[rows, s]`.
    pub summary: Vec<f32>,
    /// GPU features, `[rows, g]`.
    pub gpu: Vec<f32>,
    /// Reserved memory, context and live peak as simulated, `[rows, 3]`.
    pub simulated_mib: Vec<f32>,
    /// Label definitions as indices into [`Label::ALL`], `[rows]`.
    pub label: Vec<i64>,
    /// Software in the order of [`Stack::NUMBERS`](plimsoll_dataset::Stack::NUMBERS), `[rows, 9]`.
    pub stack: Vec<f32>,
    /// The layer sequences, where the network reads them.
    pub sequence: Option<RawSequence>,
}

/// Padded layer sequences.
#[derive(Debug, Clone, PartialEq)]
pub struct RawSequence {
    /// Length that rows are padded to.
    pub layers: usize,
    /// Tokens, `[rows, layers]`; 0 in padding.
    pub tokens: Vec<i64>,
    /// Numbers, `[rows, layers, f]`; 0 in padding.
    pub numbers: Vec<f32>,
    /// True where a layer is real, `[rows, layers]`.
    pub mask: Vec<bool>,
}

impl RawInputs {
    /// Packs the features of samples, with so many layers of padding beyond the longest sequence.
    ///
    /// # Errors
    /// No features at all, features of another schema, and numbers that are not finite.
    pub fn new(samples: &[&Sample], with_layers: bool, padding: usize) -> Result<Self> {
        if samples.is_empty() {
            return Err(ExportError::Inputs {
                what: "a batch".into(),
                expected: "at least one row".into(),
                found: "none".into(),
            });
        }
        let schema = FeatureSchema::current();
        let features: Vec<&Features> = samples.iter().map(|sample| &sample.features).collect();
        let index = |sample: &&Sample| Label::ALL.iter().position(|label| *label == sample.label).unwrap_or_default();
        let mut inputs = Self {
            rows: features.len(),
            summary: Vec::with_capacity(features.len() * schema.summary.len()),
            gpu: Vec::with_capacity(features.len() * schema.gpu.len()),
            simulated_mib: Vec::with_capacity(features.len() * 3),
            label: samples.iter().map(|sample| index(sample) as i64).collect(),
            stack: samples.iter().flat_map(|sample| sample.stack.numbers()).collect(),
            sequence: None,
        };
        for (row, features) in features.iter().enumerate() {
            check(row, "summary features", &features.summary, schema.summary.len())?;
            check(row, "GPU features", &features.gpu, schema.gpu.len())?;
            check(row, "layer features", &features.layers, features.tokens.len() * schema.layer.len())?;
            let analytic = &features.analytic;
            let simulated = [analytic.reserved_mib, analytic.context_mib, analytic.live_peak_mib];
            check(row, "simulated memory", &simulated, 3)?;
            inputs.summary.extend(&features.summary);
            inputs.gpu.extend(&features.gpu);
            inputs.simulated_mib.extend(simulated);
        }
        inputs.sequence = with_layers.then(|| RawSequence::new(&features, schema.layer.len(), padding));
        Ok(inputs)
    }
}

impl RawSequence {
    fn new(features: &[&Features], width: usize, padding: usize) -> Self {
        let longest = features.iter().map(|features| features.tokens.len()).max().unwrap_or_default().max(1);
        let layers = longest + padding;
        let count = features.len() * layers;
        let mut sequence = Self {
            layers,
            tokens: Vec::with_capacity(count),
            numbers: Vec::with_capacity(count * width),
            mask: Vec::with_capacity(count),
        };
        for (row, features) in features.iter().enumerate() {
            let end = (row + 1) * layers;
            sequence.tokens.extend(features.tokens.iter().map(|&token| i64::from(token)));
            sequence.mask.resize(sequence.tokens.len(), true);
            sequence.tokens.resize(end, 0);
            sequence.mask.resize(end, false);
            sequence.numbers.extend(&features.layers);
            sequence.numbers.resize(end * width, 0.0);
        }
        sequence
    }
}

fn check(row: usize, part: &str, numbers: &[f32], expected: usize) -> Result<()> {
    let wrong = |expected: String, found: String| {
        Err(ExportError::Inputs { what: format!("{part} of row {row}"), expected, found })
    };
    if numbers.len() != expected {
        return wrong(format!("{expected} numbers"), format!("{} numbers", numbers.len()));
    }
    if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
        return wrong("finite numbers".into(), number.to_string());
    }
    Ok(())
}
