//! Any sequence of requests and frees: the counts must stay consistent, and all of it must come back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_simulate::{Allocation, AllocatorSettings, CachingAllocator};

fuzz_target!(|input: (bool, Option<u32>, Vec<(bool, u32, u8)>)| {
    let (expandable_segments, capacity, requests) = input;
    let mut allocator = CachingAllocator::new(AllocatorSettings {
        capacity_bytes: capacity.map(u64::from),
        expandable_segments,
        max_split_size_bytes: None,
    });
    let mut alive: Vec<Allocation> = Vec::new();
    for (frees, bytes, shift) in requests {
        if frees {
            if !alive.is_empty() {
                let index = bytes as usize % alive.len();
                allocator.free(alive.swap_remove(index));
            }
        } else if let Ok(allocation) = allocator.allocate(u64::from(bytes) << (shift % 20)) {
            alive.push(allocation);
        }
        assert!(allocator.allocated_bytes() <= allocator.reserved_bytes());
    }
    for allocation in alive {
        allocator.free(allocation);
    }
    allocator.empty_cache();
    assert_eq!((allocator.allocated_bytes(), allocator.reserved_bytes()), (0, 0));
});
