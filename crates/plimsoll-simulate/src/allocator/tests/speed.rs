//! How long an event takes; `cargo test --release -p plimsoll-simulate allocator -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use super::super::{Allocation, AllocatorSettings, CachingAllocator};
use super::{KIB, MIB};

/// Like a training step: weights that stay, activations that pile up and go, gradients that come for them, short-lived
/// workspaces in between. (bytes, 0) allocates; (0, n) frees the n-th allocation.
fn step(layers: u64) -> Vec<(u64, usize)> {
    let (mut events, mut count) = (Vec::new(), 0_usize);
    let mut allocate = |events: &mut Vec<(u64, usize)>, bytes: u64| {
        events.push((bytes, 0));
        count += 1;
        count - 1
    };
    let width = |layer: u64| 1 + layer * 7919 % 23;
    for layer in 0..layers {
        allocate(&mut events, width(layer) * 300 * KIB);
        allocate(&mut events, width(layer) * KIB);
    }
    let mut saved = Vec::new();
    for layer in 0..layers {
        let workspace = allocate(&mut events, width(layer) * 700 * KIB);
        saved.push(allocate(&mut events, width(layer) * MIB));
        saved.push(allocate(&mut events, width(layer) * 40 * KIB));
        events.push((0, workspace));
        saved.push(allocate(&mut events, width(layer + 3) * 512 * KIB));
    }
    let mut gradient = allocate(&mut events, 4 * KIB);
    for layer in (0..layers).rev() {
        let workspace = allocate(&mut events, width(layer) * 900 * KIB);
        let input = allocate(&mut events, width(layer) * MIB);
        allocate(&mut events, width(layer) * 300 * KIB);
        allocate(&mut events, width(layer) * KIB);
        events.push((0, workspace));
        events.push((0, gradient));
        gradient = input;
        for _ in 0..3 {
            events.extend(saved.pop().map(|allocation| (0, allocation)));
        }
    }
    events.push((0, gradient));
    events
}

#[test]
#[ignore = "measures time"]
#[expect(clippy::print_stderr, reason = "the measurement is what it is for")]
fn time_of_an_event() {
    for expandable_segments in [false, true] {
        for layers in [30, 300, 3000] {
            let events = step(layers);
            let settings = AllocatorSettings { expandable_segments, ..AllocatorSettings::default() };
            let mut allocator = CachingAllocator::new(settings);
            let mut live: Vec<Allocation> = Vec::new();
            // The fastest replay is the one that nothing else on the machine disturbed.
            let mut fastest = f64::INFINITY;
            for _ in 0..=2_000_000 / events.len() {
                live.clear();
                let start = Instant::now();
                allocator.reset();
                for &(bytes, freed) in &events {
                    if bytes > 0 {
                        live.extend(allocator.allocate(bytes));
                    } else {
                        allocator.free(live[freed]);
                    }
                }
                black_box(allocator.peak_reserved_bytes());
                fastest = fastest.min(start.elapsed().as_nanos() as f64 / events.len() as f64);
            }
            let free_blocks: usize = allocator.free.iter().map(super::super::FreeList::len).sum();
            eprintln!(
                "expandable {expandable_segments}: {} events, {free_blocks} free blocks at the end, {fastest:.0} ns an event",
                events.len()
            );
        }
    }
}
