//! What a sum over rows takes: the gradient of a bias, of positions.
//!
//! PyTorch splits long sums over blocks of threads, which meet in a buffer of the allocator's (`ATen/native/cuda`,
//! `Reduce.cuh`). Each block writes every thread's partial sums there, so that the buffer is far larger than the
//! result: 8 bytes for each number that is read, up to 512 bytes for each thread that the GPU can run at once.

use plimsoll_graph::Gpu;

/// Threads of a block that sums, and of a warp.
const BLOCK: u64 = 512;
const WARP: u64 = 32;
/// Fewest and most numbers that a thread should sum.
const FEWEST: u64 = 16;
const MOST: u64 = 256;
/// Bytes of a partial sum, whatever is summed.
const PARTIAL: u64 = 4;

/// Bytes of the buffer in which rows are summed to one; nothing where one block sums them.
pub(crate) fn buffer_bytes(gpu: &Gpu, rows: u64, columns: u64) -> u64 {
    if rows == 0 || columns == 0 {
        return 0;
    }
    // Numbers side by side that a thread sums together.
    let vector = [4, 2, 1].into_iter().find(|&size| columns.is_multiple_of(size)).unwrap_or(1);
    let threads = BLOCK / vector;
    let across = (columns / vector).min(threads);
    let across = 1_u64 << across.ilog2();
    let down = 1_u64 << rows.min(threads).ilog2();
    let height = down.min(threads / WARP.min(across));
    let width = across.min(threads / height);
    // Warps of a block share rows if that leaves enough for each thread.
    if rows < (height * FEWEST).min(MOST) {
        return 0;
    }
    let each = rows.div_ceil(height);
    let grid = (columns / vector).div_ceil(width);
    let most_blocks = u64::from(gpu.sms) * (threads_per_multiprocessor(gpu) / (width * height));
    if each < MOST || grid > most_blocks {
        return 0;
    }
    let blocks = most_blocks.div_ceil(grid).min(each.div_ceil(FEWEST)).max(each.div_ceil(MOST));
    if blocks < 2 { 0 } else { PARTIAL * columns * blocks * width * vector }
}

/// Threads that a multiprocessor holds at once, by generation.
fn threads_per_multiprocessor(gpu: &Gpu) -> u64 {
    match (gpu.compute_capability * 10.0).round() as u64 {
        75 => 1_024,
        86..=89 | 120.. => 1_536,
        _ => 2_048,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_graph::GpuCatalogue;

    use super::*;

    #[test]
    fn an_a100_sums_in_at_most_108_mib() {
        let gpu = GpuCatalogue::built_in().find("a100-40").expect("a GPU");
        assert_eq!(buffer_bytes(gpu, 1_020, 256), 0);
        assert_eq!(buffer_bytes(gpu, 8_192, 256), 8 * 8_192 * 256);
        assert_eq!(buffer_bytes(gpu, 8_192, 768), 8 * 8_192 * 768);
        assert_eq!(buffer_bytes(gpu, 32_768, 1_024), 108 << 20);
    }
}
