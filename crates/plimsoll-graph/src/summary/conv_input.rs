//! Which tensor a convolution reads.

use super::bridge::Way;
use super::conv::{Filter, Fit, STYLES, Style};
use super::network::Network;
use crate::dtype::DType;
use crate::graph::TensorId;
use crate::shape::{Dim, Shape};

/// An earlier tensor among the last so many is likelier than an unusual kernel.
pub(super) const NEAR: u32 = 32;

/// What a convolution reads, and what it is if the count tells.
pub(super) type Found = (TensorId, Option<Fit>);

impl Network {
    /// The tensor that a convolution reads and what it is, as far as the count tells.
    ///
    /// Adds what must stand between: a concatenation, a gate, functional pooling.
    pub(super) fn conv_input(&mut self, filter: &Filter, printed: Option<&Shape>, name: &str) -> Found {
        if let Some(shape) = printed {
            let input = self.need(shape, name);
            let fit = STYLES.into_iter().find_map(|style| filter.fit(shape, style));
            return (input, fit.or_else(|| filter.fit_loosely(shape, Style::Plain)));
        }
        let Some(current) = self.current else { return (self.need(filter.output, name), None) };
        let from = self.shape(current).clone();
        let direct = |styles: &[Style]| styles.iter().find_map(|&style| filter.fit(&from, style));
        let (usual, unusual) = STYLES.split_at(2);
        if let Some(fit) = direct(usual) {
            self.join(name);
            return (self.current.unwrap_or(current), Some(fit));
        }
        self.conv_resized(filter, name)
            .or_else(|| self.conv_concatenated(filter, &from, Way::Branches, name))
            .or_else(|| self.conv_earlier(filter, NEAR, name))
            .or_else(|| direct(unusual).map(|fit| (current, Some(fit))))
            .or_else(|| self.conv_concatenated(filter, &from, Way::Skip, name))
            .or_else(|| filter.fit_loosely(&from, Style::Plain).map(|fit| (current, Some(fit))))
            .or_else(|| self.conv_earlier(filter, u32::MAX, name))
            .or_else(|| self.conv_unprinted(filter, name))
            .unwrap_or((current, None))
    }

    /// The last row's tensor, pooled or enlarged.
    fn conv_resized(&mut self, filter: &Filter, name: &str) -> Option<Found> {
        filter.widths().into_iter().find_map(|(width, side)| {
            // The grid is kept by a padded kernel, and shrinks by one that is not.
            [0, side.saturating_sub(1)].into_iter().find_map(|margin| {
                let target = filter.input_shape(width, |to| to.saturating_add(margin));
                let fit = filter.fit(&target, Style::Plain)?;
                let route = self.route(&target, Way::Resize)?;
                Some((self.take(route, &target, name), Some(fit)))
            })
        })
    }

    /// Several tensors as one.
    fn conv_concatenated(&mut self, filter: &Filter, from: &Shape, way: Way, name: &str) -> Option<Found> {
        filter.widths().into_iter().find_map(|(width, _)| {
            let mut dims = from.dims().to_vec();
            *dims.get_mut(1)? = Dim::Fixed(width);
            let target = Shape::new(dims);
            let fit = filter.fit(&target, Style::Plain)?;
            let route = self.route(&target, way)?;
            Some((self.take(route, &target, name), Some(fit)))
        })
    }

    /// The nearest earlier tensor, among the last so many.
    pub(super) fn conv_earlier(&mut self, filter: &Filter, among: u32, name: &str) -> Option<Found> {
        let first = (self.parts.tensors.len() as u32).saturating_sub(among);
        let earlier = filter.widths().into_iter().filter_map(|(width, _)| {
            self.of_channels(filter.output.rank(), Dim::Fixed(width))
                .take_while(|id| id.0 >= first)
                .find_map(|id| Some((id, filter.fit(self.shape(id), Style::Plain)?)))
        });
        let (id, fit) = earlier.max_by_key(|(id, _)| *id)?;
        let shape = self.shape(id).clone();
        let gated = self.route(&shape, Way::Gate).map(|route| self.take(route, &shape, name));
        Some((gated.unwrap_or(id), Some(fit)))
    }

    /// A tensor of the shape that the likeliest kernel needs.
    fn conv_unprinted(&mut self, filter: &Filter, name: &str) -> Option<Found> {
        let likely = filter.kernel.iter().copied().max().unwrap_or(3);
        let (width, _) = filter.widths().into_iter().find(|&(_, side)| side == likely)?;
        let target = filter.input_shape(width, |to| to);
        let fit = filter.fit(&target, Style::Plain)?;
        Some((self.need(&target, name), Some(fit)))
    }

    /// The graph's input, if a convolution stands first.
    pub(super) fn conv_first(&mut self, filter: &Filter, bytes: Option<(f64, f64)>) {
        // A printed kernel and the small ones of transposed convolutions leave few widths; others are guessed.
        let guessed = if filter.transposed || !filter.kernel.is_empty() { &[][..] } else { &[3, 1, 2, 4] };
        let widths: Vec<u64> =
            guessed.iter().copied().chain(filter.widths().into_iter().map(|(width, _)| width)).collect();
        let styles = if filter.transposed { [Style::Any; 2] } else { [Style::Plain, Style::Any] };
        for style in styles {
            for &width in &widths {
                for shape in filter.first_shapes(width, bytes) {
                    if filter.fit(&shape, style).is_some() {
                        self.input("input", shape, DType::Float32);
                        return;
                    }
                }
            }
        }
        let shape = filter.input_shape(3, |to| to);
        self.input("input", shape, DType::Float32);
    }
}

impl Filter<'_> {
    /// Images that a first convolution may have read, the likeliest first.
    fn first_shapes(&self, width: u64, bytes: Option<(f64, f64)>) -> Vec<Shape> {
        let flat = self.input_shape(width, |to| to);
        // Any input tells the kernel's extents; the real one is looked for below.
        let any = if self.kernel.is_empty() { Style::Any } else { Style::Plain };
        let kernels = self.per_channel().flat_map(|(per, _)| self.kernels(per, width, &flat, any));
        let Some(side) = kernels.map(|(kernel, _)| kernel.iter().copied().max().unwrap_or(1)).next() else {
            return Vec::new();
        };
        let mut shapes = Vec::new();
        let to = self.output.dims()[2].factor();
        let square = self.rank() == 2 && self.output.dims()[2..].iter().all(|dim| dim.factor() == to);
        if let Some((least, most)) = bytes.filter(|_| square) {
            let extent = |bytes: f64| (bytes / 4.0 / width as f64).max(0.0).sqrt();
            let (least, most) = (extent(least).ceil() as u64, extent(most).floor() as u64);
            // Of the sizes that round to the printed one, images have the roundest.
            let mut sizes: Vec<u64> = (least..=most.min(least.saturating_add(64))).collect();
            sizes.sort_by_key(|&size| std::cmp::Reverse((is_usual(size), size.trailing_zeros())));
            shapes.extend(sizes.into_iter().map(|size| self.input_shape(width, |_| size)));
        }
        if is_usual(to.saturating_add(side.saturating_sub(1))) && !is_usual(to) {
            shapes.push(self.input_shape(width, |to| to.saturating_add(side.saturating_sub(1))));
        }
        shapes.push(flat);
        shapes.push(self.input_shape(width, |to| to.saturating_mul(side)));
        if self.transposed {
            shapes.push(self.input_shape(width, |to| (to / side).max(1)));
        }
        shapes
    }
}

/// Whether images of data sets and published networks have this size.
fn is_usual(size: u64) -> bool {
    [28, 32, 64, 96, 128, 224, 256, 299, 384, 512].contains(&size)
}
