//! `plimsoll estimate`

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use plimsoll_dataset::{Label, Measurement, Sample, Stack, UTILISATION};
use plimsoll_graph::Workload;
use plimsoll_model::{Adaptation, DeviceKind, Estimate, Estimator, Learned, OOD_WIDENING};
use plimsoll_simulate::{Simulation, node_cost};
use serde_json::{Map, Value, json};

use super::{estimate_jobs, source};
use crate::cli::EstimateArguments;
use crate::output::{self, gib};

/// The score from which a warning speaks of it: architectures held out at random stay below.
const FAR: f64 = 0.1;

/// The estimator that ships with Plimsoll.
const SHIPPED_DESCRIPTION: &[u8] = include_bytes!("../../../../checkpoints/default/checkpoint.json");
const SHIPPED_WEIGHTS: &[u8] = include_bytes!("../../../../checkpoints/default/weights.bpk");

/// Says what a training job will take.
pub(super) fn run(arguments: &EstimateArguments) -> Result<()> {
    if let Some(table) = &arguments.jobs {
        return estimate_jobs::run(arguments, table);
    }
    let (workload, doubts) = source::workload(&arguments.graph, &arguments.setup, arguments.gpu_file.as_deref())?;
    let label = label(&arguments.label)?;
    let learned = estimator(arguments.checkpoint.as_deref())?;
    let asked = (label, arguments.software.stack.unwrap_or_default());
    let answer = Answer::new(&arguments.graph.file, workload, asked, &learned, &doubts);
    if arguments.json { output::json(&answer.json()) } else { output::line(answer.words()) }
}

/// The estimator of a folder, or the one that ships with Plimsoll.
pub(super) fn estimator(checkpoint: Option<&Path>) -> Result<Learned> {
    let device = DeviceKind::Cpu.open()?;
    Ok(match checkpoint {
        Some(folder) => Learned::load(folder, &device)?,
        None => Learned::parse(SHIPPED_DESCRIPTION, SHIPPED_WEIGHTS.to_vec(), Path::new("built-in"), &device)?,
    })
}

/// The label definition of a name.
pub(super) fn label(name: &str) -> Result<Label> {
    let known = || Label::ALL.into_iter().filter(|label| *label != Label::Simulated);
    known().find(|label| label.name() == name).with_context(|| {
        let known: Vec<&str> = known().map(Label::name).collect();
        format!("unknown label `{name}`: expected one of {}", known.join(", "))
    })
}

/// Everything there is to say of one workload.
struct Answer {
    file: String,
    workload: Workload,
    simulation: Simulation,
    /// Probability that a convolution takes much more workspace than was replayed.
    spike_risk: f64,
    flops: u64,
    layers: usize,
    label: Label,
    stack: Stack,
    /// What a few runs of the GPU taught beyond the fit.
    adaptation: Option<Adaptation>,
    /// Memory as the label definition reads it.
    estimate: Estimate,
    /// Probability that the job fits its GPU: of the device-wide reading, whatever definition was asked for.
    fits: f64,
    estimator: Value,
    warnings: Vec<String>,
}

impl Answer {
    fn new(
        file: &Path,
        workload: Workload,
        (label, stack): (Label, Stack),
        learned: &Learned,
        doubts: &[String],
    ) -> Self {
        let simulation = Simulation::of(&workload);
        let nodes = workload.graph().nodes();
        let flops = nodes.iter().map(|node| node_cost(&workload, node).flops).fold(0, u64::saturating_add);
        let measurement = Measurement::unmeasured(file.display().to_string(), workload.clone());
        let sample = Sample { label, stack, ..Sample::from_simulation(&measurement, &simulation) };
        let whole = Sample { label: Label::NvidiaSmiDevice, ..sample.clone() };
        let estimates = learned.estimate(&[&sample, &whole]);
        let [estimate, whole] = [0, 1].map(|index| estimates.get(index).copied().unwrap_or_default());
        let fits = whole.probability_fits(workload.gpu().memory_mib as f64).unwrap_or_default();
        let description = learned.description();
        let estimator = json!({
            "name": learned.name(),
            "fitted_to": description.data.name,
            "label": description.data.label,
            "rows": description.data.training_rows,
        });
        let warnings = warnings(&workload, learned, &sample, &estimate, doubts);
        Self {
            file: file.display().to_string(),
            layers: sample.features.tokens.len(),
            workload,
            simulation,
            spike_risk: f64::from(sample.features.spike_risk()),
            flops,
            label,
            stack,
            // Without the jobs behind it, which are many numbers.
            adaptation: description
                .adaptation(&sample.gpu, label, stack)
                .map(|known| Adaptation { neighbours: None, ..known.clone() }),
            estimate,
            fits,
            estimator,
            warnings,
        }
    }

    fn peak_mib(&self) -> f64 {
        self.estimate.peak_memory_mib.unwrap_or_default()
    }

    fn capacity_mib(&self) -> f64 {
        self.workload.gpu().memory_mib as f64
    }

    fn json(&self) -> Value {
        let (graph, gpu) = (self.workload.graph(), self.workload.gpu());
        let mut answer = Map::new();
        let mut put = |name: &str, value: Value| answer.insert(name.into(), value);
        put("file", json!(self.file));
        put("name", json!(graph.name()));
        put("family", json!(graph.family()));
        put("gpu", json!({ "name": gpu.name, "memory_mib": gpu.memory_mib }));
        put("setup", json!(self.workload.setup()));
        put("peak_memory_mib", json!(self.peak_mib()));
        put("label", json!(self.label));
        put("stack", json!(self.stack));
        put("adaptation", json!(self.adaptation));
        put("bounds_mib", json!(self.estimate.bounds));
        put("probability_fits", json!(self.fits));
        put("fits", json!(self.fits >= 0.5));
        put("ood", json!(self.estimate.ood));
        put("simulated_peak_mib", json!(self.simulation.peak_mib()));
        put("spike_risk", json!(self.spike_risk));
        for (target, ratio) in UTILISATION.iter().zip(self.estimate.utilisation) {
            put(target.name(), json!(ratio.map(|ratio| ratio * target.per_ratio())));
        }
        put(
            "totals",
            json!({
                "parameters": graph.parameter_count(),
                "nodes": graph.nodes().len(),
                "layers_seen": self.layers,
                "forward_flops": self.flops,
                "parameter_bytes": self.simulation.memory.parameter_bytes,
                "buffer_bytes": self.simulation.memory.buffer_bytes,
                "gradient_bytes": self.simulation.memory.gradient_bytes,
                "optimizer_bytes": self.simulation.memory.optimizer_bytes,
                "activation_bytes": self.simulation.memory.activation_bytes,
                "live_peak_bytes": self.simulation.memory.live_peak_bytes,
                "tensor_sum_bytes": self.simulation.memory.tensor_sum_bytes(),
            }),
        );
        put("estimator", self.estimator.clone());
        put("warnings", json!(self.warnings));
        Value::Object(answer)
    }

    /// The bound at 95 %, and how memory is read where that is not as usual.
    fn bound(&self) -> String {
        let label = match self.label {
            Label::NvidiaSmiDevice => String::new(),
            label => format!("{}; ", label.name()),
        };
        match self.estimate.bounds {
            Some(bounds) => format!(" ({label}95 %: at most {})", gib(bounds.p95)),
            None if label.is_empty() => String::new(),
            None => format!(" ({})", label.trim_end_matches("; ")),
        }
    }

    /// A word on convolutions, where there is a risk to speak of.
    fn spikes(&self) -> String {
        if self.spike_risk < 0.05 {
            return String::new();
        }
        format!("; chance of a larger convolution workspace {:.0} %", 100.0 * self.spike_risk)
    }

    /// Whose runs speak for the job's GPU, where any do.
    fn adapted(&self) -> Option<String> {
        let Adaptation { gpu, stack, rows, .. } = self.adaptation.as_ref()?;
        let stack = if stack.is_unknown() { String::new() } else { format!(" on {stack}") };
        Some(format!("  adapted to    {rows} runs of {gpu}{stack}"))
    }

    fn words(&self) -> String {
        let (graph, setup, gpu) = (self.workload.graph(), self.workload.setup(), self.workload.gpu());
        let mib = |bytes: u64| gib(bytes as f64 / f64::from(1 << 20));
        let mut lines = vec![
            format!(
                "{}: batch {}, {}, {} on {}",
                graph.name(),
                setup.batch_size,
                setup.optimizer.name(),
                setup.precision.name(),
                gpu.name
            ),
            format!(
                "  peak memory   {}{} of {}: {}",
                gib(self.peak_mib()),
                self.bound(),
                gib(self.capacity_mib()),
                verdict(self.fits)
            ),
            format!(
                "  simulated     {}, of which context and libraries {}{}",
                gib(self.simulation.peak_mib()),
                gib(self.simulation.context_mib as f64),
                self.spikes()
            ),
            format!(
                "  tensors       weights {}, gradients {}, optimiser {}, activations {}",
                mib(self.simulation.memory.parameter_bytes + self.simulation.memory.buffer_bytes),
                mib(self.simulation.memory.gradient_bytes),
                mib(self.simulation.memory.optimizer_bytes),
                mib(self.simulation.memory.activation_bytes)
            ),
        ];
        // Right under the estimate that it changed.
        lines.splice(2..2, self.adapted());
        let metrics: Vec<String> = UTILISATION
            .iter()
            .zip(self.estimate.utilisation)
            .filter_map(|(target, ratio)| Some(format!("{} {:.0} %", target.short_name(), 100.0 * ratio?)))
            .collect();
        if !metrics.is_empty() {
            lines.push(format!("  utilisation   {}", metrics.join(", ")));
        }
        lines.push(format!(
            "  the graph     {} parameters, {} operators, {:.2} GFLOP forward",
            graph.parameter_count(),
            graph.nodes().len(),
            self.flops as f64 / 1e9
        ));
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.join("\n")
    }
}

/// What a probability comes to. Never quite certain: a hundred per cent is not to be had.
fn verdict(fits: f64) -> String {
    let percent = (100.0 * fits).clamp(0.1, 99.9);
    let word = match fits {
        fits if fits >= 0.95 => "fits",
        fits if fits >= 0.5 => "probably fits",
        fits if fits >= 0.05 => "probably does not fit",
        _ => "does not fit",
    };
    format!("{word} ({percent:.1} %)")
}

/// What a user should know before trusting the numbers.
pub(super) fn warnings(
    workload: &Workload,
    learned: &Learned,
    sample: &Sample,
    estimate: &Estimate,
    doubts: &[String],
) -> Vec<String> {
    let data = &learned.description().data;
    let (graph, gpu) = (workload.graph(), workload.gpu());
    let mut warnings = source::doubts(workload, doubts);
    if !data.gpus.contains(&gpu.name)
        && learned.description().adaptation(&gpu.name, sample.label, sample.stack).is_none()
    {
        let others = learned
            .description()
            .adaptations
            .iter()
            .filter(|known| known.gpu == gpu.name && !known.stack.agrees_with(sample.stack));
        let stacks: BTreeSet<String> = others.map(|known| known.stack.to_string()).collect();
        let elsewhere = match stacks.iter().find(|stack| !stack.is_empty()) {
            Some(stack) => format!("; there are runs of it on {stack}: say --stack if that is yours"),
            None => String::new(),
        };
        warnings.push(format!(
            "{} is not among the GPUs that the estimator was fitted to ({}){elsewhere}",
            gpu.name,
            data.gpus.join(", ")
        ));
    }
    if !data.families.iter().any(|family| family == graph.family().name()) {
        warnings.push(format!(
            "the family `{}` is not among those that the estimator was fitted to ({})",
            graph.family(),
            data.families.join(", ")
        ));
    }
    if estimate.ood >= FAR {
        let wider = 100.0 * (OOD_WIDENING[2] * estimate.ood).exp_m1();
        warnings.push(format!(
            "outside the ranges of what was measured (score {:.2} of 1): the bound at 95 % is {wider:.0} % wider for it",
            estimate.ood
        ));
    }
    let unfamiliar = learned.description().unfamiliar(&sample.features);
    if !unfamiliar.is_empty() {
        let names = unfamiliar.iter().take(6).copied().collect::<Vec<_>>().join(", ");
        warnings.push(format!("far from everything that the estimator was fitted to: {names}"));
    }
    warnings
}
