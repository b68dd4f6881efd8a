//! Random jobs against the plain reference.

use proptest::prelude::*;

use super::super::{AllocatorSettings, CachingAllocator};
use super::reference::{Counts, Reference};

const MIB: u64 = 1 << 20;

#[derive(Debug, Clone, Copy)]
enum Event {
    Allocate(u64),
    /// Which of the live allocations.
    Free(usize),
    EmptyCache,
}

/// Sizes of every class, and a few that come up again and again, so that equal blocks compete.
fn sizes() -> impl Strategy<Value = u64> {
    let common = [512, 513, 1 << 19, MIB, MIB + 1, 2 * MIB, 5 * MIB, 10 * MIB, 19 * MIB, 20 * MIB, 25 * MIB, 64 * MIB];
    prop_oneof![
        3 => prop::sample::select(common.to_vec()),
        2 => 1..=4096_u64,
        2 => 1..=MIB,
        2 => MIB..=10 * MIB,
        2 => 10 * MIB..=200 * MIB,
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => sizes().prop_map(Event::Allocate),
        10 => any::<usize>().prop_map(Event::Free),
        1 => Just(Event::EmptyCache),
    ];
    prop::collection::vec(event, 1..250)
}

fn settings() -> impl Strategy<Value = AllocatorSettings> {
    let capacity = prop::option::of(20 * MIB..1500 * MIB);
    let max_split = prop::option::of(20 * MIB..128 * MIB);
    (capacity, any::<bool>(), max_split).prop_map(|(capacity_bytes, expandable_segments, max_split_size_bytes)| {
        AllocatorSettings { capacity_bytes, expandable_segments, max_split_size_bytes }
    })
}

fn counts(allocator: &CachingAllocator) -> Counts {
    Counts {
        reserved: allocator.reserved_bytes(),
        allocated: allocator.allocated_bytes(),
        peak_reserved: allocator.peak_reserved_bytes(),
        peak_allocated: allocator.peak_allocated_bytes(),
        retries: allocator.retries(),
    }
}

fn replay(
    allocator: &mut CachingAllocator,
    settings: AllocatorSettings,
    events: &[Event],
) -> Result<(), TestCaseError> {
    let mut reference = Reference::new(settings);
    let mut live = Vec::new();
    for &event in events {
        match event {
            Event::Allocate(bytes) => match (allocator.allocate(bytes), reference.allocate(bytes)) {
                (Ok(allocation), Some(id)) => live.push((allocation, id)),
                (Err(error), None) => prop_assert_eq!(error.reserved_bytes, reference.counts.reserved),
                (found, expected) => prop_assert!(false, "{event:?}: found {found:?}, expected {expected:?}"),
            },
            Event::Free(which) if !live.is_empty() => {
                let (allocation, id) = live.swap_remove(which % live.len());
                allocator.free(allocation);
                reference.free(id);
            }
            Event::Free(_) => {}
            Event::EmptyCache => {
                allocator.empty_cache();
                reference.empty_cache();
            }
        }
        prop_assert_eq!(counts(allocator), reference.counts, "after {:?}", event);
        for pool in 0..2 {
            let found: Vec<u64> = allocator.free[pool].as_slice().iter().map(|block| block.size).collect();
            prop_assert_eq!(found, reference.free_sizes(pool), "after {:?}", event);
        }
        prop_assert!(allocator.reserved_bytes() >= allocator.allocated_bytes());
        prop_assert!(settings.capacity_bytes.is_none_or(|capacity| allocator.reserved_bytes() <= capacity));
    }
    for (allocation, _) in live {
        allocator.free(allocation);
    }
    prop_assert_eq!(allocator.allocated_bytes(), 0);
    allocator.empty_cache();
    prop_assert_eq!(allocator.reserved_bytes(), 0);
    Ok(())
}

proptest! {
    #[test]
    fn every_job_is_served_as_by_the_reference(settings in settings(), events in events()) {
        let mut allocator = CachingAllocator::new(settings);
        replay(&mut allocator, settings, &events)?;
        // The same again, to see that nothing survives a reset.
        allocator.reset();
        replay(&mut allocator, settings, &events)?;
    }

    #[test]
    fn no_size_makes_it_panic(settings in settings(), sizes in prop::collection::vec((0..=64_u32, any::<bool>()), 1..300)) {
        for settings in [settings, AllocatorSettings { capacity_bytes: None, ..settings }] {
            let mut allocator = CachingAllocator::new(settings);
            for &(bits, is_freed) in &sizes {
                let bytes = 1_u64.checked_shl(bits).unwrap_or(u64::MAX);
                match allocator.allocate(bytes) {
                    Ok(allocation) if is_freed => allocator.free(allocation),
                    Ok(_) => {}
                    Err(error) => prop_assert_eq!(error.requested_bytes, bytes),
                }
            }
        }
    }
}
