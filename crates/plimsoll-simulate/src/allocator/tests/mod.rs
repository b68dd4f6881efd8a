//! Each rule with numbers, and two jobs worked out by hand.

mod properties;
mod reference;
mod speed;

use super::{Allocation, AllocatorSettings, CachingAllocator, OutOfMemory};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn allocator() -> CachingAllocator {
    CachingAllocator::new(AllocatorSettings::default())
}

fn limited(mib: u64) -> CachingAllocator {
    CachingAllocator::new(AllocatorSettings { capacity_bytes: Some(mib * MIB), ..AllocatorSettings::default() })
}

fn expandable(capacity_mib: Option<u64>) -> CachingAllocator {
    CachingAllocator::new(AllocatorSettings {
        capacity_bytes: capacity_mib.map(|mib| mib * MIB),
        expandable_segments: true,
        max_split_size_bytes: None,
    })
}

fn split_up_to(max_split_mib: u64, capacity_mib: Option<u64>) -> CachingAllocator {
    CachingAllocator::new(AllocatorSettings {
        capacity_bytes: capacity_mib.map(|mib| mib * MIB),
        expandable_segments: false,
        max_split_size_bytes: Some(max_split_mib * MIB),
    })
}

fn get(allocator: &mut CachingAllocator, bytes: u64) -> Allocation {
    allocator.allocate(bytes).expect("fits")
}

/// Bytes (reserved, allocated) after one request to a new allocator.
fn first(bytes: u64) -> (u64, u64) {
    let mut allocator = allocator();
    let _ = get(&mut allocator, bytes);
    (allocator.reserved_bytes(), allocator.allocated_bytes())
}

/// Addresses tell which block was chosen.
fn address(allocator: &CachingAllocator, allocation: Allocation) -> u64 {
    allocator.blocks[allocation.0].address
}

#[test]
fn requests_are_rounded_to_512_bytes_and_served_from_segments_of_their_class() {
    assert_eq!(first(1), (2 * MIB, 512));
    assert_eq!(first(513), (2 * MIB, 1024));
    assert_eq!(first(MIB), (2 * MIB, MIB));
    assert_eq!(first(MIB + 1), (20 * MIB, MIB + 512));
    assert_eq!(first(10 * MIB - 512), (20 * MIB, 10 * MIB - 512));
    // A rest of 1 MiB or less is not split off, so that it counts as allocated.
    assert_eq!(first(10 * MIB), (10 * MIB, 10 * MIB));
    assert_eq!(first(10 * MIB + 1), (12 * MIB, 10 * MIB + 512));
    assert_eq!(first(11 * MIB), (12 * MIB, 12 * MIB));
    assert_eq!(first(11 * MIB - 512), (12 * MIB, 11 * MIB - 512));
}

#[test]
fn nothing_is_owned_by_a_request_of_zero_bytes() {
    let mut allocator = limited(0);
    let nothing = get(&mut allocator, 0);
    assert_eq!(nothing, Allocation::NOTHING);
    allocator.free(nothing);
    allocator.free(nothing);
    assert_eq!((allocator.reserved_bytes(), allocator.allocated_bytes()), (0, 0));
}

#[test]
fn small_rests_of_512_bytes_are_split_off() {
    let mut allocator = allocator();
    let _ = get(&mut allocator, MIB);
    let _ = get(&mut allocator, MIB - 512);
    let _ = get(&mut allocator, 512);
    assert_eq!((allocator.reserved_bytes(), allocator.allocated_bytes()), (2 * MIB, 2 * MIB));
    let _ = get(&mut allocator, 1);
    assert_eq!(allocator.reserved_bytes(), 4 * MIB);
}

#[test]
fn pools_do_not_share_segments() {
    let mut allocator = allocator();
    let _ = get(&mut allocator, 2 * MIB);
    let _ = get(&mut allocator, KIB);
    assert_eq!(allocator.reserved_bytes(), 22 * MIB);
}

#[test]
fn the_smallest_block_that_fits_is_taken_and_among_equals_the_lowest() {
    let mut allocator = allocator();
    let blocks: Vec<Allocation> = [6, 2, 4, 2, 4, 2].map(|mib| get(&mut allocator, mib * MIB)).into_iter().collect();
    // Free blocks: 6 MiB at 0, 4 MiB at 8 and at 14. The later of the two is freed first.
    for freed in [4, 0, 2] {
        allocator.free(blocks[freed]);
    }
    let chosen = [3 * MIB, 4 * MIB, 5 * MIB].map(|bytes| {
        let allocation = get(&mut allocator, bytes);
        address(&allocator, allocation)
    });
    assert_eq!(chosen, [8 * MIB, 14 * MIB, 0]);
    assert_eq!(allocator.reserved_bytes(), 20 * MIB);
}

#[test]
fn neighbours_merge_within_a_segment_only() {
    let mut allocator = allocator();
    let blocks = [6, 7, 7, 20].map(|mib| get(&mut allocator, mib * MIB));
    for freed in [blocks[0], blocks[2], blocks[1], blocks[3]] {
        allocator.free(freed);
    }
    // Two segments of 20 MiB lie side by side, and do not make one of 40.
    assert_eq!(allocator.largest_free_bytes(), 20 * MIB);
    let _ = get(&mut allocator, 40 * MIB);
    assert_eq!(allocator.reserved_bytes(), 80 * MIB);
}

#[test]
fn emptying_the_cache_keeps_segments_in_use() {
    let mut allocator = allocator();
    let (kept, freed) = (get(&mut allocator, 3 * MIB), get(&mut allocator, 30 * MIB));
    allocator.free(freed);
    assert_eq!(allocator.reserved_bytes(), 50 * MIB);
    allocator.empty_cache();
    assert_eq!(allocator.reserved_bytes(), 20 * MIB);
    allocator.free(kept);
    allocator.empty_cache();
    assert_eq!((allocator.reserved_bytes(), allocator.peak_reserved_bytes()), (0, 50 * MIB));
    assert_eq!((allocator.peak_allocated_bytes(), allocator.retries()), (33 * MIB, 0));
}

#[test]
fn a_full_gpu_gives_its_cache_back_before_it_fails() {
    let mut allocator = limited(100);
    let (kept, freed) = (get(&mut allocator, 40 * MIB), get(&mut allocator, 50 * MIB));
    allocator.free(freed);
    let _ = get(&mut allocator, 60 * MIB);
    assert_eq!((allocator.reserved_bytes(), allocator.retries()), (100 * MIB, 1));
    let error = allocator.allocate(3 * MIB).expect_err("the GPU is full");
    let expected = OutOfMemory {
        requested_bytes: 3 * MIB,
        reserved_bytes: 100 * MIB,
        allocated_bytes: 100 * MIB,
        capacity_bytes: 100 * MIB,
    };
    assert_eq!((error, allocator.retries()), (expected, 2));
    // A failed request leaves the allocator usable.
    allocator.free(kept);
    let _ = get(&mut allocator, 3 * MIB);
    assert_eq!((allocator.reserved_bytes(), allocator.retries()), (100 * MIB, 2));
}

#[test]
fn oversize_blocks_serve_oversize_requests_of_about_their_size_only() {
    let mut allocator = split_up_to(32, None);
    let block = get(&mut allocator, 64 * MIB);
    allocator.free(block);
    // Below the limit: not usable although it would fit.
    let small = get(&mut allocator, 20 * MIB);
    assert_eq!(allocator.reserved_bytes(), 84 * MIB);
    allocator.free(small);
    // 64 = 44 + 20 is too much slack, 512 bytes more are not; the block is handed out whole.
    let apart = get(&mut allocator, 44 * MIB);
    assert_eq!(allocator.reserved_bytes(), 128 * MIB);
    let close = get(&mut allocator, 44 * MIB + 512);
    assert_eq!((allocator.reserved_bytes(), allocator.allocated_bytes()), (128 * MIB, 108 * MIB));
    allocator.free(apart);
    allocator.free(close);
}

#[test]
fn oversize_blocks_are_given_back_before_the_whole_cache() {
    let mut allocator = split_up_to(32, Some(200));
    let blocks = [20, 40, 60, 70].map(|mib| get(&mut allocator, mib * MIB));
    for block in blocks {
        allocator.free(block);
    }
    // 190 MiB are reserved and nothing fits 33 MiB but 40 MiB, which is near enough.
    let near = get(&mut allocator, 33 * MIB);
    assert_eq!(allocator.reserved_bytes(), 190 * MIB);
    allocator.free(near);
    // The smallest block of at least 32 MiB goes for a small request that nothing serves; the 20 MiB stay.
    let _ = get(&mut allocator, 30 * MIB);
    assert_eq!((allocator.reserved_bytes(), allocator.retries()), (180 * MIB, 0));
    // No single block holds 110 MiB: the largest go, 70 and 60.
    let _ = get(&mut allocator, 110 * MIB);
    assert_eq!((allocator.reserved_bytes(), allocator.retries()), (160 * MIB, 0));
    // Now only 20 MiB are cached, none of them oversize.
    assert_eq!(allocator.largest_free_bytes(), 20 * MIB);
    let _ = get(&mut allocator, 60 * MIB);
    assert_eq!((allocator.reserved_bytes(), allocator.retries()), (200 * MIB, 1));
}

#[test]
fn an_expandable_range_grows_by_the_pages_that_are_missing() {
    let mut allocator = expandable(None);
    let _ = get(&mut allocator, 1);
    assert_eq!(allocator.reserved_bytes(), 2 * MIB);
    let _ = get(&mut allocator, 15 * MIB);
    assert_eq!(allocator.reserved_bytes(), 22 * MIB);
    // 5 MiB are free at the end: one page more holds 25 MiB, where a segment would have taken 26.
    let last = get(&mut allocator, 25 * MIB);
    assert_eq!((allocator.reserved_bytes(), allocator.allocated_bytes()), (42 * MIB, 40 * MIB + 512));
    assert_eq!(address(&allocator, last), 15 * MIB);
}

#[test]
fn expandable_ranges_give_back_whole_free_pages_and_fill_holes_first() {
    let mut allocator = expandable(None);
    let blocks = [30, 40, 10].map(|mib| get(&mut allocator, mib * MIB));
    assert_eq!(allocator.reserved_bytes(), 80 * MIB);
    allocator.free(blocks[1]);
    // Free from 30 to 70: only the page from 40 to 60 is wholly free.
    allocator.empty_cache();
    assert_eq!((allocator.reserved_bytes(), allocator.largest_free_bytes()), (60 * MIB, 10 * MIB));
    // 10 free MiB, the hole and 5 of the 10 free MiB behind it.
    let filled = get(&mut allocator, 35 * MIB);
    assert_eq!((allocator.reserved_bytes(), address(&allocator, filled)), (80 * MIB, 30 * MIB));
    for block in [filled, blocks[0], blocks[2]] {
        allocator.free(block);
    }
    allocator.empty_cache();
    assert_eq!(allocator.reserved_bytes(), 0);
}

#[test]
fn a_block_of_an_expandable_range_that_is_refused_as_oversize_is_found_as_room() {
    let mut allocator = CachingAllocator::new(AllocatorSettings {
        capacity_bytes: None,
        expandable_segments: true,
        max_split_size_bytes: Some(32 * MIB),
    });
    let block = get(&mut allocator, 60 * MIB);
    allocator.free(block);
    // As in PyTorch, where growing a range starts from what is free at its end.
    let _ = get(&mut allocator, 5 * MIB);
    assert_eq!((allocator.reserved_bytes(), allocator.allocated_bytes()), (60 * MIB, 5 * MIB));
}

#[test]
fn split_limits_below_20_mib_count_as_20() {
    let mut allocator = split_up_to(2, None);
    let _ = get(&mut allocator, 3 * MIB);
    assert_eq!((allocator.reserved_bytes(), allocator.allocated_bytes()), (20 * MIB, 3 * MIB));
}

#[test]
fn a_reset_forgets_everything() {
    for mut allocator in [limited(20), expandable(Some(20))] {
        let _ = get(&mut allocator, 15 * MIB);
        assert!(allocator.allocate(15 * MIB).is_err());
        allocator.reset();
        assert_eq!((allocator.reserved_bytes(), allocator.peak_reserved_bytes(), allocator.retries()), (0, 0, 0));
        assert_eq!((allocator.allocated_bytes(), allocator.peak_allocated_bytes()), (0, 0));
        let _ = get(&mut allocator, 15 * MIB);
    }
}

#[test]
fn the_end_of_an_expandable_range_is_kept_for_what_fits_nowhere_else() {
    let mut allocator = expandable(None);
    let blocks = [6, 10].map(|mib| get(&mut allocator, mib * MIB));
    allocator.free(blocks[0]);
    // Free: 6 MiB at 0, and 4 MiB at the end, which fit better but could grow.
    let chosen = get(&mut allocator, 3 * MIB);
    assert_eq!(address(&allocator, chosen), 0);
}

#[test]
fn a_full_gpu_moves_pages_between_expandable_ranges() {
    let mut allocator = expandable(Some(40));
    let freed = get(&mut allocator, 40 * MIB);
    allocator.free(freed);
    let _ = get(&mut allocator, KIB);
    assert_eq!((allocator.reserved_bytes(), allocator.retries()), (2 * MIB, 1));
    let error = allocator.allocate(21 * MIB).expect_err("two pages of 20 MiB are too many");
    assert_eq!((error.reserved_bytes, error.allocated_bytes), (2 * MIB, KIB));
}

#[test]
fn huge_sizes_are_sums_like_any_other() {
    let huge = 1 << 56;
    let mut allocator = allocator();
    // 2^64 bytes are one too many to count.
    for _ in 0..255 {
        let _ = get(&mut allocator, huge);
    }
    assert_eq!(allocator.reserved_bytes(), 255 * huge);
    assert!(allocator.allocate(huge).is_err());
    assert!(allocator.allocate(u64::MAX).is_err());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "freed once")]
fn freeing_twice_is_a_broken_invariant() {
    let mut allocator = allocator();
    let allocation = get(&mut allocator, 1);
    allocator.free(allocation);
    allocator.free(allocation);
}

/// Two steps of a layer that needs more on the second.
#[test]
fn golden_trace_of_two_steps() {
    let mut allocator = allocator();
    // Weights of 4 MiB and a bias of 4 KiB: a segment of 20 MiB (16 free) and one of 2 MiB.
    let _weight = get(&mut allocator, 4 * MIB);
    let _bias = get(&mut allocator, 4 * KIB);
    assert_eq!((allocator.reserved_bytes(), allocator.allocated_bytes()), (22 * MIB, 4 * MIB + 4 * KIB));
    // Step 1: 8 MiB from the 16 (8 left), then 12 MiB from a segment of its own, then 7.5 MiB from the 8 left: a rest
    // of half a MiB is not split off, so 8 MiB count.
    let activation = get(&mut allocator, 8 * MIB);
    let output = get(&mut allocator, 12 * MIB);
    let gradient = get(&mut allocator, 15 * MIB / 2);
    assert_eq!(allocator.reserved_bytes(), 34 * MIB);
    assert_eq!(allocator.allocated_bytes(), 32 * MIB + 4 * KIB);
    for freed in [output, activation, gradient] {
        allocator.free(freed);
    }
    // Cached: 16 MiB behind the weights, and the segment of 12 MiB.
    // Step 2: 9 MiB fit the 12 MiB best (3 left), 13 MiB the 16 (3 left), and 14 MiB need a new segment.
    let step: Vec<Allocation> = [9, 13, 14].map(|mib| get(&mut allocator, mib * MIB)).into_iter().collect();
    assert_eq!(allocator.reserved_bytes(), 48 * MIB);
    assert_eq!(allocator.allocated_bytes(), 40 * MIB + 4 * KIB);
    for freed in step {
        allocator.free(freed);
    }
    // The cache: 12 and 14 MiB go; the segments of weight and bias stay.
    allocator.empty_cache();
    assert_eq!((allocator.reserved_bytes(), allocator.peak_reserved_bytes()), (22 * MIB, 48 * MIB));
    assert_eq!(allocator.peak_allocated_bytes(), 40 * MIB + 4 * KIB);
}

/// Fragmentation: as many bytes are free as are asked for, and they do not help.
#[test]
fn golden_trace_of_fragmentation() {
    for (mut allocator, retries) in [(limited(60), 1), (expandable(Some(60)), 0)] {
        // Four blocks of 9 MiB: two a segment, 2 MiB left in each; or all in 40 MiB of a range, 4 MiB left at its end.
        let blocks = [9, 9, 9, 9].map(|mib| get(&mut allocator, mib * MIB));
        assert_eq!(allocator.reserved_bytes(), 40 * MIB);
        // A workspace of 18 MiB comes, and goes: a segment, or a page that brings the range to 60 MiB.
        let workspace = get(&mut allocator, 18 * MIB);
        allocator.free(workspace);
        allocator.free(blocks[1]);
        allocator.free(blocks[2]);
        // Segments: free are 11 MiB, 9 MiB, 2 MiB and the 18 MiB in one piece. The range: 18 MiB in one piece between
        // the outer blocks, and 24 MiB at its end. 18 MiB are there in both.
        let again = get(&mut allocator, 18 * MIB);
        allocator.free(again);
        // 18.5 MiB take a segment of 20 MiB, for which the cached 18 MiB must go first. The range has its 24 MiB.
        let larger = get(&mut allocator, 37 * MIB / 2);
        assert_eq!(allocator.retries(), retries);
        allocator.free(larger);
        allocator.empty_cache();
        // Both segments of 20 MiB are in use. Of the range's pages only the last is free.
        assert_eq!(allocator.reserved_bytes(), 40 * MIB);
        assert_eq!(allocator.peak_reserved_bytes(), 60 * MIB);
    }
}
