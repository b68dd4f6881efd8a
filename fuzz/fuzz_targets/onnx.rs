//! Any bytes as an ONNX file; what is accepted must also be simulated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_graph::{GpuCatalogue, TrainingSetup, Workload};
use plimsoll_simulate::Simulation;

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = plimsoll_onnx::parse(bytes, "fuzz") else { return };
    let gpu = GpuCatalogue::built_in().gpus()[0].clone();
    if let Ok(workload) = Workload::new(read.graph, TrainingSetup::new(3), gpu) {
        let simulation = Simulation::of(&workload);
        assert!(simulation.replay.reserved_bytes >= simulation.replay.allocated_bytes);
    }
});
