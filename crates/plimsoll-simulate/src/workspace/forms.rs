//! The closed forms that workspaces take.
//!
//! Tensor-core kernels work in NHWC with padded channels, so a workspace mostly is a sum of copies: of the input `X`,
//! the output `Y` and the filter `W`, or of partial filters of a split sum. What follows no such sum is caught by
//! ratios of `S = X + Y + W`.

use crate::trace::Convolution;

/// Forms of the plan that runs.
pub const FORM_COUNT: usize = 28;
/// Forms of the largest plan that benchmark mode tries: those, and larger ratios.
pub const LARGEST_FORM_COUNT: usize = 31;
/// Of one mebibyte.
const MEBIBYTE: u64 = 1 << 20;

/// One closed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// As people write it.
    pub name: &'static str,
    /// Hundredths of input, output and filter.
    hundredths: [u16; 3],
    /// Whether channels are padded.
    is_padded: bool,
    /// Mebibytes on top.
    mebibytes: u16,
}

const fn copies(name: &'static str, x: u16, y: u16, w: u16) -> Form {
    Form { name, hundredths: [100 * x, 100 * y, 100 * w], is_padded: true, mebibytes: 0 }
}

const fn ratio(name: &'static str, hundredths: u16) -> Form {
    Form { name, hundredths: [hundredths; 3], is_padded: true, mebibytes: 0 }
}

const fn above(name: &'static str, copies: u16, mebibytes: u16) -> Form {
    Form { name, hundredths: [100 * copies; 3], is_padded: true, mebibytes }
}

/// All forms, those of [`FORM_COUNT`] first. The order is that of the network's outputs.
pub const FORMS: [Form; LARGEST_FORM_COUNT] = [
    copies("0", 0, 0, 0),
    copies("X+Y+W", 1, 1, 1),
    copies("X+W", 1, 0, 1),
    copies("Y+W", 0, 1, 1),
    copies("X+Y", 1, 1, 0),
    copies("2X+Y+W", 2, 1, 1),
    copies("X+2Y+W", 1, 2, 1),
    copies("X+3Y+W", 1, 3, 1),
    // Stems, whose three channels are not padded.
    Form { name: "X1+Y1+W1", hundredths: [100; 3], is_padded: false, mebibytes: 0 },
    copies("3W", 0, 0, 3),
    copies("X+Y+2W", 1, 1, 2),
    copies("X+Y+3W", 1, 1, 3),
    copies("X+Y+4W", 1, 1, 4),
    copies("X+Y+6W", 1, 1, 6),
    copies("X+Y+9W", 1, 1, 9),
    copies("X+Y+15W", 1, 1, 15),
    copies("X+Y+22W", 1, 1, 22),
    copies("X+Y+40W", 1, 1, 40),
    copies("X+Y+80W", 1, 1, 80),
    above("S+2Mi", 1, 2),
    above("S+8Mi", 1, 8),
    above("2Mi", 0, 2),
    above("8Mi", 0, 8),
    ratio("1.1S", 110),
    ratio("1.35S", 135),
    ratio("1.75S", 175),
    ratio("2.5S", 250),
    ratio("4S", 400),
    ratio("7S", 700),
    ratio("15S", 1500),
    ratio("40S", 4000),
];

/// Bytes of a convolution's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operands {
    /// Input, output and filter with padded channels.
    pub padded: [u64; 3],
    /// The same as they are.
    pub plain: [u64; 3],
}

impl Operands {
    /// The operands of a convolution. Products too large for 64 bits end at the largest number.
    pub fn of(convolution: &Convolution) -> Self {
        let c = convolution;
        // As many channels as fill 16 bytes.
        let multiple = if c.element_bytes >= 4 { 4 } else { 8 };
        let padded = |channels: u64| channels.div_ceil(multiple).saturating_mul(multiple);
        let bytes = |factors: &[u64]| factors.iter().fold(c.element_bytes, |all, next| all.saturating_mul(*next));
        let tensor = |channels: u64, [_, height, width]: [u64; 3]| bytes(&[c.batch, channels, height, width]);
        let per_group = c.input[0] / c.groups.max(1);
        let filter = |output: u64, input: u64| bytes(&[output, input, c.kernel[0], c.kernel[1]]);
        Self {
            padded: [
                tensor(padded(c.input[0]), c.input),
                tensor(padded(c.output[0]), c.output),
                filter(padded(c.output[0]), padded(per_group)),
            ],
            plain: [tensor(c.input[0], c.input), tensor(c.output[0], c.output), filter(c.output[0], per_group)],
        }
    }
}

impl Form {
    /// Bytes of the form; the largest number where they do not fit into 64 bits.
    pub fn bytes(&self, operands: &Operands) -> u64 {
        let terms = if self.is_padded { operands.padded } else { operands.plain };
        let hundredths: u128 =
            terms.iter().zip(self.hundredths).map(|(&bytes, share)| u128::from(bytes) * u128::from(share)).sum();
        let mebibytes = u128::from(MEBIBYTE) * u128::from(self.mebibytes);
        u64::try_from(hundredths / 100 + mebibytes).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Direction;

    /// 3x3 from 3 to 10 channels on 8x8, two samples.
    fn stem(element_bytes: u64) -> Convolution {
        Convolution {
            direction: Direction::Forward,
            batch: 2,
            input: [3, 8, 8],
            output: [10, 8, 8],
            kernel: [3, 3],
            stride: 1,
            padding: 1,
            dilation: 1,
            groups: 1,
            element_bytes,
        }
    }

    fn bytes(name: &str, convolution: &Convolution) -> u64 {
        let form = FORMS.iter().find(|form| form.name == name).expect("a form");
        form.bytes(&Operands::of(convolution))
    }

    #[test]
    fn forms_of_a_stem_by_hand() {
        // 2 * 4 * 64 * 4, 2 * 12 * 64 * 4 and 12 * 4 * 9 * 4 bytes.
        let (x, y, w) = (2048, 6144, 1728);
        let stem = stem(4);
        assert_eq!(Operands::of(&stem), Operands { padded: [x, y, w], plain: [1536, 5120, 1080] });
        assert_eq!(bytes("0", &stem), 0);
        assert_eq!(bytes("X+Y+W", &stem), x + y + w);
        assert_eq!(bytes("X+Y+80W", &stem), x + y + 80 * w);
        assert_eq!(bytes("X1+Y1+W1", &stem), 1536 + 5120 + 1080);
        assert_eq!(bytes("S+2Mi", &stem), x + y + w + (2 << 20));
        assert_eq!(bytes("8Mi", &stem), 8 << 20);
        assert_eq!(bytes("1.35S", &stem), 135 * (x + y + w) / 100);
    }

    #[test]
    fn half_precision_pads_to_eight_channels() {
        assert_eq!(Operands::of(&stem(2)).padded, [2048, 4096, 16 * 8 * 9 * 2]);
    }

    #[test]
    fn groups_divide_the_filter_alone() {
        let grouped = Convolution { input: [32, 8, 8], output: [64, 8, 8], groups: 8, ..stem(4) };
        assert_eq!(Operands::of(&grouped).padded, [16_384, 32_768, 64 * 4 * 9 * 4]);
    }
}
