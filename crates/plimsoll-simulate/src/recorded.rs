//! A recorded step at a workload's batch, as events that can be replayed.

use plimsoll_graph::{ConvolutionPass, NodeId, Precision, RecordedEvent, Size, StepRecord, Workload};

use crate::lower::{Sorting, convolution, sum_buffer_bytes};
use crate::trace::{Buffer, BufferId, Direction, Event, NodeMemory, Role, StepTrace};

/// The memory events of a record of the workload's graph. Linear in the record.
pub fn recorded_trace(workload: &Workload, record: &StepRecord) -> StepTrace {
    let fates = fates(record);
    let mut reading = Reading {
        workload,
        record,
        trace: StepTrace { nodes: vec![NodeMemory::default(); workload.graph().nodes().len()], ..StepTrace::default() },
        buffers: Vec::with_capacity(fates.len()),
        live: Vec::with_capacity(fates.len()),
        node: None,
        phase: Phase::Batch,
        scattering: None,
    };
    for event in &record.events {
        reading.apply(*event, &fates);
    }
    reading.trace
}

/// What will become of a buffer, which tells what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Part of the batch, with its place among what the loop holds.
    Batch(u32),
    /// The gradient of a weight.
    Gradient,
    /// Freed while the node still runs that asked for it.
    Temporary,
    /// Anything else.
    Lives,
}

fn fates(record: &StepRecord) -> Vec<Fate> {
    let mut fates = Vec::new();
    let mut born_in = Vec::new();
    let (mut run, mut held, mut is_batch) = (0_u32, 0, true);
    for event in &record.events {
        match *event {
            RecordedEvent::Allocate(_) => {
                fates.push(Fate::Lives);
                born_in.push(run);
            }
            RecordedEvent::Free(buffer) if born_in[buffer as usize] == run => fates[buffer as usize] = Fate::Temporary,
            RecordedEvent::Accumulate(buffer, _) => fates[buffer as usize] = Fate::Gradient,
            RecordedEvent::Hold(buffer) => {
                if is_batch {
                    fates[buffer as usize] = Fate::Batch(held);
                }
                held += 1;
            }
            RecordedEvent::Node(_) | RecordedEvent::Loss | RecordedEvent::Backward => run += 1,
            RecordedEvent::ZeroGrad => is_batch = false,
            _ => {}
        }
    }
    fates
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Batch,
    Forward,
    Loss,
    Backward,
}

struct Reading<'a> {
    workload: &'a Workload,
    record: &'a StepRecord,
    trace: StepTrace,
    /// The trace's buffers by the record's numbers, and whether each is alive.
    buffers: Vec<BufferId>,
    live: Vec<bool>,
    node: Option<NodeId>,
    phase: Phase,
    /// What sorts the indices of the table whose gradient comes next, and what of it is alive.
    scattering: Option<(Sorting, Vec<BufferId>)>,
}

impl Reading<'_> {
    fn apply(&mut self, event: RecordedEvent, fates: &[Fate]) {
        match event {
            RecordedEvent::Allocate(size) => {
                let fate = fates[self.buffers.len()];
                if let Fate::Batch(place) = fate {
                    // What the step before had in its place goes first.
                    self.trace.events.push(Event::DropPrevious(place));
                }
                let id = self.allocate(self.size(size), self.role(fate));
                self.buffers.push(id);
                self.live.push(true);
                self.end_scattering();
                if self.phase == Phase::Forward
                    && fate == Fate::Lives
                    && let Some(node) = self.node
                {
                    self.trace.nodes[node.0 as usize].output_bytes += self.trace.bytes(id);
                }
            }
            RecordedEvent::Free(buffer) => {
                self.live[buffer as usize] = false;
                self.trace.events.push(Event::Free(self.buffers[buffer as usize]));
            }
            RecordedEvent::Accumulate(buffer, weight) => {
                self.live[buffer as usize] = false;
                self.trace.events.push(Event::Accumulate(self.buffers[buffer as usize], weight));
            }
            RecordedEvent::Hold(buffer) => {
                if !matches!(fates[buffer as usize], Fate::Batch(_)) {
                    self.trace.events.push(Event::DropPrevious(self.trace.held.len() as u32));
                }
                self.trace.held.push(self.buffers[buffer as usize]);
            }
            RecordedEvent::Node(node) => self.node = node,
            RecordedEvent::Convolve(pass) => self.convolve(pass),
            RecordedEvent::Multiply => self.trace.events.push(Event::Multiply),
            RecordedEvent::Scatter(indices, rows, columns) => {
                self.start_scattering(Sorting::of(self.size(indices), self.size(rows), self.size(columns)));
            }
            RecordedEvent::Sum(rows, columns) => {
                let bytes = sum_buffer_bytes(self.workload.gpu(), self.size(rows), self.size(columns));
                if bytes > 0 {
                    let id = self.allocate(bytes, Role::Temporary);
                    self.trace.events.push(Event::Free(id));
                }
            }
            RecordedEvent::ZeroGrad => {
                self.trace.events.push(Event::ZeroGrad);
                self.phase = Phase::Forward;
            }
            RecordedEvent::Loss => {
                self.node = None;
                self.phase = Phase::Loss;
            }
            RecordedEvent::Backward => self.start_backward(),
        }
    }

    fn start_scattering(&mut self, sorting: Option<Sorting>) {
        let Some(sorting) = sorting else { return };
        let held = sorting.before.map(|bytes| self.allocate(bytes, Role::Temporary));
        let counting = self.allocate(sorting.counting, Role::Temporary);
        self.trace.events.push(Event::Free(counting));
        self.scattering = Some((sorting, held.to_vec()));
    }

    fn end_scattering(&mut self) {
        let Some((sorting, mut held)) = self.scattering.take() else { return };
        held.extend(sorting.after.map(|bytes| self.allocate(bytes, Role::Temporary)));
        self.trace.events.extend(held.into_iter().map(Event::Free));
    }

    fn size(&self, place: u32) -> u64 {
        let size: Size = self.record.sizes[place as usize];
        size.at(self.workload.setup().batch_size).expect("checked when the workload was built")
    }

    fn allocate(&mut self, bytes: u64, role: Role) -> BufferId {
        let id = BufferId(self.trace.buffers.len() as u32);
        self.trace.buffers.push(Buffer { bytes, role, node: self.node });
        self.trace.events.push(Event::Allocate(id));
        id
    }

    const fn role(&self, fate: Fate) -> Role {
        match (fate, self.phase) {
            (Fate::Batch(_), _) | (_, Phase::Batch) => Role::Input,
            (Fate::Gradient, _) => Role::Gradient,
            (Fate::Temporary, Phase::Forward | Phase::Backward) => Role::Temporary,
            (_, Phase::Forward) => Role::Activation,
            (_, Phase::Loss) => Role::Loss,
            (_, Phase::Backward) => Role::ActivationGradient,
        }
    }

    fn convolve(&mut self, pass: ConvolutionPass) {
        let direction = match pass {
            ConvolutionPass::Forward => Direction::Forward,
            ConvolutionPass::DataGradient => Direction::DataGradient,
            ConvolutionPass::FilterGradient => Direction::FilterGradient,
        };
        let element_bytes = match self.record.precision {
            Precision::Fp32 | Precision::Tf32 => 4,
            Precision::AmpFp16 | Precision::AmpBf16 | Precision::Bf16 => 2,
        };
        let node = self.node.map(|id| &self.workload.graph().nodes()[id.0 as usize]);
        let shape = node.and_then(|node| convolution(self.workload, node, direction, element_bytes));
        if let Some(shape) = shape {
            self.trace.events.push(Event::Convolve(self.trace.convolutions.len() as u32));
            self.trace.convolutions.push(shape);
        }
    }

    /// What is alive now is what autograd has saved, and what the loop holds.
    fn start_backward(&mut self) {
        for (&id, _) in self.buffers.iter().zip(&self.live).filter(|(_, is_live)| **is_live) {
            let buffer = self.trace.buffers[id.0 as usize];
            self.trace.saved_bytes += buffer.bytes;
            if let Some(node) = buffer.node {
                self.trace.nodes[node.0 as usize].saved_bytes += buffer.bytes;
            }
        }
        self.node = None;
        self.phase = Phase::Backward;
        self.trace.events.push(Event::Backward);
    }
}
