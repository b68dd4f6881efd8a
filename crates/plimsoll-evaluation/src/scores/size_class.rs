//! Classes of peak memory, in powers of two.

use serde::{Deserialize, Serialize};

/// A half-open range of measured peak memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SizeClass {
    /// Below 512 MiB.
    #[serde(rename = "below 0.5 GiB")]
    Below512,
    /// 512 MiB up to 1 GiB.
    #[serde(rename = "0.5-1 GiB")]
    From512,
    /// 1 GiB up to 2 GiB.
    #[serde(rename = "1-2 GiB")]
    From1024,
    /// 2 GiB up to 4 GiB.
    #[serde(rename = "2-4 GiB")]
    From2048,
    /// 4 GiB up to 8 GiB.
    #[serde(rename = "4-8 GiB")]
    From4096,
    /// 8 GiB up to 16 GiB.
    #[serde(rename = "8-16 GiB")]
    From8192,
    /// 16 GiB up to 32 GiB.
    #[serde(rename = "16-32 GiB")]
    From16384,
    /// 32 GiB up to 64 GiB.
    #[serde(rename = "32-64 GiB")]
    From32768,
    /// 64 GiB and above.
    #[serde(rename = "64 GiB and above")]
    From65536,
}

impl SizeClass {
    /// Every class, from small to large.
    pub const ALL: [Self; 9] = [
        Self::Below512,
        Self::From512,
        Self::From1024,
        Self::From2048,
        Self::From4096,
        Self::From8192,
        Self::From16384,
        Self::From32768,
        Self::From65536,
    ];

    /// The class of a peak.
    pub fn of(peak_mib: f64) -> Self {
        let mut limit = 512.0;
        for class in Self::ALL {
            if peak_mib < limit {
                return class;
            }
            limit *= 2.0;
        }
        Self::From65536
    }

    /// The name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Below512 => "below 0.5 GiB",
            Self::From512 => "0.5-1 GiB",
            Self::From1024 => "1-2 GiB",
            Self::From2048 => "2-4 GiB",
            Self::From4096 => "4-8 GiB",
            Self::From8192 => "8-16 GiB",
            Self::From16384 => "16-32 GiB",
            Self::From32768 => "32-64 GiB",
            Self::From65536 => "64 GiB and above",
        }
    }
}

impl std::fmt::Display for SizeClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_half_open_and_named_alike_everywhere() {
        let found = [0.0, 511.9, 512.0, 1024.0, 8192.0, 65_535.9, 65_536.0, 1e9].map(SizeClass::of);
        let names = found.map(SizeClass::name);
        assert_eq!(
            names,
            [
                "below 0.5 GiB",
                "below 0.5 GiB",
                "0.5-1 GiB",
                "1-2 GiB",
                "8-16 GiB",
                "32-64 GiB",
                "64 GiB and above",
                "64 GiB and above"
            ]
        );
        for class in SizeClass::ALL {
            assert_eq!(serde_json::to_value(class).expect("known"), class.name());
        }
    }
}
