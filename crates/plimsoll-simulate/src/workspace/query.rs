//! What is asked: a convolution on a class of GPUs, in a format, under a generation of cuDNN.

use plimsoll_graph::{Gpu, Precision};

use crate::trace::Convolution;

/// GPUs that cuDNN answers alike: all of a compute capability, but for those of 7.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GpuClass {
    /// Compute capability 7.0.
    Volta,
    /// 7.5 with fewer than 60 multiprocessors.
    SmallTuring,
    /// 7.5 with 60 or more.
    Turing,
    /// 8.0.
    Ampere,
    /// 8.6.
    ConsumerAmpere,
    /// 8.9.
    Ada,
    /// 9.0.
    Hopper,
    /// 10.0.
    Blackwell,
    /// 12.0.
    ConsumerBlackwell,
}

impl GpuClass {
    /// Every class, in the order of the features.
    pub const ALL: [Self; 9] = [
        Self::Volta,
        Self::SmallTuring,
        Self::Turing,
        Self::Ampere,
        Self::ConsumerAmpere,
        Self::Ada,
        Self::Hopper,
        Self::Blackwell,
        Self::ConsumerBlackwell,
    ];
    /// From so many multiprocessors on a GPU of compute capability 7.5 is answered as a larger one.
    const TURING_SMS: u32 = 60;

    /// The class of a GPU, a capability between two taking the lower one; none before Volta and of other makers.
    pub fn of(gpu: &Gpu) -> Option<Self> {
        Some(match gpu.compute_capability {
            ..7.0 => return None,
            ..7.5 => Self::Volta,
            ..8.0 if gpu.sms < Self::TURING_SMS => Self::SmallTuring,
            ..8.0 => Self::Turing,
            ..8.6 => Self::Ampere,
            ..8.9 => Self::ConsumerAmpere,
            ..9.0 => Self::Ada,
            ..10.0 => Self::Hopper,
            ..12.0 => Self::Blackwell,
            _ => Self::ConsumerBlackwell,
        })
    }

    /// A GPU of the class, by catalogue name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Volta => "v100-16",
            Self::SmallTuring => "t4",
            Self::Turing => "rtx-2080-ti",
            Self::Ampere => "a100-40",
            Self::ConsumerAmpere => "rtx-3090",
            Self::Ada => "l4",
            Self::Hopper => "h100-80",
            Self::Blackwell => "b200",
            Self::ConsumerBlackwell => "rtx-5090",
        }
    }

    /// Whether its tensor cores take bf16.
    const fn has_bf16(self) -> bool {
        !matches!(self, Self::Volta | Self::SmallTuring | Self::Turing)
    }
}

/// Element type and what it may be rounded to inside a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Single precision that may be rounded to TF32, as PyTorch lets convolutions.
    Tf32,
    /// Single precision kept.
    Fp32,
    /// Half precision.
    Fp16,
    /// The bf16 format.
    Bf16,
}

impl Format {
    /// The format of a convolution in a job. Where a GPU does not know bf16, fp16 is asked for in its place.
    pub fn of(convolution: &Convolution, precision: Precision, class: GpuClass) -> Self {
        match (convolution.element_bytes, precision) {
            (4.., _) => Self::Tf32,
            (_, Precision::AmpFp16) => Self::Fp16,
            _ if class.has_bf16() => Self::Bf16,
            _ => Self::Fp16,
        }
    }
}

/// Versions of cuDNN with the same heuristics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Generation {
    /// Before 9.19; fitted to 9.10.
    Old,
    /// From 9.19 on; fitted to 9.26.
    New,
}

impl Generation {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Old, Self::New];
    /// Version number of 9.19 as cuDNN counts.
    const FIRST_NEW: u64 = 91_900;

    /// The generation of a version as `cudnnGetVersion` gives it, such as 91002.
    pub const fn of(version: u64) -> Self {
        if version < Self::FIRST_NEW { Self::Old } else { Self::New }
    }
}

/// All that cuDNN's choice depends on, as far as it is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkspaceQuery {
    /// The convolution and its direction.
    pub convolution: Convolution,
    /// The GPU.
    pub class: GpuClass,
    /// The element type.
    pub format: Format,
    /// Whether tensors lie in channels-last order.
    pub is_channels_last: bool,
    /// The version.
    pub generation: Generation,
}

#[cfg(test)]
mod tests {
    use plimsoll_graph::GpuCatalogue;

    use super::*;

    #[test]
    fn every_class_is_that_of_the_gpu_that_names_it() {
        for class in GpuClass::ALL {
            let gpu = GpuCatalogue::built_in().find(class.name()).expect("in the catalogue");
            assert_eq!(GpuClass::of(gpu), Some(class));
        }
    }

    #[test]
    fn classes_between_and_before() {
        let of = |compute_capability, sms| {
            let gpu = GpuCatalogue::built_in().find("t4").expect("in the catalogue");
            GpuClass::of(&Gpu { compute_capability, sms, ..gpu.clone() })
        };
        assert_eq!(of(0.0, 100), None);
        assert_eq!(of(6.1, 100), None);
        assert_eq!(of(7.5, 59), Some(GpuClass::SmallTuring));
        assert_eq!(of(7.5, 60), Some(GpuClass::Turing));
        assert_eq!(of(8.7, 16), Some(GpuClass::ConsumerAmpere));
        assert_eq!(of(10.3, 160), Some(GpuClass::Blackwell));
        assert_eq!(of(13.0, 10), Some(GpuClass::ConsumerBlackwell));
    }
}
