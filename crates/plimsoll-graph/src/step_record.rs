//! What a framework was seen to allocate and free in a training step, in order.
//!
//! A graph says what is computed; what is kept of it follows by rule. A record says it as it is, for one precision and
//! one loss, at any batch: sizes are `fixed + per_sample * batch` bytes. Records come from files, so that a checked one
//! holds: what is freed is alive, nothing is freed twice, and at the end of the step every buffer is freed, a
//! gradient, or held by the training loop.

use crate::error::{GraphError, Result};
use crate::graph::{Graph, NodeId, WeightId, WeightKind};
use crate::op::Op;
use crate::setup::{Loss, Precision};

/// A size that grows with the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// At any batch.
    pub fixed: u64,
    /// For each sample.
    pub per_sample: u64,
}

impl Size {
    /// The size at a batch; `None` on overflow.
    pub const fn at(self, batch: u64) -> Option<u64> {
        match self.per_sample.checked_mul(batch) {
            Some(scaled) => scaled.checked_add(self.fixed),
            None => None,
        }
    }

    const fn plus(self, other: Self) -> Option<Self> {
        match (self.fixed.checked_add(other.fixed), self.per_sample.checked_add(other.per_sample)) {
            (Some(fixed), Some(per_sample)) => Some(Self { fixed, per_sample }),
            _ => None,
        }
    }
}

/// Which product of a convolution runs, as its node has it: for a transposed one too, forward is towards the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvolutionPass {
    /// The output.
    Forward,
    /// The gradient of the input.
    DataGradient,
    /// The gradient of the filter.
    FilterGradient,
}

/// One thing that was seen. Buffers are numbered in the order of their allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedEvent {
    /// The next buffer, by place in [`StepRecord::sizes`].
    Allocate(u32),
    /// A buffer dies.
    Free(u32),
    /// Work of a node begins, forward or backward; none is work of the loop or the loss.
    Node(Option<NodeId>),
    /// A buffer becomes the gradient of a weight.
    Accumulate(u32, WeightId),
    /// The node at work runs a convolution.
    Convolve(ConvolutionPass),
    /// A matrix product runs.
    Multiply,
    /// Numbers are summed over rows: rows and columns, by place in [`StepRecord::sizes`].
    Sum(u32, u32),
    /// The gradient of a table is summed by index into the buffer that comes next: indices, rows and columns, by place
    /// in [`StepRecord::sizes`].
    Scatter(u32, u32, u32),
    /// The training loop names a buffer, and lets go of what had the name in the step before.
    Hold(u32),
    /// Gradients of the step before are dropped.
    ZeroGrad,
    /// The forward pass is over, the loss begins.
    Loss,
    /// The backward pass begins.
    Backward,
}

/// The record of one training step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    /// The precision at which it was seen.
    pub precision: Precision,
    /// The loss with which it was seen.
    pub loss: Loss,
    /// Whether every size is known to be what [`Size`] says at every batch.
    pub is_exact: bool,
    /// Sizes that events refer to, in bytes, and for sums in numbers.
    pub sizes: Vec<Size>,
    /// What happens, in order.
    pub events: Vec<RecordedEvent>,
}

impl StepRecord {
    /// More sizes or events than this are no step of a graph that can be read.
    pub const MAX_EVENTS: usize = 1 << 23;

    /// Bytes of all buffers together, whether or not they are alive at once.
    ///
    /// # Errors
    /// Sums that overflow.
    pub(crate) fn allocated(&self) -> Result<Size> {
        let sizes = self.events.iter().filter_map(|event| match event {
            RecordedEvent::Allocate(place) => self.sizes.get(*place as usize).copied(),
            _ => None,
        });
        let mut total = Size::default();
        for size in sizes {
            total = total.plus(size).ok_or_else(|| GraphError::Overflow {
                what: format!("the {} step record", self.precision.name()),
                found: "the sum of its buffers".into(),
            })?;
        }
        Ok(total)
    }

    /// Holds the record to what it promises. Linear in its events.
    pub(crate) fn check(&self, graph: &Graph) -> Result<()> {
        let mut state = State::new(self, graph)?;
        for (index, event) in self.events.iter().enumerate() {
            state.apply(index, *event)?;
        }
        self.allocated()?;
        state.finish()
    }
}

/// Where a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Alive,
    Held,
    Gradient,
    Gone,
}

/// The step so far.
struct State<'a> {
    record: &'a StepRecord,
    graph: &'a Graph,
    buffers: Vec<Place>,
    has_gradient: Vec<bool>,
    node: Option<NodeId>,
    /// `zero_grad`, loss and backward pass that have been.
    phases: usize,
}

const PHASES: [&str; 3] = ["`zero_grad`", "the loss", "the backward pass"];

impl<'a> State<'a> {
    fn new(record: &'a StepRecord, graph: &'a Graph) -> Result<Self> {
        let longest = record.sizes.len().max(record.events.len());
        let state = Self {
            record,
            graph,
            buffers: Vec::new(),
            has_gradient: vec![false; graph.weights().len()],
            node: None,
            phases: 0,
        };
        if longest > StepRecord::MAX_EVENTS {
            return Err(state.wrong("length", format!("at most {}", StepRecord::MAX_EVENTS), longest.to_string()));
        }
        Ok(state)
    }

    fn apply(&mut self, index: usize, event: RecordedEvent) -> Result<()> {
        match event {
            RecordedEvent::Allocate(size) => {
                self.size(index, size)?;
                self.buffers.push(Place::Alive);
            }
            RecordedEvent::Free(buffer) => self.take(index, buffer, Place::Gone)?,
            RecordedEvent::Hold(buffer) => self.take(index, buffer, Place::Held)?,
            RecordedEvent::Accumulate(buffer, weight) => {
                self.take(index, buffer, Place::Gradient)?;
                self.gradient(index, weight)?;
            }
            RecordedEvent::Node(node) => {
                let count = self.graph.nodes().len();
                if let Some(id) = node.filter(|id| id.0 as usize >= count) {
                    return Err(self.wrong_event(index, format!("a node below {count}"), id.0.to_string()));
                }
                self.node = node;
            }
            RecordedEvent::Convolve(_) => {
                let node = self.node.map(|id| &self.graph.nodes()[id.0 as usize]);
                if !node.is_some_and(|node| matches!(node.op, Op::Conv(_))) {
                    let found = node.map_or("no node", |node| node.op.token()).into();
                    return Err(self.wrong_event(index, "a convolution at work".into(), found));
                }
            }
            RecordedEvent::Sum(rows, columns) => {
                self.size(index, rows)?;
                self.size(index, columns)?;
            }
            RecordedEvent::Scatter(indices, rows, columns) => {
                for place in [indices, rows, columns] {
                    self.size(index, place)?;
                }
                if !matches!(self.record.events.get(index + 1), Some(RecordedEvent::Allocate(_))) {
                    return Err(self.wrong_event(index, "an allocation after it".into(), "none".into()));
                }
            }
            RecordedEvent::Multiply => {}
            RecordedEvent::ZeroGrad => self.phase(index, 0)?,
            RecordedEvent::Loss => self.phase(index, 1)?,
            RecordedEvent::Backward => self.phase(index, 2)?,
        }
        Ok(())
    }

    fn size(&self, index: usize, place: u32) -> Result<()> {
        let count = self.record.sizes.len();
        if (place as usize) < count {
            return Ok(());
        }
        Err(self.wrong_event(index, format!("a size below {count}"), place.to_string()))
    }

    fn take(&mut self, index: usize, buffer: u32, to: Place) -> Result<()> {
        let place = self.buffers.get(buffer as usize).copied();
        if place != Some(Place::Alive) {
            let state = match place {
                None => "is not allocated yet",
                Some(Place::Held) => "is held by the loop",
                Some(Place::Gradient) => "is a gradient",
                Some(_) => "is freed",
            };
            return Err(self.wrong_event(index, "a buffer that is alive".into(), format!("{buffer}, which {state}")));
        }
        self.buffers[buffer as usize] = to;
        Ok(())
    }

    fn gradient(&mut self, index: usize, id: WeightId) -> Result<()> {
        let expected = || "a parameter that trains and has no gradient yet".to_owned();
        let Some(weight) = self.graph.weights().get(id.0 as usize) else {
            return Err(self.wrong_event(index, expected(), format!("weight {}", id.0)));
        };
        let is_second = std::mem::replace(&mut self.has_gradient[id.0 as usize], true);
        if is_second || weight.kind != WeightKind::Parameter || self.phases < PHASES.len() {
            return Err(self.wrong_event(index, expected(), format!("`{}`", weight.name)));
        }
        Ok(())
    }

    fn phase(&mut self, index: usize, phase: usize) -> Result<()> {
        if self.phases != phase {
            let expected = PHASES.get(self.phases).map_or_else(|| "no further phase".into(), |name| (*name).into());
            return Err(self.wrong_event(index, expected, PHASES[phase].into()));
        }
        self.phases += 1;
        Ok(())
    }

    fn finish(self) -> Result<()> {
        if self.phases < PHASES.len() {
            return Err(self.wrong("end", PHASES[self.phases].into(), "nothing".into()));
        }
        match self.buffers.iter().position(|&place| place == Place::Alive) {
            Some(buffer) => Err(self.wrong(
                "end",
                "every buffer freed, held or a gradient".into(),
                format!("buffer {buffer}, which is none of these"),
            )),
            None => Ok(()),
        }
    }

    fn wrong_event(&self, index: usize, expected: String, found: String) -> GraphError {
        self.wrong(&format!("event {index}"), expected, found)
    }

    fn wrong(&self, place: &str, expected: String, found: String) -> GraphError {
        let what = format!("{place} of the {} step record", self.record.precision.name());
        GraphError::OutOfRange { what, expected, found }
    }
}

#[cfg(test)]
mod tests;
