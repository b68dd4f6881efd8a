//! What the convolutions of a job take, as the replay asks.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use plimsoll_graph::Workload;

use super::model::{WorkspaceBytes, WorkspaceModel, query};
use super::query::{Format, Generation, GpuClass};
use crate::trace::{Convolution, StepTrace};

/// A workspace this share of what is reserved above the replayed one is a spike.
const SPIKE_SHARE: f64 = 0.05;
/// Answers that a thread keeps.
const MOST_ANSWERS: usize = 1 << 14;

type Asked = (Convolution, GpuClass, Format);

thread_local! {
    /// Training steps repeat their shapes, and the same networks are asked about again and again. Answers of the old
    /// generation and of the new one.
    static ANSWERS: RefCell<HashMap<Asked, [WorkspaceBytes; 2]>> = RefCell::default();
}

/// Whose answers a replay takes for the workspaces of convolutions.
///
/// A job does not say its cuDNN, and which plan runs is not known for certain. Of both generations' answers the smaller
/// counts: chosen by looking at 1,289 published measurements of CNNs, where it gave the least error with exact tables too
/// (`docs/workspaces.md`). What the others make of a job shows how much hangs on that choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workspaces {
    /// The smaller answer of both generations.
    #[default]
    Smaller,
    /// What cuDNN before 9.19 answers.
    Old,
    /// What cuDNN from 9.19 on answers.
    New,
    /// The larger answer of both, with the copies of pointwise convolutions that the others leave out.
    Larger,
    /// None at all.
    Without,
}

impl Workspaces {
    /// What a replay might do instead of the usual, in the order of features.
    pub const ALTERNATIVES: [Self; 4] = [Self::Old, Self::New, Self::Larger, Self::Without];

    /// The name in features.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smaller => "smaller",
            Self::Old => "old",
            Self::New => "new",
            Self::Larger => "larger",
            Self::Without => "without",
        }
    }

    fn choose(self, [old, new]: [WorkspaceBytes; 2], convolution: &Convolution) -> WorkspaceBytes {
        let mut chosen = match self {
            Self::Smaller => old.each(new, u64::min),
            Self::Old => old,
            Self::New => new,
            Self::Larger => old.each(new, u64::max),
            Self::Without => WorkspaceBytes::default(),
        };
        if self != Self::Larger && is_pointwise(convolution) {
            chosen.first = 0;
        }
        chosen
    }
}

impl WorkspaceBytes {
    fn each(self, other: Self, pick: fn(u64, u64) -> u64) -> Self {
        Self { first: pick(self.first, other.first), largest: pick(self.largest, other.largest) }
    }
}

/// What cuDNN takes while a convolution runs.
pub(crate) fn convolution_bytes(
    workload: &Workload,
    convolution: &Convolution,
    workspaces: Workspaces,
) -> WorkspaceBytes {
    let precision = workload.setup().precision;
    let Some(mut asked) = query(convolution, workload.gpu(), precision, Generation::Old) else {
        return WorkspaceBytes::default();
    };
    let key = (asked.convolution, asked.class, asked.format);
    let both = ANSWERS.with_borrow_mut(|answers| {
        if let Some(both) = answers.get(&key) {
            return *both;
        }
        if answers.len() >= MOST_ANSWERS {
            answers.clear();
        }
        let model = WorkspaceModel::built_in();
        let old = model.answer(&asked);
        asked.generation = Generation::New;
        let both = [old, model.answer(&asked)];
        answers.insert(key, both);
        both
    });
    workspaces.choose(both, convolution)
}

/// Whether a convolution is a plain product over channels.
///
/// cuDNN from 9.8 on would copy its tensors first, but the measured runs show none of these copies: without them the
/// generated dense networks, whose transitions are pointwise, come from 7.1 to 5.9 % MAPE (exact tables, n = 212), and
/// published runs of networks made of pointwise convolutions agree.
fn is_pointwise(convolution: &Convolution) -> bool {
    convolution.kernel == [1, 1] && convolution.stride == 1 && convolution.padding == 0
}

/// Probability that a convolution of the job takes more workspace than was replayed, by more than 5 % of what the
/// replay reserves (`reserved_bytes`): `1 - Π (1 - pᵢ)` over the job's distinct convolutions.
///
/// `pᵢ` is the probability of all forms that are larger than that, the mean of both cuDNN generations: of the plan that
/// runs, or in benchmark mode of the largest plan. Shapes count as independent, and each as if it ran at the peak, so
/// the risk of many similar shapes is rather overstated.
pub fn spike_risk(workload: &Workload, trace: &StepTrace, reserved_bytes: u64) -> f64 {
    let precision = workload.setup().precision;
    let is_benchmark = workload.setup().cudnn_benchmark;
    let margin = (SPIKE_SHARE * reserved_bytes as f64) as u64;
    let model = WorkspaceModel::built_in();
    let mut seen = HashSet::new();
    let mut none = 1.0;
    for convolution in trace.convolutions.iter().filter(|convolution| seen.insert(**convolution)) {
        let replayed = convolution_bytes(workload, convolution, Workspaces::Smaller);
        let bytes = if is_benchmark { replayed.largest } else { replayed.first };
        let above: f64 = Generation::ALL
            .iter()
            .filter_map(|&generation| query(convolution, workload.gpu(), precision, generation))
            .map(|query| model.odds(&query)[usize::from(is_benchmark)].above(bytes.saturating_add(margin)))
            .sum();
        none *= 1.0 - (above / Generation::ALL.len() as f64).min(1.0);
    }
    1.0 - none
}

#[cfg(test)]
mod tests {
    use plimsoll_graph::{GpuCatalogue, TrainingSetup, json};

    use super::*;
    use crate::{lower, replay};

    /// VGG-16, the network with the largest workspaces of the repository's.
    fn vgg16(gpu: &str, cudnn_benchmark: bool) -> Workload {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/graphs/vgg16.json");
        let text = json::read_text(&path, json::MAX_FILE_BYTES).expect("readable");
        let graph = json::parse(&text, "vgg16").expect("a graph");
        let setup = TrainingSetup { cudnn_benchmark, ..TrainingSetup::new(32) };
        Workload::new(graph, setup, GpuCatalogue::built_in().find(gpu).expect("known").clone()).expect("valid")
    }

    #[test]
    fn a_repeated_shape_is_answered_as_at_first() {
        let workload = vgg16("a100-40", false);
        let trace = lower(&workload);
        let ask = || -> Vec<WorkspaceBytes> {
            trace.convolutions.iter().map(|shape| convolution_bytes(&workload, shape, Workspaces::Smaller)).collect()
        };
        let answers = ask();
        assert!(answers.iter().any(|answer| answer.first > 0));
        assert!(answers.iter().all(|answer| answer.first <= answer.largest));
        assert_eq!(answers, ask());
    }

    #[test]
    fn alternatives_lie_around_what_is_replayed() {
        let workload = vgg16("a100-40", false);
        let simulation = crate::Simulation::of(&workload);
        let reserved = |workspaces| simulation.reserved_bytes(&workload, workspaces);
        assert_eq!(reserved(Workspaces::Smaller), simulation.replay.reserved_bytes);
        for shape in &simulation.trace.convolutions {
            let first = |workspaces| convolution_bytes(&workload, shape, workspaces).first;
            let [old, new, larger, without] = Workspaces::ALTERNATIVES.map(first);
            assert_eq!(first(Workspaces::Smaller), old.min(new));
            assert!(larger >= old.max(new) && without == 0);
        }
        assert!(reserved(Workspaces::Without) < reserved(Workspaces::Smaller));
        assert!(reserved(Workspaces::Larger) > reserved(Workspaces::Smaller));
    }

    #[test]
    fn benchmark_mode_takes_the_largest_plan_once() {
        let (plain, tried) = (vgg16("a100-40", false), vgg16("a100-40", true));
        let trace = lower(&plain);
        let most = |bytes: fn(WorkspaceBytes) -> u64| {
            trace.convolutions.iter().map(|shape| bytes(convolution_bytes(&plain, shape, Workspaces::Smaller))).max()
        };
        assert_eq!(Some(replay(&plain, &trace, None).largest_workspace_bytes), most(|answer| answer.first));
        assert_eq!(Some(replay(&tried, &trace, None).largest_workspace_bytes), most(|answer| answer.largest));
    }

    #[test]
    fn a_spike_is_less_likely_the_larger_it_has_to_be() {
        let workload = vgg16("a100-40", false);
        let trace = lower(&workload);
        let risk = |reserved: u64| spike_risk(&workload, &trace, reserved);
        assert!((0.0..=1.0).contains(&risk(1 << 30)));
        assert!(risk(1 << 40) <= risk(8 << 30) && risk(8 << 30) <= risk(1 << 20));
        assert_eq!(risk(u64::MAX), 0.0);
        let old = vgg16("k80", false);
        assert_eq!(spike_risk(&old, &lower(&old), 0), 0.0);
    }
}
