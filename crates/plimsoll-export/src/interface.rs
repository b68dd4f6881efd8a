//! What goes into an exported network and what comes out: one list for graph, metadata and manifest.

use plimsoll_dataset::{Label, Stack, UTILISATION};
use plimsoll_features::FeatureSchema;
use plimsoll_model::{BinEstimate, Description, LEVELS, NetworkSettings, OutputSettings, Settings};
use serde::{Deserialize, Serialize};

use crate::onnx::{ElementType, Extent};

/// Raw summary features.
pub const SUMMARY: &str = "summary";
/// Raw GPU features.
pub const GPU: &str = "gpu";
/// What the simulator says of memory.
pub const SIMULATED: &str = "simulated_mib";
/// How memory is read.
pub const LABEL: &str = "label";
/// The software under the job.
pub const STACK: &str = "stack";
/// Operator tokens.
pub const TOKENS: &str = "tokens";
/// Raw numbers of the layers.
pub const LAYERS: &str = "layers";
/// Where a layer is real.
pub const MASK: &str = "mask";
/// Peak memory.
pub const PEAK_MEMORY: &str = "peak_memory_mib";
/// Upper bounds of peak memory.
pub const QUANTILES: &str = "peak_memory_quantiles_mib";
/// How far a workload lies from what was measured.
pub const OUT_OF_DISTRIBUTION: &str = "out_of_distribution";
/// Spread of peak memory.
pub const SCALE: &str = "scale";
/// Utilisation.
pub const UTILISATION_RATIOS: &str = "utilisation";
/// Probabilities of the memory bins.
pub const BIN_PROBABILITIES: &str = "bin_probabilities";

/// An input or output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name in the graph.
    pub name: String,
    /// Type of its elements.
    pub dtype: ElementType,
    /// Its shape: numbers, and the names `batch` and `layers` for what the caller decides.
    pub shape: Vec<Extent>,
    /// Unit of its elements.
    pub unit: String,
    /// What it means, for people.
    pub description: String,
    /// What the columns stand for, where each is a quantity of its own and the feature schema does not name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
}

/// A column of an output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name of the target.
    pub target: String,
    /// Unit of the target.
    pub unit: String,
    /// What the column is multiplied by to become the target in its unit.
    pub factor: f64,
    /// Whether the training data had the target. If not, nothing was learned of it and the column is 0.
    pub is_fitted: bool,
}

fn port(name: &str, dtype: ElementType, shape: Vec<Extent>, unit: &str, description: impl Into<String>) -> Port {
    let description = description.into();
    Port { name: name.into(), dtype, shape, unit: unit.into(), description, columns: Vec::new() }
}

/// Name of the extent that counts rows.
const BATCH: &str = "batch";

fn batch() -> Extent {
    Extent::Named(BATCH.into())
}

/// The inputs of a network, in order.
///
/// They are raw: the graph scales them itself. A classifier reads no simulation, but takes it, so that one
/// caller serves every network.
pub fn inputs(settings: &Settings, schema: &FeatureSchema) -> Vec<Port> {
    let layers = || Extent::Named("layers".into());
    let (fixed, float) = (Extent::Fixed, ElementType::Float32);
    let mut ports = vec![
        port(
            SUMMARY,
            float,
            vec![batch(), fixed(schema.summary.len())],
            "as its name says",
            "Raw summary features in the order of the schema's `summary`.",
        ),
        port(
            GPU,
            float,
            vec![batch(), fixed(schema.gpu.len())],
            "as its name says",
            "Raw GPU features in the order of the schema's `gpu`.",
        ),
        port(
            SIMULATED,
            float,
            vec![batch(), fixed(3)],
            "MiB",
            "What the replayed allocator reserves at its peak; nominal memory of context and libraries; bytes alive at \
             the peak.",
        ),
        port(
            LABEL,
            ElementType::Int64,
            vec![batch()],
            "index",
            format!("How memory is read, as an index into: {}.", Label::ALL.map(Label::name).join(", ")),
        ),
        port(
            STACK,
            float,
            vec![batch(), fixed(Stack::NUMBERS.len())],
            "as its name says",
            format!(
                "The software under the job, all 0 where it is not known: {}. Older and newer are flags against PyTorch 2, \
                 CUDA 12 and cuDNN 9; minor versions are m / 5 - 1 of PyTorch's and m / 4 - 1 of CUDA's, at most 1.",
                Stack::NUMBERS.join(", ")
            ),
        ),
    ];
    if matches!(settings.network, NetworkSettings::Transformer { .. }) {
        ports.extend([
            port(
                TOKENS,
                ElementType::Int64,
                vec![batch(), layers()],
                "index",
                "Operator tokens: indices into the schema's `tokens`. Any token in padding.",
            ),
            port(
                LAYERS,
                float,
                vec![batch(), layers(), fixed(schema.layer.len())],
                "as its name says",
                "Raw numbers of each layer in the order of the schema's `layer`. Any number in padding.",
            ),
            port(
                MASK,
                ElementType::Bool,
                vec![batch(), layers()],
                "flag",
                "True where a layer is real, false in padding behind it.",
            ),
        ]);
    }
    ports
}

/// The outputs of a fitted network, in order.
pub fn outputs(description: &Description) -> Vec<Port> {
    let (fixed, float) = (Extent::Fixed, ElementType::Float32);
    let mut ports = match description.settings.output {
        OutputSettings::Regression => vec![
            port(PEAK_MEMORY, float, vec![batch(), fixed(1)], "MiB", "Median of peak memory."),
            port(
                SCALE,
                float,
                vec![batch(), fixed(1)],
                "natural logarithm",
                "Scale of the logistic distribution of the natural logarithm of peak memory (the scale itself, not its \
                 logarithm): memory stays below peak_memory_mib * (p / (1 - p)) ^ scale with probability p.",
            ),
        ],
        OutputSettings::Bins { width_mib, count, estimate } => vec![
            port(
                PEAK_MEMORY,
                float,
                vec![batch(), fixed(1)],
                "MiB",
                match estimate {
                    BinEstimate::Middle => "Middle of the most probable memory bin.",
                    BinEstimate::Upper => "Upper edge of the most probable memory bin.",
                },
            ),
            port(
                BIN_PROBABILITIES,
                float,
                vec![batch(), fixed(count)],
                "probability",
                format!(
                    "Probability of each memory bin: bin i holds i * {width_mib} MiB up to (i + 1) * {width_mib} MiB, \
                     its upper edge excluded; the last is open above."
                ),
            ),
        ],
    };
    let mut utilisation = port(
        UTILISATION_RATIOS,
        float,
        vec![batch(), fixed(UTILISATION.len())],
        "ratio",
        "Utilisation between 0 and 1, a column for each target.",
    );
    utilisation.columns = UTILISATION
        .iter()
        .zip(description.utilisation_rows)
        .map(|(target, rows)| Column {
            target: target.name().into(),
            unit: target.unit().into(),
            factor: target.per_ratio(),
            is_fitted: rows > 0,
        })
        .collect();
    ports.push(utilisation);
    ports.push(port(
        OUT_OF_DISTRIBUTION,
        float,
        vec![batch(), fixed(1)],
        "score",
        "0 for a workload within the ranges of all that was fitted to, towards 1 for one outside of many; bounds are \
         wider by it.",
    ));
    if description.calibration.is_some() {
        ports.push(port(
            QUANTILES,
            float,
            vec![batch(), fixed(LEVELS.len())],
            "MiB",
            format!(
                "Calibrated upper bounds of peak memory: shares of {} of jobs stay below. A job fits a GPU with 95 % \
                 confidence where the third is at most the GPU's memory.",
                LEVELS.map(|level| level.to_string()).join(", ")
            ),
        ));
    }
    ports
}

/// The shape of a port for a batch of so many rows and layers.
pub fn shape(port: &Port, rows: usize, layers: usize) -> Vec<usize> {
    let extent = |extent: &Extent| match extent {
        Extent::Fixed(extent) => *extent,
        Extent::Named(name) if name == BATCH => rows,
        Extent::Named(_) => layers,
    };
    port.shape.iter().map(extent).collect()
}
