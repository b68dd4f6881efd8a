//! `plimsoll explain`

mod bars;
mod document;
mod plot;
mod tables;
mod words;

use anyhow::Result;
use plimsoll_graph::{NodeId, Workload};
use plimsoll_simulate::{Explanation, Phase, When};

use super::source;
use crate::cli::ExplainArguments;
use crate::output;

/// Shows where the memory of a training step goes.
pub(super) fn run(arguments: &ExplainArguments) -> Result<()> {
    let (workload, doubts) = source::workload(&arguments.graph, &arguments.setup, arguments.gpu_file.as_deref())?;
    let answer = Answer {
        file: arguments.graph.file.display().to_string(),
        explanation: Explanation::of(&workload),
        warnings: source::doubts(&workload, &doubts),
        workload,
        top: arguments.top as usize,
    };
    if let Some(path) = &arguments.plot {
        answer.timeline().write(path)?;
        output::note(format!("wrote {}", path.display()));
    }
    if arguments.json { output::json(&answer.json()) } else { output::line(answer.words()) }
}

/// Everything there is to say of one workload; how it is said stands in the modules.
struct Answer {
    file: String,
    workload: Workload,
    explanation: Explanation,
    warnings: Vec<String>,
    /// Layers and weights listed.
    top: usize,
}

impl Answer {
    fn name_of(&self, node: NodeId) -> &str {
        &self.workload.graph().nodes()[node.0 as usize].name
    }

    /// Operator and output shape of a layer.
    fn operator(&self, node: NodeId) -> (&'static str, Vec<u64>) {
        let graph = self.workload.graph();
        let node = &graph.nodes()[node.0 as usize];
        let dims = node.outputs.first().map(|id| graph.tensor(*id).shape.dims()).unwrap_or_default();
        let batch = self.workload.setup().batch_size;
        // Sizes at this batch were checked when the workload was built.
        (node.op.token(), dims.iter().map(|dim| dim.at(batch).unwrap_or(u64::MAX)).collect())
    }

    /// What is at work: a layer's name, or what happens outside of layers.
    fn at_work(&self, phase: Phase, node: Option<NodeId>) -> &str {
        match (node, phase) {
            (Some(node), _) => self.name_of(node),
            (None, Phase::Startup) => "loading weights",
            (None, Phase::Forward) => "batch or loss",
            (None, Phase::Backward) => "loss",
            (None, Phase::Optimizer) => "update of weights",
        }
    }

    /// A moment in a few words.
    fn moment(&self, when: When) -> String {
        format!("step {}, {}, {}", when.step, when.phase.name(), self.at_work(when.phase, when.node))
    }

    /// Network, batch, optimiser, precision and GPU.
    fn title(&self) -> String {
        let setup = self.workload.setup();
        format!(
            "{}: batch {}, {}, {} on {}",
            self.workload.graph().name(),
            setup.batch_size,
            setup.optimizer.name(),
            setup.precision.name(),
            self.workload.gpu().name
        )
    }

    const fn verdict(&self) -> &'static str {
        if self.explanation.fits() { "fits" } else { "does not fit" }
    }
}

/// Bytes as MiB.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// An output shape as people write it.
fn shape(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}
