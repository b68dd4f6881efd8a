//! Whether an operator's attributes make sense.
//!
//! Attributes come from files. Later steps multiply and divide by them, so each is held to a range that real networks
//! stay far inside of and in which that arithmetic cannot overflow.

use std::ops::RangeInclusive;

use crate::error::{GraphError, Result};
use crate::graph::{Node, TensorId, TensorSpec};
use crate::op::{Conv, Op, Pool};

/// Extents, strides, dilations and heads.
const EXTENTS: RangeInclusive<u64> = 1..=1 << 20;
const PADDING: RangeInclusive<u64> = 0..=1 << 20;
/// Channel groups and widths of a state.
const WIDTHS: RangeInclusive<u64> = 1..=1 << 24;
const LAYERS: RangeInclusive<u64> = 1..=4096;
const SPATIAL_RANKS: RangeInclusive<u64> = 1..=3;

impl Op {
    /// Checks that every attribute is in its range; `node` names the operator in errors.
    pub(crate) fn check(&self, node: &str) -> Result<()> {
        let attributes = Attributes { node };
        match self {
            Self::Conv(conv) => attributes.conv(conv),
            Self::Pool(pool) => attributes.pool(pool),
            Self::GroupNorm { groups } => attributes.within("groups", *groups, &WIDTHS),
            Self::Dropout { p, .. } | Self::StochasticDepth { p } => attributes.probability("p", *p),
            Self::Attention { heads, kv_heads, dropout, .. } => {
                attributes.within("heads", *heads, &EXTENTS)?;
                attributes.within("kv_heads", *kv_heads, &(0..=*heads))?;
                attributes.probability("dropout", *dropout)
            }
            Self::Recurrent { hidden, layers, .. } => {
                attributes.within("hidden", *hidden, &WIDTHS)?;
                attributes.within("layers", *layers, &LAYERS)
            }
            _ => Ok(()),
        }
    }
}

/// Checks a node's attributes, and its input's rank where the kernel fixes it.
///
/// The rank counts only where input and output agree on it: a layer summary may leave out the reshape before a
/// convolution, and is read all the same.
pub(crate) fn check_node(node: &Node, tensors: &[TensorSpec]) -> Result<()> {
    node.op.check(&node.name)?;
    let Op::Conv(conv) = &node.op else { return Ok(()) };
    let first = |ids: &[TensorId]| ids.first().and_then(|id| tensors.get(id.0 as usize));
    let (Some(input), Some(output)) = (first(&node.inputs), first(&node.outputs)) else { return Ok(()) };
    let expected = conv.kernel.len() + 2;
    if input.shape.rank() == expected || input.shape.rank() != output.shape.rank() {
        return Ok(());
    }
    Err(GraphError::Shape {
        node: node.name.clone(),
        expected: format!("an input of {expected} dimensions (the kernel has {})", conv.kernel.len()),
        found: format!("`{}` of {} dimensions, {}", input.name, input.shape.rank(), input.shape),
    })
}

/// The attributes of one node.
#[derive(Clone, Copy)]
struct Attributes<'a> {
    node: &'a str,
}

impl Attributes<'_> {
    fn conv(self, conv: &Conv) -> Result<()> {
        self.kernel(&conv.kernel, &SPATIAL_RANKS)?;
        let rank = conv.kernel.len();
        self.list("stride", &conv.stride, rank, &EXTENTS)?;
        self.list("padding", &conv.padding, rank, &PADDING)?;
        self.list("dilation", &conv.dilation, rank, &EXTENTS)?;
        self.within("groups", conv.groups, &WIDTHS)
    }

    fn pool(self, pool: &Pool) -> Result<()> {
        // Adaptive pooling has no kernel, and a layer summary does not always tell a sliding one's.
        self.kernel(&pool.kernel, &(0..=*SPATIAL_RANKS.end()))?;
        self.list("stride", &pool.stride, pool.kernel.len(), &EXTENTS)?;
        self.list("padding", &pool.padding, pool.kernel.len(), &PADDING)
    }

    fn kernel(self, kernel: &[u64], ranks: &RangeInclusive<u64>) -> Result<()> {
        if !ranks.contains(&(kernel.len() as u64)) {
            let expected = format!("{} to {} extents", ranks.start(), ranks.end());
            return Err(self.out_of_range("kernel", expected, kernel.len().to_string()));
        }
        kernel.iter().try_for_each(|&extent| self.within("kernel", extent, &EXTENTS))
    }

    fn list(self, attribute: &str, values: &[u64], rank: usize, range: &RangeInclusive<u64>) -> Result<()> {
        if values.len() > rank {
            let expected = format!("at most {rank} numbers, as many as the kernel has");
            return Err(self.out_of_range(attribute, expected, values.len().to_string()));
        }
        values.iter().try_for_each(|&value| self.within(attribute, value, range))
    }

    fn within(self, attribute: &str, value: u64, range: &RangeInclusive<u64>) -> Result<()> {
        if range.contains(&value) {
            return Ok(());
        }
        Err(self.out_of_range(attribute, format!("{} to {}", range.start(), range.end()), value.to_string()))
    }

    /// A range holds neither infinities nor what is not a number.
    fn probability(self, attribute: &str, value: f64) -> Result<()> {
        if (0.0..=1.0).contains(&value) {
            return Ok(());
        }
        Err(self.out_of_range(attribute, "0 to 1".into(), value.to_string()))
    }

    fn out_of_range(self, attribute: &str, expected: String, found: String) -> GraphError {
        GraphError::OutOfRange { what: format!("`{attribute}` of node `{}`", self.node), expected, found }
    }
}

#[cfg(test)]
mod tests;
