//! Time of a training step, kernel by kernel, from a GPU's published figures.
//!
//! Each kernel takes as long as the slower of its arithmetic and its memory traffic, in whole waves of thread blocks
//! over the multiprocessors; a kernel shorter than the gap between two launches leaves the GPU idle for the rest.
//! Nothing is fitted: the few constants are round figures of PyTorch on a recent host, and learned estimators correct
//! what they get wrong.

use plimsoll_graph::{Node, Op, Optimizer, Workload};

use crate::cost::node_cost;

/// Side of the tile that one thread block of a matrix product computes.
const TILE: u64 = 128;
/// Elements that one thread block of an elementwise kernel handles.
const ELEMENTS_PER_BLOCK: u64 = 1024;
/// Time between two kernel launches, microseconds.
const LAUNCH_GAP_US: f64 = 7.0;
/// Share of its peak that a well-shaped kernel reaches.
const EFFICIENCY: f64 = 0.8;
/// Kernels of the multi-tensor optimiser step for each 64 parameter tensors.
const OPTIMIZER_KERNELS: f64 = 14.0;

/// Where the time of a training step goes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepTime {
    /// Kernels launched.
    pub kernels: f64,
    /// Arithmetic at the reachable peak, microseconds.
    pub compute_us: f64,
    /// Memory traffic at the reachable bandwidth, microseconds.
    pub memory_us: f64,
    /// Time in which a kernel runs, microseconds.
    pub busy_us: f64,
    /// Time of the step, idle gaps between short kernels included, microseconds.
    pub step_us: f64,
    /// Busy time weighted by the share of multiprocessors that have a thread block, microseconds.
    pub active_us: f64,
    /// Time in matrix products and convolutions, microseconds.
    pub matrix_us: f64,
}

impl StepTime {
    /// Forward, backward and optimiser of one step. Linear in the graph.
    pub fn of(workload: &Workload) -> Self {
        let mut time = Self::default();
        let gpu = workload.gpu();
        let machine = Machine {
            flops_per_us: gpu.fp32_tflops * 1e6 * EFFICIENCY,
            bytes_per_us: gpu.bandwidth_gb_s * 1e3 * EFFICIENCY,
            sms: f64::from(gpu.sms.max(1)),
        };
        for node in workload.graph().nodes().iter().filter(|node| !matches!(node.op, Op::View)) {
            time.add_node(workload, node, machine);
        }
        time.add_optimizer(workload, machine);
        time
    }

    fn add_node(&mut self, workload: &Workload, node: &Node, machine: Machine) {
        let cost = node_cost(workload, node);
        let bytes = cost.read_bytes.saturating_add(cost.write_bytes) as f64;
        let flops = cost.flops as f64;
        let outputs: u64 = node.outputs.iter().map(|&id| workload.elements(id)).sum();
        let is_matrix = matches!(node.op, Op::Linear | Op::Conv(_) | Op::MatMul | Op::Attention { .. });
        if !is_matrix {
            let blocks = outputs.div_ceil(ELEMENTS_PER_BLOCK) as f64;
            // Forward and backward each stream the tensors once.
            self.add(machine, flops, bytes, blocks, false);
            self.add(machine, flops, bytes, blocks, false);
            return;
        }
        let (rows, width, inner) = extents(workload, node, outputs);
        let blocks = |m: u64, n: u64| (m.div_ceil(TILE).saturating_mul(n.div_ceil(TILE))) as f64;
        self.add(machine, flops, bytes, blocks(rows, width), true);
        // The backward pass of a product is two products: one for each factor.
        self.add(machine, flops, bytes, blocks(rows, inner), true);
        self.add(machine, flops, bytes, blocks(width, inner), true);
    }

    /// The optimiser reads and writes weights, gradients and states in a few kernels over all of them.
    fn add_optimizer(&mut self, workload: &Workload, machine: Machine) {
        let trained: Vec<u64> = workload
            .graph()
            .weights()
            .iter()
            .filter(|weight| workload.trains(weight))
            .map(plimsoll_graph::Weight::bytes)
            .collect();
        let bytes: u64 = trained.iter().sum();
        let passes = match workload.setup().optimizer {
            Optimizer::Sgd => 3.0,
            Optimizer::SgdMomentum | Optimizer::RmsProp => 6.0,
            _ => 20.0,
        };
        let kernels = (OPTIMIZER_KERNELS * (trained.len() as f64 / 64.0).ceil()).max(1.0);
        for _ in 0..kernels as u64 {
            let share = bytes as f64 / kernels;
            self.add(machine, 0.0, share * passes, share / 4.0 / ELEMENTS_PER_BLOCK as f64, false);
        }
    }

    fn add(&mut self, machine: Machine, flops: f64, bytes: f64, blocks: f64, is_matrix: bool) {
        let blocks = blocks.max(1.0);
        // Whole waves: a block more than fits takes a wave more.
        let waves = (blocks / machine.sms).ceil();
        let filled = blocks / (waves * machine.sms);
        let compute_us = flops / machine.flops_per_us;
        let memory_us = bytes / machine.bytes_per_us;
        let busy_us = (compute_us / filled).max(memory_us).max(1.5);
        self.kernels += 1.0;
        self.compute_us += compute_us;
        self.memory_us += memory_us;
        self.busy_us += busy_us;
        self.step_us += busy_us.max(LAUNCH_GAP_US);
        self.active_us += busy_us * (blocks / machine.sms).min(1.0);
        if is_matrix {
            self.matrix_us += busy_us;
        }
    }
}

/// What a GPU does in a microsecond.
#[derive(Debug, Clone, Copy)]
struct Machine {
    flops_per_us: f64,
    bytes_per_us: f64,
    sms: f64,
}

/// A product as (rows, columns, summed-over extent).
fn extents(workload: &Workload, node: &Node, outputs: u64) -> (u64, u64, u64) {
    let graph = workload.graph();
    let output = node.outputs.first().map(|&id| &graph.tensor(id).shape);
    let input = node.inputs.first().map(|&id| &graph.tensor(id).shape);
    let channels = |shape: Option<&plimsoll_graph::Shape>| {
        shape.and_then(|shape| shape.dims().get(1)).map_or(1, |dim| dim.factor()).max(1)
    };
    let last = |shape: Option<&plimsoll_graph::Shape>| shape.map_or(1, |shape| shape.last().factor()).max(1);
    if let Op::Conv(conv) = &node.op {
        let kernel = conv.kernel.iter().copied().fold(1, u64::saturating_mul);
        let width = channels(output);
        return (outputs / width, width, (channels(input) / conv.groups.max(1)).saturating_mul(kernel));
    }
    let width = last(output);
    (outputs / width, width, last(input))
}

#[cfg(test)]
mod tests {
    use plimsoll_graph::{DType, Family, GpuCatalogue, GraphBuilder, Shape, TrainingSetup};

    use super::*;

    fn time(width: u64, batch: u64, gpu: &str) -> StepTime {
        let mut builder = GraphBuilder::new("mlp", Family::Mlp);
        let mut value = builder.input("x", Shape::batched(&[width]), DType::Float32);
        for index in 0..4 {
            value = builder.linear(&format!("linear{index}"), value, width, true).expect("fits");
        }
        let graph = builder.finish(&[value]).expect("valid");
        let gpu = GpuCatalogue::built_in().find(gpu).expect("known").clone();
        StepTime::of(&Workload::new(graph, TrainingSetup::new(batch), gpu).expect("valid"))
    }

    #[test]
    fn small_jobs_wait_for_launches_and_large_ones_do_not() {
        let (small, large) = (time(64, 32, "a100-40"), time(8192, 4096, "a100-40"));
        assert!(small.busy_us < 0.5 * small.step_us);
        assert!(large.busy_us > 0.95 * large.step_us);
        assert!(small.active_us < 0.1 * small.busy_us && large.active_us > 0.9 * large.busy_us);
    }

    #[test]
    fn a_faster_gpu_takes_less_time() {
        assert!(time(4096, 1024, "h100-80").step_us < time(4096, 1024, "t4").step_us);
    }

    #[test]
    fn time_is_never_below_the_roofline() {
        for batch in [1, 100, 10_000] {
            let time = time(1000, batch, "rtx-3090");
            assert!(time.busy_us >= time.compute_us.max(time.memory_us));
            assert!(time.step_us >= time.busy_us && time.active_us <= time.busy_us);
        }
    }
}
