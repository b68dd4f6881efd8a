//! Which window takes one spatial extent to another.

/// Strides beyond this are not tried.
const MAX_STRIDE: u64 = 64;

/// Stride and padding.
pub(super) type Step = (u64, u64);

/// The usual stride and padding with which a window takes `from` positions to `to`.
///
/// Strides of 1, 2, up to half the window, and the window itself are usual, and any for a window of one.
pub(super) fn slide(from: u64, to: u64, kernel: u64) -> Option<Step> {
    if to == 0 || kernel == 0 {
        return None;
    }
    let small = if kernel == 1 { MAX_STRIDE } else { (kernel / 2).min(MAX_STRIDE) };
    let mut strides = [1, 2].into_iter().chain(3..=small).chain([kernel]);
    strides.find_map(|stride| {
        // to - 1 = (from + 2 padding - kernel) / stride, rounded down.
        let least = (to - 1).checked_mul(stride)?.checked_add(kernel)?.saturating_sub(from).div_ceil(2);
        let most = to.checked_mul(stride)?.checked_add(kernel - 1)?.checked_sub(from)? / 2;
        let same = (kernel - 1) / 2;
        let usual = if stride == kernel { [0, same, least] } else { [same, 0, least] };
        let fits = |padding: &u64| (least..=most.min(kernel / 2)).contains(padding);
        usual.into_iter().find(fits).map(|padding| (stride, padding))
    })
}

/// The same for a transposed convolution, which may add to its output less than its stride.
pub(super) fn grow(from: u64, to: u64, kernel: u64) -> Option<Step> {
    let gaps = from.checked_sub(1)?;
    (1..=kernel.clamp(4, MAX_STRIDE)).find_map(|stride| {
        let full = gaps.checked_mul(stride)?.checked_add(kernel)?;
        let padding = full.saturating_sub(to).div_ceil(2);
        let least = full.checked_sub(padding.checked_mul(2)?)?;
        (padding <= kernel / 2 && least <= to && to - least < stride).then_some((stride, padding))
    })
}

/// The whole number whose power is `value`.
pub(super) fn root(value: u64, power: u32) -> Option<u64> {
    let guess = (value as f64).powf(1.0 / f64::from(power)).round() as u64;
    (guess > 0 && guess.checked_pow(power) == Some(value)).then_some(guess)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_of_known_networks_are_found() {
        assert_eq!(slide(224, 112, 7), Some((2, 3)));
        assert_eq!(slide(224, 55, 11), Some((4, 2)));
        assert_eq!(slide(224, 14, 16), Some((16, 0)));
        assert_eq!(slide(56, 28, 1), Some((2, 0)));
        assert_eq!(slide(28, 24, 5), Some((1, 0)));
        assert_eq!(slide(28, 10, 5), None);
        assert_eq!(slide(1, 56, 1), None);
        assert_eq!(grow(4, 8, 4), Some((2, 1)));
        assert_eq!(grow(1, 4, 4), Some((1, 0)));
    }

    #[test]
    fn absurd_extents_are_answered_at_once() {
        assert_eq!(slide(u64::MAX, u64::MAX, u64::MAX), None);
        assert_eq!(grow(u64::MAX, u64::MAX, u64::MAX), None);
        assert_eq!(root(u64::MAX, 2), None);
        assert_eq!(root(343, 3), Some(7));
    }
}
