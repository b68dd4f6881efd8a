//! Matrix products in tiles.

use super::kernel::{Kernel, KernelKind, Pipe};
use super::machine::Machine;

/// A product of an m by k and a k by n matrix, `count` times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) m: f64,
    pub(super) n: f64,
    pub(super) k: f64,
    pub(super) count: f64,
    /// Bytes of an element.
    pub(super) width: f64,
    pub(super) pipe: Pipe,
}

/// Rows and columns of a tile, its threads, blocks on a multiprocessor, and the share of the peak it reaches:
/// large tiles reuse what they load more often.
const TILES: [(f64, f64, f64, f64, f64); 6] = [
    (256.0, 128.0, 256.0, 1.0, 0.92),
    (128.0, 128.0, 256.0, 2.0, 0.88),
    (128.0, 64.0, 128.0, 3.0, 0.8),
    (128.0, 32.0, 128.0, 4.0, 0.7),
    (64.0, 64.0, 128.0, 4.0, 0.65),
    (32.0, 32.0, 64.0, 8.0, 0.35),
];
/// Ways in which the summed-over extent is split over blocks.
const SPLITS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// A split has at least this much to sum.
const LEAST_SPLIT: f64 = 256.0;
/// Tensor cores come closer to their peak on nothing smaller than the largest tiles.
const TENSOR_SHARE: f64 = 0.75;

impl Product {
    /// The kernel with the tile and split that take the least time, as a library's heuristic would choose.
    pub(super) fn kernel(&self, machine: &Machine, kind: KernelKind) -> Kernel {
        let Self { m, n, k, count, width, pipe } = *self;
        let (m, n, k, count) = (m.max(1.0), n.max(1.0), k.max(1.0), count.max(1.0));
        let peak = machine.flops_per_us(pipe) / machine.sms;
        let pipe_share = if pipe == Pipe::Fp32 { 1.0 } else { TENSOR_SHARE };
        let mut best: Option<(f64, Choice)> = None;
        for (rows, columns, threads, per_sm, share) in TILES {
            for split in SPLITS {
                if split > 1.0 && k / split < LEAST_SPLIT {
                    break;
                }
                let tiles = (m / rows).ceil() * (n / columns).ceil() * count * split;
                let block_us = 2.0 * rows * columns * (k / split) / (peak * share * pipe_share);
                let mut time = (tiles / machine.sms).ceil() * block_us;
                if split > 1.0 {
                    // Partial sums are written, read and added.
                    time += 2.0 + 4.0 * m * n * count * (split + 1.0) * 1e-6;
                }
                if best.is_none_or(|(least, _)| time < least) {
                    let padding = (m / rows).ceil() * rows * (n / columns).ceil() * columns / (m * n);
                    best = Some((time, Choice { blocks: tiles, threads, per_sm, share, padding }));
                }
            }
        }
        let choice = best.map(|(_, choice)| choice).unwrap_or_default();
        Kernel {
            kind,
            pipe,
            flops: 2.0 * m * n * k * count,
            padding: choice.padding.max(1.0),
            efficiency: choice.share * pipe_share,
            read_bytes: (m * k + k * n) * count * width,
            write_bytes: m * n * count * width,
            blocks: choice.blocks,
            threads: choice.threads,
            blocks_per_sm: choice.per_sm,
            ..Kernel::stream(kind, 0.0, 0.0, 0.0, 0.0)
        }
    }
}

/// How a product is cut up.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    blocks: f64,
    threads: f64,
    per_sm: f64,
    share: f64,
    padding: f64,
}
