//! Segments of fixed size, each from one `cudaMalloc`.

use super::CachingAllocator;
use super::blocks::{Block, State};
use super::free_list::FreeList;
use super::request::Request;

impl CachingAllocator {
    /// A new segment for a request; where it stands in its pool's free list.
    pub(super) fn open_segment(&mut self, request: Request) -> Option<usize> {
        // Addresses are not used again: after 2^64 bytes of segments there are none left.
        let end = self.next_address.checked_add(request.segment)?;
        if !self.has_room(request.segment) {
            return None;
        }
        self.usage.reserve(request.segment);
        let block = Block::whole(self.next_address, request.segment, request.pool, State::Free);
        self.next_address = end;
        let entry = block.entry(self.blocks.insert(block));
        let list = &mut self.free[request.pool as usize];
        list.insert(entry);
        Some(list.position(entry))
    }

    /// Gives back every segment that is wholly free.
    pub(super) fn release_free_segments(&mut self) {
        let Self { free, blocks, usage, .. } = self;
        for list in free {
            list.retain(|entry| {
                let is_kept = !blocks[entry.block].is_whole_segment();
                if !is_kept {
                    blocks.remove(entry.block);
                    usage.reserved -= entry.size;
                }
                is_kept
            });
        }
    }

    /// Gives back oversize segments, but only as many as a request needs: the smallest that is large enough, or else
    /// the largest ones. False where that is not enough.
    pub(super) fn release_oversize(&mut self, request: Request) -> bool {
        if self.settings.max_split_size_bytes.is_none() || self.settings.expandable_segments {
            return false;
        }
        let max_split = self.max_split();
        let wanted = request.size.max(max_split);
        let Self { free, blocks, usage, .. } = self;
        let list = &mut free[request.pool as usize];
        let mut release = |list: &mut FreeList, at: usize| {
            let entry = list.get(at);
            debug_assert!(blocks[entry.block].is_whole_segment(), "parts of a segment stay below the split limit");
            list.remove(at);
            blocks.remove(entry.block);
            usage.reserved -= entry.size;
            entry.size
        };
        if let Some(at) = list.first_of_size(wanted) {
            release(list, at);
            return true;
        }
        let (mut released, mut at) = (0, list.len());
        while released < wanted && at > 0 && list.get(at - 1).size >= max_split {
            at -= 1;
            released += release(list, at);
        }
        released >= wanted
    }
}
