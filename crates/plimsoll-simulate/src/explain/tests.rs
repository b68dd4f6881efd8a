//! What an explanation promises, for every graph that the repository carries and for generated ones.

use std::path::Path;

use plimsoll_graph::generator::{Generator, GeneratorConfig};
use plimsoll_graph::{GpuCatalogue, Optimizer, Precision, TrainingSetup, Workload, json};
use proptest::prelude::*;

use super::*;

fn workload(path: &Path, setup: TrainingSetup, gpu: &str) -> Workload {
    let gpu = GpuCatalogue::built_in().find(gpu).expect("in the catalogue").clone();
    let text = json::read_text(path, json::MAX_FILE_BYTES).expect("readable");
    Workload::new(json::parse(&text, "test").expect("a graph"), setup, gpu).expect("valid")
}

fn graphs() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/graphs");
    let files = std::fs::read_dir(folder).expect("there").flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
}

/// Every promise that holds for any workload.
fn check(workload: &Workload) {
    let simulation = Simulation::of(workload);
    let explanation = Explanation::of(workload);
    assert_eq!(explanation.peak_bytes(), (simulation.context_mib << 20) + simulation.replay.reserved_bytes);
    // Subtractions of unsigned numbers would have panicked, so no part is negative.
    for moment in [&explanation.reserved_peak, &explanation.allocated_peak] {
        let total = explanation.parts(moment).iter().map(|part| part.bytes).sum::<u64>();
        assert_eq!(total, explanation.peak_bytes());
    }
    assert!((1..=simulation.replay.reserved_bytes).contains(&explanation.largest_growth.bytes));
    assert_eq!(explanation.fits(), simulation.fits());
    assert_eq!(explanation.reserved_peak.reserved_bytes, simulation.replay.reserved_bytes);
    assert_eq!(explanation.allocated_peak.allocated_bytes, simulation.replay.allocated_bytes);

    let peak = explanation.allocated_peak;
    let held = |bytes: fn(&LayerShare) -> u64| explanation.layers.iter().map(bytes).sum::<u64>();
    assert!(explanation.layers.is_sorted_by_key(|share| std::cmp::Reverse(share.holding.total())));
    assert!(explanation.layers.iter().all(|share| share.holding.total() > 0));
    assert_eq!(held(|share| share.holding.gradients), peak.usage.gradients);
    let activations = held(|share| share.holding.activations + share.holding.saved)
        + held(|share| share.holding.activation_gradients);
    assert_eq!(
        activations + explanation.outside_layers.total(),
        peak.usage.activations + peak.usage.activation_gradients
    );
    if peak.when.phase != Phase::Optimizer {
        assert_eq!(held(|share| share.holding.temporaries), peak.usage.temporaries);
    }

    assert!(explanation.weights.is_sorted_by_key(|share| std::cmp::Reverse(share.total())));
    assert_eq!(explanation.weights.iter().map(|share| share.weight_bytes).sum::<u64>(), peak.usage.weights);

    assert!(explanation.timeline.iter().all(|instant| instant.usage.total() <= instant.allocated_bytes));
    assert!(explanation.timeline.iter().all(|instant| instant.allocated_bytes <= instant.reserved_bytes));
    let phases: Vec<Phase> = explanation.timeline.iter().map(|instant| instant.phase).collect();
    assert_eq!((phases.first(), phases.last()), (Some(&Phase::Forward), Some(&Phase::Optimizer)));
    if let Some(failure) = explanation.failure {
        assert!(failure.reserved_bytes + explanation.context_bytes <= explanation.gpu_bytes);
        assert!(explanation.peak_bytes() > explanation.gpu_bytes);
    }
}

#[test]
fn parts_add_up_for_every_graph_of_the_repository() {
    let paths = graphs();
    assert!(paths.len() >= 12);
    for path in paths {
        for (batch, optimizer, precision) in
            [(8, Optimizer::Adam, Precision::Fp32), (32, Optimizer::SgdMomentum, Precision::AmpFp16)]
        {
            let setup = TrainingSetup { optimizer, precision, ..TrainingSetup::new(batch) };
            check(&workload(&path, setup, "a100-40"));
        }
    }
}

#[test]
fn a_job_that_does_not_fit_says_where_it_ends() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/graphs/resnet50.json");
    let workload = workload(&path, TrainingSetup::new(512), "t4");
    check(&workload);
    let failure = Explanation::of(&workload).failure.expect("a T4 is too small");
    assert_eq!((failure.when.step, failure.when.phase), (1, Phase::Forward));
    assert!(failure.when.node.is_some() && failure.requested_bytes > 0);
}

#[test]
fn a_batch_that_matters_more_than_weights_makes_activations_the_largest_part() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/graphs/resnet50.json");
    let explanation = Explanation::of(&workload(&path, TrainingSetup::new(64), "a100-40"));
    let largest =
        explanation.parts(&explanation.allocated_peak).into_iter().max_by_key(|part| part.bytes).expect("ten parts");
    assert_eq!(largest.name, "activations");
    // The stem's planes are the largest of the network.
    assert!(explanation.layers[0].holding.activations >= 64 * 64 * 112 * 112 * 4);
}

/// A generated network on any GPU, with any optimiser, at half or full precision.
fn generated(seed: u64) -> Workload {
    let mut config = GeneratorConfig { seed, ..GeneratorConfig::default() };
    config.optimizers = Optimizer::ALL.to_vec();
    config.gpus = vec![GeneratorConfig::ALL_GPUS.into()];
    config.fp32_share = 0.5;
    Generator::new(config, GpuCatalogue::built_in()).expect("valid").generate(0).workload
}

fn with_setup(workload: &Workload, setup: TrainingSetup) -> Workload {
    Workload::new(workload.graph().clone(), setup, workload.gpu().clone()).expect("small enough")
}

#[test]
fn a_peak_that_a_request_reaches_before_it_is_served_is_explained() {
    let generated = generated(462_485_150_790);
    let setup = TrainingSetup {
        gradient_accumulation: 2,
        expandable_segments: true,
        max_split_size_mib: Some(64),
        startup_batch: Some(1),
        ..generated.setup().clone()
    };
    let workload = with_setup(&generated, setup);
    // The case is worth its name while the job fits, and the allocator never holds its peak between two events.
    let Simulation { trace, replay, capacity_bytes, .. } = Simulation::of(&workload);
    assert!(capacity_bytes.is_some() && replay.retries > 0);
    let mut highest = 0;
    replay_watched(&workload, &trace, capacity_bytes, |moment| {
        highest = highest.max(moment.allocator.reserved_bytes());
    });
    assert!(highest < replay.reserved_bytes);
    check(&workload);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn parts_add_up_for_whatever_is_generated(
        seed in 0_u64..1 << 40,
        accumulation in 1_u64..4,
        switches in prop::array::uniform5(any::<bool>()),
        last in prop::option::of(1_u64..64),
        startup in prop::option::of(1_u64..64),
    ) {
        let generated = generated(seed);
        let [checkpointing, keeps, benchmark, expandable, splits] = switches;
        let setup = TrainingSetup {
            gradient_accumulation: accumulation,
            activation_checkpointing: checkpointing,
            keeps_gradients: keeps,
            cudnn_benchmark: benchmark,
            expandable_segments: expandable,
            max_split_size_mib: splits.then_some(64),
            last_batch: last.map(|last| last.min(generated.setup().batch_size)),
            startup_batch: startup,
            ..generated.setup().clone()
        };
        check(&with_setup(&generated, setup));
    }
}
