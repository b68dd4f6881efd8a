//! Half-precision numbers, for weights at rest.

/// Exponent bias of single less that of half precision.
const BIAS_DIFFERENCE: u32 = 127 - 15;
/// The largest finite half.
const MAX_HALF: f32 = 65_504.0;
/// Below it halves lie evenly spaced.
const MIN_NORMAL: f32 = 1.0 / (1 << 14) as f32;
/// Distance of the evenly spaced ones.
const SPACING: f32 = 1.0 / (1 << 24) as f32;

/// The nearest half, of two the even one; what is too large becomes the largest finite half.
pub(super) fn to_half(value: f32) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs().min(MAX_HALF);
    if magnitude < MIN_NORMAL {
        return sign | (magnitude / SPACING).round_ties_even() as u16;
    }
    let bits = magnitude.to_bits();
    let rounded = bits + 0xfff + ((bits >> 13) & 1);
    sign | ((rounded >> 13) - (BIAS_DIFFERENCE << 10)) as u16
}

/// The value of a half; infinities and what is no number stay so.
pub(super) fn from_half(half: u16) -> f32 {
    let (exponent, mantissa) = (u32::from(half >> 10 & 0x1f), u32::from(half & 0x3ff));
    let magnitude = match exponent {
        0 => mantissa as f32 * SPACING,
        0x1f => f32::from_bits(0x7f80_0000 | (mantissa << 13)),
        _ => f32::from_bits(((exponent + BIAS_DIFFERENCE) << 23) | (mantissa << 13)),
    };
    if half & 0x8000 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_half_survives_the_way_there_and_back() {
        for half in (0..=u16::MAX).filter(|half| half & 0x7c00 != 0x7c00) {
            assert_eq!(to_half(from_half(half)), half);
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        assert_eq!(from_half(to_half(1.0 / 3.0)), 0.333_251_95);
        assert_eq!(from_half(to_half(-1e9)), -65_504.0);
        assert_eq!(from_half(to_half(1.0 + 1.0 / 2048.0)), 1.0);
        assert!(from_half(0x7c00).is_infinite() && from_half(0x7e00).is_nan());
    }
}
