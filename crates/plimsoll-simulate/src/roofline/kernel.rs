//! A kernel: what a GPU is asked to run in one launch.

use plimsoll_graph::NodeId;

use crate::replay::Phase;

/// What a kernel spends its time on; decides how well it fills a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelKind {
    /// A matrix product.
    Matrix,
    /// A convolution as an implicit matrix product.
    Convolution,
    /// Fused attention.
    Attention,
    /// One output element for each input element.
    Elementwise,
    /// Sums over dimensions.
    Reduction,
    /// Statistics and scaling of a normalisation, softmax included.
    Normalisation,
    /// Bytes moved unchanged: concatenation, padding, layout conversion, look-up.
    Copy,
    /// A multi-tensor kernel of the optimiser.
    Optimizer,
}

/// The arithmetic units that a kernel works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pipe {
    /// Ordinary single-precision units.
    Fp32,
    /// Tensor cores on TF32.
    Tf32,
    /// Tensor cores on half precision.
    Half,
}

/// One launch, or [`repeat`](Self::repeat) equal ones. Sizes are floating point, so that none overflows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    /// The node it belongs to; none for loss and optimiser.
    pub node: Option<NodeId>,
    /// Part of the step.
    pub phase: Phase,
    /// What it does.
    pub kind: KernelKind,
    /// Where its arithmetic runs.
    pub pipe: Pipe,
    /// Operations of a launch, a multiply-add counting two and, since it takes as long, any other instruction too.
    pub flops: f64,
    /// Times as much arithmetic as that which tiles and vectors that stick out make of it, 1 or more.
    pub padding: f64,
    /// Share of the pipe's peak that the inner loop of this kernel can reach.
    pub efficiency: f64,
    /// Bytes that a launch reads.
    pub read_bytes: f64,
    /// Bytes that a launch writes.
    pub write_bytes: f64,
    /// Thread blocks of a launch.
    pub blocks: f64,
    /// Threads of a block.
    pub threads: f64,
    /// Blocks that registers and shared memory let reside on a multiprocessor.
    pub blocks_per_sm: f64,
    /// Input channels that each filter of a convolution sees; 0 for other kernels.
    pub channels: f64,
    /// Whether the extents of a convolution's channels fill whole vectors; other kernels always count as aligned.
    pub aligned: bool,
    /// Time the host takes to get to a launch, microseconds: interpreter, dispatcher, autograd, driver.
    pub dispatch_us: f64,
    /// Launches.
    pub repeat: f64,
}

impl Kernel {
    /// Threads of a block of a streaming kernel.
    const STREAM_THREADS: f64 = 128.0;
    /// Elements that a thread of a streaming kernel handles.
    const STREAM_ELEMENTS: f64 = 4.0;
    /// Threads of a block that sums.
    const REDUCTION_THREADS: f64 = 512.0;

    /// A kernel that streams over `elements`, 128 threads a block and four elements a thread, as PyTorch's do.
    pub fn stream(kind: KernelKind, elements: f64, read_bytes: f64, write_bytes: f64, slots: f64) -> Self {
        let per_block = Self::STREAM_THREADS * Self::STREAM_ELEMENTS;
        Self {
            node: None,
            phase: Phase::Forward,
            kind,
            pipe: Pipe::Fp32,
            flops: 2.0 * slots * elements,
            padding: 1.0,
            efficiency: 0.6,
            read_bytes,
            write_bytes,
            blocks: (elements / per_block).ceil().max(1.0),
            threads: Self::STREAM_THREADS,
            blocks_per_sm: 16.0,
            channels: 0.0,
            aligned: true,
            dispatch_us: 0.0,
            repeat: 1.0,
        }
    }

    /// A kernel that brings `elements` down to `results`, a block for a few results.
    pub fn reduction(elements: f64, results: f64, bytes: f64) -> Self {
        // Few results of many elements are summed by several blocks each.
        let by_results = (results / 4.0).ceil();
        let by_elements = (elements / (Self::REDUCTION_THREADS * 16.0)).ceil();
        let blocks = by_results.max(by_elements.min(1024.0)).max(1.0);
        Self {
            blocks,
            threads: Self::REDUCTION_THREADS,
            blocks_per_sm: 4.0,
            ..Self::stream(KernelKind::Reduction, elements, bytes, 4.0 * results, 1.0)
        }
    }

    /// Bytes that a launch reads and writes.
    pub fn bytes(&self) -> f64 {
        self.read_bytes + self.write_bytes
    }

    /// Whether tensor cores do its arithmetic.
    pub const fn on_tensor_cores(&self) -> bool {
        !matches!(self.pipe, Pipe::Fp32)
    }
}
