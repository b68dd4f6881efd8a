//! Kernels that take more than their results: sorted look-ups, attention, recurrence.

use plimsoll_graph::{AttentionKernel, RecurrentCell};

use super::rules::{Rule, Scratch, Scratches, Site};

/// The place of the mask among an attention's inputs.
pub(super) const MASK: usize = 3;

/// Bytes of an index.
const INDEX: u64 = 8;

/// What the sum of a table's gradient by index takes where indices are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sorting {
    /// Sorted indices and their order.
    pub(crate) before: [u64; 2],
    /// What they are counted in, which goes before the gradient is made.
    pub(crate) counting: u64,
    /// Starts and number of segments, their parts and where these start, their number; partial sums in fp32.
    pub(crate) after: [u64; 7],
}

impl Sorting {
    /// Of so many indices into a table; none where a simple kernel adds rows without sorting.
    pub(crate) fn of(indices: u64, rows: u64, columns: u64) -> Option<Self> {
        /// Indices that one segment of the sorted reduction sums.
        const SEGMENT: u64 = 10;
        const UNSORTED: u64 = 3_072;
        if indices <= UNSORTED {
            return None;
        }
        let bytes = |count: u64| count.saturating_mul(INDEX);
        let segments = indices.min(rows);
        let partial = indices / SEGMENT + segments;
        Some(Self {
            before: [bytes(indices); 2],
            counting: bytes(indices),
            after: [
                bytes(indices),
                INDEX,
                bytes(segments),
                bytes(segments),
                INDEX,
                bytes(partial),
                partial.saturating_mul(columns).saturating_mul(4),
            ],
        })
    }
}

pub(super) fn embedding(site: Site<'_>, sparse: bool) -> Rule {
    let indices = site.input;
    let kept = Rule { needs_rows: true, weights_first: true, ..Rule::INPUT };
    let table = site.node.weights.first().map(|&id| &site.workload.graph().weight(id).shape);
    let rows = table.and_then(|shape| shape.dims().first()).map_or(0, |dim| dim.factor());
    let columns = site.output / indices.max(1);
    match Sorting::of(indices, rows, columns) {
        Some(Sorting { before: [sorted, order], counting, after }) if !sparse => Rule {
            before: Scratches::of([Scratch::Held(sorted), Scratch::Held(order), Scratch::Passing(counting)]),
            after: Scratches::of(after.map(Scratch::Held)),
            ..kept
        },
        _ => kept,
    }
}

pub(super) fn attention(site: Site<'_>, heads: u64, kernel: AttentionKernel, dropout: f64) -> Rule {
    let tokens = |input: usize| {
        site.node.inputs.get(input).map_or(1, |&id| {
            let dims = site.workload.graph().tensor(id).shape.dims();
            // (batch, tokens, width) or (batch, heads, tokens, width): tokens stand second to last.
            dims.len().checked_sub(2).map_or(1, |axis| dims[axis].factor())
        })
    };
    let (query_tokens, key_tokens) = (tokens(0), tokens(1));
    let sequences = site.samples().saturating_mul(heads);
    let result = site.output.saturating_mul(site.width);
    match kernel {
        AttentionKernel::Fused => {
            let width = site.output / sequences.saturating_mul(query_tokens).max(1);
            let heads = Heads { sequences, tokens: query_tokens, width };
            if is_flash(site, width) { flash(heads) } else { masked(&efficient(site, heads), site, heads, key_tokens) }
        }
        // The softmax; with dropout its mask and the dropped weights too; scaled copies of query and key.
        AttentionKernel::Eager => {
            let scores = sequences.saturating_mul(query_tokens).saturating_mul(key_tokens);
            let one = scores.saturating_mul(site.width);
            let dropped = if dropout > 0.0 { one.saturating_add(scores) } else { 0 };
            Rule {
                forward_temporary: one,
                before: Scratches::of([Scratch::Held(one), Scratch::Held(one)]),
                extra: [one, dropped.saturating_add(result), 0],
                ..Rule::INPUTS
            }
        }
    }
}

/// Rows of a fused attention.
#[derive(Clone, Copy)]
struct Heads {
    /// Sequences of all heads.
    sequences: u64,
    /// Tokens of one.
    tokens: u64,
    /// Numbers of a token in one head.
    width: u64,
}

/// The memory-efficient kernel reads the mask as numbers in rows of a multiple of 16, and differentiates it in full.
fn masked(rule: &Rule, site: Site<'_>, heads: Heads, key_tokens: u64) -> Rule {
    const ALIGNMENT: u64 = 16;
    let Some(&mask) = site.node.inputs.get(MASK) else { return *rule };
    let columns = key_tokens.max(1);
    let row = columns.next_multiple_of(ALIGNMENT).saturating_mul(site.width);
    let is_float = site.workload.graph().tensor(mask).dtype.is_float();
    let mask_gradient = heads.sequences.saturating_mul(heads.tokens).saturating_mul(row);
    if is_float && columns.is_multiple_of(ALIGNMENT) {
        return Rule { mask_gradient, ..*rule };
    }
    let copy = (site.workload.elements(mask) / columns).saturating_mul(row);
    Rule { mask_gradient, unkept_from: MASK, extra: [rule.extra[0], copy, 0], ..*rule }
}

/// PyTorch prefers `FlashAttention` where there is one: Ampere and later, half-wide numbers, no mask, heads up to 256.
fn is_flash(site: Site<'_>, width: u64) -> bool {
    let has_mask = site.node.inputs.len() > 3;
    site.workload.gpu().compute_capability >= 8.0 && site.width == 2 && !has_mask && width <= 256
}

/// `FlashAttention` keeps the same, and sums the query's gradient in fp32, rows and columns padded.
fn flash(heads: Heads) -> Rule {
    let rows = heads.sequences.saturating_mul(heads.tokens).saturating_mul(4);
    let padded = heads.sequences.saturating_mul(heads.tokens.next_multiple_of(128)).saturating_mul(4);
    let sums = padded.saturating_mul(heads.width.next_multiple_of(32));
    Rule {
        output: true,
        needs_rows: true,
        after: Scratches::of([Scratch::Held(padded), Scratch::Held(sums)]),
        ..Rule::INPUTS.and(rows)
    }
}

/// PyTorch's memory-efficient kernel: query, key, value and output are kept, and the logarithm of each row's sum.
fn efficient(site: Site<'_>, heads: Heads) -> Rule {
    let rows = heads.sequences.saturating_mul(heads.tokens).saturating_mul(4);
    let padded = heads.sequences.saturating_mul(heads.tokens.next_multiple_of(32)).saturating_mul(4);
    // The query's gradient is summed over blocks of keys, in fp32 tiles of 64 columns that carry a lock each.
    let block = if heads.width <= 64 { 64 } else { 128 };
    let tiles = heads.tokens.div_ceil(block).saturating_mul(heads.width.div_ceil(64));
    let sums = heads.sequences.saturating_mul(tiles).saturating_mul((block * 64 + 4) * 4);
    Rule {
        output: true,
        needs_rows: true,
        // Output times gradient, summed to a number a row, and these in another order.
        after: Scratches::of([
            Scratch::Passing(site.output.saturating_mul(4)),
            Scratch::Passing(rows),
            Scratch::Held(rows),
            Scratch::Held(sums),
        ]),
        ..Rule::INPUTS.and(padded)
    }
}

pub(super) fn recurrent(site: Site<'_>, cell: RecurrentCell, layers: u64, bidirectional: bool) -> Rule {
    let gates = match cell {
        RecurrentCell::Rnn => 1,
        RecurrentCell::Gru => 4,
        RecurrentCell::Lstm => 6,
    };
    let directions = 1 + u64::from(bidirectional);
    let reserve = site.width * gates * site.output.saturating_mul(layers) / directions;
    // The backward pass works on a copy of the reserve.
    Rule { output: true, before: Scratches::of([Scratch::Held(reserve)]), ..Rule::INPUT }.and(reserve)
}
