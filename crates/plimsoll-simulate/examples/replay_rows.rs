//! Replays GPUMemNet configurations from standard input; prints reserved, allocated and summed MiB a line.

#![expect(clippy::print_stdout, reason = "an example that prints numbers")]

use std::io::BufRead;

use plimsoll_graph::{GpuCatalogue, Workload, gpumemnet};
use plimsoll_simulate::{StepMemory, lower, replay};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = GpuCatalogue::built_in().find("a100-40")?.clone();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for line in std::io::stdin().lock().lines() {
        let configuration = gpumemnet::parse(&line?)?;
        let workload = Workload::new(configuration.graph, configuration.setup, gpu.clone())?;
        let trace = lower(&workload);
        let capacity = (gpu.memory_mib - 1_711) << 20;
        let replayed = replay(&workload, &trace, Some(capacity));
        let memory = StepMemory::from_trace(&workload, &trace);
        println!(
            "{} {} {} {} {} {}",
            mib(replayed.reserved_bytes),
            mib(replayed.allocated_bytes),
            mib(memory.tensor_sum_bytes()),
            mib(replayed.largest_workspace_bytes),
            trace.events.len(),
            u8::from(replayed.out_of_memory.is_some())
        );
    }
    Ok(())
}
