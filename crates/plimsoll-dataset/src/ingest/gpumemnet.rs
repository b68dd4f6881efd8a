//! The CSV files of the GPUMemNet measurements.
//!
//! Their `Filename` holds a run's exact configuration; the graph is built from it, and what other columns say of the
//! same things is held against it. The layer lists are not used: they leave out channels and parameters.

use std::sync::Arc;

use csv::StringRecord;
use plimsoll_graph::gpumemnet::{Configuration, alternatives};
use plimsoll_graph::{Activation, Dim, Family, Gpu, Graph, Op};

use super::columns::{Header, Required};
use super::csv_rows::CsvRows;
use super::format::Format;
use super::intake::{Intake, outcome};
use super::sources::Source;
use super::{cells, workloads};
use crate::error::Result;
use crate::measurement::{Label, Measurement, Outcome};
use crate::stack::Stack;
use crate::target::Target;

const FILENAME: &str = "Filename";
const LAYERS: &str = "Activations-Params";
const PARAMETERS: &str = "Total Parameters";
const BATCH: &str = "Batch Size";
const PEAK: &str = "Max GPU Memory (MiB)";
const STATUS: &str = "Status";
const WIDTH: &str = "Embedding Size";
const DEPTH: &str = "Num Layers";
const SEQUENCE: &str = "Seq Length";

/// What a header must have. Without `Status`, runs of CNNs and Transformers that ran out of memory would pass for
/// measured ones; both layouts of MLPs are without.
pub(super) const LAYOUTS: [Required; 3] = [
    Required {
        format: Format::Gpumemnet,
        variant: "of Transformers",
        columns: &[FILENAME, LAYERS, PARAMETERS, BATCH, PEAK, STATUS, WIDTH, DEPTH, SEQUENCE],
    },
    Required {
        format: Format::Gpumemnet,
        variant: "of CNNs",
        columns: &[FILENAME, LAYERS, PARAMETERS, BATCH, PEAK, STATUS, "Conv2d Count"],
    },
    Required { format: Format::Gpumemnet, variant: "of MLPs", columns: &[FILENAME, LAYERS, PARAMETERS, BATCH, PEAK] },
];

/// The families of [`LAYOUTS`].
const FAMILIES: [Family; 3] = [Family::Transformer, Family::Cnn, Family::Mlp];

/// The utilisation columns, which some of the layouts have.
const UTILISATION: [(usize, Target, &str); 5] = [
    (0, Target::Gputl, "Avg GPUTL"),
    (1, Target::Gract, "Avg GRACT"),
    (2, Target::Smact, "Avg SMACT"),
    (3, Target::Smocc, "Avg SMOCC"),
    (4, Target::Fp32a, "Avg FP32A"),
];

/// The GPU on which everything in this layout was measured.
const GPU: &str = "a100-40";

/// Reads a file.
pub(super) fn read(source: &Source, intake: &mut Intake<'_, '_>) -> Result<()> {
    let mut rows = CsvRows::open(&source.path)?;
    let reader = RowReader::new(source, rows.header(), intake)?;
    while let Some((line, record)) = rows.next()? {
        let id = format!("{}:{line}", source.name);
        match record {
            Ok(record) => intake.row(id.clone(), reader.measurement(id, record), record)?,
            Err(broken) => intake.reject(id, broken.reason, &broken.content)?,
        }
    }
    Ok(())
}

/// Where the columns are, and what holds for every row.
struct RowReader {
    header: Header,
    family: Family,
    gpu: Gpu,
    label: Label,
    stack: Stack,
    keeps_contradictions: bool,
}

impl RowReader {
    fn new(source: &Source, header: &Header, intake: &Intake<'_, '_>) -> Result<Self> {
        let fits = LAYOUTS.iter().position(|layout| header.missing(layout.columns).is_empty());
        let layout = fits.ok_or_else(|| header.unknown(&source.path, &LAYOUTS.each_ref()))?;
        let options = intake.options;
        Ok(Self {
            header: header.clone(),
            family: FAMILIES[layout],
            gpu: options.gpu.as_ref().map_or_else(|| intake.catalogue.find(GPU), Ok)?.clone(),
            label: options.label.unwrap_or(Label::NvidiaSmiDevice),
            stack: options.stack.unwrap_or_default(),
            keeps_contradictions: options.keeps_contradictions,
        })
    }

    fn measurement(&self, id: String, record: &StringRecord) -> Result<Measurement, String> {
        let cell = |name| cells::text(record, self.header.position(name));
        let filename = cell(FILENAME).ok_or_else(|| format!("`{FILENAME}` is empty"))?;
        if filename == FILENAME {
            return Err("the header is repeated here".into());
        }
        match cell(LAYERS) {
            Some("[]") => return Err("the layer list is empty: the run was not described".into()),
            Some(list) if list.starts_with('[') && list.ends_with(']') => {}
            _ => return Err(format!("`{LAYERS}` should be a list in brackets: the row is truncated")),
        }
        let configuration = self.configuration(filename, record)?;
        if crashed_before_training(&configuration) {
            return Err("one output without a final activation: the run crashed after its first forward pass".into());
        }
        let batch = cells::count(BATCH, cell(BATCH))?;
        let batch_size = configuration.setup.batch_size;
        if batch != batch_size {
            return Err(format!("`{BATCH}` is {batch}, but the configuration's batch is {batch_size}"));
        }
        let peak = cells::mib(PEAK, cell(PEAK).unwrap_or_default())?;
        let mut utilisation = [None; 6];
        for (index, target, name) in UTILISATION {
            utilisation[index] = cells::utilisation(target, name, cell(name))?;
        }
        forget_silent_metrics(&mut utilisation);
        if !self.keeps_contradictions && contradicts_itself(&utilisation) {
            utilisation = [None; 6];
        }
        Ok(Measurement {
            id,
            outcome: self.outcome(peak, cell(STATUS))?,
            architecture: configuration.architecture,
            shape: configuration.shape,
            workload: workloads::job(Arc::new(configuration.graph), configuration.setup, &self.gpu)?,
            label: self.label,
            stack: self.stack,
            utilisation,
            published_estimates: Vec::new(),
            doubt: None,
        })
    }

    /// The configuration that a row's name describes and its parameter count fits.
    fn configuration(&self, filename: &str, record: &StringRecord) -> Result<Configuration, String> {
        let readings = alternatives(filename).map_err(|error| error.to_string())?;
        let family = readings[0].family;
        if family != self.family {
            return Err(format!(
                "the row describes a network of family `{family}`, but the columns are those of family `{}`",
                self.family
            ));
        }
        let expected = self.parameters(record)?;
        let found = listed_parameters(&readings[0].graph);
        readings
            .into_iter()
            .find(|reading| listed_parameters(&reading.graph) == expected)
            .ok_or_else(|| format!("`{PARAMETERS}` makes {expected} parameters, but the configuration has {found}"))
    }

    /// The parameters that a row says its network has.
    fn parameters(&self, record: &StringRecord) -> Result<u64, String> {
        let count = |name| cells::count(name, cells::text(record, self.header.position(name)));
        let listed = count(PARAMETERS)?;
        if self.family != Family::Transformer {
            return Ok(listed);
        }
        // The lists of Transformers leave out what is no module of its own with parameters: the attention's input
        // projection, its norms, and the positions' embedding.
        let (width, depth, sequence) = (count(WIDTH)?, count(DEPTH)?, count(SEQUENCE)?);
        let layer =
            width.checked_mul(width).and_then(|square| square.checked_mul(3)?.checked_add(width.checked_mul(7)?));
        let missing = layer.and_then(|layer| layer.checked_mul(depth)?.checked_add(width.checked_mul(sequence)?));
        missing
            .and_then(|missing| missing.checked_add(listed))
            .ok_or_else(|| format!("`{WIDTH}` {width}, `{DEPTH}` {depth} and `{SEQUENCE}` {sequence} are absurd"))
    }

    fn outcome(&self, peak: f64, status: Option<&str>) -> Result<Outcome, String> {
        let ran_out = match status {
            None if !self.header.has(STATUS) => false,
            Some("SUCCESSFUL") => false,
            Some("OOM_CRASH") => true,
            other => {
                let found = cells::short(other.unwrap_or_default());
                return Err(format!("`{STATUS}` should be `SUCCESSFUL` or `OOM_CRASH`, is `{found}`"));
            }
        };
        outcome(PEAK, Some(peak), ran_out, &self.gpu, self.label)
    }
}

/// Whether the generating script fails on a configuration, although its row looks like a result.
///
/// With a single output it takes the binary loss, whose labels have another shape than the outputs of the first MLP
/// layout and of CNNs: the run ends after one forward pass, before gradients and optimiser states exist. Later MLPs
/// end in an activation and reshape, and do train.
fn crashed_before_training(configuration: &Configuration) -> bool {
    let graph = &configuration.graph;
    let has_one_output = graph.outputs().first().is_some_and(|&id| graph.tensor(id).shape.last() == Dim::Fixed(1));
    let ends_linear = graph.nodes().last().is_some_and(|node| matches!(node.op, Op::Linear));
    has_one_output && (configuration.family == Family::Cnn || (configuration.family == Family::Mlp && ends_linear))
}

/// The profiling counters of DCGM read exactly 0 in runs that they missed: kernels ran, for GPUTL is above 0.
fn forget_silent_metrics(utilisation: &mut [Option<f64>; 6]) {
    let [gputl, _, smact, ..] = *utilisation;
    if gputl.is_some_and(|ratio| ratio > 0.0) && smact == Some(0.0) {
        for metric in &mut utilisation[1..] {
            *metric = None;
        }
    }
}

/// Whether the counters of a run cannot all be right, by what they count.
///
/// A multiprocessor cannot be active while no kernel runs (SMACT over GRACT), nor its warps resident or its units busy
/// while it is not active (SMOCC and FP32A over SMACT), and GPUTL and GRACT count the same thing. The slack is for
/// averages over different samples. The rule looks at measurements only.
fn contradicts_itself(utilisation: &[Option<f64>; 6]) -> bool {
    /// GPUTL is sampled more coarsely than the rest.
    const COARSE: f64 = 0.15;
    const AVERAGED: f64 = 0.12;
    const FINE: f64 = 0.02;
    let [Some(gputl), Some(gract), Some(smact), Some(smocc), Some(fp32a), _] = *utilisation else { return false };
    (gputl - gract).abs() > COARSE || smact > gract + AVERAGED || smocc > smact + FINE || fp32a > smact + FINE
}

/// Parameters of a graph as the layer lists count them: they take activations to have none, which PReLU's has.
fn listed_parameters(graph: &Graph) -> u64 {
    let prelu = |op: &Op| matches!(op, Op::Activation { function: Activation::Prelu, .. });
    let unlisted = graph.nodes().iter().filter(|node| prelu(&node.op)).flat_map(|node| &node.weights);
    graph.parameter_count() - unlisted.map(|&id| graph.weight(id).elements()).sum::<u64>()
}
