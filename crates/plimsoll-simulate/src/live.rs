//! Bytes alive over a training step.

use plimsoll_graph::{Binary, DType, Loss, Node, Op, Optimizer, Precision, TensorId, WeightKind, Workload};

use crate::saved::saved;
use crate::storage::Storages;

/// What a training step holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepMemory {
    /// Parameters, frozen ones included.
    pub parameter_bytes: u64,
    /// Buffers such as running statistics.
    pub buffer_bytes: u64,
    /// Gradients of trained parameters.
    pub gradient_bytes: u64,
    /// States that the optimiser keeps.
    pub optimizer_bytes: u64,
    /// The batch and everything that autograd saves for the backward pass.
    pub activation_bytes: u64,
    /// The largest single activation.
    pub largest_activation_bytes: u64,
    /// The largest number of bytes alive at any moment of a step that already has optimiser states.
    pub live_peak_bytes: u64,
    /// The part of [`StepMemory::live_peak_bytes`] that is neither weights, gradients nor optimiser states.
    pub transient_bytes: u64,
}

impl StepMemory {
    /// Walks one step of a workload: forward, loss, backward, optimiser. Linear in the graph.
    pub fn of(workload: &Workload) -> Self {
        Walk::new(workload).run()
    }

    /// The plain sum of tensors: weights, gradients, optimiser states and saved activations.
    ///
    /// This is what formulas in the field add up; it is no bound, and knows no context or fragmentation.
    pub const fn tensor_sum_bytes(&self) -> u64 {
        self.static_bytes() + self.gradient_bytes + self.activation_bytes
    }

    /// Bytes that live through the whole of training.
    pub const fn static_bytes(&self) -> u64 {
        self.parameter_bytes + self.buffer_bytes + self.optimizer_bytes
    }
}

/// State of the walk over one step.
struct Walk<'a> {
    workload: &'a Workload,
    storages: Storages,
    memory: StepMemory,
    /// Live bytes apart from static ones, now and at the most.
    live: u64,
    peak: u64,
    /// Nodes that still need each storage: readers in the forward pass, savers in the backward pass.
    readers: Vec<u32>,
    savers: Vec<u32>,
    is_alive: Vec<bool>,
}

impl<'a> Walk<'a> {
    fn new(workload: &'a Workload) -> Self {
        let graph = workload.graph();
        let storages = Storages::new(workload);
        let count = graph.tensors().len();
        let mut walk = Self {
            workload,
            storages,
            memory: StepMemory::default(),
            live: 0,
            peak: 0,
            readers: vec![0; count],
            savers: vec![0; count],
            is_alive: vec![false; count],
        };
        for weight in graph.weights() {
            let half = workload.setup().precision == Precision::Bf16 && weight.dtype == DType::Float32;
            let bytes = if half { weight.bytes() / 2 } else { weight.bytes() };
            if weight.kind == WeightKind::Buffer {
                walk.memory.buffer_bytes += bytes;
                continue;
            }
            walk.memory.parameter_bytes += bytes;
            if workload.trains(weight) {
                walk.memory.gradient_bytes += bytes;
                let state = workload.setup().optimizer.state_bytes_per_parameter() * weight.elements();
                walk.memory.optimizer_bytes += if half { state / 2 } else { state };
            }
        }
        walk
    }

    fn run(mut self) -> StepMemory {
        let graph = self.workload.graph();
        self.count_uses();
        for &input in graph.inputs() {
            self.allocate(self.storages.root(input).0 as usize);
        }
        if self.workload.setup().precision.is_mixed() {
            // Autocast keeps a half-width copy of each weight it casts until the forward pass ends.
            self.live += self.memory.parameter_bytes / 2;
        }
        let mut saved_extra = vec![0; graph.nodes().len()];
        for (index, node) in graph.nodes().iter().enumerate() {
            let extra = saved(self.workload, node).extra_bytes;
            saved_extra[index] = extra;
            self.live += extra;
            for &output in &node.outputs {
                self.allocate(self.storages.root(output).0 as usize);
            }
            for &input in &node.inputs {
                let root = self.storages.root(input).0 as usize;
                self.readers[root] -= 1;
                self.release(root);
            }
        }
        self.loss();
        self.memory.activation_bytes = self.live;
        self.backward(&saved_extra);
        self.finish()
    }

    /// Counts who reads and who saves each storage.
    fn count_uses(&mut self) {
        for node in self.workload.graph().nodes() {
            for &input in &node.inputs {
                self.readers[self.storages.root(input).0 as usize] += 1;
            }
            for root in self.saved_roots(node) {
                self.savers[root] += 1;
            }
        }
        // Inputs and outputs are held by the training loop for the whole step.
        let graph = self.workload.graph();
        for &id in graph.inputs().iter().chain(graph.outputs()) {
            self.savers[self.storages.root(id).0 as usize] += 1;
        }
    }

    fn saved_roots(&self, node: &Node) -> Vec<usize> {
        let saved = saved(self.workload, node);
        let inputs = node.inputs.iter().take(usize::from(saved.input));
        let others = node.inputs.iter().skip(1).take(if saved.other_inputs { usize::MAX } else { 0 });
        let outputs = node.outputs.iter().take(usize::from(saved.output));
        inputs.chain(others).chain(outputs).map(|&id| self.storages.root(id).0 as usize).collect()
    }

    fn allocate(&mut self, root: usize) {
        if !self.is_alive[root] {
            self.is_alive[root] = true;
            let bytes = self.storages.bytes(TensorId(root as u32));
            self.memory.largest_activation_bytes = self.memory.largest_activation_bytes.max(bytes);
            self.live += bytes;
            self.peak = self.peak.max(self.live);
        }
    }

    fn release(&mut self, root: usize) {
        if self.is_alive[root] && self.readers[root] == 0 && self.savers[root] == 0 {
            self.is_alive[root] = false;
            self.live -= self.storages.bytes(TensorId(root as u32));
        }
    }

    /// The loss keeps the log-probabilities of what it sees.
    fn loss(&mut self) {
        if self.workload.setup().loss == Loss::CrossEntropy {
            let outputs = self.workload.graph().outputs();
            self.live += outputs.iter().map(|&id| 4 * self.workload.elements(id)).sum::<u64>();
            self.peak = self.peak.max(self.live);
        }
    }

    /// Runs backwards: gradients of activations come and go, gradients of weights stay.
    fn backward(&mut self, saved_extra: &[u64]) {
        let graph = self.workload.graph();
        let mut has_gradient = vec![false; graph.tensors().len()];
        let mut weight_done = vec![false; graph.weights().len()];
        let mut is_input = vec![false; graph.tensors().len()];
        for &input in graph.inputs() {
            is_input[input.0 as usize] = true;
        }
        for &output in graph.outputs() {
            has_gradient[output.0 as usize] = true;
            self.live += self.storages.bytes(output);
        }
        for (index, node) in graph.nodes().iter().enumerate().rev() {
            // Sums and views hand their gradient on instead of making one.
            let hands_on = matches!(node.op, Op::View | Op::Binary { function: Binary::Add, .. });
            for &input in &node.inputs {
                let slot = input.0 as usize;
                let is_leaf = is_input[slot] || !graph.tensor(input).dtype.is_float();
                if !has_gradient[slot] && !is_leaf {
                    has_gradient[slot] = true;
                    self.live += self.storages.bytes(input);
                }
            }
            for &weight in &node.weights {
                let slot = weight.0 as usize;
                if !std::mem::replace(&mut weight_done[slot], true) && self.workload.trains(graph.weight(weight)) {
                    self.live += graph.weight(weight).bytes();
                }
            }
            if hands_on {
                self.free_gradients(node, &mut has_gradient);
            }
            self.peak = self.peak.max(self.live);
            self.free_gradients(node, &mut has_gradient);
            self.live -= saved_extra[index].min(self.live);
            for root in self.saved_roots(node) {
                self.savers[root] -= 1;
                self.release(root);
            }
        }
    }

    fn free_gradients(&mut self, node: &Node, has_gradient: &mut [bool]) {
        for &output in &node.outputs {
            if std::mem::replace(&mut has_gradient[output.0 as usize], false) {
                self.live -= self.storages.bytes(output).min(self.live);
            }
        }
    }

    fn finish(mut self) -> StepMemory {
        // Adam's multi-tensor form makes one temporary as large as all gradients.
        let temporary = match self.workload.setup().optimizer {
            Optimizer::Adam | Optimizer::AdamW => self.memory.gradient_bytes,
            _ => 0,
        };
        let optimizer_step = self.memory.gradient_bytes + temporary;
        let peak = self.peak.max(optimizer_step);
        self.memory.live_peak_bytes = self.memory.static_bytes() + peak;
        self.memory.transient_bytes = peak;
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_graph::{Activation, DType, Family, GpuCatalogue, Graph, GraphBuilder, Shape, TrainingSetup};

    use super::*;

    fn mlp(width: u64, depth: usize, inplace: bool) -> Graph {
        let mut builder = GraphBuilder::new("mlp", Family::Mlp);
        let mut value = builder.input("x", Shape::batched(&[width]), DType::Float32);
        for index in 0..depth {
            value = builder.linear(&format!("linear{index}"), value, width, false).expect("fits");
            value = builder.activation(&format!("relu{index}"), value, Activation::Relu, inplace);
        }
        builder.finish(&[value]).expect("valid")
    }

    fn memory(graph: Graph, setup: TrainingSetup) -> StepMemory {
        let gpu = GpuCatalogue::built_in().find("a100-40").expect("known").clone();
        StepMemory::of(&Workload::new(graph, setup, gpu).expect("valid"))
    }

    #[test]
    fn adam_keeps_four_copies_of_each_parameter() {
        let memory = memory(mlp(64, 3, false), TrainingSetup::new(1));
        assert_eq!(memory.parameter_bytes, 3 * 64 * 64 * 4);
        assert_eq!(memory.gradient_bytes, memory.parameter_bytes);
        assert_eq!(memory.optimizer_bytes, 2 * memory.parameter_bytes);
    }

    #[test]
    fn only_what_autograd_needs_counts_as_activation() {
        // x, three ReLU outputs, and the loss's log-probabilities; outputs of the linear layers are not kept.
        let tensor = 8 * 64 * 4;
        let memory = memory(mlp(64, 3, false), TrainingSetup::new(8));
        assert_eq!(memory.activation_bytes, 5 * tensor);
    }

    #[test]
    fn in_place_functions_cost_no_more_than_copies() {
        let copies = memory(mlp(64, 5, false), TrainingSetup::new(512));
        let in_place = memory(mlp(64, 5, true), TrainingSetup::new(512));
        assert_eq!(copies.activation_bytes, in_place.activation_bytes);
        assert!(in_place.live_peak_bytes <= copies.live_peak_bytes);
    }

    #[test]
    fn half_precision_halves_activations_and_frozen_weights_have_no_gradient() {
        let full = memory(mlp(64, 4, false), TrainingSetup::new(4096));
        let mixed =
            memory(mlp(64, 4, false), TrainingSetup { precision: Precision::AmpFp16, ..TrainingSetup::new(4096) });
        assert!(mixed.activation_bytes < full.activation_bytes * 7 / 10);
        let frozen =
            memory(mlp(64, 4, false), TrainingSetup { trainable: vec!["linear3".into()], ..TrainingSetup::new(8) });
        assert_eq!(frozen.gradient_bytes, frozen.parameter_bytes / 4);
    }

    #[test]
    fn the_peak_lies_between_its_parts_and_twice_the_sum() {
        for batch in [1, 32, 1024] {
            let memory = memory(mlp(128, 6, false), TrainingSetup::new(batch));
            assert!(memory.live_peak_bytes >= memory.static_bytes() + memory.gradient_bytes);
            assert!(memory.live_peak_bytes <= 2 * memory.tensor_sum_bytes());
        }
    }
}
