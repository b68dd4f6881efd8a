//! Batches that a loader copies to the GPU while a step runs.
//!
//! It does so on a stream of its own, whose memory no other stream reuses. So all that it ever needs at once stays set
//! aside.

use plimsoll_graph::Workload;

use crate::trace::{Buffer, Role, StepTrace};

/// The batch in use, the next one, and the one after that while it arrives.
const BATCHES: usize = 3;

/// Bytes of each allocation that a prefetching loader sets aside.
pub(crate) fn prefetched(workload: &Workload, trace: &StepTrace) -> Vec<u64> {
    let graph = workload.graph();
    let inputs = graph.inputs().iter().map(|id| graph.tensor(*id));
    // Images arrive as bytes and become numbers on the GPU. What follows the inputs are targets.
    let is_image =
        inputs.map(|input| input.dtype.is_float() && input.shape.rank() == 4).chain(std::iter::repeat(false));
    let batch = trace.buffers.iter().filter(|buffer| buffer.role == Role::Input);
    batch
        .zip(is_image)
        .flat_map(|(&Buffer { bytes, .. }, is_image)| {
            let pixels = is_image.then_some(bytes / size_of::<f32>() as u64);
            pixels.into_iter().chain([bytes; BATCHES])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_graph::{DType, Family, GpuCatalogue, GraphBuilder, Op, Shape, TrainingSetup};

    use crate::{lower, replay};

    #[test]
    fn a_prefetching_loader_holds_three_batches_and_their_bytes() {
        let mut builder = GraphBuilder::new("flat", Family::Other);
        let image = builder.input("x", Shape::batched(&[3, 224, 224]), DType::Float32);
        let flat = builder.node("flat", Op::View, &[image], vec![], Shape::batched(&[150_528]), DType::Float32);
        let scores = builder.linear("head", flat, 10, true).expect("fits");
        let graph = builder.finish(&[scores]).expect("valid");
        let gpu = GpuCatalogue::built_in().find("a100-40").expect("known").clone();
        let mut setup = TrainingSetup::new(64);
        let reserved = |setup: &TrainingSetup| {
            let workload = plimsoll_graph::Workload::new(graph.clone(), setup.clone(), gpu.clone()).expect("valid");
            replay(&workload, &lower(&workload), None).reserved_bytes
        };
        let before = reserved(&setup);
        setup.prefetches = true;
        let batch = 64 * 150_528 * 4;
        let with = reserved(&setup);
        // At least one batch is alive anyway.
        assert!(with >= 13 * batch / 4 && with - before <= 9 * batch / 4, "{with}, {before} without, {batch} a batch");
    }
}
