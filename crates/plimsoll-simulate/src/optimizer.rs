//! What an optimiser keeps for each parameter, and takes while it steps.
//!
//! The multi-tensor (`foreach`) forms are meant, which PyTorch uses on a GPU unless told otherwise.

use plimsoll_graph::{Optimizer, Precision, TrainingSetup, Weight, Workload};

/// Smallest parameter that the eight-bit Adam quantises.
const QUANTISED_FROM: u64 = 4_096;
/// Elements that share a scale in the eight-bit Adam.
const QUANTISED_BLOCK: u64 = 256;

/// Sizes of the states of one parameter, in bytes; zero means none.
pub(crate) fn state_bytes(workload: &Workload, weight: &Weight) -> [u64; 4] {
    let elements = weight.elements();
    let own = parameter_bytes(workload, weight);
    match workload.setup().optimizer {
        Optimizer::Sgd => [0; 4],
        Optimizer::SgdMomentum | Optimizer::RmsProp => [own, 0, 0, 0],
        Optimizer::Adam | Optimizer::AdamW => [own, own, 0, 0],
        Optimizer::Adafactor => factored(weight, own),
        Optimizer::Adam8bit if elements < QUANTISED_FROM => [4 * elements, 4 * elements, 0, 0],
        Optimizer::Adam8bit => {
            let scales = 4 * elements.div_ceil(QUANTISED_BLOCK);
            [elements, elements, scales, scales]
        }
    }
}

/// A row and a column of factors for each matrix, a full state for vectors.
fn factored(weight: &Weight, own: u64) -> [u64; 4] {
    let dims = weight.shape.dims();
    let [.., rows, columns] = dims else { return [own, 0, 0, 0] };
    let elements = weight.elements();
    let (rows, columns) = (rows.factor().max(1), columns.factor().max(1));
    [4 * (elements / columns), 4 * (elements / rows), 0, 0]
}

/// Temporaries of a step: whether each parameter has one at the same time as all others, or one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepTemporaries {
    None,
    /// One as large as each parameter, all alive together.
    Together,
    /// So many as large as the parameter, freed before the next parameter's turn.
    InTurn(u32),
}

pub(crate) const fn temporaries(optimizer: Optimizer) -> StepTemporaries {
    match optimizer {
        Optimizer::Sgd | Optimizer::SgdMomentum | Optimizer::Adam8bit => StepTemporaries::None,
        Optimizer::Adam | Optimizer::AdamW | Optimizer::RmsProp => StepTemporaries::Together,
        // The squared gradient and the update.
        Optimizer::Adafactor => StepTemporaries::InTurn(2),
    }
}

/// Whether a step begins with a copy of all gradients, to which the decay of the weights is added.
///
/// `AdamW` and Adafactor shrink the weights themselves.
pub(crate) const fn copies_gradients(setup: &TrainingSetup) -> bool {
    use Optimizer::{Adam, RmsProp, Sgd, SgdMomentum};
    setup.weight_decay && matches!(setup.optimizer, Sgd | SgdMomentum | Adam | RmsProp)
}

/// Bytes of a weight as it is stored.
pub(crate) fn parameter_bytes(workload: &Workload, weight: &Weight) -> u64 {
    let is_half = workload.setup().precision == Precision::Bf16 && weight.dtype == plimsoll_graph::DType::Float32;
    if is_half { weight.bytes() / 2 } else { weight.bytes() }
}
