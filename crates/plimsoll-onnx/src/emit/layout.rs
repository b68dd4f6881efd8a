//! How elements of a tensor lie in memory: what can be seen in another shape, and what must be copied first.

use plimsoll_graph::Dim;

/// The batch at which extents are compared: a large prime, so that no product of other extents passes for it.
const BATCH: u128 = 251;

/// Steps between elements along each dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Strides(Vec<u128>);

/// Extents as numbers.
pub(super) fn extents(dims: &[Dim]) -> Vec<u128> {
    dims.iter().map(|dim| u128::from(dim.factor()) * if dim.scales_with_batch() { BATCH } else { 1 }).collect()
}

impl Strides {
    /// Row by row.
    pub(super) fn rows(dims: &[Dim]) -> Self {
        let extents = extents(dims);
        let order: Vec<usize> = (0..extents.len()).collect();
        Self::dense(&extents, &order)
    }

    /// Without gaps, the dimension that stands last in the order running fastest.
    fn dense(extents: &[u128], order: &[usize]) -> Self {
        let mut strides = vec![1; extents.len()];
        let mut step = 1_u128;
        for &axis in order.iter().rev() {
            strides[axis] = step;
            step = step.saturating_mul(extents[axis].max(1));
        }
        Self(strides)
    }

    /// Batch, then places, then channels.
    pub(super) fn channels_last(dims: &[Dim]) -> Self {
        let order: Vec<usize> = std::iter::once(0).chain(2..dims.len()).chain([1]).collect();
        Self::dense(&extents(dims), &order)
    }

    /// Batch, then tokens, then heads: how attention writes its result.
    pub(super) fn tokens_first(dims: &[Dim]) -> Self {
        if dims.len() == 4 { Self::dense(&extents(dims), &[0, 2, 1, 3]) } else { Self::rows(dims) }
    }

    pub(super) fn is_channels_last(&self, dims: &[Dim]) -> bool {
        dims.len() > 3 && *self == Self::channels_last(dims) && *self != Self::rows(dims)
    }

    /// What an elementwise operator writes: without gaps, in the order in which it reads.
    pub(super) fn elementwise(&self, from: &[Dim], to: &[Dim]) -> Self {
        if from.len() != to.len() {
            return Self::rows(to);
        }
        let mut order: Vec<usize> = (0..to.len()).collect();
        // Dimensions of one element, and stretched ones, keep their place.
        if self.0.iter().zip(from).any(|(&stride, dim)| stride == 0 && dim.factor() != 1) {
            return Self::rows(to);
        }
        order.sort_by(|&one, &other| self.0[other].cmp(&self.0[one]));
        Self::dense(&extents(to), &order)
    }

    pub(super) fn permuted(&self, order: &[usize]) -> Self {
        Self(order.iter().map(|&axis| self.0.get(axis).copied().unwrap_or(1)).collect())
    }

    /// Some dimensions stretched from one element.
    pub(super) fn expanded(&self, from: &[Dim], to: &[Dim]) -> Self {
        let added = to.len().saturating_sub(from.len());
        let mut strides = vec![0; added];
        strides.extend((0..from.len()).map(|axis| if from[axis] == to[added + axis] { self.0[axis] } else { 0 }));
        Self(strides)
    }

    /// A part of a tensor: the same steps, longer along the axes that are strided.
    pub(super) fn part(&self, steps: &[(usize, u128)]) -> Self {
        let mut strides = self.0.clone();
        for &(axis, step) in steps {
            if let Some(stride) = strides.get_mut(axis) {
                *stride = stride.saturating_mul(step);
            }
        }
        Self(strides)
    }

    /// One row along an axis, without that axis.
    pub(super) fn row(&self, axis: usize) -> Self {
        let mut strides = self.0.clone();
        if axis < strides.len() {
            strides.remove(axis);
        }
        Self(strides)
    }

    /// The steps under which the same elements are seen in another shape; `None` if they must be copied for it.
    pub(super) fn viewed(&self, from: &[Dim], to: &[Dim]) -> Option<Self> {
        let (from, to) = (extents(from), extents(to));
        let mut strides = vec![1_u128; to.len()];
        let mut left = to.len();
        let (mut step, mut own, mut seen) = (self.0.last().copied().unwrap_or(1), 1_u128, 1_u128);
        for axis in (0..from.len()).rev() {
            own = own.saturating_mul(from[axis]);
            // Dimensions that lie behind each other without a gap are one.
            let ends = axis == 0 || (from[axis - 1] != 1 && self.0[axis - 1] != own.saturating_mul(step));
            if !ends {
                continue;
            }
            while left > 0 && (seen < own || to[left - 1] == 1) {
                left -= 1;
                strides[left] = seen.saturating_mul(step);
                seen = seen.saturating_mul(to[left]);
            }
            if seen != own {
                return None;
            }
            if axis > 0 {
                (step, own, seen) = (self.0[axis - 1], 1, 1);
            }
        }
        (left == 0 || from.is_empty()).then_some(Self(strides))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH_DIM: Dim = Dim::Batch(1);

    fn dims(extents: &[u64]) -> Vec<Dim> {
        std::iter::once(BATCH_DIM).chain(extents.iter().copied().map(Dim::Fixed)).collect()
    }

    #[test]
    fn a_reshape_after_a_transpose_must_copy() {
        let (from, turned) = (dims(&[4, 16, 8]), dims(&[16, 4, 8]));
        let strides = Strides::rows(&from).permuted(&[0, 2, 1, 3]);
        assert!(strides.viewed(&turned, &dims(&[16, 32])).is_none());
        assert!(Strides::rows(&from).viewed(&from, &dims(&[64, 8])).is_some());
        assert!(strides.viewed(&turned, &dims(&[16, 4, 2, 4])).is_some(), "a split within one dimension");
    }

    #[test]
    fn what_attention_writes_is_flattened_without_a_copy() {
        let heads = dims(&[3, 197, 64]);
        let turned = Strides::tokens_first(&heads).permuted(&[0, 2, 1, 3]);
        assert!(turned.viewed(&dims(&[197, 3, 64]), &dims(&[197, 192])).is_some());
    }

    #[test]
    fn elementwise_operators_keep_the_order_and_close_gaps() {
        let whole = dims(&[8, 3, 5]);
        let part = Strides::rows(&whole).permuted(&[0, 2, 1, 3]).part(&[(3, 2)]);
        let result = part.elementwise(&dims(&[3, 8, 5]), &dims(&[3, 8, 5]));
        assert_eq!(result, Strides::rows(&whole).permuted(&[0, 2, 1, 3]));
    }

    #[test]
    fn absurd_extents_do_not_overflow() {
        let huge = vec![Dim::Batch(u64::MAX); 16];
        assert!(
            Strides::rows(&huge).viewed(&huge, &huge).is_some() || Strides::rows(&huge).viewed(&huge, &huge).is_none()
        );
    }
}
