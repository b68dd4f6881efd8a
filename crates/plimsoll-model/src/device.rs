//! Where networks run.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::error::{ModelError, Result};

/// A kind of device. The CPU is always there; the others are features of the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// The CPU, on Burn's `flex` backend.
    #[default]
    Cpu,
    /// Any GPU with a graphics API, on Burn's `wgpu` backend.
    Wgpu,
    /// An NVIDIA GPU, on Burn's `cuda` backend.
    Cuda,
}

impl DeviceKind {
    /// Opens the device.
    ///
    /// # Errors
    /// The build lacks the feature.
    pub fn open(self) -> Result<Device> {
        match self {
            Self::Cpu => Ok(Device::flex()),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "cuda")]
            Self::Cuda => Ok(Device::cuda(0)),
            #[cfg(not(all(feature = "wgpu", feature = "cuda")))]
            missing => Err(ModelError::Setting {
                name: "device".into(),
                expected: "a device of this build (build with `--features wgpu` or `--features cuda`)".into(),
                found: format!("{missing:?}").to_lowercase(),
            }),
        }
    }
}
