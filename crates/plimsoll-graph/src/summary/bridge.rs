//! From the tensors there are to the one a layer must have read.
//!
//! Between two printed layers stand operations that no table shows: reshapes, residual sums, concatenations,
//! gates, functional pooling. Where shapes tell which, the operation is put in.

use super::network::Network;
use crate::dtype::DType;
use crate::graph::TensorId;
use crate::op::{Binary, Op, Pool, PoolKind, Reduction};
use crate::shape::{Dim, Shape};

/// Name of an operation that must stand between two rows and that no rule could tell.
pub(super) const UNPRINTED: &str = "unprinted";

/// How a tensor of a wanted shape comes about, the likeliest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is the last row's.
    Current,
    /// The last row's, reshaped.
    Reshape,
    /// Branches that nothing read yet, concatenated.
    Branches,
    /// An earlier tensor that the last row's gates (channel attention), or that it is added to (positions).
    Gate,
    /// An earlier row's.
    Earlier,
    /// The last row's and an earlier one, concatenated.
    Skip,
    /// The last row's, averaged or sliced.
    Reduce,
    /// The last row's, pooled or enlarged.
    Resize,
}

impl Way {
    /// The order for layers that may start a branch.
    pub(super) const ALL: [Self; 8] = [
        Self::Current,
        Self::Reshape,
        Self::Branches,
        Self::Gate,
        Self::Earlier,
        Self::Skip,
        Self::Reduce,
        Self::Resize,
    ];

    /// The order for layers that keep a shape: what the last row computed is not left unread.
    pub(super) const KEEPING: [Self; 8] = [
        Self::Current,
        Self::Reshape,
        Self::Branches,
        Self::Gate,
        Self::Skip,
        Self::Earlier,
        Self::Reduce,
        Self::Resize,
    ];

    /// What may end a block.
    const ENDING: [Self; 5] = [Self::Branches, Self::Reshape, Self::Gate, Self::Reduce, Self::Resize];
}

/// An operation over tensors, or none and just the tensor.
pub(super) struct Route {
    op: Option<Op>,
    tensors: Vec<TensorId>,
}

impl Network {
    /// The tensor of a shape, by the likeliest way there is.
    pub(super) fn need(&mut self, shape: &Shape, name: &str) -> TensorId {
        self.need_by(Way::ALL, shape, name)
    }

    /// The tensor of a shape, by the first way that there is.
    pub(super) fn need_by(&mut self, ways: [Way; 8], shape: &Shape, name: &str) -> TensorId {
        let Some(current) = self.current else { return self.input("input", shape.clone(), DType::Float32) };
        if let Some(route) = ways.into_iter().find_map(|way| self.route(shape, way)) {
            return self.take(route, shape, name);
        }
        if let Some((grid, side)) = pooled(self.shape(current), shape) {
            let op = Some(pool(side, grid.rank() - 2));
            self.take(Route { op, tensors: vec![current] }, &grid, name);
            return self.need_by(ways, shape, name);
        }
        let op = Some(Op::Other { name: UNPRINTED.into() });
        self.take(Route { op, tensors: vec![current] }, shape, name)
    }

    /// How to get a tensor of a shape in one way, if that is possible.
    pub(super) fn route(&self, shape: &Shape, way: Way) -> Option<Route> {
        let current = self.current?;
        let from = self.shape(current);
        let read = |id| Route { op: None, tensors: vec![id] };
        let of_current = |op| Route { op: Some(op), tensors: vec![current] };
        let sum = |function| Some(Op::Binary { function, inplace: false });
        match way {
            Way::Current => (from == shape).then(|| read(current)),
            Way::Reshape => is_reshape(from, shape).then(|| of_current(Op::View)),
            Way::Branches => self.branches(shape),
            Way::Gate => {
                let function = gate(from, shape)?;
                let earlier = self.earlier(shape).next()?;
                Some(Route { op: sum(function), tensors: vec![earlier, current] })
            }
            Way::Earlier => self.earlier(shape).next().map(read),
            Way::Skip => self.skip(shape),
            Way::Reduce => is_reduced(from, shape).then(|| of_current(Op::Reduce { function: Reduction::Mean })),
            Way::Resize => resize(from, shape).map(of_current),
        }
    }

    /// Goes a route: adds its node, if it has one.
    pub(super) fn take(&mut self, route: Route, shape: &Shape, name: &str) -> TensorId {
        let Some(op) = route.op else { return route.tensors[0] };
        let suffix = if matches!(op, Op::Other { .. }) { UNPRINTED } else { op.token() };
        let name = self.unique(&format!("{name}.{suffix}"));
        self.node(name, op, route.tensors, Vec::new(), shape.clone())
    }

    /// Adds to the current tensor what has its shape and is not read yet: the end of a residual block.
    pub(super) fn join(&mut self, name: &str) {
        let Some(current) = self.current else { return };
        let shape = self.shape(current).clone();
        for branch in self.summands(current) {
            let tensors = vec![self.current.unwrap_or(current), branch];
            let op = Op::Binary { function: Binary::Add, inplace: false };
            self.take(Route { op: Some(op), tensors }, &shape, name);
        }
    }

    /// Ends a block whose output shape is known; false if nothing tells how that comes from what there is.
    pub(super) fn settle(&mut self, shape: &Shape, name: &str) -> bool {
        let Some(current) = self.current else { return false };
        if self.shape(current) != shape {
            let Some(route) = Way::ENDING.into_iter().find_map(|way| self.route(shape, way)) else { return false };
            self.take(route, shape, name);
        }
        self.join(name);
        true
    }

    /// What a block of which only the output is known must have read: its branches.
    pub(super) fn loose_ends(&self) -> Vec<TensorId> {
        let mut ends: Vec<TensorId> = self.unread().collect();
        if ends.is_empty() {
            ends.extend(self.current);
        }
        ends.reverse();
        ends
    }

    /// The unread tensors that concatenate to a shape, along the channels or the last dimension.
    fn branches(&self, shape: &Shape) -> Option<Route> {
        [1, shape.rank().wrapping_sub(1)].into_iter().find_map(|axis| {
            let target = fixed(shape, axis)?;
            let mut tensors = Vec::new();
            let mut sum = 0_u64;
            for id in self.unread() {
                let Some(extent) = matching(self.shape(id), shape, axis) else { continue };
                tensors.push(id);
                sum = sum.checked_add(extent)?;
                if sum == target && tensors.len() > 1 {
                    tensors.reverse();
                    return Some(Route { op: Some(Op::Concat), tensors });
                }
                if sum > target {
                    break;
                }
            }
            None
        })
    }

    /// The current tensor and an earlier one that concatenate to a shape.
    fn skip(&self, shape: &Shape) -> Option<Route> {
        let current = self.current?;
        [1, shape.rank().wrapping_sub(1)].into_iter().find_map(|axis| {
            let extent = matching(self.shape(current), shape, axis)?;
            let rest = fixed(shape, axis)?.checked_sub(extent).filter(|&rest| rest > 0)?;
            let mut dims = shape.dims().to_vec();
            dims[axis] = Dim::Fixed(rest);
            let earlier = self.earlier(&Shape::new(dims)).next()?;
            Some(Route { op: Some(Op::Concat), tensors: vec![earlier, current] })
        })
    }
}

fn fixed(shape: &Shape, axis: usize) -> Option<u64> {
    match shape.dims().get(axis) {
        Some(&Dim::Fixed(extent)) => Some(extent),
        _ => None,
    }
}

/// The extent along an axis if all others are equal.
fn matching(shape: &Shape, wanted: &Shape, axis: usize) -> Option<u64> {
    let pairs = || shape.dims().iter().zip(wanted.dims()).enumerate();
    (shape.rank() == wanted.rank() && pairs().all(|(index, (a, b))| index == axis || a == b))
        .then(|| fixed(shape, axis))?
}

fn is_reshape(from: &Shape, to: &Shape) -> bool {
    from.scales_with_batch() == to.scales_with_batch()
        && from.elements(1).is_some_and(|elements| to.elements(1) == Some(elements))
}

/// Whether `to` is `from` without some of its dimensions, or with some of extent one.
fn is_reduced(from: &Shape, to: &Shape) -> bool {
    let mut rest = from.dims().iter();
    let kept = to.dims().iter().filter(|dim| **dim != Dim::Fixed(1));
    from.rank() >= to.rank() && kept.into_iter().all(|dim| rest.any(|other| other == dim))
}

/// A vector of channels scales a grid; a table of positions is added to a sequence.
fn gate(from: &Shape, to: &Shape) -> Option<Binary> {
    let (from, to) = (from.dims(), to.dims());
    if from.len() == to.len() && from.len() > 2 && from[..2] == to[..2] && from[2..].iter().all(|dim| *dim == 1.into())
    {
        return Some(Binary::Multiply);
    }
    let table = match from.split_first() {
        Some((Dim::Fixed(1), table)) if from.len() == to.len() => table,
        _ => from,
    };
    (table.len() + 1 == to.len() && to.len() > 2 && *table == to[1..]).then_some(Binary::Add)
}

/// Functional pooling to a grid that a window of two or more leaves of the present one, or enlarging to a multiple.
fn resize(from: &Shape, to: &Shape) -> Option<Op> {
    let (from, to) = (from.dims(), to.dims());
    if from.len() != to.len() || from.len() < 3 || from[..2] != to[..2] {
        return None;
    }
    let mut ratios = from[2..].iter().zip(&to[2..]).map(|(from, to)| {
        let (from, to) = (from.factor(), to.factor());
        let (less, more) = (from.min(to), from.max(to));
        let ratio = more.checked_div(less).filter(|&ratio| ratio > 1)?;
        let fits = if from > to { from / ratio == to } else { from.checked_mul(ratio) == Some(to) };
        fits.then_some((ratio, from > to))
    });
    let (ratio, shrinks) = ratios.next()??;
    if !ratios.all(|other| other == Some((ratio, shrinks))) {
        return None;
    }
    Some(if shrinks { pool(ratio, from.len() - 2) } else { Op::Upsample })
}

fn pool(side: u64, rank: usize) -> Op {
    let kernel = vec![side; rank];
    Op::Pool(Pool { kind: PoolKind::Max, stride: kernel.clone(), kernel, padding: Vec::new() })
}

/// The grid that functional pooling must have left before it was flattened to features, and the window's side.
fn pooled(from: &Shape, to: &Shape) -> Option<(Shape, u64)> {
    let (&[batch, Dim::Fixed(features)], [first, channels, grid @ ..]) = (to.dims(), from.dims()) else { return None };
    let side = grid.iter().map(|dim| dim.factor()).min().filter(|_| batch == *first)?;
    // Larger windows than this are not used.
    (2..=side.min(8)).find_map(|side| {
        let left = grid.iter().map(|dim| Dim::Fixed(dim.factor() / side));
        let shape = Shape::new([batch, *channels].into_iter().chain(left));
        let elements = shape.dims()[1..].iter().try_fold(1_u64, |product, dim| product.checked_mul(dim.factor()));
        (elements == Some(features)).then_some((shape, side))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_two_rows_is_told_from_their_shapes() {
        let shape = Shape::batched;
        assert!(is_reshape(&shape(&[16, 5, 5]), &shape(&[400])));
        assert!(!is_reshape(&shape(&[400]), &Shape::fixed(&[400])));
        assert!(is_reduced(&shape(&[197, 768]), &shape(&[768])));
        assert!(is_reduced(&shape(&[64, 7, 7]), &shape(&[64, 1, 1])));
        assert!(!is_reduced(&shape(&[768]), &shape(&[197, 768])));
        assert_eq!(gate(&shape(&[32, 1, 1]), &shape(&[32, 7, 7])), Some(Binary::Multiply));
        assert_eq!(gate(&Shape::fixed(&[20, 64]), &shape(&[20, 64])), Some(Binary::Add));
        assert_eq!(gate(&Shape::fixed(&[1, 20, 64]), &shape(&[20, 64])), Some(Binary::Add));
        assert_eq!(gate(&shape(&[32, 7, 7]), &shape(&[32, 7, 7])), None);
    }

    #[test]
    fn functional_pooling_is_told_from_the_grids() {
        let shape = Shape::batched;
        assert!(matches!(resize(&shape(&[6, 28, 28]), &shape(&[6, 14, 14])), Some(Op::Pool(_))));
        assert!(matches!(resize(&shape(&[6, 13, 13]), &shape(&[6, 6, 6])), Some(Op::Pool(_))));
        assert!(matches!(resize(&shape(&[6, 7, 7]), &shape(&[6, 14, 14])), Some(Op::Upsample)));
        assert!(resize(&shape(&[6, 28, 28]), &shape(&[6, 14, 7])).is_none());
        assert!(resize(&shape(&[6, 28, 28]), &shape(&[6, 0, 0])).is_none());
        assert_eq!(pooled(&shape(&[16, 10, 10]), &shape(&[400])), Some((shape(&[16, 5, 5]), 2)));
        assert_eq!(pooled(&shape(&[16, 10, 10]), &shape(&[399])), None);
    }
}
