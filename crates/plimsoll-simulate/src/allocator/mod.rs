//! PyTorch's CUDA caching allocator, without the GPU.
//!
//! A framework keeps memory that its tensors gave back, so what a GPU shows is not the bytes alive but the bytes that
//! the allocator reserved: rounded, split and fragmented. The rules here are those of `c10/cuda/CUDACachingAllocator.cpp`
//! of PyTorch 2.x for one stream, without CUDA graphs and without the garbage collection threshold. Numbers stand in
//! `request.rs`, where memory comes from and goes to in `segments.rs` and `expandable.rs`.

mod blocks;
mod expandable;
mod free_list;
mod out_of_memory;
mod request;
mod segments;
#[cfg(test)]
mod tests;

use blocks::{Blocks, NONE, State};
use free_list::{FreeBlock, FreeList};
pub use out_of_memory::OutOfMemory;
use request::{LARGE_SEGMENT, MIN_BLOCK, Pool, Request, SMALL_LIMIT};

/// How much more than an oversize request a cached block may hold and still serve it
/// (`max_non_split_rounding_mb`).
const OVERSIZE_SLACK: u64 = 20 << 20;

/// Settings of the allocator, as `PYTORCH_CUDA_ALLOC_CONF` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AllocatorSettings {
    /// Bytes that may be reserved at once; without it the GPU is endless.
    pub capacity_bytes: Option<u64>,
    /// Whether one growing range a pool takes the place of separate segments.
    pub expandable_segments: bool,
    /// Size from which blocks are not split. PyTorch refuses less than 20 MiB, which is what smaller values count as.
    pub max_split_size_bytes: Option<u64>,
}

/// Memory handed out by a [`CachingAllocator`], to be given back to the same allocator once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Allocation(u32);

impl Allocation {
    /// What a request of zero bytes is answered with; freeing it does nothing.
    pub const NOTHING: Self = Self(NONE);
}

/// PyTorch's caching allocator over an imagined GPU.
#[derive(Debug, Clone)]
pub struct CachingAllocator {
    settings: AllocatorSettings,
    blocks: Blocks,
    /// Free blocks of the small and of the large pool.
    free: [FreeList; 2],
    /// Parts of the expandable ranges without memory behind them: (address, block), ascending.
    unmapped: [Vec<(u64, u32)>; 2],
    /// Where the next segment starts.
    next_address: u64,
    /// What a release goes through, kept between releases.
    scratch: Vec<FreeBlock>,
    usage: Usage,
}

/// What was counted since the last reset.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    reserved: u64,
    allocated: u64,
    peak_reserved: u64,
    peak_allocated: u64,
    retries: u64,
}

impl Usage {
    fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
        self.peak_reserved = self.peak_reserved.max(self.reserved);
    }
}

impl CachingAllocator {
    /// An allocator that holds nothing yet.
    pub fn new(settings: AllocatorSettings) -> Self {
        let mut allocator = Self {
            settings,
            blocks: Blocks::default(),
            free: [FreeList::default(), FreeList::default()],
            unmapped: [Vec::new(), Vec::new()],
            next_address: 0,
            scratch: Vec::new(),
            usage: Usage::default(),
        };
        allocator.reset();
        allocator
    }

    /// Back to an allocator that holds nothing and has counted nothing. Buffers are kept, so that replaying many steps
    /// through one allocator does not allocate. Allocations from before the reset must not be freed any more.
    pub fn reset(&mut self) {
        self.blocks.clear();
        self.free.iter_mut().for_each(FreeList::clear);
        self.unmapped.iter_mut().for_each(Vec::clear);
        self.next_address = 0;
        self.usage = Usage::default();
        if self.settings.expandable_segments {
            self.open_ranges();
        }
    }

    /// Hands out memory: from the best fitting free block, else from a new segment, else from a new segment after the
    /// cache was given back.
    pub fn allocate(&mut self, bytes: u64) -> Result<Allocation, OutOfMemory> {
        if bytes == 0 {
            return Ok(Allocation::NOTHING);
        }
        let place = Request::new(bytes).and_then(|request| {
            let at = self.best_fit(request).or_else(|| self.reserve_for(request))?;
            Some(self.take(request, at))
        });
        place.ok_or(OutOfMemory {
            requested_bytes: bytes,
            reserved_bytes: self.usage.reserved,
            allocated_bytes: self.usage.allocated,
            capacity_bytes: self.limit(),
        })
    }

    /// Takes memory back into the cache, merged with free neighbours of the same segment.
    pub fn free(&mut self, allocation: Allocation) {
        let index = allocation.0;
        if index == NONE {
            return;
        }
        let block = self.blocks[index];
        debug_assert!(block.state == State::Allocated, "an allocation is freed once, by the allocator that made it");
        if block.state != State::Allocated {
            return;
        }
        self.usage.allocated -= block.size;
        self.blocks[index].state = State::Free;
        let list = &mut self.free[block.pool as usize];
        let before = self.blocks.neighbour(block.prev, State::Free);
        let after = self.blocks.neighbour(block.next, State::Free);
        // A neighbour's entry is moved, not removed and inserted again: this is most of the work of a free.
        match (before, after) {
            (None, None) => list.insert(block.entry(index)),
            (Some(other), None) | (None, Some(other)) => {
                let at = list.position(self.blocks[other].entry(other));
                self.blocks.absorb(index, other);
                list.grow(at, self.blocks[index].entry(index));
            }
            (Some(before), Some(after)) => {
                list.remove(list.position(self.blocks[after].entry(after)));
                let at = list.position(self.blocks[before].entry(before));
                self.blocks.absorb(index, after);
                self.blocks.absorb(index, before);
                list.grow(at, self.blocks[index].entry(index));
            }
        }
    }

    /// Gives back to the GPU what is wholly free, as `torch.cuda.empty_cache` does.
    pub fn empty_cache(&mut self) {
        if self.settings.expandable_segments {
            self.unmap_free_pages();
        } else {
            self.release_free_segments();
        }
    }

    /// Bytes held from the GPU now.
    pub fn reserved_bytes(&self) -> u64 {
        self.usage.reserved
    }

    /// Bytes handed out now, rounding included.
    pub fn allocated_bytes(&self) -> u64 {
        self.usage.allocated
    }

    /// The most bytes held from the GPU at once.
    pub fn peak_reserved_bytes(&self) -> u64 {
        self.usage.peak_reserved
    }

    /// The most bytes handed out at once, rounding included.
    pub fn peak_allocated_bytes(&self) -> u64 {
        self.usage.peak_allocated
    }

    /// The largest block in the cache: with what the GPU has left, what cuDNN sees as room for a workspace.
    pub fn largest_free_bytes(&self) -> u64 {
        self.free.iter().filter_map(FreeList::largest).max().unwrap_or(0)
    }

    /// How often the cache was given back because a request did not fit (`num_alloc_retries`).
    pub fn retries(&self) -> u64 {
        self.usage.retries
    }

    /// Where the block that serves a request best stands in its pool's free list.
    fn best_fit(&self, request: Request) -> Option<usize> {
        let list = &self.free[request.pool as usize];
        let mut at = list.first_of_size(request.size)?;
        if self.settings.expandable_segments {
            at = self.least_expandable(list, at);
        }
        // Oversize blocks serve oversize requests of about their size only, for they are not split.
        let (max_split, block) = (self.max_split(), list.get(at).size);
        let usable = if request.size < max_split {
            block < max_split
        } else {
            block < request.size.saturating_add(OVERSIZE_SLACK)
        };
        usable.then_some(at)
    }

    /// Gets memory from the GPU; where the new free block stands in its pool's list.
    fn reserve_for(&mut self, request: Request) -> Option<usize> {
        if let Some(at) = self.extend(request) {
            return Some(at);
        }
        if self.release_oversize(request)
            && let Some(at) = self.extend(request)
        {
            return Some(at);
        }
        self.usage.retries += 1;
        self.empty_cache();
        self.extend(request)
    }

    fn extend(&mut self, request: Request) -> Option<usize> {
        if self.settings.expandable_segments { self.extend_range(request) } else { self.open_segment(request) }
    }

    /// Hands out the front of a free block, and leaves the rest free where it is worth splitting off.
    fn take(&mut self, request: Request, at: usize) -> Allocation {
        let FreeBlock { size, block, .. } = self.free[request.pool as usize].get(at);
        let is_split = self.splits(request, size - request.size);
        let list = &mut self.free[request.pool as usize];
        if is_split {
            let rest = self.blocks.split(block, request.size);
            list.shrink(at, self.blocks[rest].entry(rest));
        } else {
            list.remove(at);
        }
        let taken = &mut self.blocks[block];
        taken.state = State::Allocated;
        self.usage.allocated += taken.size;
        self.usage.peak_allocated = self.usage.peak_allocated.max(self.usage.allocated);
        Allocation(block)
    }

    fn splits(&self, request: Request, rest: u64) -> bool {
        if request.pool == Pool::Small || self.settings.expandable_segments {
            rest >= MIN_BLOCK
        } else {
            request.size < self.max_split() && rest > SMALL_LIMIT
        }
    }

    /// Whether the GPU has as many bytes more.
    fn has_room(&self, bytes: u64) -> bool {
        self.usage.reserved.checked_add(bytes).is_some_and(|reserved| reserved <= self.limit())
    }

    fn limit(&self) -> u64 {
        self.settings.capacity_bytes.unwrap_or(u64::MAX)
    }

    fn max_split(&self) -> u64 {
        self.settings.max_split_size_bytes.map_or(u64::MAX, |bytes| bytes.max(LARGE_SEGMENT))
    }
}
