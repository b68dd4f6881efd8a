//! In which order rows are trained on.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::batch::Table;

/// Batches that are sorted by length together: enough that padding nearly vanishes, few enough that company varies.
const BUCKET: usize = 32;

/// The batches of an epoch: every row once, rows of similar length together, decided by seed and epoch alone.
pub(super) fn batches(table: &Table, batch_size: usize, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
    batches_of((0..table.rows()).collect(), table, batch_size, seed, epoch)
}

/// The same of some rows of a table.
pub(super) fn batches_of(
    mut rows: Vec<usize>,
    table: &Table,
    batch_size: usize,
    seed: u64,
    epoch: u64,
) -> Vec<Vec<usize>> {
    let mut generator = ChaCha8Rng::seed_from_u64(mix(seed, epoch));
    rows.shuffle(&mut generator);
    let mut batches = Vec::with_capacity(rows.len().div_ceil(batch_size));
    for bucket in rows.chunks_mut(batch_size * BUCKET) {
        bucket.sort_by_key(|&row| table.length(row));
        batches.extend(bucket.chunks(batch_size).map(<[usize]>::to_vec));
    }
    batches.shuffle(&mut generator);
    batches
}

/// One seed from two, well spread (the finaliser of `SplitMix64`).
pub(super) const fn mix(seed: u64, epoch: u64) -> u64 {
    let mut z = seed.wrapping_add(epoch.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
