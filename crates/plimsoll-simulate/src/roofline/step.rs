//! Time of a step: its kernels, launched one after the other.

use plimsoll_graph::Workload;

use super::activity::Activity;
use super::kernel::{Kernel, KernelKind, Pipe};
use super::lower::kernels;
use super::machine::{Launch, Machine};
use super::scene::Scene;
use crate::replay::Phase;

/// A kernel shorter than this is dominated by starting and ending, microseconds.
const SHORT_US: f64 = 10.0;
/// What a convolution without workspace reaches of the peak of ordinary units.
const STARVED_EFFICIENCY: f64 = 0.6;
/// What the same convolution reaches on tensor cores with its workspace.
const FED_EFFICIENCY: f64 = 0.5;
/// Warps that it keeps resident of those that fit: two blocks of 256 threads fill the registers.
const STARVED_OCCUPANCY: f64 = 0.25;

/// Where the time of a training step goes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepTime {
    /// Kernels launched.
    pub kernels: f64,
    /// Arithmetic at the peak of the units it runs on, microseconds.
    pub compute_us: f64,
    /// Memory traffic beyond the level-2 cache at the peak bandwidth, microseconds.
    pub memory_us: f64,
    /// Time in which a kernel runs, microseconds.
    pub busy_us: f64,
    /// Time of the step, idle gaps between short kernels included, microseconds.
    pub step_us: f64,
    /// Busy time weighted by the share of multiprocessors that have a thread block, microseconds.
    pub active_us: f64,
    /// Time in matrix products, convolutions and attention, microseconds.
    pub matrix_us: f64,
    /// Busy time weighted by the share of warps that are resident, microseconds.
    pub resident_us: f64,
    /// Single-precision instructions at their peak, microseconds.
    pub fp32_us: f64,
    /// Tensor-core arithmetic at its peak, microseconds.
    pub tensor_us: f64,
    /// Time of the host to dispatch and launch all kernels, microseconds.
    pub dispatch_us: f64,
    /// Time in convolutions, microseconds.
    pub convolution_us: f64,
    /// Time in elementwise kernels, reductions and normalisations, microseconds.
    pub stream_us: f64,
    /// Time in copies, layout conversions included, microseconds.
    pub copy_us: f64,
    /// Time in the optimiser's kernels, microseconds.
    pub optimizer_us: f64,
    /// Time in the backward pass's kernels, microseconds.
    pub backward_us: f64,
    /// Time in matrix kernels that run on ordinary single-precision units, microseconds.
    pub fp32_matrix_us: f64,
    /// Time in kernels shorter than ten microseconds.
    pub short_us: f64,
    /// The longest kernel, microseconds.
    pub longest_us: f64,
    /// Busy time weighted by the logarithm of thread blocks for each multiprocessor, microseconds.
    pub log_waves_us: f64,
    /// Time in convolutions whose channels do not fill whole vectors, microseconds.
    pub unaligned_us: f64,
    /// Time in convolutions weighted by the logarithm of their channels, microseconds.
    pub log_channels_us: f64,
}

impl StepTime {
    /// Forward, backward and optimiser of one step. Linear in the graph.
    pub fn of(workload: &Workload) -> Self {
        let machine = Machine::of(workload.gpu());
        let mut time = Self::default();
        for kernel in kernels(workload) {
            time.add(&kernel, &machine.launch(&kernel), machine.sms);
        }
        time
    }

    /// The same where convolutions of so many operations a micro-batch find no room for their workspace, as
    /// [`Simulation::starved_flops`](crate::Simulation::starved_flops) tells. Nearly all that tensor cores can do with
    /// TF32 needs one, to change the tensors' layout; what is left runs on ordinary units.
    pub fn starved(workload: &Workload, flops: f64) -> Self {
        let mut time = Self::of(workload);
        if Scene::of(workload).pipe(true) == Pipe::Tf32 && flops > 0.0 {
            let micro_batches = workload.setup().gradient_accumulation as f64;
            time.starve(&Machine::of(workload.gpu()), flops * micro_batches);
        }
        time
    }

    fn starve(&mut self, machine: &Machine, flops: f64) {
        let tensor_us = (flops / machine.flops_per_us(Pipe::Tf32)).min(self.tensor_us);
        let fp32_us = tensor_us * machine.flops_per_us(Pipe::Tf32) / machine.flops_per_us(Pipe::Fp32);
        let starved_us = fp32_us / STARVED_EFFICIENCY;
        let more_us = (starved_us - tensor_us / FED_EFFICIENCY).max(0.0);
        self.compute_us += fp32_us - tensor_us;
        self.tensor_us -= tensor_us;
        self.fp32_us += fp32_us;
        // Averages over the time of kernels keep what they are.
        let (all, convolutions) = (1.0 + ratio(more_us, self.busy_us), 1.0 + ratio(more_us, self.convolution_us));
        self.log_waves_us *= all;
        self.backward_us *= all;
        self.log_channels_us *= convolutions;
        self.unaligned_us *= convolutions;
        for total in
            [&mut self.busy_us, &mut self.step_us, &mut self.active_us, &mut self.matrix_us, &mut self.convolution_us]
        {
            *total += more_us;
        }
        self.resident_us += STARVED_OCCUPANCY * more_us;
        self.fp32_matrix_us = (self.fp32_matrix_us + starved_us).min(self.matrix_us);
    }

    /// The shares of the step's time in which parts of the GPU work.
    pub fn activity(&self) -> Activity {
        Activity::with_host(self, 0.0)
    }

    fn add(&mut self, kernel: &Kernel, launch: &Launch, sms: f64) {
        let count = kernel.repeat;
        let busy_us = launch.busy * count;
        // The GPU starts once the host has launched and the kernel before has ended; of many equal launches either
        // the first or the last waits longest.
        let first = self.dispatch_us + kernel.dispatch_us;
        let last = self.dispatch_us + kernel.dispatch_us * count;
        self.step_us = (self.step_us.max(first) + busy_us).max(last + launch.busy);
        self.dispatch_us = last;

        self.kernels += count;
        self.busy_us += busy_us;
        self.active_us += launch.active * count;
        self.resident_us += launch.resident * count;
        self.memory_us += launch.dram * count;
        self.compute_us += launch.compute * count;
        if kernel.on_tensor_cores() {
            self.tensor_us += launch.pipe * count;
        } else {
            self.fp32_us += launch.pipe * count;
        }
        self.longest_us = self.longest_us.max(launch.busy);
        self.log_waves_us += busy_us * (kernel.blocks / sms).ln_1p();
        if launch.busy < SHORT_US {
            self.short_us += busy_us;
        }
        if kernel.phase == Phase::Backward {
            self.backward_us += busy_us;
        }
        if Machine::is_matrix(kernel.kind) {
            self.matrix_us += busy_us;
            if !kernel.on_tensor_cores() {
                self.fp32_matrix_us += busy_us;
            }
        }
        match kernel.kind {
            KernelKind::Matrix | KernelKind::Attention => {}
            KernelKind::Convolution => self.add_convolution(kernel, busy_us),
            KernelKind::Elementwise | KernelKind::Reduction | KernelKind::Normalisation => self.stream_us += busy_us,
            KernelKind::Copy => self.copy_us += busy_us,
            KernelKind::Optimizer => self.optimizer_us += busy_us,
        }
    }

    fn add_convolution(&mut self, kernel: &Kernel, busy_us: f64) {
        self.convolution_us += busy_us;
        self.log_channels_us += busy_us * kernel.channels.ln_1p();
        if !kernel.aligned {
            self.unaligned_us += busy_us;
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
