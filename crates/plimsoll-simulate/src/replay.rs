//! A trace run through the allocator: weights, a few steps, the optimiser, workspaces.

use std::collections::HashSet;

use plimsoll_graph::{NodeId, Weight, WeightId, Workload};

use crate::allocator::{Allocation, AllocatorSettings, CachingAllocator, OutOfMemory};
use crate::ledger::{Ledger, Usage};
use crate::optimizer::{StepTemporaries, copies_gradients, parameter_bytes, state_bytes, temporaries};
use crate::prefetch::prefetched;
use crate::trace::{Buffer, BufferId, Convolution, Event, Role, StepTrace};
use crate::workspace::{WorkspaceBytes, Workspaces, convolution_bytes, cublas_bytes};

/// Steps of a full batch that are replayed before a smaller last one: optimiser states exist from the second on.
const STEPS: usize = 2;

/// What the allocator of a training job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replay {
    /// The most bytes that the allocator held from the GPU: what a GPU shows beside context and libraries.
    pub reserved_bytes: u64,
    /// The most bytes that it had handed out.
    pub allocated_bytes: u64,
    /// The largest workspace of a single convolution.
    pub largest_workspace_bytes: u64,
    /// How often the cache was given back because a request did not fit.
    pub retries: u64,
    /// Operations of those convolutions of a step that found no room for their workspace.
    pub starved_flops: u64,
    /// Set when the capacity did not suffice.
    pub out_of_memory: Option<OutOfMemory>,
}

/// A moment of the replay, handed to whoever watches.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Step, from 0.
    pub step: usize,
    /// What happens.
    pub phase: Phase,
    /// The node at work; none while a batch arrives, in the loss and in the optimiser.
    pub node: Option<NodeId>,
    /// The allocator after the event.
    pub allocator: &'a CachingAllocator,
    /// Whose the bytes are that it handed out.
    pub ledger: &'a Ledger,
}

impl<'a> Moment<'a> {
    /// Bytes handed out, by use.
    pub const fn usage(&self) -> &'a Usage {
        &self.ledger.usage
    }
}

/// Part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Weights are loaded, and the forward pass before training runs.
    Startup,
    /// Forward pass and loss.
    Forward,
    /// Backward pass.
    Backward,
    /// Optimiser.
    Optimizer,
}

impl Phase {
    /// The name shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
        }
    }
}

/// Replays a step of a workload under its own allocator settings, on a GPU of a capacity or an endless one.
pub fn replay(workload: &Workload, trace: &StepTrace, capacity_bytes: Option<u64>) -> Replay {
    replay_watched(workload, trace, capacity_bytes, |_| {})
}

/// As [`replay`], with other workspaces than the usual.
pub fn replay_with(
    workload: &Workload,
    trace: &StepTrace,
    capacity_bytes: Option<u64>,
    workspaces: Workspaces,
) -> Replay {
    run(workload, trace, capacity_bytes, workspaces, |_| {})
}

/// As [`replay`], telling every moment to a watcher. Of a job that runs out of memory the last one is that of the
/// request which failed.
pub fn replay_watched(
    workload: &Workload,
    trace: &StepTrace,
    capacity_bytes: Option<u64>,
    watch: impl FnMut(Moment<'_>),
) -> Replay {
    run(workload, trace, capacity_bytes, Workspaces::Smaller, watch)
}

fn run(
    workload: &Workload,
    trace: &StepTrace,
    capacity_bytes: Option<u64>,
    workspaces: Workspaces,
    watch: impl FnMut(Moment<'_>),
) -> Replay {
    let setup = workload.setup();
    let settings = AllocatorSettings {
        capacity_bytes,
        expandable_segments: setup.expandable_segments,
        max_split_size_bytes: setup.max_split_size_mib.map(|mib| mib << 20),
    };
    let mut run = Run {
        workload,
        workspaces,
        allocator: CachingAllocator::new(settings),
        gradients: vec![None; workload.graph().weights().len()],
        tried: HashSet::new(),
        has_handle: [false; 2],
        largest_workspace: 0,
        starved_flops: 0,
        ledger: Ledger::new(workload.graph()),
        step: 0,
        phase: Phase::Startup,
        node: None,
        watch,
    };
    let out_of_memory = run.training(trace).err();
    if out_of_memory.is_some() {
        run.look();
    }
    Replay {
        reserved_bytes: run.allocator.peak_reserved_bytes(),
        allocated_bytes: run.allocator.peak_allocated_bytes(),
        largest_workspace_bytes: run.largest_workspace,
        retries: run.allocator.retries(),
        starved_flops: run.starved_flops,
        out_of_memory,
    }
}

/// A training job in progress.
struct Run<'a, W> {
    workload: &'a Workload,
    workspaces: Workspaces,
    allocator: CachingAllocator,
    /// Gradients that stay between backward pass and `zero_grad`, by weight.
    gradients: Vec<Option<(Allocation, Buffer)>>,
    /// Convolutions that benchmark mode has tried.
    tried: HashSet<Convolution>,
    /// Whether the forward and the backward thread have a cuBLAS handle.
    has_handle: [bool; 2],
    largest_workspace: u64,
    /// Of the convolutions of this pass that went without their workspace.
    starved_flops: u64,
    ledger: Ledger,
    step: usize,
    phase: Phase,
    node: Option<NodeId>,
    watch: W,
}

type Step = std::result::Result<(), OutOfMemory>;

/// Temporaries of the optimiser, with their sizes.
type Temporaries = Vec<(Allocation, u64)>;

/// A trace with the workspaces of its convolutions.
struct Prepared<'t> {
    trace: &'t StepTrace,
    workspaces: Vec<WorkspaceBytes>,
    /// Where its buffers are, while a step runs.
    current: Vec<Allocation>,
}

impl<'t> Prepared<'t> {
    fn new(workload: &Workload, trace: &'t StepTrace, workspaces: Workspaces) -> Self {
        let workspaces = trace.convolutions.iter().map(|shape| convolution_bytes(workload, shape, workspaces));
        Self { trace, workspaces: workspaces.collect(), current: vec![Allocation::NOTHING; trace.buffers.len()] }
    }

    fn take(&mut self, id: BufferId) -> Allocation {
        std::mem::replace(&mut self.current[id.0 as usize], Allocation::NOTHING)
    }
}

/// What the training loop still holds of the step before.
type Held = Vec<Option<(Allocation, Buffer)>>;

impl<W: FnMut(Moment<'_>)> Run<'_, W> {
    fn training(&mut self, trace: &StepTrace) -> Step {
        let graph = self.workload.graph();
        for weight in graph.weights() {
            self.persist(parameter_bytes(self.workload, weight), |usage| &mut usage.weights)?;
        }
        self.startup()?;
        if self.workload.setup().prefetches {
            for bytes in prefetched(self.workload, trace) {
                self.persist(bytes, |usage| &mut usage.activations)?;
            }
        }
        let mut held = Held::new();
        let mut full = Prepared::new(self.workload, trace, self.workspaces);
        for step in 0..STEPS {
            self.step = step;
            self.train(&mut full, &mut held)?;
        }
        let Some(last_batch) = self.workload.setup().last_batch else { return Ok(()) };
        // Smaller tensors split what larger ones left, and the next epoch's have to find room again.
        let workload = self.at_batch(last_batch);
        let trace = crate::source::step_trace(&workload);
        self.step += 1;
        self.train(&mut Prepared::new(&workload, &trace, self.workspaces), &mut held)?;
        self.step += 1;
        self.train(&mut full, &mut held)
    }

    fn at_batch(&self, batch: u64) -> Workload {
        self.workload.at_batch(batch).expect("checked when the workload was built")
    }

    /// The forward pass that a layer-printing tool runs before training.
    fn startup(&mut self) -> Step {
        let Some(batch) = self.workload.setup().startup_batch else { return Ok(()) };
        let workload = self.at_batch(batch);
        let trace = crate::lower::lower_forward(&workload);
        self.events(&mut Prepared::new(&workload, &trace, self.workspaces), &mut Held::new(), false)
    }

    /// One step of the optimiser, with the micro-batches before it.
    fn train(&mut self, step: &mut Prepared<'_>, held: &mut Held) -> Step {
        // Later micro-batches repeat the second.
        for micro_batch in 0..self.workload.setup().gradient_accumulation.min(2) {
            self.phase = Phase::Forward;
            self.events(step, held, micro_batch == 0)?;
        }
        self.phase = Phase::Optimizer;
        self.node = None;
        self.look();
        self.optimizer(self.step == 0)
    }

    fn events(&mut self, step: &mut Prepared<'_>, held: &mut Held, zeroes: bool) -> Step {
        let trace = step.trace;
        self.node = None;
        self.starved_flops = 0;
        for event in &trace.events {
            match *event {
                Event::Allocate(id) if self.is_prefetched(trace.buffers[id.0 as usize]) => {}
                Event::Allocate(id) => {
                    let buffer = trace.buffers[id.0 as usize];
                    self.node = buffer.node;
                    step.current[id.0 as usize] = self.allocator.allocate(buffer.bytes)?;
                    self.ledger.take(buffer);
                }
                Event::Free(id) if self.is_prefetched(trace.buffers[id.0 as usize]) => {}
                Event::Free(id) => self.give_back(step.take(id), trace.buffers[id.0 as usize]),
                Event::DropPrevious(slot) => {
                    let dropped = held.get_mut(slot as usize).and_then(Option::take);
                    if let Some((allocation, buffer)) = dropped.filter(|(_, buffer)| !self.is_prefetched(*buffer)) {
                        self.give_back(allocation, buffer);
                    }
                }
                Event::ZeroGrad if zeroes && !self.workload.setup().keeps_gradients => self.drop_gradients(),
                Event::ZeroGrad => {}
                Event::Accumulate(id, weight) => {
                    self.accumulate(step.take(id), trace.buffers[id.0 as usize], weight);
                }
                Event::Convolve(index) => {
                    self.convolve(trace.convolutions[index as usize], step.workspaces[index as usize]);
                }
                Event::Multiply => self.multiply()?,
                Event::Backward => self.phase = Phase::Backward,
            }
            self.look();
        }
        held.clear();
        for &id in &trace.held {
            held.push(Some((step.take(id), trace.buffers[id.0 as usize])));
        }
        Ok(())
    }

    /// Whether a buffer is part of a batch that the loader has set aside already.
    fn is_prefetched(&self, buffer: Buffer) -> bool {
        self.phase != Phase::Startup && self.workload.setup().prefetches && buffer.role == Role::Input
    }

    fn look(&mut self) {
        (self.watch)(Moment {
            step: self.step,
            phase: self.phase,
            node: self.node,
            allocator: &self.allocator,
            ledger: &self.ledger,
        });
    }

    fn give_back(&mut self, allocation: Allocation, buffer: Buffer) {
        self.allocator.free(allocation);
        self.ledger.give_back(buffer);
    }

    /// Memory that is never given back.
    fn persist(&mut self, bytes: u64, part: fn(&mut Usage) -> &mut u64) -> Step {
        let _ = self.allocator.allocate(bytes)?;
        *part(&mut self.ledger.usage) += bytes;
        self.look();
        Ok(())
    }

    /// The first gradient of a weight stays; a later one is added to it and goes.
    fn accumulate(&mut self, gradient: Allocation, buffer: Buffer, weight: WeightId) {
        let slot = &mut self.gradients[weight.0 as usize];
        if slot.is_none() {
            *slot = Some((gradient, buffer));
        } else {
            self.give_back(gradient, buffer);
        }
    }

    fn drop_gradients(&mut self) {
        for slot in 0..self.gradients.len() {
            if let Some((gradient, buffer)) = self.gradients[slot].take() {
                self.give_back(gradient, buffer);
            }
        }
    }

    /// The first product on a thread creates its handle, whose workspace stays.
    fn multiply(&mut self) -> Step {
        let thread = usize::from(self.phase == Phase::Backward);
        if std::mem::replace(&mut self.has_handle[thread], true) {
            return Ok(());
        }
        self.persist(cublas_bytes(self.workload.gpu()), |usage| &mut usage.workspaces)
    }

    /// Without room for its workspace a convolution falls back to an algorithm that needs none.
    fn convolve(&mut self, shape: Convolution, bytes: WorkspaceBytes) {
        if self.workload.setup().cudnn_benchmark && self.tried.insert(shape) {
            self.benchmark(bytes.largest);
        }
        if !self.workspace(bytes.first) {
            self.starved_flops = self.starved_flops.saturating_add(shape.flops());
        }
    }

    /// Trying the algorithms for a new shape, PyTorch takes the largest workspace, or half of it until it fits, and
    /// empties its cache when it is done. Which one is the fastest nobody knows beforehand.
    fn benchmark(&mut self, largest: u64) {
        let mut bytes = largest;
        while bytes > 0 && !self.workspace(bytes) {
            bytes /= 2;
        }
        self.allocator.empty_cache();
    }

    /// Takes a workspace and gives it back; false without room for it.
    fn workspace(&mut self, bytes: u64) -> bool {
        self.largest_workspace = self.largest_workspace.max(bytes);
        if bytes == 0 {
            return true;
        }
        let Ok(workspace) = self.allocator.allocate(bytes) else { return false };
        self.ledger.usage.workspaces += bytes;
        self.look();
        self.allocator.free(workspace);
        self.ledger.usage.workspaces -= bytes;
        true
    }

    fn optimizer(&mut self, is_first: bool) -> Step {
        let workload = self.workload;
        // The optimiser passes over parameters that no gradient reached, such as those of an unused head.
        let trained: Vec<&Weight> = workload
            .graph()
            .weights()
            .iter()
            .zip(&self.gradients)
            .filter(|(_, gradient)| gradient.is_some())
            .map(|(weight, _)| weight)
            .collect();
        let sizes = || trained.iter().map(|weight| parameter_bytes(workload, weight));
        let decayed = if copies_gradients(workload.setup()) { self.take_together(sizes())? } else { Vec::new() };
        if is_first {
            for bytes in trained.iter().flat_map(|weight| state_bytes(workload, weight)).filter(|&bytes| bytes > 0) {
                self.persist(bytes, |usage| &mut usage.optimizer)?;
            }
        }
        match temporaries(workload.setup().optimizer) {
            StepTemporaries::None => {}
            StepTemporaries::Together => {
                let taken = self.take_together(sizes())?;
                self.give_back_together(taken);
            }
            StepTemporaries::InTurn(count) => {
                for bytes in sizes() {
                    let taken = self.take_together(std::iter::repeat_n(bytes, count as usize))?;
                    self.give_back_together(taken);
                }
            }
        }
        self.give_back_together(decayed);
        Ok(())
    }

    /// Temporaries that are alive at the same time, with their sizes.
    fn take_together(&mut self, sizes: impl Iterator<Item = u64>) -> std::result::Result<Temporaries, OutOfMemory> {
        let mut taken = Temporaries::new();
        for bytes in sizes {
            taken.push((self.allocator.allocate(bytes)?, bytes));
            self.ledger.usage.temporaries += bytes;
            self.look();
        }
        Ok(taken)
    }

    fn give_back_together(&mut self, taken: Temporaries) {
        if taken.is_empty() {
            return;
        }
        for (allocation, bytes) in taken {
            self.allocator.free(allocation);
            self.ledger.usage.temporaries -= bytes;
        }
        self.look();
    }
}
