//! Fewer points without losing the peaks.

/// Places of at most `limit` values (but at least two): first, last, and the lowest and highest of every stretch
/// between, in order.
pub(super) fn thin(values: &[f64], limit: usize) -> Vec<usize> {
    if values.len() <= limit.max(2) {
        return (0..values.len()).collect();
    }
    let stretch = values.len().div_ceil((limit.max(4) - 2) / 2);
    let mut places = vec![0];
    for (number, stretch_values) in values.chunks(stretch).enumerate() {
        let places_here = || (0..stretch_values.len()).map(|offset| number * stretch + offset);
        let by_value = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
        // The first of equals, on both sides.
        let low = places_here().min_by(by_value);
        let high = places_here().rev().max_by(by_value);
        let mut both: Vec<usize> = low.into_iter().chain(high).collect();
        both.sort_unstable();
        places.extend(both);
    }
    places.push(values.len() - 1);
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn peaks_stay_and_points_are_few(values in prop::collection::vec(-1e3..1e3, 0..700), limit in 4_usize..100) {
            let places = thin(&values, limit);
            prop_assert!(places.len() <= limit.max(values.len().min(2)));
            prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
            let extreme = |pick: fn(f64, f64) -> f64, of: &[f64]| of.iter().copied().reduce(pick);
            let kept: Vec<f64> = places.iter().map(|place| values[*place]).collect();
            prop_assert_eq!(extreme(f64::max, &kept), extreme(f64::max, &values));
            prop_assert_eq!(extreme(f64::min, &kept), extreme(f64::min, &values));
            if let Some(last) = places.last() {
                prop_assert_eq!((places[0], *last), (0, values.len() - 1));
            }
        }
    }
}
