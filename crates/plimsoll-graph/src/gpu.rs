//! GPU descriptors and their catalogue.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{GraphError, Result, nearest};

/// What estimators know of a GPU: published figures, nothing measured by us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Name, unique in the catalogue, such as `a100-40`.
    pub name: String,
    /// Other spellings under which it is found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Maker.
    pub vendor: String,
    /// Architecture name, such as `ampere`.
    pub architecture: String,
    /// Year of release.
    pub year: u32,
    /// Total device memory in MiB, as the driver shows it to programs.
    pub memory_mib: u64,
    /// Streaming multiprocessors, or compute units.
    pub sms: u32,
    /// Peak FP32 throughput outside tensor cores, TFLOP/s.
    pub fp32_tflops: f64,
    /// Peak dense FP16 tensor-core throughput, TFLOP/s; 0 without tensor cores.
    pub tensor_tflops: f64,
    /// Peak memory bandwidth, GB/s.
    pub bandwidth_gb_s: f64,
    /// Level-2 cache, MiB.
    pub l2_mib: f64,
    /// CUDA compute capability, or 0 for GPUs that have none.
    pub compute_capability: f64,
    /// Set for a MIG slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigSlice>,
    /// Where the figures are from.
    pub source: String,
}

/// Which part of a larger GPU a MIG profile is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigSlice {
    /// The whole GPU's name.
    pub parent: String,
    /// Profile name, such as `3g.20gb`.
    pub profile: String,
    /// Compute slices, of seven.
    pub compute_slices: u32,
    /// Memory slices, of eight.
    pub memory_slices: u32,
}

impl Gpu {
    /// Checks that every figure is in a range that makes sense.
    ///
    /// # Errors
    /// Zero, negative, infinite or absurd figures.
    pub fn check(&self) -> Result<()> {
        let ranges = [
            ("memory_mib", self.memory_mib as f64, 64.0, 16_777_216.0),
            ("sms", f64::from(self.sms), 1.0, 65_536.0),
            ("year", f64::from(self.year), 2006.0, 2100.0),
            ("fp32_tflops", self.fp32_tflops, 0.001, 1e6),
            ("tensor_tflops", self.tensor_tflops, 0.0, 1e7),
            ("bandwidth_gb_s", self.bandwidth_gb_s, 1.0, 1e6),
            ("l2_mib", self.l2_mib, 0.0, 1e5),
            ("compute_capability", self.compute_capability, 0.0, 100.0),
        ];
        for (field, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                return Err(GraphError::OutOfRange {
                    what: format!("`{field}` of GPU `{}`", self.name),
                    expected: format!("{low} to {high}"),
                    found: value.to_string(),
                });
            }
        }
        Ok(())
    }
}

/// GPUs by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuCatalogue {
    /// The entries, in order.
    #[serde(rename = "gpu", default)]
    gpus: Vec<Gpu>,
}

impl GpuCatalogue {
    /// The largest file of user GPUs that is read.
    pub const MAX_FILE_BYTES: u64 = 4 << 20;

    /// The catalogue that ships with Plimsoll.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: std::sync::OnceLock<GpuCatalogue> = std::sync::OnceLock::new();
        BUILT_IN
            .get_or_init(|| Self::parse(include_str!("gpus.toml"), "the built-in catalogue").expect("held by a test"))
    }

    /// Reads entries in the catalogue's own format.
    ///
    /// # Errors
    /// TOML that does not parse, unknown or missing fields, names used twice, figures out of range.
    pub fn parse(text: &str, what: &str) -> Result<Self> {
        let catalogue: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            GraphError::Malformed {
                what: what.into(),
                at: format!("line {line}"),
                expected: "`[[gpu]]` entries with the fields of `plimsoll gpus --template`".into(),
                found: error.message().into(),
            }
        })?;
        let mut names = std::collections::BTreeSet::new();
        for gpu in &catalogue.gpus {
            gpu.check()?;
            for name in std::iter::once(&gpu.name).chain(&gpu.aliases) {
                if !names.insert(normalise(name)) {
                    return Err(GraphError::OutOfRange {
                        what: format!("GPU name `{name}` in {what}"),
                        expected: "names and aliases used once".into(),
                        found: "a second use".into(),
                    });
                }
            }
        }
        Ok(catalogue)
    }

    /// The built-in catalogue with a user's file on top; entries of the same name are replaced.
    ///
    /// # Errors
    /// As [`GpuCatalogue::parse`], and files that cannot be read.
    pub fn with_file(path: &Path) -> Result<Self> {
        let text = crate::json::read_text(path, Self::MAX_FILE_BYTES)?;
        let user = Self::parse(&text, &path.display().to_string())?;
        let mut gpus: Vec<Gpu> = Self::built_in().gpus.clone();
        for gpu in user.gpus {
            gpus.retain(|known| normalise(&known.name) != normalise(&gpu.name));
            for known in &mut gpus {
                known.aliases.retain(|alias| normalise(alias) != normalise(&gpu.name));
            }
            gpus.push(gpu);
        }
        Ok(Self { gpus })
    }

    /// All entries, in order.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The GPU of a name or alias; case, blanks, `-` and `_` do not matter.
    ///
    /// # Errors
    /// No such GPU; the error proposes the nearest name.
    pub fn find(&self, name: &str) -> Result<&Gpu> {
        let wanted = normalise(name);
        self.gpus
            .iter()
            .find(|gpu| std::iter::once(&gpu.name).chain(&gpu.aliases).any(|known| normalise(known) == wanted))
            .ok_or_else(|| GraphError::Unknown {
                what: "GPU",
                name: name.into(),
                nearest: nearest(&name.to_lowercase(), self.gpus.iter().map(|gpu| gpu.name.as_str())),
            })
    }
}

fn normalise(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_catalogue_holds_what_the_documentation_promises() {
        let catalogue = GpuCatalogue::built_in();
        for name in [
            "k80",
            "p100",
            "v100-16",
            "v100-32",
            "t4",
            "rtx-2080-ti",
            "rtx-3070",
            "rtx-3090",
            "rtx-4090",
            "rtx-5090",
            "a10",
            "a30",
            "a40",
            "a100-40",
            "a100-80",
            "l4",
            "l40s",
            "h100-80",
            "h200",
            "b200",
            "mi325x",
        ] {
            let gpu = catalogue.find(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(!gpu.source.is_empty(), "{name} names no source");
        }
        for parent in ["a100-40", "a100-80", "h100-80", "h200"] {
            let slices = catalogue.gpus().iter().filter(|gpu| gpu.mig.as_ref().is_some_and(|mig| mig.parent == parent));
            assert!(slices.count() >= 5, "{parent} lacks MIG profiles");
        }
    }

    #[test]
    fn spelling_does_not_matter_and_typos_are_met_with_a_proposal() {
        let catalogue = GpuCatalogue::built_in();
        assert_eq!(catalogue.find("RTX 3090").expect("known").name, "rtx-3090");
        assert_eq!(catalogue.find("A100-40GB").expect("known").name, "a100-40");
        let error = catalogue.find("rtx-3099").expect_err("unknown").to_string();
        assert!(error.contains("rtx-3090"), "{error}");
    }

    #[test]
    fn hostile_figures_are_refused() {
        let good = toml::to_string(&GpuCatalogue { gpus: vec![GpuCatalogue::built_in().gpus()[0].clone()] })
            .expect("serialises");
        assert!(GpuCatalogue::parse(&good, "test").is_ok());
        for (field, value) in [("memory_mib", "0"), ("bandwidth_gb_s", "nan"), ("fp32_tflops", "-1.0"), ("sms", "inf")]
        {
            let broken: String = good
                .lines()
                .map(|line| if line.starts_with(field) { format!("{field} = {value}\n") } else { format!("{line}\n") })
                .collect();
            assert!(GpuCatalogue::parse(&broken, "test").is_err(), "{field} = {value}");
        }
    }
}
