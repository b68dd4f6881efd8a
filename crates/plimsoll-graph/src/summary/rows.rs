//! The layers that take more than a look at their class.

use super::assemble::{Assembly, Current};
use super::bridge::Way;
use super::conv::Filter;
use super::conv_input::NEAR;
use super::weights::{self, RecurrentFit};
use super::window;
use crate::graph::TensorId;
use crate::op::{AttentionKernel, Conv, Op, Pool, PoolKind, RecurrentCell};
use crate::shape::{Dim, Shape};

impl Assembly {
    pub(super) fn linear(&mut self, current: &mut Current) {
        let (Dim::Fixed(features), count) = (current.output.last(), current.count) else {
            return self.chain(current, Op::Linear);
        };
        let per = if features > 0 && count.is_multiple_of(features) { count / features } else { 0 };
        // What one feature has: the input's width, and a bias or not.
        let mut readings: Vec<(u64, bool)> =
            [(per.saturating_sub(1), true), (per, false)].into_iter().filter(|&(width, _)| width > 0).collect();
        if per.is_multiple_of(16) {
            // Widths are rounder than widths plus one.
            readings.reverse();
        }
        let shape_of = |reading: &(u64, bool)| with_last(&current.output, reading.0);
        let found = match &current.row.input {
            Some(shape) => readings.iter().find(|reading| shape.last() == Dim::Fixed(reading.0)),
            None => self.reached(&readings, shape_of),
        };
        let Some(&(width, bias)) = found else { return self.chain(current, Op::Linear) };
        let shape = current.row.input.clone().unwrap_or_else(|| with_last(&current.output, width));
        let input = self.read(&shape, &current.name);
        let specs = weights::weight_and_bias(&[features, width], bias.then_some(features));
        self.single(current, Op::Linear, input, specs);
    }

    /// The reading of a parameter count whose input is the easiest to reach, else the first.
    fn reached<'a, T>(&self, readings: &'a [T], shape_of: impl Fn(&T) -> Shape) -> Option<&'a T> {
        let mut ways = Way::ALL.into_iter().filter(|way| !matches!(way, Way::Gate | Way::Resize));
        let by = |way| readings.iter().find(|reading| self.network.route(&shape_of(reading), way).is_some());
        ways.find_map(by).or(readings.first())
    }

    pub(super) fn conv(&mut self, current: &mut Current, rank: usize, transposed: bool) {
        // One number stands for all axes, and an older torchinfo prints the whole weight's extents.
        let kernel = match current.row.kernel.as_slice() {
            [one] => vec![*one; rank],
            all if all.len() == rank + 2 => all[2..].to_vec(),
            all if all.len() == rank => all.to_vec(),
            _ => Vec::new(),
        };
        let assumed = if kernel.is_empty() { vec![1; rank] } else { kernel.clone() };
        let conv = Conv {
            kernel: assumed,
            stride: Vec::new(),
            padding: Vec::new(),
            dilation: Vec::new(),
            groups: 1,
            transposed,
        };
        if current.output.rank() != rank + 2 {
            return self.chain(current, Op::Conv(conv));
        }
        let filter = Filter { count: current.count, output: &current.output, kernel, transposed };
        if self.network.current.is_none() && current.row.input.is_none() {
            self.network.conv_first(&filter, self.input_bytes);
        }
        let (input, fit) = self.network.conv_input(&filter, current.row.input.as_ref(), &current.name);
        let specs = fit.as_ref().map_or_else(|| weights::flat(current.count), super::conv::Fit::specs);
        self.single(current, Op::Conv(fit.map_or(conv, |fit| fit.conv)), input, specs);
    }

    pub(super) fn norm(&mut self, current: &mut Current, op: Op) {
        let specs = weights::norm(&op, current.count, &current.output);
        let channels = current.output.dims().get(1).map_or(0, |dim| dim.factor());
        let op = match op {
            Op::GroupNorm { groups } if !channels.is_multiple_of(groups) => Op::GroupNorm { groups: 1 },
            op => op,
        };
        let input = self.read(current.row.input.as_ref().unwrap_or(&current.output), &current.name);
        self.single(current, op, input, specs);
    }

    pub(super) fn pool(&mut self, current: &mut Current, kind: PoolKind) {
        let input = match &current.row.input {
            Some(shape) => self.read(shape, &current.name),
            None => self.pool_input(current),
        };
        let is_adaptive = matches!(kind, PoolKind::AdaptiveMax | PoolKind::AdaptiveAverage);
        let mut pool = Pool { kind, kernel: Vec::new(), stride: Vec::new(), padding: Vec::new() };
        let pairs = self.network.shape(input).dims().iter().zip(current.output.dims()).skip(2);
        for (axis, (from, to)) in pairs.enumerate().filter(|_| !is_adaptive) {
            let printed = current.row.kernel.get(axis).or(current.row.kernel.first()).copied();
            let (kernel, stride, padding) = pool_window(from.factor(), to.factor(), printed);
            pool.kernel.push(kernel);
            pool.stride.push(stride);
            pool.padding.push(padding);
        }
        self.single(current, Op::Pool(pool), input, weights::flat(current.count));
    }

    /// The last tensor with as many channels and no smaller a grid.
    fn pool_input(&mut self, current: &Current) -> TensorId {
        let Some(last) = self.network.current else { return self.network.need(&current.output, &current.name) };
        let to = current.output.dims();
        let is_input = |from: &[Dim]| {
            let mut spatial = from.iter().zip(to).skip(2);
            from.len() == to.len() && from.get(1) == to.get(1) && spatial.all(|(a, b)| a.factor() >= b.factor())
        };
        if is_input(self.network.shape(last).dims()) {
            self.network.join(&current.name);
            return self.network.current.unwrap_or(last);
        }
        let mut earlier = to.get(1).into_iter().flat_map(|&channels| self.network.of_channels(to.len(), channels));
        earlier.find(|&id| is_input(self.network.shape(id).dims())).unwrap_or(last)
    }

    pub(super) fn embedding(&mut self, current: &mut Current) {
        let dims = current.output.dims();
        let outer = || Shape::new(dims[..dims.len() - 1].iter().copied());
        let shape = current.row.input.clone().unwrap_or_else(outer);
        let is_first = self.network.parts.inputs.is_empty();
        let name = if is_first { "input".into() } else { format!("{}.indices", current.name) };
        let input = self.network.indices(&name, &shape);
        let specs = match current.output.last() {
            Dim::Fixed(width) if width > 0 && current.count > 0 && current.count.is_multiple_of(width) => {
                weights::weight_and_bias(&[current.count / width, width], None)
            }
            _ => weights::flat(current.count),
        };
        self.single(current, Op::Embedding { sparse: false }, input, specs);
    }

    pub(super) fn recurrent(&mut self, current: &mut Current, cell: RecurrentCell) {
        let width = current.output.last().factor();
        let fits = weights::recurrent_fits(cell, current.count, width);
        let found = match &current.row.input {
            Some(shape) => fits.iter().find(|fit| shape.last() == Dim::Fixed(fit.width)),
            None => self.reached(&fits, |fit| with_last(&current.output, fit.width)),
        };
        let Some(&fit) = found else {
            return self.chain(current, Op::Recurrent { cell, hidden: width, layers: 1, bidirectional: false });
        };
        let shape = current.row.input.clone().unwrap_or_else(|| with_last(&current.output, fit.width));
        let input = self.read(&shape, &current.name);
        let RecurrentFit { hidden, layers, bidirectional, .. } = fit;
        self.single(current, Op::Recurrent { cell, hidden, layers, bidirectional }, input, fit.specs(cell));
    }

    /// Attention with its projections: the module's row is all that is printed of them.
    pub(super) fn attention(&mut self, current: &mut Current) {
        let width = current.output.last().factor();
        let Some((bias, over)) = projections(current.count, width).filter(|_| current.output.rank() > 2) else {
            let is_known = current.row.class.eq_ignore_ascii_case("MultiheadAttention");
            return if is_known { self.chain(current, attention_op(width)) } else { self.other(current) };
        };
        let shape = current.output.clone();
        let input = self.read(current.row.input.as_ref().unwrap_or(&shape), &current.name);
        let [projection, query, key, value, inner] = ["in_proj", "query", "key", "value", "attention"]
            .map(|part| self.network.unique(&format!("{}.{part}", current.name)));
        let specs = weights::weight_and_bias(&[width * 3, width], bias.then_some(width * 3));
        let wide = with_last(&shape, width * 3);
        let projected = self.node(current, projection, Op::Linear, vec![input], specs, wide);
        let views = [query, key, value]
            .map(|name| self.network.node(name, Op::View, vec![projected], Vec::new(), shape.clone()));
        let tables = weights::flat(over);
        let attended = self.node(current, inner, attention_op(width), views.to_vec(), tables, shape);
        let mut specs = weights::weight_and_bias(&[width, width], bias.then_some(width));
        for spec in &mut specs {
            spec.name.insert_str(0, "out_proj.");
        }
        self.single(current, Op::Linear, attended, specs);
    }

    /// The shortcut of a residual block, a convolution and its normalisation, where the table ends above them.
    fn shortcut(&mut self, current: &mut Current) -> bool {
        let (&[_, Dim::Fixed(channels), _, _], "Sequential") = (current.output.dims(), current.row.class.as_str())
        else {
            return false;
        };
        let Some(count) = channels.checked_mul(2).and_then(|scales| current.count.checked_sub(scales)) else {
            return false;
        };
        let filter = Filter { count, output: &current.output, kernel: Vec::new(), transposed: false };
        let Some((input, Some(fit))) = self.network.conv_earlier(&filter, NEAR, &current.name) else { return false };
        let [conv, norm] = ["0", "1"].map(|part| self.network.unique(&format!("{}.{part}", current.name)));
        let (specs, shape) = (fit.specs(), current.output.clone());
        let output = self.node(current, conv, Op::Conv(fit.conv), vec![input], specs, shape.clone());
        let specs = weights::batch_norm(channels * 2, &shape);
        self.node(current, norm, Op::BatchNorm, vec![output], specs, shape);
        true
    }

    /// A layer of unknown class. In a table that prints blocks after their layers it may be one.
    pub(super) fn other(&mut self, current: &mut Current) {
        if self.shortcut(current) {
            return;
        }
        let op = Op::Other { name: current.row.class.clone() };
        if !self.blocks_follow || current.count > 0 || self.network.current.is_none() {
            return self.chain(current, op);
        }
        if !self.network.settle(&current.output, &current.name) {
            let ends = self.network.loose_ends();
            self.node(current, current.name.clone(), op, ends, Vec::new(), current.output.clone());
        }
        self.network.block_ends();
    }
}

fn with_last(shape: &Shape, width: u64) -> Shape {
    let outer = shape.dims().len().saturating_sub(1);
    Shape::new(shape.dims()[..outer].iter().copied().chain([Dim::Fixed(width)]))
}

/// Whether four square projections of a width have biases, and how many parameters are over: tables of relative
/// positions. `None` if that is not what the count is.
fn projections(count: u64, width: u64) -> Option<(bool, u64)> {
    let square = width.checked_mul(width)?.checked_mul(4)?;
    let over = count.checked_sub(square).filter(|_| square > 0)?;
    let (bias, over) = over.checked_sub(width * 4).map_or((false, over), |rest| (true, rest));
    (over <= square / 4).then_some((bias, over))
}

/// The number of heads is not printed; a head of 64 is usual.
fn attention_op(width: u64) -> Op {
    let heads = if width.is_multiple_of(64) { (width / 64).max(1) } else { 1 };
    Op::Attention { heads, kv_heads: 0, kernel: AttentionKernel::Fused, causal: false, dropout: 0.0 }
}

/// Kernel, stride and padding along one axis.
fn pool_window(from: u64, to: u64, printed: Option<u64>) -> (u64, u64, u64) {
    if let Some(kernel) = printed {
        let (stride, padding) = window::slide(from, to, kernel).unwrap_or((kernel.max(1), 0));
        return (kernel, stride, padding);
    }
    let ratio = from.checked_div(to).unwrap_or(1).max(1);
    let mut usual = [ratio, 3].into_iter().filter(|&kernel| kernel > 1);
    let found = usual.find_map(|kernel| Some((kernel, window::slide(from, to, kernel)?)));
    found.map_or((ratio, ratio, 0), |(kernel, (stride, padding))| (kernel, stride, padding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projections_of_attention_are_told_from_the_count() {
        assert_eq!(projections(2_362_368, 768), Some((true, 0)));
        assert_eq!(projections(4 * 768 * 768, 768), Some((false, 0)));
        // Swin: a table of 13 * 13 positions and 3 heads.
        assert_eq!(projections(37_755, 96), Some((true, 507)));
        assert_eq!(projections(768, 768), None);
        assert_eq!(projections(u64::MAX, u64::MAX), None);
    }

    #[test]
    fn a_pooling_window_is_told_from_the_grids() {
        assert_eq!(pool_window(112, 56, None), (2, 2, 0));
        assert_eq!(pool_window(112, 56, Some(3)), (3, 2, 1));
        assert_eq!(pool_window(35, 35, None), (3, 1, 1));
        assert_eq!(pool_window(7, 0, None), (1, 1, 0));
    }
}
