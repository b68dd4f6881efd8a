//! Which convolutions PyTorch gives to cuDNN at all.

use super::query::Format;
use crate::trace::Convolution;

/// All but depthwise ones, for which PyTorch has kernels of its own, without a workspace. In fp16 some of these go to
/// cuDNN too; the rules for that are those of `check_cudnn_depthwise_workload_with_filter` in `Convolution.cpp`.
pub(super) fn goes_to_cudnn(convolution: &Convolution, format: Format) -> bool {
    let c = convolution;
    let channels = c.input[0];
    let is_depthwise = c.groups > 1 && channels == c.groups && c.output[0].is_multiple_of(channels);
    if !is_depthwise {
        return true;
    }
    let [_, height, width] = c.input;
    if format != Format::Fp16 || c.dilation > 1 || channels < 32 {
        return false;
    }
    if height == 1 && c.stride == 1 {
        return true;
    }
    let [side, other_side] = c.kernel;
    if side != other_side || !matches!(side, 1 | 3 | 5) || width < 7 {
        return false;
    }
    match (c.stride, c.batch, side) {
        (1, ..) => true,
        (2, 1, 1) => width <= 28,
        (2, 1, _) => true,
        (2, batch, 1) => batch <= 16 && channels >= 128 && width <= 7,
        (2, ..) => channels >= 512 || (channels >= 256 && width >= 28),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Direction;

    fn depthwise(channels: u64, kernel: u64, stride: u64) -> Convolution {
        Convolution {
            direction: Direction::Forward,
            batch: 16,
            input: [channels, 56, 56],
            output: [channels, 56 / stride, 56 / stride],
            kernel: [kernel, kernel],
            stride,
            padding: kernel / 2,
            dilation: 1,
            groups: channels,
            element_bytes: 4,
        }
    }

    #[test]
    fn depthwise_stays_with_pytorch_but_for_some_of_fp16() {
        assert!(!goes_to_cudnn(&depthwise(64, 3, 1), Format::Tf32));
        assert!(!goes_to_cudnn(&depthwise(64, 3, 1), Format::Bf16));
        assert!(goes_to_cudnn(&depthwise(64, 3, 1), Format::Fp16));
        assert!(!goes_to_cudnn(&depthwise(64, 3, 2), Format::Fp16));
        assert!(goes_to_cudnn(&depthwise(256, 3, 2), Format::Fp16));
        assert!(!goes_to_cudnn(&depthwise(64, 7, 1), Format::Fp16));
    }

    #[test]
    fn other_groups_go_to_cudnn() {
        let grouped = Convolution { groups: 8, ..depthwise(64, 3, 1) };
        assert!(goes_to_cudnn(&grouped, Format::Tf32));
        assert!(goes_to_cudnn(&Convolution { groups: 1, ..grouped }, Format::Tf32));
    }
}
