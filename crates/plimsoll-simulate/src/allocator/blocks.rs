//! The blocks that segments consist of, linked in order of address.

use std::ops::{Index, IndexMut};

use super::free_list::FreeBlock;
use super::request::Pool;

/// The index of no block.
pub(super) const NONE: u32 = u32::MAX;

/// What a block is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Allocated,
    /// Addresses of an expandable range without memory behind them.
    Unmapped,
    /// An entry of the slab that waits for its next use.
    Vacant,
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) address: u64,
    pub(super) size: u64,
    /// The block before it in its segment, or [`NONE`].
    pub(super) prev: u32,
    /// The block after it in its segment, or [`NONE`].
    pub(super) next: u32,
    pub(super) pool: Pool,
    pub(super) state: State,
}

impl Block {
    /// A segment in one piece.
    pub(super) const fn whole(address: u64, size: u64, pool: Pool, state: State) -> Self {
        Self { address, size, prev: NONE, next: NONE, pool, state }
    }

    pub(super) const fn is_whole_segment(&self) -> bool {
        self.prev == NONE && self.next == NONE
    }

    /// The line of a free list for it.
    pub(super) const fn entry(&self, index: u32) -> FreeBlock {
        FreeBlock { size: self.size, address: self.address, block: index }
    }
}

/// A slab of blocks; indices of removed blocks are used again.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// First of the vacant entries, which are linked by `next`.
    vacant: u32,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { blocks: Vec::new(), vacant: NONE }
    }
}

impl Blocks {
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.vacant = NONE;
    }

    pub(super) fn insert(&mut self, block: Block) -> u32 {
        if self.vacant == NONE {
            self.blocks.push(block);
            return (self.blocks.len() - 1) as u32;
        }
        let index = self.vacant;
        self.vacant = self[index].next;
        self[index] = block;
        index
    }

    pub(super) fn remove(&mut self, index: u32) {
        self[index].state = State::Vacant;
        self[index].next = self.vacant;
        self.vacant = index;
    }

    /// A neighbour, if there is one and it is in that state.
    pub(super) fn neighbour(&self, link: u32, state: State) -> Option<u32> {
        (link != NONE && self[link].state == state).then_some(link)
    }

    /// Cuts a block after `size` bytes; the index of the rest, which is in the same state.
    pub(super) fn split(&mut self, index: u32, size: u64) -> u32 {
        let block = self[index];
        let rest = self.insert(Block { address: block.address + size, size: block.size - size, prev: index, ..block });
        self[index].size = size;
        self[index].next = rest;
        if block.next != NONE {
            self[block.next].prev = rest;
        }
        rest
    }

    /// Joins `other`, a neighbour of `index`, to it.
    pub(super) fn absorb(&mut self, index: u32, other: u32) {
        let absorbed = self[other];
        self[index].size += absorbed.size;
        if absorbed.next == index {
            self[index].address = absorbed.address;
            self[index].prev = absorbed.prev;
            if absorbed.prev != NONE {
                self[absorbed.prev].next = index;
            }
        } else {
            self[index].next = absorbed.next;
            if absorbed.next != NONE {
                self[absorbed.next].prev = index;
            }
        }
        self.remove(other);
    }
}

impl Index<u32> for Blocks {
    type Output = Block;

    fn index(&self, index: u32) -> &Block {
        &self.blocks[index as usize]
    }
}

impl IndexMut<u32> for Blocks {
    fn index_mut(&mut self, index: u32) -> &mut Block {
        &mut self.blocks[index as usize]
    }
}
