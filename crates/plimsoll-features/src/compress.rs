//! Short sequences from long graphs: repeated blocks are written once, what remains too long is pooled.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::layer::Layer;

/// The longest layer sequence an estimator is given.
pub const MAX_LAYERS: usize = 256;

/// The longest block that is looked for. Blocks of deep networks have 10 to 40 nodes.
const MAX_PERIOD: usize = 96;

/// Writes repeated blocks once, with their count, then pools neighbours if more than [`MAX_LAYERS`] remain.
///
/// Time is linear in the sequence (times [`MAX_PERIOD`]).
pub(crate) fn compress(layers: Vec<Layer>) -> Vec<Layer> {
    let merged = merge_repeats(layers);
    if merged.len() <= MAX_LAYERS { merged } else { pool(&merged) }
}

fn merge_repeats(mut layers: Vec<Layer>) -> Vec<Layer> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let hashes: Vec<u64> = layers.iter().map(|layer| hasher.hash_one(layer)).collect();
    let mut merged = Vec::with_capacity(layers.len());
    let mut start = 0;
    while start < layers.len() {
        let (period, repeats) = best_block(&hashes[start..]);
        for layer in &mut layers[start..start + period] {
            layer.repeats = repeats as u64;
            merged.push(std::mem::take(layer));
        }
        start += period * repeats;
    }
    merged
}

/// The block at the front whose repetition saves most: (length, how often it stands in a row).
///
/// Cost is at most `MAX_PERIOD` times what is then consumed, so the whole pass stays linear.
fn best_block(hashes: &[u64]) -> (usize, usize) {
    let mut best = (1, 1);
    for period in 1..=MAX_PERIOD.min(hashes.len() / 2) {
        let run = hashes.iter().zip(&hashes[period..]).take_while(|(a, b)| a == b).count();
        let repeats = 1 + run / period;
        if (repeats - 1) * period > (best.1 - 1) * best.0 {
            best = (period, repeats);
        }
    }
    best
}

/// Sums neighbours into [`MAX_LAYERS`] groups; each takes its token and extents from the layer that saves most.
fn pool(layers: &[Layer]) -> Vec<Layer> {
    (0..MAX_LAYERS)
        .map(|group| {
            let members = &layers[group * layers.len() / MAX_LAYERS..(group + 1) * layers.len() / MAX_LAYERS];
            let largest = members.iter().max_by_key(|layer| (layer.saved_bytes, layer.output_bytes));
            let mut pooled = largest.cloned().unwrap_or_default();
            let sum = |size: fn(&Layer) -> u64| {
                members.iter().map(|layer| size(layer).saturating_mul(layer.repeats)).fold(0, u64::saturating_add)
            };
            pooled.parameters = sum(|layer| layer.parameters);
            pooled.output_elements = sum(|layer| layer.output_elements);
            pooled.flops = sum(|layer| layer.flops);
            pooled.bytes_moved = sum(|layer| layer.bytes_moved);
            pooled.saved_bytes = sum(|layer| layer.saved_bytes);
            pooled.output_bytes = sum(|layer| layer.output_bytes);
            pooled.trains = members.iter().any(|layer| layer.trains);
            pooled.repeats = 1;
            pooled
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(token: u16, parameters: u64) -> Layer {
        Layer { token, parameters, repeats: 1, ..Layer::default() }
    }

    fn total(layers: &[Layer]) -> u64 {
        layers.iter().map(|layer| layer.parameters * layer.repeats).sum()
    }

    #[test]
    fn repeated_blocks_are_written_once_and_totals_stay() {
        let mut layers = vec![layer(1, 7)];
        for _ in 0..48 {
            layers.extend([layer(2, 10), layer(3, 20), layer(2, 10), layer(4, 5)]);
        }
        layers.push(layer(9, 3));
        let before = total(&layers);
        let merged = compress(layers);
        assert_eq!(merged.len(), 6);
        assert_eq!(merged[1].repeats, 48);
        assert_eq!(total(&merged), before);
    }

    #[test]
    fn a_long_sequence_without_repeats_is_pooled_and_totals_stay() {
        let layers: Vec<_> = (0..2_345).map(|index| layer(1, index)).collect();
        let before = total(&layers);
        let pooled = compress(layers);
        assert_eq!(pooled.len(), MAX_LAYERS);
        assert_eq!(total(&pooled), before);
    }

    #[test]
    fn a_hundred_thousand_layers_take_linear_time() {
        // Two interleaved patterns that almost repeat are the worst case for the search.
        let layers: Vec<_> = (0..100_000).map(|index| layer(1, u64::from(index % 97 == 0) + index % 2)).collect();
        let before = total(&layers);
        let merged = compress(layers);
        assert!(merged.len() <= MAX_LAYERS);
        assert_eq!(total(&merged), before);
    }
}
