//! Activation functions as numbers: an expression is told by its values.

use plimsoll_graph::Activation;

/// Where functions are compared: both tails, both sides of every kink.
pub(super) const SAMPLES: [f64; 9] = [-7.5, -3.4, -2.6, -0.9, -0.3, 0.4, 1.7, 3.2, 6.6];

type Function = fn(f64) -> f64;

/// The function with these values at the samples.
pub(super) fn function_of(values: &[f64; SAMPLES.len()]) -> Option<Activation> {
    let candidates: [(Activation, Function); 10] = [
        (Activation::Gelu, |x| 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))),
        (Activation::Gelu, |x| 0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x.powi(3))).tanh())),
        (Activation::Gelu, |x| x * sigmoid(1.702 * x)),
        (Activation::Silu, |x| x * sigmoid(x)),
        (Activation::Mish, |x| x * softplus(x).tanh()),
        (Activation::HardSwish, |x| x * ((x + 3.0) / 6.0).clamp(0.0, 1.0)),
        (Activation::HardSigmoid, |x| ((x + 3.0) / 6.0).clamp(0.0, 1.0)),
        (Activation::Relu6, |x| x.clamp(0.0, 6.0)),
        (Activation::Sigmoid, sigmoid),
        (Activation::Softplus, softplus),
    ];
    let fits = |function: Function| {
        SAMPLES.iter().zip(values).all(|(&x, &value)| {
            let wanted = function(x);
            (value - wanted).abs() <= 2e-4 * (1.0 + wanted.abs())
        })
    };
    candidates.into_iter().find(|&(_, function)| fits(function)).map(|(activation, _)| activation)
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(super) fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

/// The error function, to six digits (Abramowitz and Stegun, 7.1.26).
pub(super) fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = series.iter().fold(0.0, |sum, &factor| sum * t + factor) * t;
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_apart() {
        let gelu = SAMPLES.map(|x| x * 0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)));
        assert_eq!(function_of(&gelu), Some(Activation::Gelu));
        assert_eq!(function_of(&SAMPLES.map(|x| x / (1.0 + (-x).exp()))), Some(Activation::Silu));
        assert_eq!(function_of(&SAMPLES.map(|x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0)), Some(Activation::HardSwish));
        assert_eq!(function_of(&SAMPLES.map(|x| x * sigmoid(2.0 * x))), None);
        assert_eq!(function_of(&SAMPLES.map(|_| f64::NAN)), None);
    }
}
