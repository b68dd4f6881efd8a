//! The search for the largest number that passes a test which is nearly, but not perfectly, monotone.

use anyhow::Result;

/// So many numbers in a row must fail above the answer.
const NEIGHBOURS: u64 = 4;
/// The scan above the answer ends after so many numbers, whatever they say.
const MAX_SCAN: u64 = 16;

/// The largest number from 1 to `limit` that passes, as far as doubling, bisecting and a scan of the next numbers above
/// find it; `None` if 1 does not pass.
///
/// Takes about `2 log2(answer)` tests, and at most [`MAX_SCAN`] more.
pub(super) fn largest(limit: u64, mut passes: impl FnMut(u64) -> Result<bool>) -> Result<Option<u64>> {
    if limit == 0 || !passes(1)? {
        return Ok(None);
    }
    let mut low = 1;
    let mut high = loop {
        if low == limit {
            return Ok(Some(low));
        }
        let next = low.saturating_mul(2).min(limit);
        if !passes(next)? {
            break next;
        }
        low = next;
    };
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if passes(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    let first = high;
    let mut failed = 1;
    let mut at = high;
    while failed < NEIGHBOURS && at < limit && at - first < MAX_SCAN {
        at += 1;
        if passes(at)? {
            (low, failed) = (at, 0);
        } else {
            failed += 1;
        }
    }
    Ok(Some(low))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(limit: u64, passes: impl Fn(u64) -> bool) -> (Option<u64>, usize) {
        let mut tests = Vec::new();
        let answer = largest(limit, |number| {
            assert!((1..=limit).contains(&number), "{number}");
            tests.push(number);
            Ok(passes(number))
        });
        (answer.expect("no test fails to answer"), tests.len())
    }

    proptest! {
        #[test]
        fn a_sharp_limit_is_found_in_few_tests(end in 0_u64..1 << 40, limit in 1_u64..1 << 40) {
            let (answer, tests) = found(limit, |number| number <= end);
            prop_assert_eq!(answer, (end > 0).then_some(end.min(limit)));
            prop_assert!(tests <= 2 * 41 + NEIGHBOURS as usize, "{tests}");
        }

        #[test]
        fn the_answer_always_passes(seed in any::<u64>(), limit in 1_u64..5000) {
            let passes = |number: u64| !number.wrapping_mul(seed | 1).rotate_left(17).is_multiple_of(3);
            let (answer, tests) = found(limit, passes);
            prop_assert_eq!(answer.is_some(), passes(1));
            prop_assert!(answer.is_none_or(passes));
            prop_assert!(tests <= 60);
        }
    }

    #[test]
    fn dents_just_above_the_limit_are_seen() {
        // 101 fails by a hair, 102 to 104 pass again.
        assert_eq!(found(1 << 20, |number| number <= 100 || (102..=104).contains(&number)).0, Some(104));
        // A far dent is not looked for, and an endless row of dents ends the scan.
        assert_eq!(found(1 << 20, |number| number <= 100 || number == 150).0, Some(100));
        let (answer, tests) = found(1 << 20, |number| number <= 100 || (number < 4096 && number % 2 == 0));
        assert!(answer.is_some_and(|answer| answer >= 100) && tests < 60);
    }

    #[test]
    fn a_test_that_cannot_answer_ends_the_search() {
        assert!(largest(64, |number| if number < 4 { Ok(true) } else { Err(anyhow::anyhow!("no")) }).is_err());
        assert_eq!(found(1, |_| true), (Some(1), 1));
    }
}
