//! Expandable segments: one range of addresses a pool, with memory mapped behind whole pages of it.
//!
//! PyTorch opens a further range once one of 9/8 of the GPU's memory is full of holes; here a range is endless.

use super::CachingAllocator;
use super::blocks::{Block, NONE, State};
use super::free_list::FreeList;
use super::request::{Pool, Request};

impl CachingAllocator {
    /// Starts both ranges, without memory.
    pub(super) fn open_ranges(&mut self) {
        for pool in Pool::ALL {
            let size = u64::MAX / pool.page() * pool.page();
            let block = self.blocks.insert(Block::whole(0, size, pool, State::Unmapped));
            self.unmapped[pool as usize].push((0, block));
        }
    }

    /// From the best fit on, the block that could grow least: PyTorch counts the addresses after a block as a part of
    /// it, which keeps the end of the range for what fits nowhere else.
    pub(super) fn least_expandable(&self, list: &FreeList, mut at: usize) -> usize {
        let expandable_size = |at: usize| {
            let block = self.blocks[list.get(at).block];
            let gap = self.blocks.neighbour(block.next, State::Unmapped);
            block.size.saturating_add(gap.map_or(0, |gap| self.blocks[gap].size))
        };
        while at + 1 < list.len() && expandable_size(at + 1) < expandable_size(at) {
            at += 1;
        }
        at
    }

    /// Maps memory for a request at the lowest address with room, next to what is free there already; where the free
    /// block stands in its pool's list. Memory that was mapped before the GPU ran full stays mapped.
    pub(super) fn extend_range(&mut self, request: Request) -> Option<usize> {
        let mut block = self.lowest_room(request)?;
        if self.blocks[block].state == State::Unmapped {
            self.map(block, request.size.min(self.blocks[block].size))?;
        }
        while self.blocks[block].size < request.size {
            let missing = request.size - self.blocks[block].size;
            let gap = self.blocks[block].next;
            self.map(gap, missing.min(self.blocks[gap].size))?;
            block = gap;
        }
        Some(self.free[request.pool as usize].position(self.blocks[block].entry(block)))
    }

    /// Unmaps every page that is wholly free.
    pub(super) fn unmap_free_pages(&mut self) {
        let mut entries = std::mem::take(&mut self.scratch);
        for pool in Pool::ALL {
            entries.clear();
            entries.extend_from_slice(self.free[pool as usize].as_slice());
            for entry in &entries {
                self.unmap(entry.block);
            }
        }
        self.scratch = entries;
    }

    /// The lowest block from which on free and unmapped blocks hold a request.
    fn lowest_room(&self, request: Request) -> Option<u32> {
        self.unmapped[request.pool as usize].iter().find_map(|&(_, gap)| {
            let start = self.blocks.neighbour(self.blocks[gap].prev, State::Free).unwrap_or(gap);
            let (mut room, mut index) = (0_u64, start);
            while room < request.size && index != NONE && self.blocks[index].state != State::Allocated {
                room = room.saturating_add(self.blocks[index].size);
                index = self.blocks[index].next;
            }
            (room >= request.size).then_some(start)
        })
    }

    /// Maps pages for the first `bytes` of an unmapped block, which becomes free and takes in its free neighbours.
    fn map(&mut self, index: u32, bytes: u64) -> Option<()> {
        let block = self.blocks[index];
        // Ranges and holes are whole pages, so that rounding up stays within the block.
        let mapped = bytes.next_multiple_of(block.pool.page());
        if !self.has_room(mapped) {
            return None;
        }
        self.usage.reserve(mapped);
        self.forget_unmapped(index);
        if mapped < block.size {
            let rest = self.blocks.split(index, mapped);
            self.remember_unmapped(rest);
        }
        self.blocks[index].state = State::Free;
        for link in [block.prev, self.blocks[index].next] {
            if let Some(other) = self.blocks.neighbour(link, State::Free) {
                let list = &mut self.free[block.pool as usize];
                list.remove(list.position(self.blocks[other].entry(other)));
                self.blocks.absorb(index, other);
            }
        }
        self.free[block.pool as usize].insert(self.blocks[index].entry(index));
        Some(())
    }

    /// Unmaps the whole pages of a free block; what it has of pages in use stays free.
    fn unmap(&mut self, index: u32) {
        let block = self.blocks[index];
        let page = block.pool.page();
        let start = block.address.next_multiple_of(page);
        let end = (block.address + block.size) / page * page;
        if start >= end {
            return;
        }
        let list = &mut self.free[block.pool as usize];
        list.remove(list.position(block.entry(index)));
        let mut middle = index;
        if start > block.address {
            middle = self.blocks.split(index, start - block.address);
            list.insert(self.blocks[index].entry(index));
        }
        if end - start < self.blocks[middle].size {
            let rest = self.blocks.split(middle, end - start);
            list.insert(self.blocks[rest].entry(rest));
        }
        self.usage.reserved -= end - start;
        self.blocks[middle].state = State::Unmapped;
        for link in [self.blocks[middle].prev, self.blocks[middle].next] {
            if let Some(other) = self.blocks.neighbour(link, State::Unmapped) {
                self.forget_unmapped(other);
                self.blocks.absorb(middle, other);
            }
        }
        self.remember_unmapped(middle);
    }

    fn remember_unmapped(&mut self, index: u32) {
        let Block { address, pool, .. } = self.blocks[index];
        let gaps = &mut self.unmapped[pool as usize];
        let at = gaps.partition_point(|gap| gap.0 < address);
        gaps.insert(at, (address, index));
    }

    fn forget_unmapped(&mut self, index: u32) {
        let Block { address, pool, .. } = self.blocks[index];
        let gaps = &mut self.unmapped[pool as usize];
        let at = gaps.partition_point(|gap| gap.0 < address);
        debug_assert!(gaps[at] == (address, index), "every hole of a range is listed");
        gaps.remove(at);
    }
}
