//! A GPU as a kernel meets it, from its published figures.

use plimsoll_graph::Gpu;

use super::kernel::{Kernel, KernelKind, Pipe};

/// Share of the memory bandwidth that streaming kernels reach.
const BANDWIDTH_EFFICIENCY: f64 = 0.85;
/// Level-2 caches deliver about this many times what their memory does.
const L2_SPEEDUP: f64 = 2.5;
/// Bytes that a thread has under way to or from memory.
const BYTES_IN_FLIGHT: f64 = 32.0;
/// Time that memory takes to answer, microseconds.
const MEMORY_LATENCY_US: f64 = 0.6;
/// Start and end of a kernel, when the GPU counts as busy and little is done, microseconds.
const KERNEL_LATENCY_US: f64 = 4.0;
/// Warps that reside of those that could: blocks that end are not replaced at once.
const OCCUPANCY_EFFICIENCY: f64 = 0.9;
/// The part of it in which blocks reside, microseconds.
const RESIDENT_LATENCY_US: f64 = 2.0;

/// What a GPU does in a microsecond.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    pub(super) sms: f64,
    warps_per_sm: f64,
    fp32: f64,
    tf32: f64,
    half: f64,
    bytes_per_us: f64,
    l2_bytes: f64,
}

/// How one launch of a kernel goes; everything in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Launch {
    /// From first to last block.
    pub(super) busy: f64,
    /// Arithmetic at the peak.
    pub(super) compute: f64,
    /// The same with padding: the time in which the units issue.
    pub(super) pipe: f64,
    /// Memory traffic that misses the level-2 cache at the peak bandwidth.
    pub(super) dram: f64,
    /// Time weighted by the share of multiprocessors that have a warp.
    pub(super) active: f64,
    /// Time weighted by resident warps of those that fit.
    pub(super) resident: f64,
}

impl Machine {
    pub(super) fn of(gpu: &Gpu) -> Self {
        let fp32 = gpu.fp32_tflops.max(1e-3) * 1e6;
        let half = if gpu.tensor_tflops > 0.0 { gpu.tensor_tflops * 1e6 } else { fp32 };
        // TF32 came with compute capability 8.0 and runs at half the speed of half precision.
        let tf32 = if gpu.compute_capability >= 8.0 && gpu.tensor_tflops > 0.0 { (half / 2.0).max(fp32) } else { fp32 };
        let warps_per_sm = match (gpu.compute_capability * 10.0).round() as u32 {
            75 => 32.0,
            86 | 87 | 89 | 120.. => 48.0,
            _ => 64.0,
        };
        Self {
            sms: f64::from(gpu.sms.max(1)),
            warps_per_sm,
            fp32,
            tf32,
            half,
            bytes_per_us: gpu.bandwidth_gb_s.max(1e-3) * 1e3,
            l2_bytes: gpu.l2_mib * f64::from(1 << 20),
        }
    }

    /// Operations in a microsecond.
    pub(super) const fn flops_per_us(&self, pipe: Pipe) -> f64 {
        match pipe {
            Pipe::Fp32 => self.fp32,
            Pipe::Tf32 => self.tf32,
            Pipe::Half => self.half,
        }
    }

    /// Whether TF32 is any faster here.
    pub(super) fn has_tf32(&self) -> bool {
        self.tf32 > self.fp32
    }

    /// Whether half precision is any faster here.
    pub(super) fn has_half(&self) -> bool {
        self.half > self.fp32
    }

    pub(super) fn launch(&self, kernel: &Kernel) -> Launch {
        let blocks = kernel.blocks.max(1.0);
        let warps = (kernel.threads / 32.0).max(1.0);
        let per_sm = kernel.blocks_per_sm.min((self.warps_per_sm / warps).floor()).max(1.0);
        // Whole waves: a block more than there are multiprocessors takes as long as two on each.
        let filled = blocks / ((blocks / self.sms).ceil() * self.sms);
        let resident = blocks.min(self.sms * per_sm);

        let compute = kernel.flops / self.flops_per_us(kernel.pipe);
        let pipe = compute * kernel.padding.max(1.0);
        let arithmetic = pipe / kernel.efficiency.clamp(0.01, 1.0) / filled;

        let bytes = kernel.bytes();
        let missed = bytes * (1.0 - self.l2_share(bytes));
        let dram = missed / self.bytes_per_us;
        let cached = (bytes - missed) / (self.bytes_per_us * L2_SPEEDUP);
        let waiting = bytes * MEMORY_LATENCY_US / (resident * warps * 32.0 * BYTES_IN_FLIGHT);
        let memory = ((dram + cached) / BANDWIDTH_EFFICIENCY).max(waiting);

        let body = arithmetic.max(memory);
        let present = body + RESIDENT_LATENCY_US;
        let occupancy = OCCUPANCY_EFFICIENCY * (resident / self.sms * warps / self.warps_per_sm).min(1.0);
        Launch {
            busy: body + KERNEL_LATENCY_US,
            compute,
            pipe,
            dram,
            active: present * filled,
            // Where all blocks fit at once none waits; otherwise the last wave lacks warps as it lacks blocks.
            resident: present * (if blocks > resident { occupancy * filled } else { occupancy.min(filled) }),
        }
    }

    /// The part of a kernel's traffic that the level-2 cache serves: what the kernel before left there.
    fn l2_share(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 { 0.0 } else { (0.5 * self.l2_bytes / bytes).min(1.0) }
    }

    /// Whether a kernel's kind does matrix arithmetic.
    pub(super) const fn is_matrix(kind: KernelKind) -> bool {
        matches!(kind, KernelKind::Matrix | KernelKind::Convolution | KernelKind::Attention)
    }
}
