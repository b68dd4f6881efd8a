//! The memory events of one training step, in the order in which they happen.

use plimsoll_graph::{NodeId, WeightId};

/// Index of a buffer in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The batch: inputs and targets.
    Input,
    /// What a node computes.
    Activation,
    /// What a node keeps for its backward pass beside inputs and outputs: masks, indices, statistics.
    Saved,
    /// A copy at another precision.
    Cast,
    /// The loss and what it keeps.
    Loss,
    /// The gradient of a weight.
    Gradient,
    /// The gradient of an activation.
    ActivationGradient,
    /// Alive within one operator only.
    Temporary,
}

/// One tensor storage of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes asked for.
    pub bytes: u64,
    /// What it is for.
    pub role: Role,
    /// The node that asks for it, if one does.
    pub node: Option<NodeId>,
}

/// One thing that happens to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A buffer comes to life.
    Allocate(BufferId),
    /// A buffer dies.
    Free(BufferId),
    /// The training loop lets go of what it held of the step before, by place in [`StepTrace::held`].
    DropPrevious(u32),
    /// Gradients of the last step are dropped or zeroed.
    ZeroGrad,
    /// The gradient of a weight is complete: it stays until [`Event::ZeroGrad`], or is added to the one there is.
    Accumulate(BufferId, WeightId),
    /// A convolution runs, and takes a workspace for as long as it runs.
    Convolve(u32),
    /// A matrix product runs: the first of a thread creates its cuBLAS handle.
    Multiply,
    /// The backward pass begins, on a thread of its own.
    Backward,
}

/// Which product of a convolution runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Output from input and filter.
    Forward,
    /// Gradient of the input.
    DataGradient,
    /// Gradient of the filter.
    FilterGradient,
}

/// A convolution as cuDNN sees it. One- and three-dimensional ones are folded into two dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Which product.
    pub direction: Direction,
    /// Samples.
    pub batch: u64,
    /// Input channels, height and width.
    pub input: [u64; 3],
    /// Output channels, height and width.
    pub output: [u64; 3],
    /// Kernel height and width.
    pub kernel: [u64; 2],
    /// Stride, the larger of both axes.
    pub stride: u64,
    /// Padding, the larger of both axes.
    pub padding: u64,
    /// Dilation, the larger of both axes.
    pub dilation: u64,
    /// Channel groups.
    pub groups: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
}

impl Convolution {
    /// Elements of the input.
    pub fn input_elements(&self) -> u64 {
        self.input.iter().fold(self.batch, |product, extent| product.saturating_mul(*extent))
    }

    /// Elements of the output.
    pub fn output_elements(&self) -> u64 {
        self.output.iter().fold(self.batch, |product, extent| product.saturating_mul(*extent))
    }

    /// Elements of the filter.
    pub fn filter_elements(&self) -> u64 {
        let per_output = (self.input[0] / self.groups.max(1)).saturating_mul(self.kernel[0] * self.kernel[1]);
        self.output[0].saturating_mul(per_output)
    }

    /// Operations, a multiply-add counting two; the same in every direction.
    pub fn flops(&self) -> u64 {
        let positions = self.output_elements() / self.output[0].max(1);
        self.filter_elements().saturating_mul(positions).saturating_mul(2)
    }
}

/// What a node keeps and writes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeMemory {
    /// Kept for the backward pass and by no earlier node.
    pub saved_bytes: u64,
    /// Written outputs; views write nothing.
    pub output_bytes: u64,
}

/// One step: forward, loss, backward. The optimiser, weights and workspaces are added when it is replayed.
#[derive(Debug, Clone, Default)]
pub struct StepTrace {
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// What happens to them.
    pub events: Vec<Event>,
    /// Buffers that the training loop still holds when the step is over; the same number at every batch.
    pub held: Vec<BufferId>,
    /// Convolutions that events refer to.
    pub convolutions: Vec<Convolution>,
    /// What each node keeps and writes, by node.
    pub nodes: Vec<NodeMemory>,
    /// Bytes alive between the forward and the backward pass: the batch and all that autograd saved.
    pub saved_bytes: u64,
}

impl StepTrace {
    /// Bytes of a buffer.
    pub fn bytes(&self, id: BufferId) -> u64 {
        self.buffers[id.0 as usize].bytes
    }
}
