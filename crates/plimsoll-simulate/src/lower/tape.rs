//! Recording events with reference counts, as a framework's tensors are held.

use plimsoll_graph::NodeId;

use crate::trace::{Buffer, BufferId, Convolution, Event, Role, StepTrace};

/// A trace being written.
#[derive(Debug, Default)]
pub(super) struct Tape {
    pub(super) trace: StepTrace,
    /// Owners of each buffer.
    owners: Vec<u32>,
    /// Whether autograd has kept a buffer, and whether the training loop holds it.
    is_saved: Vec<bool>,
    is_held: Vec<bool>,
    /// The node whose operator runs.
    pub(super) node: Option<NodeId>,
    live: u64,
}

impl Tape {
    /// A new buffer with one owner.
    pub(super) fn allocate(&mut self, bytes: u64, role: Role) -> BufferId {
        let id = BufferId(self.trace.buffers.len() as u32);
        self.trace.buffers.push(Buffer { bytes, role, node: self.node });
        self.owners.push(1);
        self.is_saved.push(false);
        self.is_held.push(false);
        self.live = self.live.saturating_add(bytes);
        self.trace.events.push(Event::Allocate(id));
        id
    }

    /// Part of a batch: what the step before had in its place goes first, and the loop holds the new one.
    pub(super) fn arrive(&mut self, bytes: u64) -> BufferId {
        self.trace.events.push(Event::DropPrevious(self.trace.held.len() as u32));
        let id = self.allocate(bytes, Role::Input);
        self.hold(id);
        self.release(id);
        id
    }

    /// One more owner.
    pub(super) fn retain(&mut self, id: BufferId) {
        self.owners[id.0 as usize] += 1;
    }

    /// One owner less; the last one frees.
    pub(super) fn release(&mut self, id: BufferId) {
        let owners = &mut self.owners[id.0 as usize];
        debug_assert!(*owners > 0, "released more often than retained");
        *owners -= 1;
        if *owners == 0 {
            self.live = self.live.saturating_sub(self.trace.bytes(id));
            self.trace.events.push(Event::Free(id));
        }
    }

    /// Whether nobody else holds the buffer.
    pub(super) fn is_sole_owner(&self, id: BufferId) -> bool {
        self.owners[id.0 as usize] == 1
    }

    /// A buffer that lives only here: allocated and freed at once.
    pub(super) fn touch(&mut self, bytes: u64) {
        if bytes > 0 {
            let id = self.allocate(bytes, Role::Temporary);
            self.release(id);
        }
    }

    /// The training loop keeps the buffer beyond the step, under a name that held something else before.
    pub(super) fn rebind(&mut self, id: BufferId) {
        let slot = self.trace.held.len() as u32;
        self.hold(id);
        if self.trace.held.len() as u32 > slot {
            self.trace.events.push(Event::DropPrevious(slot));
        }
    }

    /// The training loop keeps the buffer beyond the step.
    fn hold(&mut self, id: BufferId) {
        if !std::mem::replace(&mut self.is_held[id.0 as usize], true) {
            self.retain(id);
            self.trace.held.push(id);
        }
    }

    /// Notes that autograd keeps a buffer; whether it is the first time.
    pub(super) fn mark_saved(&mut self, id: BufferId) -> bool {
        !std::mem::replace(&mut self.is_saved[id.0 as usize], true)
    }

    pub(super) fn push(&mut self, event: Event) {
        self.trace.events.push(event);
    }

    pub(super) fn convolve(&mut self, convolution: Convolution) {
        let index = self.trace.convolutions.len() as u32;
        self.trace.convolutions.push(convolution);
        self.trace.events.push(Event::Convolve(index));
    }

    /// Bytes alive now.
    pub(super) const fn live(&self) -> u64 {
        self.live
    }
}
