//! What holds for every step on every GPU.

use plimsoll_graph::{
    DType, Family, Gpu, GpuCatalogue, Graph, GraphBuilder, Precision, Shape, TrainingSetup, Workload,
};

use super::*;
use crate::cost::node_cost;
use crate::replay::Phase;
use crate::{Simulation, step_trace};

fn gpu(name: &str) -> Gpu {
    GpuCatalogue::built_in().find(name).expect("known").clone()
}

fn mlp(width: u64, layers: usize) -> Graph {
    let mut builder = GraphBuilder::new("mlp", Family::Mlp);
    let mut value = builder.input("x", Shape::batched(&[width]), DType::Float32);
    for index in 0..layers {
        value = builder.linear(&format!("linear{index}"), value, width, true).expect("fits");
    }
    builder.finish(&[value]).expect("valid")
}

fn cnn(channels: u64, side: u64) -> Graph {
    let mut builder = GraphBuilder::new("cnn", Family::Cnn);
    let mut value = builder.input("x", Shape::batched(&[3, side, side]), DType::Float32);
    for index in 0..6 {
        value = builder.conv2d(&format!("conv{index}"), value, channels, 3, 1, 1, true).expect("fits");
        value = builder.batch_norm(&format!("norm{index}"), value).expect("fits");
    }
    builder.finish(&[value]).expect("valid")
}

fn workload(graph: Graph, batch: u64, on: &str) -> Workload {
    Workload::new(graph, TrainingSetup::new(batch), gpu(on)).expect("valid")
}

fn check(time: &StepTime) {
    let StepTime { compute_us, memory_us, busy_us, step_us, active_us, resident_us, .. } = *time;
    let slack = 1.0 + 1e-9;
    assert!(step_us.is_finite() && busy_us <= step_us * slack, "{time:?}");
    assert!(compute_us <= busy_us * slack && memory_us <= busy_us * slack, "below the roofline: {time:?}");
    assert!(resident_us <= active_us * slack && active_us <= busy_us * slack, "{time:?}");
    assert!(time.fp32_us + time.tensor_us <= busy_us * slack, "{time:?}");
    assert!(time.dispatch_us <= step_us * slack && time.longest_us <= busy_us * slack, "{time:?}");
    for host_us in [0.0, 1e3, 1e300] {
        let Activity { busy, active, occupancy, fp32, tensor, memory } = Activity::with_host(time, host_us);
        for share in [busy, active, occupancy, fp32, tensor, memory] {
            assert!((0.0..=1.0).contains(&share), "{time:?}");
        }
    }
}

#[test]
fn time_is_never_below_the_roofline_on_any_gpu() {
    for gpu in GpuCatalogue::built_in().gpus() {
        for batch in [1, 100, 10_000] {
            for graph in [mlp(1000, 4), cnn(50, 30), cnn(256, 14)] {
                for precision in Precision::ALL {
                    let setup = TrainingSetup { precision, ..TrainingSetup::new(batch) };
                    check(&StepTime::of(&Workload::new(graph.clone(), setup, gpu.clone()).expect("valid")));
                }
            }
        }
    }
}

#[test]
fn small_jobs_wait_for_launches_and_large_ones_do_not() {
    let small = StepTime::of(&workload(mlp(64, 4), 32, "a100-40"));
    let large = StepTime::of(&workload(mlp(8192, 4), 4096, "a100-40"));
    assert!(small.busy_us < 0.5 * small.step_us && small.activity().active < 0.1);
    assert!(large.busy_us > 0.95 * large.step_us && large.activity().active > 0.9);
    assert!(small.activity().busy < 0.9 && large.activity().busy > 0.95);
    assert!(large.activity().fp32 > 0.5 && large.activity().occupancy < 0.5, "products fill registers, not warps");
}

#[test]
fn a_host_that_builds_batches_leaves_the_gpu_idle() {
    let workload = workload(cnn(16, 64), 64, "h100-80");
    let (time, host) = (StepTime::of(&workload), HostTime::of(&workload));
    assert!(host.total_us() > 0.0);
    let fed = Activity::with_host(&time, host.total_us());
    assert!(fed.busy < time.activity().busy && fed.active < time.activity().active);
}

#[test]
fn larger_batches_take_longer_and_faster_gpus_less() {
    for graph in [mlp(4096, 4), cnn(128, 56)] {
        let time = |batch, on| StepTime::of(&workload(graph.clone(), batch, on)).step_us;
        for doublings in 8..14 {
            assert!(time(1 << doublings, "a100-40") < time(2 << doublings, "a100-40"), "batch 2^{doublings}");
        }
        let times = ["k80", "t4", "v100-32", "a100-40", "h100-80"].map(|name| time(1024, name));
        assert!(times.is_sorted_by(|slower, faster| slower > faster), "{times:?}");
    }
}

#[test]
fn tensor_cores_take_convolutions_unasked_and_products_when_told() {
    let tensor_share = |graph: Graph, precision, on: &str| {
        let setup = TrainingSetup { precision, ..TrainingSetup::new(256) };
        let time = StepTime::of(&Workload::new(graph, setup, gpu(on)).expect("valid"));
        time.tensor_us / (time.tensor_us + time.fp32_us)
    };
    assert!(tensor_share(cnn(128, 28), Precision::Fp32, "a100-40") > 0.5);
    assert!(tensor_share(mlp(1024, 4), Precision::Fp32, "a100-40") == 0.0);
    assert!(tensor_share(mlp(1024, 4), Precision::Tf32, "a100-40") > 0.5);
    assert!(tensor_share(cnn(128, 28), Precision::Tf32, "v100-32") == 0.0, "Volta has no TF32");
    assert!(tensor_share(mlp(1024, 4), Precision::AmpFp16, "v100-32") > 0.5);
    assert!(
        tensor_share(cnn(32, 28), Precision::Fp32, "a100-40") < tensor_share(cnn(64, 28), Precision::Fp32, "a100-40")
    );
}

/// Units and operations of the kernels of the last convolution: forward, data gradient, filter gradient.
fn last_convolution(channels: u64, side: u64, on: &str) -> Vec<(Pipe, f64)> {
    let mut builder = GraphBuilder::new("pair", Family::Cnn);
    let input = builder.input("x", Shape::batched(&[3, side, side]), DType::Float32);
    let value = builder.conv2d("first", input, channels, 3, 1, 1, true).expect("fits");
    let value = builder.conv2d("last", value, channels, 3, 1, 1, true).expect("fits");
    let all = kernels(&workload(builder.finish(&[value]).expect("valid"), 32, on));
    let last = all.iter().filter_map(|kernel| kernel.node).max();
    let of_last = all.iter().filter(|kernel| kernel.kind == KernelKind::Convolution && kernel.node == last);
    of_last.map(|kernel| (kernel.pipe, kernel.flops)).collect()
}

#[test]
fn few_channels_keep_convolutions_on_ordinary_units() {
    let pipes = |channels, side, on| -> Vec<Pipe> {
        last_convolution(channels, side, on).into_iter().map(|(pipe, _)| pipe).collect()
    };
    assert_eq!(pipes(64, 112, "a100-40"), [Pipe::Tf32; 3]);
    assert_eq!(pipes(45, 112, "a100-40"), [Pipe::Fp32, Pipe::Tf32, Pipe::Tf32]);
    assert_eq!(pipes(38, 112, "a100-40"), [Pipe::Fp32, Pipe::Fp32, Pipe::Tf32]);
    assert_eq!(pipes(2, 112, "a100-40"), [Pipe::Fp32; 3]);
    // Whole vectors of channels and of rows.
    assert_eq!(pipes(48, 112, "h100-80"), [Pipe::Tf32; 3]);
    assert_eq!(pipes(48, 110, "h100-80"), [Pipe::Fp32, Pipe::Tf32, Pipe::Tf32]);
    assert_eq!(pipes(64, 112, "v100-32"), [Pipe::Fp32; 3]);
}

#[test]
fn winograd_saves_products_where_it_stands_in_for_tensor_cores_only() {
    let flops = |on| last_convolution(38, 112, on)[1].1;
    assert_eq!(flops("v100-32") / flops("a100-40"), 2.25);
}

#[test]
fn convolutions_without_room_for_their_workspace_leave_tensor_cores() {
    let graph = cnn(300, 56);
    let of = |memory_mib| {
        let gpu = Gpu { memory_mib, ..gpu("a100-40") };
        let workload = Workload::new(graph.clone(), TrainingSetup::new(32), gpu).expect("valid");
        let simulation = Simulation::of(&workload);
        (workload, simulation)
    };
    let (_, roomy) = of(40_960);
    assert!(roomy.fits() && roomy.starved_flops == 0.0);
    let peak = roomy.peak_mib() as u64;
    // Less and less memory, until the job runs without a workspace or does not run.
    let (workload, tight) = (1..100)
        .map(|percent| of(peak * (100 - percent) / 100))
        .find(|(_, simulation)| !simulation.fits() || simulation.starved_flops > 0.0)
        .expect("some memory is too little");
    assert!(tight.fits() && tight.starved_flops > 0.0);
    let all: u64 = step_trace(&workload).convolutions.iter().map(crate::Convolution::flops).sum();
    assert!(tight.starved_flops <= all as f64);

    let (fed, starved) = (StepTime::of(&workload), StepTime::starved(&workload, tight.starved_flops));
    check(&starved);
    assert_eq!(StepTime::starved(&workload, 0.0), fed);
    assert!(starved.step_us > fed.step_us && starved.tensor_us < fed.tensor_us);
    assert!(starved.activity().fp32 > fed.activity().fp32);
    for flops in [1.0, 1e12, 1e300, f64::INFINITY, f64::NAN] {
        let time = StepTime::starved(&workload, flops);
        check(&time);
        assert!(time.tensor_us >= 0.0 && time.matrix_us <= time.busy_us * (1.0 + 1e-9), "{time:?}");
    }
}

#[test]
fn nothing_starves_without_tf32() {
    let workload = workload(cnn(64, 56), 32, "v100-32");
    assert_eq!(StepTime::starved(&workload, 1e12), StepTime::of(&workload));
}

#[test]
fn convolutions_count_the_operations_of_their_nodes() {
    let workload = workload(cnn(50, 30), 8, "a100-40");
    let trace = step_trace(&workload);
    let forward = trace.convolutions.iter().filter(|shape| shape.direction == crate::Direction::Forward);
    let counted = workload.graph().nodes().iter().filter(|node| matches!(node.op, plimsoll_graph::Op::Conv(_)));
    assert_eq!(
        forward.map(crate::Convolution::flops).sum::<u64>(),
        counted.map(|node| node_cost(&workload, node).flops).sum::<u64>()
    );
}

#[test]
fn kernels_do_the_work_of_their_nodes() {
    let workload = workload(mlp(512, 3), 128, "a100-40");
    let all = kernels(&workload);
    let flops = |phase| {
        let products = all.iter().filter(|kernel| kernel.kind == KernelKind::Matrix && kernel.phase == phase);
        products.map(|kernel| kernel.flops * kernel.repeat).sum::<f64>()
    };
    let counted: u64 = workload.graph().nodes().iter().map(|node| node_cost(&workload, node).flops).sum();
    assert_eq!(flops(Phase::Forward), counted as f64);
    // The first layer's input needs no gradient: five products of six.
    assert_eq!(flops(Phase::Backward), counted as f64 * 5.0 / 3.0);
    assert!(all.iter().any(|kernel| kernel.kind == KernelKind::Optimizer));
    assert!(all.is_sorted_by_key(|kernel| kernel.phase as u8));
}

#[test]
fn accumulation_repeats_all_but_the_update() {
    let once = StepTime::of(&workload(mlp(512, 3), 64, "a100-40"));
    let setup = TrainingSetup { gradient_accumulation: 1 << 32, ..TrainingSetup::new(64) };
    let often = StepTime::of(&Workload::new(mlp(512, 3), setup, gpu("a100-40")).expect("valid"));
    check(&often);
    assert!(often.matrix_us > 4e9 * once.matrix_us && often.optimizer_us == once.optimizer_us);
}

#[test]
fn nothing_and_very_much_give_finite_times() {
    let mut builder = GraphBuilder::new("nothing", Family::Other);
    let input = builder.input("x", Shape::batched(&[0, 7, 0]), DType::Float32);
    let value = builder.linear("linear", input, 5, true).expect("fits");
    let nothing = builder.finish(&[value]).expect("valid");
    check(&StepTime::of(&workload(nothing, 1, "a100-40")));

    let mut builder = GraphBuilder::new("much", Family::Mlp);
    let input = builder.input("x", Shape::batched(&[1 << 20]), DType::Float32);
    let value = builder.linear("linear", input, 1 << 20, true).expect("fits");
    let much = builder.finish(&[value]).expect("valid");
    check(&StepTime::of(&workload(much, 1 << 32, "k80")));
    check(&StepTime::default());
}

#[test]
fn a_hundred_thousand_nodes_take_linear_time() {
    let start = std::time::Instant::now();
    let time = StepTime::of(&workload(mlp(8, 100_000), 8, "a100-40"));
    assert!(time.kernels > 300_000.0);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
