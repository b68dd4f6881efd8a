//! Weights whose sizes sum to a printed parameter count.

use crate::dtype::DType;
use crate::op::{Op, RecurrentCell};
use crate::shape::{Dim, Shape};

/// A weight or buffer that a layer needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spec {
    /// Name within the layer.
    pub(super) name: String,
    pub(super) extents: Vec<u64>,
    /// Element type if it is a buffer.
    pub(super) buffer: Option<DType>,
}

impl Spec {
    fn new(name: impl Into<String>, extents: &[u64]) -> Self {
        Self { name: name.into(), extents: extents.to_vec(), buffer: None }
    }

    fn buffer(name: &str, extents: &[u64], dtype: DType) -> Self {
        Self { buffer: Some(dtype), ..Self::new(name, extents) }
    }
}

/// One weight of that many elements: all that is known of a layer of unknown kind.
pub(super) fn flat(count: u64) -> Vec<Spec> {
    if count == 0 { Vec::new() } else { vec![Spec::new("parameters", &[count])] }
}

/// A weight of some extents, and a bias.
pub(super) fn weight_and_bias(extents: &[u64], bias: Option<u64>) -> Vec<Spec> {
    let mut specs = vec![Spec::new("weight", extents)];
    specs.extend(bias.map(|width| Spec::new("bias", &[width])));
    specs
}

/// Scale, shift and the running statistics of batch normalisation.
pub(super) fn batch_norm(count: u64, output: &Shape) -> Vec<Spec> {
    let Some(&Dim::Fixed(channels)) = output.dims().get(1) else { return flat(count) };
    let mut specs = scale_and_shift(count, &[channels]);
    specs.push(Spec::buffer("running_mean", &[channels], DType::Float32));
    specs.push(Spec::buffer("running_var", &[channels], DType::Float32));
    specs.push(Spec::buffer("num_batches_tracked", &[], DType::Int64));
    specs
}

/// Scale and shift of another normalisation, over channels or over as many last dimensions as the count says.
pub(super) fn norm(op: &Op, count: u64, output: &Shape) -> Vec<Spec> {
    let extents: Vec<u64> = output.dims().iter().skip(1).map(|dim| dim.factor()).collect();
    let suffixes = (0..extents.len()).rev().map(|start| &extents[start..]);
    let channels = extents.first().map(std::slice::from_ref);
    let fits = |extents: &&[u64]| scale_and_shift(count, extents)[..].first().is_some_and(|spec| spec.name == "weight");
    let found = match op {
        Op::LayerNorm | Op::RmsNorm => suffixes.chain(channels).find(fits),
        _ => channels,
    };
    found.map_or_else(|| flat(count), |extents| scale_and_shift(count, extents))
}

fn scale_and_shift(count: u64, extents: &[u64]) -> Vec<Spec> {
    let elements = extents.iter().try_fold(1_u64, |product, &extent| product.checked_mul(extent));
    match elements {
        Some(elements) if elements > 0 && elements == count => vec![Spec::new("weight", extents)],
        Some(elements) if elements > 0 && elements.checked_mul(2) == Some(count) => {
            vec![Spec::new("weight", extents), Spec::new("bias", extents)]
        }
        _ => flat(count),
    }
}

/// A reading of a recurrent layer's parameter count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecurrentFit {
    /// Width of the input.
    pub(super) width: u64,
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) bidirectional: bool,
    bias: bool,
}

/// Every reading of a parameter count, the plainest first.
pub(super) fn recurrent_fits(cell: RecurrentCell, count: u64, output_width: u64) -> Vec<RecurrentFit> {
    let mut fits = Vec::new();
    for layers in 1..=12 {
        for (bidirectional, bias) in [(false, true), (true, true), (false, false), (true, false)] {
            let directions = 1 + u64::from(bidirectional);
            if output_width == 0 || !output_width.is_multiple_of(directions) {
                continue;
            }
            let hidden = output_width / directions;
            let fit = RecurrentFit { width: 0, hidden, layers, bidirectional, bias };
            fits.extend(fit.with_width(cell, count));
        }
    }
    fits
}

impl RecurrentFit {
    fn with_width(mut self, cell: RecurrentCell, count: u64) -> Option<Self> {
        let (hidden, directions) = (self.hidden, 1 + u64::from(self.bidirectional));
        let rows = gates(cell).checked_mul(hidden)?.checked_mul(directions)?;
        // Rows of one gate each: what a layer reads, its state, and two biases.
        let own = hidden.checked_add(2 * u64::from(self.bias))?;
        let deeper = hidden.checked_mul(directions)?.checked_add(own)?.checked_mul(self.layers - 1)?;
        if !count.is_multiple_of(rows) {
            return None;
        }
        self.width = (count / rows).checked_sub(deeper)?.checked_sub(own)?;
        (self.width > 0).then_some(self)
    }

    /// The weights, named and ordered as PyTorch does.
    pub(super) fn specs(self, cell: RecurrentCell) -> Vec<Spec> {
        let rows = gates(cell) * self.hidden;
        let mut specs = Vec::new();
        for layer in 0..self.layers {
            let width = if layer == 0 { self.width } else { self.hidden * (1 + u64::from(self.bidirectional)) };
            for suffix in ["", "_reverse"].into_iter().take(1 + usize::from(self.bidirectional)) {
                let name = |part: &str| format!("{part}_l{layer}{suffix}");
                specs.push(Spec::new(name("weight_ih"), &[rows, width]));
                specs.push(Spec::new(name("weight_hh"), &[rows, self.hidden]));
                if self.bias {
                    specs.push(Spec::new(name("bias_ih"), &[rows]));
                    specs.push(Spec::new(name("bias_hh"), &[rows]));
                }
            }
        }
        specs
    }
}

const fn gates(cell: RecurrentCell) -> u64 {
    match cell {
        RecurrentCell::Rnn => 1,
        RecurrentCell::Gru => 3,
        RecurrentCell::Lstm => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(specs: &[Spec]) -> u64 {
        let trained = specs.iter().filter(|spec| spec.buffer.is_none());
        trained.map(|spec| spec.extents.iter().product::<u64>()).sum()
    }

    #[test]
    fn every_reading_of_a_recurrent_layer_has_the_printed_count() {
        // Two layers, both directions, 64 in, 96 of state.
        let fits = recurrent_fits(RecurrentCell::Lstm, 347_136, 192);
        assert!(fits.iter().any(|fit| (fit.width, fit.hidden, fit.layers, fit.bidirectional) == (64, 96, 2, true)));
        for fit in fits {
            assert_eq!(elements(&fit.specs(RecurrentCell::Lstm)), 347_136, "{fit:?}");
        }
    }

    #[test]
    fn a_normalisation_finds_the_dimensions_of_its_weight() {
        let shape = Shape::batched(&[96, 7, 5]);
        for (count, extents) in [(10, vec![5]), (5, vec![5]), (70, vec![7, 5]), (192, vec![96]), (11, vec![11])] {
            let specs = norm(&Op::LayerNorm, count, &shape);
            assert_eq!(specs[0].extents, extents);
            assert_eq!(elements(&specs), count);
        }
        assert_eq!(norm(&Op::LayerNorm, 0, &shape), []);
    }
}
