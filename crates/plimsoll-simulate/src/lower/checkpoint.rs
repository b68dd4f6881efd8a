//! Activation checkpointing: segments whose activations are computed again in the backward pass.

use plimsoll_graph::{Graph, TensorId};

use super::Lowering;
use crate::trace::BufferId;

/// The checkpointed segments of a graph: runs of nodes, in order.
#[derive(Debug, Default)]
pub(super) struct Segments(Vec<Segment>);

/// Nodes `start..end`.
#[derive(Debug, Clone)]
struct Segment {
    start: usize,
    end: usize,
    /// What its nodes read that was computed outside.
    inputs: Vec<TensorId>,
    /// The storages of these, kept from the forward to the backward pass.
    kept: Vec<(TensorId, BufferId)>,
}

impl Segments {
    /// One segment for each repeated block: consecutive nodes whose names agree up to their first number, such as
    /// `encoder.layer.3` or `blocks.7`. Nodes without a number stay outside, as they do in the frameworks' own
    /// switches, which wrap the layers of a stack.
    pub(super) fn of(graph: &Graph) -> Self {
        let mut segments: Vec<Segment> = Vec::new();
        let mut current: Option<&str> = None;
        for (index, node) in graph.nodes().iter().enumerate() {
            let block = block(&node.name);
            match segments.last_mut() {
                Some(segment) if block.is_some() && block == current => segment.end = index + 1,
                _ if block.is_some() => {
                    segments.push(Segment { start: index, end: index + 1, inputs: Vec::new(), kept: Vec::new() });
                }
                _ => {}
            }
            current = block;
        }
        // A segment of one node saves nothing.
        segments.retain(|segment| segment.end - segment.start > 1);
        let mut computed_in = vec![usize::MAX; graph.tensors().len()];
        for (number, segment) in segments.iter_mut().enumerate() {
            for node in &graph.nodes()[segment.start..segment.end] {
                for &id in &node.inputs {
                    if std::mem::replace(&mut computed_in[id.0 as usize], number) != number {
                        segment.inputs.push(id);
                    }
                }
                for &id in &node.outputs {
                    computed_in[id.0 as usize] = number;
                }
            }
        }
        Self(segments)
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        let position = self.0.partition_point(|segment| segment.end <= index);
        self.0.get(position).is_some_and(|segment| segment.start <= index)
    }
}

/// A name up to and with its first number.
fn block(name: &str) -> Option<&str> {
    let mut end = 0;
    for part in name.split('.') {
        end += part.len();
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(&name[..end]);
        }
        end += 1;
    }
    None
}

impl Lowering<'_> {
    /// At the first node of a segment, keeps what the segment will be computed from again.
    pub(super) fn enter(&mut self, index: usize) {
        let position = self.segments.0.partition_point(|segment| segment.start < index);
        let Some(segment) = self.segments.0.get_mut(position).filter(|segment| segment.start == index) else { return };
        for &id in &segment.inputs {
            if let Some(buffer) = self.values[id.0 as usize] {
                self.tape.retain(buffer);
                segment.kept.push((id, buffer));
            }
        }
    }

    /// When the backward pass comes to the end of a segment: runs it again, keeping what its nodes need.
    pub(super) fn recompute_ending_at(&mut self, index: usize) {
        let position = self.segments.0.partition_point(|segment| segment.end <= index);
        let Some(segment) = self.segments.0.get_mut(position).filter(|segment| segment.end == index + 1) else {
            return;
        };
        let (start, end) = (segment.start, segment.end);
        for (id, buffer) in std::mem::take(&mut segment.kept) {
            self.values[id.0 as usize] = Some(buffer);
        }
        let nodes = &self.workload.graph().nodes()[start..end];
        for id in nodes.iter().flat_map(|node| &node.inputs) {
            self.readers[id.0 as usize] += 1;
        }
        for (offset, node) in nodes.iter().enumerate() {
            self.forward(start + offset, node, true);
        }
        // Autocast is entered and left once more.
        self.release_weight_casts();
    }
}
