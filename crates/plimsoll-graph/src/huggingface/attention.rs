//! Attention: one fused kernel, or the products that it consists of.
//!
//! PyTorch's `scaled_dot_product_attention` takes itself apart where no fused kernel can do it; the library's eager
//! attention is much the same in another order. Which heads are copied before a product follows from how they lie.

use super::module::Module;
use super::network::Value;
use crate::dtype::DType;
use crate::op::{Activation, AttentionKernel, Binary, Op};
use crate::shape::{Dim, Shape};

/// What one attention is asked for.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub(super) struct Attention {
    pub(super) heads: u64,
    /// Heads of keys and values, a divisor of `heads`.
    pub(super) kv_heads: u64,
    /// Numbers of a token in one head.
    pub(super) width: u64,
    pub(super) dropout: f64,
    pub(super) is_eager: bool,
    /// Whether the inputs are half as wide, for which there is a fused kernel of shared heads.
    pub(super) is_half: bool,
    /// Whether later tokens are hidden although there is no mask.
    pub(super) is_causal: bool,
    /// Whether scores are squashed by a hyperbolic tangent.
    pub(super) is_capped: bool,
}

/// What is added to scores: a bias, and a mask (of booleans for the fused kernel).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extras {
    pub(super) bias: Option<Value>,
    pub(super) mask: Option<Value>,
}

/// Heads of queries, keys or values, (batch, heads, tokens, width).
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) value: Value,
    /// Whether elements stand in the order of the dimensions, and not tokens before heads.
    pub(super) is_contiguous: bool,
}

impl Attention {
    /// As many heads of keys as of queries, nothing hidden or squashed.
    pub(super) const fn plain(heads: u64, width: u64, dropout: f64, is_eager: bool) -> Self {
        Self { heads, kv_heads: heads, width, dropout, is_eager, is_half: false, is_causal: false, is_capped: false }
    }

    /// Kernels read rows of sixteen bytes, which are four numbers in fp32.
    const fn has_kernel(&self) -> bool {
        self.width.is_multiple_of(4)
    }
}

impl Module<'_> {
    /// Heads of a projection, which stand after the tokens in memory.
    pub(super) fn heads(&mut self, projection: Value, heads: u64, width: u64) -> Heads {
        let dims = self.shape(projection).dims();
        let dims = [dims[0], Dim::Fixed(heads), dims[1], Dim::Fixed(width)];
        Heads { value: self.view("transpose", projection, &dims), is_contiguous: false }
    }

    /// Runs an attention; the result is (batch, tokens, all heads).
    pub(super) fn attend(&mut self, attention: Attention, qkv: [Heads; 3], extras: Extras) -> Value {
        let [query, mut key, mut value] = qkv;
        let is_grouped = attention.kv_heads < attention.heads;
        if attention.is_eager {
            if is_grouped {
                [key, value] = [key, value].map(|heads| self.repeat(attention, heads, false));
            }
            return self.separate(attention, [query, key, value], extras);
        }
        let is_hidden = attention.is_causal && extras.mask.is_none() && self.tokens(query) > 1;
        let attention = Attention { is_causal: is_hidden, ..attention };
        // The kernels of shared heads know no masks, and no wider heads.
        let shares = is_grouped && extras.mask.is_none() && attention.width <= 256;
        if is_grouped && !shares {
            [key, value] = [key, value].map(|heads| self.repeat(attention, heads, false));
        }
        if attention.has_kernel() && (!shares || attention.is_half) {
            let kv_heads = if shares { attention.kv_heads } else { 0 };
            return self.fused(attention, kv_heads, [query, key, value], extras);
        }
        self.taken_apart(attention, shares, [query, key, value], extras)
    }

    fn tokens(&self, heads: Heads) -> u64 {
        self.shape(heads.value).dims()[2].factor()
    }

    /// Keys or values once for each query head that reads them. A single head is repeated without a copy, unless
    /// PyTorch does it.
    fn repeat(&mut self, attention: Attention, heads: Heads, always_copies: bool) -> Heads {
        let (groups, tokens, width) = (attention.kv_heads, self.tokens(heads), attention.width);
        let dims = [groups, attention.heads / groups, tokens, width].map(Dim::Fixed);
        let repeated = self.view("expand", heads.value, &[&[Dim::Batch(1)], &dims[..]].concat());
        let is_copied = groups > 1 || always_copies;
        let repeated = if is_copied { self.copy("clone", repeated) } else { repeated };
        let dims = [attention.heads, tokens, width].map(Dim::Fixed);
        let value = self.view("view", repeated, &[&[Dim::Batch(1)], &dims[..]].concat());
        Heads { value, is_contiguous: is_copied }
    }

    fn fused(&mut self, attention: Attention, kv_heads: u64, qkv: [Heads; 3], extras: Extras) -> Value {
        let Attention { heads, is_causal: causal, dropout, .. } = attention;
        let op = Op::Attention { heads, kv_heads, kernel: AttentionKernel::Fused, causal, dropout };
        let mut inputs = qkv.map(|heads| heads.value).to_vec();
        inputs.extend(extras.bias.or(extras.mask));
        let result = self.like("scaled_dot_product_attention", op, &inputs, vec![]);
        self.joined(attention, qkv[0], result)
    }

    /// Heads side by side again.
    fn joined(&mut self, attention: Attention, query: Heads, result: Value) -> Value {
        let tokens = self.tokens(query);
        let width = attention.heads.saturating_mul(attention.width);
        self.view("view", result, &[Dim::Batch(1), Dim::Fixed(tokens), Dim::Fixed(width)])
    }

    /// What PyTorch does without a kernel: half of the scale on queries and keys each, a mask from nothing.
    fn taken_apart(&mut self, attention: Attention, shares: bool, qkv: [Heads; 3], extras: Extras) -> Value {
        let [query, mut key, mut value] = qkv;
        let mut bias = extras.bias;
        if let Some(mask) = extras.mask {
            bias = Some(self.chosen(mask));
        }
        let query = Heads { value: self.scale(query.value), ..query };
        if attention.is_causal {
            let square = [Dim::Fixed(self.tokens(query)), Dim::Fixed(self.tokens(key))];
            let ones = self.constant("ones", &square, DType::Bool);
            let lower = self.other("tril", "tril", ones);
            bias = Some(self.chosen(lower));
        }
        if shares {
            [key, value] = [key, value].map(|heads| self.repeat(attention, heads, true));
        }
        let turned = self.turned(key);
        let turned = self.scale(turned);
        let scores = self.scores(attention, query, Heads { value: turned, ..key });
        let scores = bias.map_or(scores, |bias| self.add(scores, bias));
        self.weighted(attention, query, value, scores)
    }

    /// Zero and a large negative number by a mask.
    fn chosen(&mut self, mask: Value) -> Value {
        let [no, yes] = [0; 2].map(|_| self.constant("scalar_tensor", &[], DType::Float32));
        self.choose(mask, yes, no)
    }

    /// The library's own attention: the whole scale on scores.
    fn separate(&mut self, attention: Attention, qkv: [Heads; 3], extras: Extras) -> Value {
        let [query, key, value] = qkv;
        let turned = self.turned(key);
        let scores = self.scores(attention, query, Heads { value: turned, ..key });
        let mut scores = self.scale(scores);
        if attention.is_capped {
            scores = self.capped(scores);
        }
        for extra in [extras.bias, extras.mask].into_iter().flatten() {
            scores = self.add(scores, extra);
        }
        self.weighted(attention, query, value, scores)
    }

    /// Scores squashed to a range.
    pub(super) fn capped(&mut self, scores: Value) -> Value {
        let scores = self.scalar("div", Binary::Divide, scores);
        let scores = self.function("tanh", Activation::Tanh, scores);
        self.scale(scores)
    }

    /// Keys with their tokens last.
    fn turned(&mut self, key: Heads) -> Value {
        let dims = self.shape(key.value).dims().to_vec();
        self.view("transpose", key.value, &[dims[0], dims[1], dims[3], dims[2]])
    }

    fn scores(&mut self, attention: Attention, query: Heads, turned: Heads) -> Value {
        let tokens = [self.tokens(query), self.shape(turned.value).last().factor()].map(Dim::Fixed);
        let left = self.batched(attention, query);
        let right = self.batched(attention, turned);
        let scores = self.mat_mul(left, right);
        self.view("view", scores, &[Dim::Batch(1), Dim::Fixed(attention.heads), tokens[0], tokens[1]])
    }

    /// The softmax of scores, and the mean of values that it weights.
    fn weighted(&mut self, attention: Attention, query: Heads, value: Heads, scores: Value) -> Value {
        let weights = self.like("softmax", Op::Softmax, &[scores], vec![]);
        let weights = self.dropout("dropout", weights, attention.dropout);
        let left = self.batched(attention, Heads { value: weights, is_contiguous: true });
        let right = self.batched(attention, value);
        let result = self.mat_mul(left, right);
        let dims = [self.tokens(query), attention.heads, attention.width].map(Dim::Fixed);
        let mut result = self.view("transpose", result, &[&[Dim::Batch(1)], &dims[..]].concat());
        if attention.heads > 1 && self.tokens(query) > 1 {
            result = self.copy("clone", result);
        }
        self.joined(attention, query, result)
    }

    /// A matrix for each head of each sample. Heads that lie among tokens are copied apart.
    fn batched(&mut self, attention: Attention, heads: Heads) -> Value {
        let dims = self.shape(heads.value).dims().to_vec();
        let is_apart = heads.is_contiguous || attention.heads == 1 || dims[2..].contains(&Dim::Fixed(1));
        let value = if is_apart { heads.value } else { self.copy("clone", heads.value) };
        let dims = Shape::new([Dim::Batch(attention.heads), dims[2], dims[3]]);
        self.view("view", value, dims.dims())
    }
}
