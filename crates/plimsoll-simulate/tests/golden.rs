//! Lowered steps against what PyTorch allocates, network by network.
//!
//! `golden/` holds graphs as `plimsoll_gpu` captures them, with every storage that PyTorch makes and frees in a step
//! of them, in order; `python -m lowering_traces` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_graph::architectures::{LanguageModel, TransformerConfig, TransformerShape};
use plimsoll_graph::{Activation, GpuCatalogue, Loss, Precision, TrainingSetup, Workload, json};
use plimsoll_simulate::{Event, StepTrace, lower, record_in_place_of_rules, recorded_trace};
use serde_json::Value;

/// What a graph cannot tell, or tells in fewer parts.
const VARIABLES: &str = "Python functions hold what their variables name; graphs know modules only";
const JOINED: &str = "several views in a row are one node, and copies between them one copy";
const FORMULA: &str = "a gradient's formula has factors of the size of the result";
const ALIGNED: &str = "a mask is aligned before its attention's output is made";
const WRITES: &str = "graphs do not say that what reads a tensor reads what was written into a view of it";
const CHECKS: &str = "PyTorch makes and drops small integers to check masks";

/// Networks whose steps differ: by how many thousandths in saved bytes and in peak, and why.
///
/// Zero and zero means that some allocations come in another order, or are made for a moment only.
const DEVIATIONS: &[(&str, u64, u64, &str)] = &[
    ("aten_addcmul", 0, 0, "an operator with three gradients sums each as it comes"),
    ("aten_clamp_min", 0, 35, "a clamp does not say how many limits it has"),
    ("aten_copy", 0, 0, WRITES),
    ("aten_copy_to_new", 0, 24, WRITES),
    ("aten_index_put", 0, 9, "the tracer writes zeros into the gradient itself, PyTorch into a copy"),
    ("aten_maximum", 0, 259, "an operator of two tensors without a name keeps both, and takes no masks"),
    ("aten_roll", 0, 0, "a copy does not say that it rolls, and rolls its gradient back"),
    ("aten_softsign", 0, 0, "temporaries of a quotient's gradient go one by one"),
    ("aten_where", 0, 1, "a choice fills with zeros of a number each"),
    ("attention_biased", 0, 0, ALIGNED),
    ("attention_masked", 0, 0, ALIGNED),
    ("attention_eager", 0, 0, VARIABLES),
    ("attention_eager_dropout", 0, 45, VARIABLES),
    ("bert_tiny", 0, 0, VARIABLES),
    ("blocks_checkpointed", 0, 4, "newer checkpoints stop where nothing more is needed; ours run to their end"),
    ("chunk", 0, 0, "two chunks of a tensor are summed as they come, not both chunks' gradients first"),
    ("convnext_tiny", 0, 0, "convolutions of turned images work channels last, and copy no gradient"),
    ("divide", 0, 0, "temporaries of a quotient's gradient go one by one"),
    ("embedding_sparse", 0, 187, "a sparse gradient is counted as a dense one, as the replay frees it"),
    ("encoder_layer", 0, 0, JOINED),
    ("encoder_long", 0, 0, JOINED),
    ("encoder_odd", 0, 0, JOINED),
    ("expand", 0, 0, JOINED),
    ("gpt2_tiny", 0, 0, CHECKS),
    ("gpt2_tiny_eager", 0, 0, CHECKS),
    ("llama_tiny", 0, 0, CHECKS),
    ("norm_instance_affine", 0, 0, "weights are repeated for each sample before the output is made, biases too"),
    ("norm_local_response", 0, 0, VARIABLES),
    ("reduce_norm", 0, 4, FORMULA),
    ("reduce_std", 0, 34, FORMULA),
    ("reduce_var", 0, 23, FORMULA),
    ("shufflenet", 0, 0, JOINED),
    ("subtract_from_one", 0, 0, VARIABLES),
    ("vit_b_16", 0, 0, JOINED),
];

/// One allocation: bytes asked for, and bytes alive then.
type Allocation = (i64, i64);

/// Storages of a step.
struct Step {
    forward: Vec<Allocation>,
    backward: Vec<Allocation>,
    saved: i64,
    peak: i64,
}

impl Step {
    fn of(forward: &[i64], backward: &[i64]) -> Self {
        let (mut live, mut peak) = (0, 0);
        let mut walk = |changes: &[i64]| {
            let mut allocations = Vec::new();
            for &change in changes {
                live += change;
                peak = peak.max(live);
                if change > 0 {
                    allocations.push((change, live));
                }
            }
            (allocations, live)
        };
        let (forward, saved) = walk(forward);
        let (backward, _) = walk(backward);
        Self { forward, backward, saved, peak }
    }

    fn recorded(golden: &Value) -> Self {
        let changes = |phase: &str| -> Vec<i64> {
            golden[phase].as_array().expect("a list").iter().map(|change| change.as_i64().expect("bytes")).collect()
        };
        Self::of(&changes("forward"), &changes("backward"))
    }

    fn of_trace(trace: &StepTrace) -> Self {
        let mut phases = [Vec::new(), Vec::new()];
        let mut phase = 0;
        for event in &trace.events {
            match event {
                Event::Allocate(id) => phases[phase].push(trace.bytes(*id) as i64),
                Event::Free(id) => phases[phase].push(-(trace.bytes(*id) as i64)),
                Event::Backward => phase = 1,
                _ => {}
            }
        }
        Self::of(&phases[0], &phases[1])
    }
}

fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("golden files").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn read(file: &Path) -> (String, Workload, Step) {
    let golden: Value = serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON");
    let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
    let graph = json::parse(&golden["graph"].to_string(), &name).expect("a graph");
    let setup: TrainingSetup = serde_json::from_value(golden["setup"].clone()).expect("a setup");
    let gpu = GpuCatalogue::built_in().find("a100-40").expect("a GPU").clone();
    let workload = Workload::new(graph, setup, gpu).expect("a workload");
    (name, workload, Step::recorded(&golden))
}

/// The first allocations that differ, for whoever has to find out why.
fn difference(phase: &str, expected: &[Allocation], found: &[Allocation]) -> Option<String> {
    let length = expected.len().max(found.len());
    let at = (0..length).find(|&index| expected.get(index) != found.get(index))?;
    let mut text =
        format!("{phase}: {} and {} allocations, the first that differs is {at}\n", expected.len(), found.len());
    for index in at.saturating_sub(4)..(at + 10).min(length) {
        let _ = writeln!(text, "  {:>28?} {:>28?}", expected.get(index), found.get(index));
    }
    Some(text)
}

fn thousandths(expected: i64, found: i64) -> u64 {
    (expected - found).unsigned_abs().saturating_mul(1_000).div_ceil(expected.unsigned_abs().max(1))
}

#[test]
fn lowered_steps_are_those_of_pytorch() {
    let deviations: BTreeMap<&str, (u64, u64)> =
        DEVIATIONS.iter().map(|&(name, saved, peak, _)| (name, (saved, peak))).collect();
    let mut report = String::new();
    for file in golden_files() {
        let (name, workload, expected) = read(&file);
        let found = Step::of_trace(&lower(&workload));
        let saved = thousandths(expected.saved, found.saved);
        let peak = thousandths(expected.peak, found.peak);
        let first = difference("forward", &expected.forward, &found.forward)
            .or_else(|| difference("backward", &expected.backward, &found.backward));
        let fails = match deviations.get(name.as_str()) {
            Some(&(allowed_saved, allowed_peak)) => saved > allowed_saved || peak > allowed_peak || first.is_none(),
            None => first.is_some(),
        };
        if fails {
            let _ = writeln!(
                report,
                "== {name}: saved {} {} ({saved} ‰), peak {} {} ({peak} ‰)\n{}",
                expected.saved,
                found.saved,
                expected.peak,
                found.peak,
                first.unwrap_or_default()
            );
        }
    }
    assert!(report.is_empty(), "PyTorch left, lowered right\n{report}");
}

#[test]
fn recorded_steps_are_those_of_pytorch() {
    let mut compared = 0;
    for file in golden_files() {
        let (name, workload, expected) = read(&file);
        for record in workload.graph().step_records() {
            let found = Step::of_trace(&recorded_trace(&workload, record));
            let first = difference("forward", &expected.forward, &found.forward)
                .or_else(|| difference("backward", &expected.backward, &found.backward));
            assert!(first.is_none(), "{name}: PyTorch left, recorded right\n{}", first.unwrap_or_default());
            compared += 1;
        }
    }
    assert!(compared >= 10, "only {compared} files have a record");
}

#[test]
fn a_record_stands_in_where_rules_do_not_know_an_operator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = fs::read_to_string(folder.join("gate.json")).expect("a file");
    let workload = |text: &str, change: fn(&mut TrainingSetup)| {
        let golden: Value = serde_json::from_str(text).expect("JSON");
        let graph = json::parse(&golden["graph"].to_string(), "gate").expect("a graph");
        let mut setup = TrainingSetup::new(8);
        change(&mut setup);
        Workload::new(graph, setup, GpuCatalogue::built_in().find("a100-40").expect("a GPU").clone()).expect("valid")
    };
    let unknown = text.replace("\"op\":\"reduce\"", "\"op\":\"frobnicate\"");
    assert_ne!(unknown, text);
    assert!(record_in_place_of_rules(&workload(&text, |_| {})).is_none(), "rules know every operator");
    assert!(record_in_place_of_rules(&workload(&unknown, |_| {})).is_some());
    assert!(record_in_place_of_rules(&workload(&unknown, |setup| setup.precision = Precision::Tf32)).is_some());
    for change in [
        (|setup: &mut TrainingSetup| setup.precision = Precision::AmpBf16) as fn(&mut TrainingSetup),
        |setup| setup.activation_checkpointing = true,
        |setup| setup.loss = Loss::MeanSquaredError,
    ] {
        assert!(record_in_place_of_rules(&workload(&unknown, change)).is_none());
    }
}

#[test]
fn a_built_in_encoder_is_that_of_pytorch() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (_, captured, expected) = read(&folder.join("encoder_layer.json"));
    let config = TransformerConfig {
        shape: TransformerShape::Encoder,
        vocabulary: 500,
        sequence_length: 24,
        width: 32,
        layers: 2,
        heads: 4,
        feed_forward: 64,
        classes: 10,
        dropout: 0.1,
        activation: Activation::Relu,
        language_model: LanguageModel::default(),
    };
    let graph = config.build().expect("a graph");
    let workload = Workload::new(graph, captured.setup().clone(), captured.gpu().clone()).expect("a workload");
    let found = Step::of_trace(&lower(&workload));
    let first = difference("forward", &expected.forward, &found.forward)
        .or_else(|| difference("backward", &expected.backward, &found.backward));
    assert!(first.is_none(), "PyTorch left, lowered right\n{}", first.unwrap_or_default());
}
