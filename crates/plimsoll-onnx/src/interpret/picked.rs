//! Elements of small constants, picked by place.

use plimsoll_graph::Dim;

use super::call::few_elements;
use crate::quantity::Quantity;

/// The elements of a result whose element at a place stems from some place of the source; `None` if there are too many
/// or one lies outside.
pub(super) fn picked(
    numbers: &[Quantity],
    from: &[Dim],
    to: &[Dim],
    source: impl Fn(&[usize]) -> Option<Vec<usize>>,
) -> Option<Vec<Quantity>> {
    let count = few_elements(to)?;
    let from: Vec<usize> = from.iter().map(|dim| dim.factor() as usize).collect();
    let mut place = vec![0; to.len()];
    let mut picked = Vec::with_capacity(count);
    for _ in 0..count {
        let at = source(&place)?;
        let index =
            at.iter().zip(&from).try_fold(0, |index, (&at, &extent)| (at < extent).then(|| index * extent + at))?;
        picked.push(*numbers.get(index)?);
        for axis in (0..to.len()).rev() {
            place[axis] += 1;
            if place[axis] < to[axis].factor() as usize {
                break;
            }
            place[axis] = 0;
        }
    }
    Some(picked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_transposed() {
        let numbers: Vec<Quantity> = (0..6).map(|number| Quantity::new(f64::from(number))).collect();
        let dims = |extents: [u64; 2]| extents.map(Dim::Fixed);
        let turned = picked(&numbers, &dims([2, 3]), &dims([3, 2]), |at| Some(vec![at[1], at[0]])).expect("few");
        assert_eq!(turned.iter().filter_map(|number| number.whole()).collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
        assert!(picked(&numbers, &dims([2, 3]), &dims([3, 2]), |at| Some(at.to_vec())).is_none(), "outside");
    }
}
