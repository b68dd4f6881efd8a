//! Step records as they stand in a file: lists of small numbers.

use serde::{Deserialize, Serialize};

use crate::error::{GraphError, Result};
use crate::graph::{NodeId, WeightId};
use crate::setup::{Loss, Precision};
use crate::step_record::{ConvolutionPass, RecordedEvent, Size, StepRecord};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    precision: Precision,
    loss: Loss,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    exact: bool,
    sizes: Vec<[u64; 2]>,
    events: Vec<RawEvent>,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_yes(value: &bool) -> bool {
    *value
}

/// A code and what belongs to it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RawEvent {
    Pair([u32; 2]),
    One([u32; 1]),
    Triple([u32; 3]),
    Quadruple([u32; 4]),
}

impl RawStep {
    /// The record; `order` tells where the graph put each node of the file.
    pub(super) fn parse(self, what: &str, number: usize, order: &[NodeId]) -> Result<StepRecord> {
        let event = |(index, event): (usize, &RawEvent)| {
            event.parse(order).map_err(|(expected, found)| GraphError::Malformed {
                what: what.into(),
                at: format!("event {index} of step record {number}"),
                expected,
                found,
            })
        };
        Ok(StepRecord {
            precision: self.precision,
            loss: self.loss,
            is_exact: self.exact,
            sizes: self.sizes.iter().map(|&[fixed, per_sample]| Size { fixed, per_sample }).collect(),
            events: self.events.iter().enumerate().map(event).collect::<Result<_>>()?,
        })
    }

    pub(super) fn from_record(record: &StepRecord) -> Self {
        Self {
            precision: record.precision,
            loss: record.loss,
            exact: record.is_exact,
            sizes: record.sizes.iter().map(|size| [size.fixed, size.per_sample]).collect(),
            events: record.events.iter().copied().map(RawEvent::from_event).collect(),
        }
    }
}

impl RawEvent {
    fn parse(&self, order: &[NodeId]) -> Result<RecordedEvent, (String, String)> {
        let numbers: &[u32] = match self {
            Self::One(numbers) => numbers,
            Self::Pair(numbers) => numbers,
            Self::Triple(numbers) => numbers,
            Self::Quadruple(numbers) => numbers,
        };
        Ok(match *numbers {
            [0, size] => RecordedEvent::Allocate(size),
            [1, buffer] => RecordedEvent::Free(buffer),
            [2] => RecordedEvent::Node(None),
            [2, node] => match order.get(node as usize) {
                Some(&id) => RecordedEvent::Node(Some(id)),
                None => return Err((format!("a node below {}", order.len()), node.to_string())),
            },
            [3, buffer, weight] => RecordedEvent::Accumulate(buffer, WeightId(weight)),
            [4, 0] => RecordedEvent::Convolve(ConvolutionPass::Forward),
            [4, 1] => RecordedEvent::Convolve(ConvolutionPass::DataGradient),
            [4, 2] => RecordedEvent::Convolve(ConvolutionPass::FilterGradient),
            [5] => RecordedEvent::Multiply,
            [6, rows, columns] => RecordedEvent::Sum(rows, columns),
            [7, buffer] => RecordedEvent::Hold(buffer),
            [8] => RecordedEvent::ZeroGrad,
            [9] => RecordedEvent::Loss,
            [10] => RecordedEvent::Backward,
            [11, indices, rows, columns] => RecordedEvent::Scatter(indices, rows, columns),
            _ => return Err(("an event as in docs/graph-format.md".into(), format!("{numbers:?}"))),
        })
    }

    const fn from_event(event: RecordedEvent) -> Self {
        match event {
            RecordedEvent::Allocate(size) => Self::Pair([0, size]),
            RecordedEvent::Free(buffer) => Self::Pair([1, buffer]),
            RecordedEvent::Node(None) => Self::One([2]),
            RecordedEvent::Node(Some(id)) => Self::Pair([2, id.0]),
            RecordedEvent::Accumulate(buffer, weight) => Self::Triple([3, buffer, weight.0]),
            RecordedEvent::Convolve(ConvolutionPass::Forward) => Self::Pair([4, 0]),
            RecordedEvent::Convolve(ConvolutionPass::DataGradient) => Self::Pair([4, 1]),
            RecordedEvent::Convolve(ConvolutionPass::FilterGradient) => Self::Pair([4, 2]),
            RecordedEvent::Multiply => Self::One([5]),
            RecordedEvent::Sum(rows, columns) => Self::Triple([6, rows, columns]),
            RecordedEvent::Hold(buffer) => Self::Pair([7, buffer]),
            RecordedEvent::ZeroGrad => Self::One([8]),
            RecordedEvent::Loss => Self::One([9]),
            RecordedEvent::Backward => Self::One([10]),
            RecordedEvent::Scatter(indices, rows, columns) => Self::Quadruple([11, indices, rows, columns]),
        }
    }
}
