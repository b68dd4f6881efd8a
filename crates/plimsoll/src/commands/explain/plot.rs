//! The answer as a drawing, and as a page around it.

use plimsoll_evaluation::{Timeline, TimelineMoment};
use plimsoll_simulate::Instant;

use super::{Answer, mib};
use crate::output::gib;

/// What memory is used for, from the bottom of the drawing up: what stays first, then what comes and goes. The names
/// are those of the parts of the peak, so that tables have the colours of the areas.
const USES: [&str; 8] = [
    "context and libraries",
    "weights and buffers",
    "optimiser states",
    "gradients of weights",
    "activations",
    "gradients of activations",
    "temporaries",
    "workspaces",
];

impl Answer {
    /// Everything that the page shows.
    pub(super) fn timeline(&self) -> Timeline {
        let explanation = &self.explanation;
        let peak = gib(mib(explanation.peak_bytes()));
        let used = explanation.allocated_peak;
        let share = 100.0 * explanation.peak_bytes() as f64 / explanation.gpu_bytes as f64;
        let gpu = gib(mib(explanation.gpu_bytes));
        let end = explanation
            .failure
            .map_or_else(String::new, |failure| format!("; runs out in {}", self.moment(failure.when)));
        let verdict = format!("{share:.0} % of {gpu}: {}{end}", self.verdict());
        let beyond = explanation.reserved_peak.reserved_bytes - used.allocated_bytes;
        Timeline {
            title: self.title(),
            uses: USES.map(str::to_owned).to_vec(),
            moments: explanation.timeline.iter().map(|at| self.timeline_moment(at)).collect(),
            peak_remark: self.peak_remark(),
            gpu_gib: mib(explanation.gpu_bytes) / 1024.0,
            tiles: vec![
                ["Simulated peak".into(), peak, verdict],
                ["Most allocated".into(), gib(mib(used.allocated_bytes)), self.moment(used.when)],
                ["Reserved beyond that".into(), gib(mib(beyond)), "cache and fragmentation".into()],
                [
                    "Context and libraries".into(),
                    gib(mib(explanation.context_bytes)),
                    "nominal, outside of the allocator".into(),
                ],
            ],
            tables: vec![self.parts_table(), self.layers_table(), self.weights_table()],
        }
    }

    fn timeline_moment(&self, at: &Instant) -> TimelineMoment {
        let usage = at.usage;
        let bytes = [
            self.explanation.context_bytes,
            usage.weights,
            usage.optimizer,
            usage.gradients,
            usage.activations,
            usage.activation_gradients,
            usage.temporaries,
            usage.workspaces,
        ];
        let in_gib = |bytes: u64| mib(bytes) / 1024.0;
        TimelineMoment {
            phase: at.phase.name(),
            used_gib: bytes.map(in_gib).to_vec(),
            reserved_gib: in_gib(self.explanation.context_bytes + at.reserved_bytes),
        }
    }

    /// Of the step that is drawn: the peak of all may lie in another.
    fn peak_remark(&self) -> String {
        let highest = self.explanation.timeline.iter().rev().max_by_key(|at| at.usage.total());
        highest.map_or_else(String::new, |at| {
            let bytes = self.explanation.context_bytes + at.usage.total();
            format!("{} in use: {}", gib(mib(bytes)), self.at_work(at.phase, at.node))
        })
    }
}
