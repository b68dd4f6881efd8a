//! Whatever is lowered, no buffer is freed twice, and in the end each is freed, held by the loop, or a gradient.

use plimsoll_graph::generator::{Generator, GeneratorConfig};
use plimsoll_graph::{
    Activation, DType, Family, GpuCatalogue, Graph, GraphBuilder, Loss, Op, Optimizer, Precision, Shape, TrainingSetup,
    WeightKind, Workload,
};
use plimsoll_simulate::{BufferId, Event, StepTrace, lower, lower_forward, recorded_trace};
use proptest::prelude::*;

/// Where a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unborn,
    Alive,
    Gone,
    Gradient,
}

/// Follows every buffer of a trace; what is wrong with it, if anything.
fn imbalance(trace: &StepTrace, workload: &Workload) -> Option<String> {
    let mut states = vec![State::Unborn; trace.buffers.len()];
    let mut has_gradient = vec![false; workload.graph().weights().len()];
    let mut phases = 0;
    for (index, event) in trace.events.iter().enumerate() {
        let (id, from, to) = match *event {
            Event::Allocate(id) => (id, State::Unborn, State::Alive),
            Event::Free(id) => (id, State::Alive, State::Gone),
            Event::Accumulate(id, weight) => {
                if std::mem::replace(&mut has_gradient[weight.0 as usize], true) {
                    return Some(format!("event {index}: a second gradient of {weight:?}"));
                }
                if !workload.trains(workload.graph().weight(weight)) {
                    return Some(format!("event {index}: a gradient of the frozen {weight:?}"));
                }
                (id, State::Alive, State::Gradient)
            }
            Event::Backward => {
                phases += 1;
                continue;
            }
            _ => continue,
        };
        let state = &mut states[id.0 as usize];
        if *state != from {
            return Some(format!("event {index}, {event:?}: the buffer is {state:?}"));
        }
        *state = to;
    }
    let left: Vec<BufferId> = (0..states.len() as u32)
        .map(BufferId)
        .filter(|id| states[id.0 as usize] == State::Alive && !trace.held.contains(id))
        .collect();
    if !left.is_empty() {
        let first = trace.buffers[left[0].0 as usize];
        return Some(format!("{} buffers are left, the first is {first:?}", left.len()));
    }
    if trace.held.iter().any(|id| states[id.0 as usize] != State::Alive) {
        return Some("the loop holds what is gone".into());
    }
    (phases > 1).then(|| "more than one backward pass".into())
}

fn setup(graph: &Graph, rng: (u8, u8, u8, bool, u64)) -> TrainingSetup {
    let (precision, loss, trainable, checkpointing, batch) = rng;
    let mut setup = TrainingSetup::new(batch);
    setup.optimizer = Optimizer::Adam;
    setup.precision = Precision::ALL[usize::from(precision) % Precision::ALL.len()];
    setup.loss = [Loss::CrossEntropy, Loss::MeanSquaredError, Loss::Own][usize::from(loss) % 3];
    setup.activation_checkpointing = checkpointing;
    // The first and the last parameter alone, those of layers in between, or all.
    let parameters: Vec<&String> = graph
        .weights()
        .iter()
        .filter(|weight| weight.kind == WeightKind::Parameter)
        .map(|weight| &weight.name)
        .collect();
    let picked = match trainable % 4 {
        0 => parameters.first(),
        1 => parameters.last(),
        2 => parameters.get(parameters.len() / 2),
        _ => None,
    };
    setup.trainable = picked.map(|name| (*name).clone()).into_iter().collect();
    setup
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn generated_workloads_balance(
        index in 0_u64..100_000,
        choices in (any::<u8>(), any::<u8>(), any::<u8>(), any::<bool>(), 1_u64..64),
    ) {
        let generator = Generator::new(GeneratorConfig::default(), GpuCatalogue::built_in()).expect("a configuration");
        let generated = generator.generate(index).workload;
        prop_assert_eq!(imbalance(&lower(&generated), &generated), None);
        let (graph, gpu) = (generated.graph().clone(), generated.gpu().clone());
        let setup = setup(&graph, choices);
        let workload = Workload::new(graph, setup, gpu).expect("smaller than what was generated");
        prop_assert_eq!(imbalance(&lower(&workload), &workload), None);
        prop_assert_eq!(imbalance(&lower_forward(&workload), &workload), None);
    }
}

#[test]
fn captured_graphs_balance_in_every_setup() {
    let gpu = GpuCatalogue::built_in().find("a100-40").expect("a GPU").clone();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut records = 0;
    for file in std::fs::read_dir(folder).expect("golden files") {
        let path = file.expect("an entry").path();
        let golden: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("a file")).expect("JSON");
        let graph = plimsoll_graph::json::parse(&golden["graph"].to_string(), "golden").expect("a graph");
        for record in graph.step_records() {
            for batch in [1, 2, 100] {
                let workload =
                    Workload::new(graph.clone(), TrainingSetup::new(batch), gpu.clone()).expect("a workload");
                assert_eq!(imbalance(&recorded_trace(&workload, record), &workload), None, "{}", path.display());
                records += 1;
            }
        }
        for number in 0..40_u8 {
            let choices = (number, number / 5, number / 7, number % 2 == 0, 1 + u64::from(number));
            let workload = Workload::new(graph.clone(), setup(&graph, choices), gpu.clone()).expect("a workload");
            for trace in [lower(&workload), lower_forward(&workload)] {
                assert_eq!(imbalance(&trace, &workload), None, "{} {:?}", path.display(), workload.setup());
            }
        }
    }
    assert!(records > 0, "some files have a record");
}

#[test]
fn long_chains_take_linear_time() {
    const NODES: usize = 100_000;
    let mut builder = GraphBuilder::new("chain", Family::Other);
    let mut value = builder.input("x", Shape::batched(&[8]), DType::Float32);
    value = builder.linear("stem", value, 8, true).expect("a layer");
    for index in 0..NODES {
        let relu = Op::Activation { function: Activation::Relu, inplace: false };
        value = builder.same_shape(&format!("layers.{}.act.{index}", index / 100), relu, &[value], vec![]);
    }
    let graph = builder.finish(&[value]).expect("a graph");
    let gpu = GpuCatalogue::built_in().find("a100-40").expect("a GPU").clone();
    let workload = Workload::new(graph, TrainingSetup::new(4), gpu).expect("a workload");
    let trace = lower(&workload);
    assert_eq!(imbalance(&trace, &workload), None);
    assert!(trace.events.len() > 4 * NODES);
}
