//! Confidence intervals by drawing rows again and again.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// Rows drawn in all for one interval: more rows get fewer resamples, so that a million of them take a second.
const MAX_DRAWS: usize = 20_000_000;

/// Fewer resamples than this do not show the ends of a 95 % interval.
const MIN_RESAMPLES: usize = 100;

/// How confidence intervals are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// Seed of the draws: the same seed and rows give the same intervals.
    pub seed: u64,
    /// How many resamples; less for more than 20,000 rows, but never below 100.
    pub resamples: usize,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { seed: 0, resamples: 1000 }
    }
}

/// Both ends of a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// 2.5 % quantile of the resamples.
    pub low: f64,
    /// 97.5 % quantile of the resamples.
    pub high: f64,
}

/// 95 % bootstrap intervals. They treat rows as independent: near-twin rows make them too narrow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Of the median absolute percentage error.
    pub median_ape_pct: Interval,
    /// Of the mean absolute percentage error.
    pub mape_pct: Interval,
    /// Resamples drawn.
    pub resamples: usize,
}

impl Bootstrap {
    /// Intervals of the median and the mean of values in ascending order; `None` for fewer than two.
    pub(crate) fn intervals(&self, sorted: &[f64]) -> Option<Intervals> {
        // Draws are 32 bits wide.
        let n = u32::try_from(sorted.len()).ok().filter(|n| *n > 1)?;
        let resamples = (MAX_DRAWS / sorted.len()).min(self.resamples).max(MIN_RESAMPLES);
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        // Places instead of values: the order is the same, and they are half as large.
        let mut drawn = vec![0_u32; sorted.len()];
        let (mut medians, mut means) = (Vec::with_capacity(resamples), Vec::with_capacity(resamples));
        for _ in 0..resamples {
            let mut sum = 0.0;
            for place in &mut drawn {
                *place = ((u64::from(rng.next_u32()) * u64::from(n)) >> 32) as u32;
                sum += sorted[*place as usize];
            }
            means.push(sum / f64::from(n));
            medians.push(median(&mut drawn, sorted));
        }
        Some(Intervals { median_ape_pct: interval(medians), mape_pct: interval(means), resamples })
    }
}

/// The median of the values at these places.
fn median(places: &mut [u32], sorted: &[f64]) -> f64 {
    let middle = places.len() / 2;
    let odd = places.len() % 2 == 1;
    let (below, upper, _) = places.select_nth_unstable(middle);
    let upper = sorted[*upper as usize];
    if odd {
        return upper;
    }
    let lower = below.iter().max().map_or(upper, |place| sorted[*place as usize]);
    f64::midpoint(lower, upper)
}

fn interval(mut values: Vec<f64>) -> Interval {
    values.sort_unstable_by(f64::total_cmp);
    let end = |share| super::quantile(&values, share).unwrap_or(f64::NAN);
    Interval { low: end(0.025), high: end(0.975) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_interval_and_it_holds_the_value() {
        let values: Vec<f64> = (0..200).map(f64::from).collect();
        let bootstrap = Bootstrap { seed: 7, resamples: 1000 };
        let intervals = bootstrap.intervals(&values).expect("an interval");
        assert_eq!(Some(intervals), bootstrap.intervals(&values));
        assert_ne!(Some(intervals), Bootstrap { seed: 8, resamples: 1000 }.intervals(&values));
        // Standard error of the mean: 57.7 / sqrt(200) = 4.08.
        let Interval { low, high } = intervals.mape_pct;
        assert!((low - (99.5 - 8.0)).abs() < 1.5 && (high - (99.5 + 8.0)).abs() < 1.5, "{low} {high}");
        assert!(intervals.median_ape_pct.low < 99.5 && intervals.median_ape_pct.high > 99.5);
    }

    #[test]
    fn one_value_has_no_interval_and_equal_values_have_an_empty_one() {
        assert_eq!(Bootstrap::default().intervals(&[3.0]), None);
        let intervals = Bootstrap::default().intervals(&[3.0; 10]).expect("an interval");
        assert_eq!(intervals.median_ape_pct, Interval { low: 3.0, high: 3.0 });
    }

    #[test]
    fn many_rows_get_fewer_resamples() {
        let values: Vec<f64> = (0..100_000).map(f64::from).collect();
        assert_eq!(Bootstrap::default().intervals(&values).expect("an interval").resamples, 200);
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(median(&mut [3, 0, 1, 2], &[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median(&mut [3, 0, 1], &[1.0, 2.0, 4.0, 9.0]), 2.0);
    }
}
