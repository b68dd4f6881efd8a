//! Numbers that may depend on the batch.

use std::cmp::Ordering;

use plimsoll_graph::Dim;

/// A number that the batch decides: `fixed + per_sample * batch`.
///
/// Floats hold every whole number up to 2^53 exactly, and their arithmetic never wraps, which is all that the sizes of
/// a model need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) fixed: f64,
    pub(crate) per_sample: f64,
}

impl Quantity {
    pub(crate) const fn new(fixed: f64) -> Self {
        Self { fixed, per_sample: 0.0 }
    }

    pub(crate) fn of_dim(dim: Dim) -> Self {
        match dim {
            Dim::Fixed(extent) => Self::new(extent as f64),
            Dim::Batch(factor) => Self { fixed: 0.0, per_sample: factor as f64 },
        }
    }

    /// The number, if the batch does not matter.
    pub(crate) fn known(self) -> Option<f64> {
        (self.per_sample == 0.0).then_some(self.fixed)
    }

    /// The whole number, if the batch does not matter.
    pub(crate) fn whole(self) -> Option<i64> {
        let value = self.known()?;
        // Ends of slices are as large as the type; the conversion saturates.
        (value.fract() == 0.0).then_some(value as i64)
    }

    /// The extent of a dimension: a whole number, or a whole multiple of the batch.
    pub(crate) fn dim(self) -> Option<Dim> {
        let extent = |value: f64| (value >= 0.0 && value.fract() == 0.0 && value <= 2e18).then_some(value as u64);
        if self.per_sample == 0.0 {
            return extent(self.fixed).map(Dim::Fixed);
        }
        if self.fixed == 0.0 { extent(self.per_sample).map(Dim::Batch) } else { None }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { fixed: self.fixed + other.fixed, per_sample: self.per_sample + other.per_sample }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        self.plus(other.scaled(-1.0))
    }

    pub(crate) fn scaled(self, by: f64) -> Self {
        Self { fixed: self.fixed * by, per_sample: self.per_sample * by }
    }

    fn scaled_down(self, by: f64) -> Self {
        Self { fixed: self.fixed / by, per_sample: self.per_sample / by }
    }

    /// The product, unless both depend on the batch.
    pub(crate) fn times(self, other: Self) -> Option<Self> {
        match (self.known(), other.known()) {
            (_, Some(by)) => Some(self.scaled(by)),
            (Some(by), None) => Some(other.scaled(by)),
            _ => None,
        }
    }

    /// The quotient; whole numbers are rounded to zero.
    pub(crate) fn over(self, other: Self, is_whole: bool) -> Option<Self> {
        let rounded = |value: f64| if is_whole { value.trunc() } else { value };
        match other.known() {
            Some(0.0) => None,
            Some(by) => {
                let quotient = self.scaled_down(by);
                let is_exact = quotient.fixed.fract() == 0.0 && quotient.per_sample.fract() == 0.0;
                match self.known() {
                    Some(_) => Some(Self::new(rounded(quotient.fixed))),
                    None => (is_exact || !is_whole).then_some(quotient),
                }
            }
            // A multiple of the batch over another.
            None if self.fixed == 0.0 && other.fixed == 0.0 => {
                Some(Self::new(rounded(self.per_sample / other.per_sample)))
            }
            None => None,
        }
    }

    /// The function of the number, if the batch does not matter.
    pub(crate) fn map(self, function: impl Fn(f64) -> f64) -> Option<Self> {
        self.known().map(|value| Self::new(function(value)))
    }

    /// Which is larger, as long as the batch is a large one.
    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        match self.per_sample.partial_cmp(&other.per_sample)? {
            Ordering::Equal => self.fixed.partial_cmp(&other.fixed),
            unequal => Some(unequal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Quantity = Quantity { fixed: 0.0, per_sample: 1.0 };

    #[test]
    fn windows_of_a_batch_are_counted_back_to_the_batch() {
        let windows = BATCH.times(Quantity::new(64.0)).expect("linear");
        assert_eq!(windows.dim(), Some(Dim::Batch(64)));
        assert_eq!(windows.over(Quantity::new(64.0), true), Some(BATCH));
        assert_eq!(windows.over(BATCH, true), Some(Quantity::new(64.0)));
        assert_eq!(windows.over(Quantity::new(3.0), true), None, "not a whole multiple");
        assert_eq!(BATCH.times(BATCH), None);
        assert_eq!(BATCH.plus(Quantity::new(1.0)).dim(), None, "one more than the batch is no dimension");
    }

    #[test]
    fn the_batch_is_larger_than_any_number() {
        assert_eq!(BATCH.compare(Quantity::new(-1.0)), Some(Ordering::Greater));
        assert_eq!(BATCH.compare(Quantity::new(1.0)), Some(Ordering::Greater));
        assert_eq!(Quantity::new(f64::NAN).compare(BATCH), Some(Ordering::Less));
        assert_eq!(Quantity::new(f64::NAN).compare(Quantity::new(0.0)), None);
    }

    #[test]
    fn whole_division_rounds_to_zero_and_never_by_zero() {
        assert_eq!(Quantity::new(7.0).over(Quantity::new(2.0), true), Some(Quantity::new(3.0)));
        assert_eq!(Quantity::new(-7.0).over(Quantity::new(2.0), true), Some(Quantity::new(-3.0)));
        assert_eq!(Quantity::new(1.0).over(Quantity::new(0.0), true), None);
    }
}
