//! What the host does beside launching: building batches and sending them.

use plimsoll_graph::Workload;

/// The loop around a step: iterator, progress bar, reading the loss, microseconds.
const LOOP_US: f64 = 800.0;
/// Indexing, fetching and collating a sample that lies in memory, microseconds.
const SAMPLE_US: f64 = 5.0;
/// The same for an image, which another process makes and hands over, its share of starting that process included.
const IMAGE_US: f64 = 50.0;
/// Extents of a batch of images: sample, channel, height, width.
const IMAGE_RANK: usize = 4;
/// Elements that a loader makes or copies in a microsecond, a few processes together.
const ELEMENTS_PER_US: f64 = 2e3;
/// Bytes in a microsecond over the bus, between what pageable and pinned memory reach.
const BYTES_PER_US: f64 = 1e4;

/// Time of the host around a step, microseconds. The graph does not say how batches are built: round figures of
/// plain PyTorch data loaders, no part of [`StepTime`](crate::StepTime).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostTime {
    /// What a step costs whatever its batch.
    pub loop_us: f64,
    /// What each sample costs whatever its size.
    pub sample_us: f64,
    /// Filling samples with numbers.
    pub fill_us: f64,
    /// Sending the batch to the GPU.
    pub copy_us: f64,
}

impl HostTime {
    /// The batch of a step.
    pub fn of(workload: &Workload) -> Self {
        let (graph, setup) = (workload.graph(), workload.setup());
        let micro_batches = setup.gradient_accumulation as f64;
        let samples = setup.batch_size as f64 * micro_batches;
        let (mut elements, mut bytes, mut per_sample) = (0.0, 0.0, SAMPLE_US);
        for &id in graph.inputs() {
            let tensor = graph.tensor(id);
            let size = workload.elements(id) as f64 * micro_batches;
            elements += size;
            bytes += size * tensor.dtype.bytes() as f64;
            if tensor.shape.rank() >= IMAGE_RANK {
                per_sample = IMAGE_US;
            }
        }
        Self {
            loop_us: LOOP_US,
            sample_us: samples * per_sample,
            fill_us: elements / ELEMENTS_PER_US,
            copy_us: bytes / BYTES_PER_US,
        }
    }

    /// All of it.
    pub fn total_us(&self) -> f64 {
        self.loop_us + self.sample_us + self.fill_us + self.copy_us
    }
}
