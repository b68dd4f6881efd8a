//! The end of the forward pass: outputs, loss and the first gradient.

use plimsoll_graph::{Loss, TensorId};

use super::Lowering;
use super::layout::Gradient;
use crate::trace::{BufferId, Role};

/// Bytes of a class index.
const LABEL: u64 = 8;

/// What the loss keeps for its backward pass.
pub(super) struct Seed {
    saved: Vec<BufferId>,
    cast: Option<BufferId>,
}

impl Lowering<'_> {
    /// The output that the loss sees: the first that a gradient can reach.
    fn scored(&self) -> Option<TensorId> {
        let outputs = self.workload.graph().outputs();
        outputs.iter().copied().find(|id| self.needs_gradient[id.0 as usize])
    }

    /// Targets arrive with the batch.
    pub(super) fn target(&mut self) -> Option<BufferId> {
        let scored = self.scored()?;
        let elements = self.elements[scored.0 as usize];
        let bytes = match self.workload.setup().loss {
            Loss::CrossEntropy => elements / self.classes(scored) * LABEL,
            Loss::MeanSquaredError => self.bytes(scored),
            Loss::Own => return None,
        };
        self.tape.node = None;
        Some(self.tape.arrive(bytes))
    }

    fn classes(&self, id: TensorId) -> u64 {
        self.workload.graph().tensor(id).shape.last().factor().max(1)
    }

    /// Computes the loss. Outputs and loss of the step before go as their names are bound anew.
    pub(super) fn loss(&mut self, target: Option<BufferId>) -> Seed {
        self.tape.node = None;
        for &id in self.workload.graph().outputs() {
            if let Some(buffer) = self.values[id.0 as usize] {
                self.tape.rebind(buffer);
            }
        }
        let mut seed = Seed { saved: Vec::new(), cast: None };
        if let Some(scored) = self.scored() {
            self.score(scored, target, &mut seed);
        }
        self.release_values();
        self.release_weight_casts();
        seed
    }

    fn score(&mut self, scored: TensorId, target: Option<BufferId>, seed: &mut Seed) {
        let elements = self.elements[scored.0 as usize];
        let output = self.values[scored.0 as usize];
        let is_narrow = self.workload.setup().precision.is_mixed() && self.widths[scored.0 as usize] < 4;
        let width = if is_narrow { 4 } else { u64::from(self.widths[scored.0 as usize]) };
        if is_narrow && self.workload.setup().loss != Loss::Own {
            seed.cast = Some(self.tape.allocate(elements * width, Role::Cast));
        }
        match self.workload.setup().loss {
            Loss::CrossEntropy => {
                // The logarithms of the probabilities are kept, and the sum of the weights of the classes.
                seed.saved.push(self.tape.allocate(elements * width, Role::Loss));
                if let Some(cast) = seed.cast.take() {
                    self.tape.release(cast);
                }
                // Both are made before the loop names the loss anew.
                let loss = self.tape.allocate(width, Role::Loss);
                seed.saved.push(self.tape.allocate(width, Role::Loss));
                self.hold_loss(loss);
            }
            Loss::MeanSquaredError => {
                let kept = seed.cast.take().or(output);
                if let Some(kept) = kept {
                    if Some(kept) == output {
                        self.tape.retain(kept);
                    }
                    seed.saved.push(kept);
                }
                if let Some(target) = target {
                    self.tape.retain(target);
                    seed.saved.push(target);
                }
                self.tape.touch(elements * width);
                let loss = self.tape.allocate(width, Role::Loss);
                self.hold_loss(loss);
            }
            Loss::Own => {}
        }
    }

    /// The loop holds the loss, a number as wide as what it was taken from.
    fn hold_loss(&mut self, loss: BufferId) {
        self.tape.rebind(loss);
        self.tape.release(loss);
    }

    /// The gradient of the scored output, from the loss back.
    pub(super) fn start_backward(&mut self, mut seed: Seed) {
        self.tape.node = None;
        let Some(scored) = self.scored() else { return };
        let elements = self.elements[scored.0 as usize];
        let own = self.bytes(scored);
        let is_wide = self.workload.setup().precision.is_mixed() && self.workload.setup().loss != Loss::Own;
        let width = if is_wide { 4 } else { u64::from(self.widths[scored.0 as usize]) };
        let one = self.tape.allocate(width, Role::ActivationGradient);
        self.seed = Some(one);
        let gradient = match self.workload.setup().loss {
            Loss::CrossEntropy => {
                // First that of the picked logarithms, mostly zeros, for which the sum of weights was kept; then that of
                // the scores.
                let picked = self.tape.allocate(elements * width, Role::ActivationGradient);
                if let Some(weights) = seed.saved.pop() {
                    self.tape.release(weights);
                }
                let scores = self.tape.allocate(elements * width, Role::ActivationGradient);
                self.tape.release(picked);
                for saved in seed.saved.drain(..) {
                    self.tape.release(saved);
                }
                self.narrowed(scores, elements * width, own)
            }
            Loss::MeanSquaredError => self.tape.allocate(own, Role::ActivationGradient),
            Loss::Own => {
                self.tape.retain(one);
                one
            }
        };
        for saved in seed.saved.into_iter().chain(seed.cast) {
            self.tape.release(saved);
        }
        self.gradients[scored.0 as usize] = Some(Gradient::new(gradient));
    }

    /// A gradient at the width of its tensor.
    pub(super) fn narrowed(&mut self, buffer: BufferId, bytes: u64, wanted: u64) -> BufferId {
        if bytes == wanted {
            return buffer;
        }
        let converted = self.tape.allocate(wanted, Role::ActivationGradient);
        self.tape.release(buffer);
        converted
    }
}
