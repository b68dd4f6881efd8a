//! Convolutions as cuDNN is asked for them.

use plimsoll_graph::{Node, Op, TensorId, Workload};

use crate::trace::{Convolution, Direction};

/// What cuDNN is asked for in one direction of a convolution.
pub(crate) fn convolution(
    workload: &Workload,
    node: &Node,
    direction: Direction,
    element_bytes: u64,
) -> Option<Convolution> {
    let Op::Conv(conv) = &node.op else { return None };
    let graph = workload.graph();
    let batch_size = workload.setup().batch_size;
    let planes = |id: TensorId| {
        let dims = graph.tensor(id).shape.dims();
        let extent = |axis: usize| dims.get(axis).map_or(1, |dim| dim.factor());
        let width = dims.get(3..).unwrap_or_default().iter().fold(1, |product, dim| product * dim.factor());
        let batch = dims.first().and_then(|dim| dim.at(batch_size)).unwrap_or(1);
        (batch, [extent(1), extent(2), width])
    };
    let (batch, input) = planes(*node.inputs.first()?);
    let (_, output) = planes(*node.outputs.first()?);
    let largest = |list: &[u64], default: u64| list.iter().copied().max().unwrap_or(default);
    // A transposed convolution is the data gradient of the one it transposes.
    let (input, output, direction) = match (conv.transposed, direction) {
        (false, direction) => (input, output, direction),
        (true, Direction::Forward) => (output, input, Direction::DataGradient),
        (true, Direction::DataGradient) => (output, input, Direction::Forward),
        (true, Direction::FilterGradient) => (output, input, direction),
    };
    Some(Convolution {
        direction,
        batch,
        input,
        output,
        kernel: [
            conv.kernel.first().copied().unwrap_or(1),
            conv.kernel.get(1..).unwrap_or_default().iter().fold(1, |product, extent| product.saturating_mul(*extent)),
        ],
        stride: largest(&conv.stride, 1),
        padding: largest(&conv.padding, 0),
        dilation: largest(&conv.dilation, 1),
        groups: conv.groups,
        element_bytes,
    })
}
