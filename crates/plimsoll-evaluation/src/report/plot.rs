//! Figures: what is drawn, apart from how.

pub(crate) mod axis;
mod calibration;
mod canvas;
mod error_by_size;
mod error_histogram;
mod scatter;

use plimsoll_dataset::Target;
use plotters::style::RGBColor;

use crate::prediction::Prediction;

pub(crate) use calibration::calibration;
pub(crate) use error_by_size::error_by_size;
pub(crate) use error_histogram::error_histogram;
pub(crate) use scatter::{memory_scatter, utilisation_scatter};

/// Points drawn in one figure at most: more make a page heavy and show no more.
const MAX_POINTS: usize = 2000;

/// A colour that is told apart by colour-blind readers too (Okabe and Ito's palette without yellow).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour(u8, u8, u8);

/// The colours of estimators, in order; the eighth begins again.
const PALETTE: [Colour; 7] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(230, 159, 0),
    Colour(86, 180, 233),
    Colour(60, 60, 60),
];

impl Colour {
    /// A colour by its parts.
    pub(crate) const fn rgb_of(red: u8, green: u8, blue: u8) -> Self {
        Self(red, green, blue)
    }

    /// The colour of the estimator at this place.
    pub(crate) const fn of(place: usize) -> Self {
        PALETTE[place % PALETTE.len()]
    }

    /// As CSS and SVG write it.
    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// As Plotters has it.
    pub(crate) const fn rgb(self) -> RGBColor {
        RGBColor(self.0, self.1, self.2)
    }
}

/// The rows of one estimator, and its colour in all figures of a section.
#[derive(Debug, Clone)]
pub(crate) struct Series<'a> {
    /// The estimator.
    pub(crate) name: &'a str,
    /// Its colour.
    pub(crate) colour: Colour,
    /// Its rows.
    pub(crate) rows: Vec<&'a Prediction>,
}

impl Series<'_> {
    /// Rows that have a target both measured and estimated.
    pub(crate) fn count(&self, target: Target) -> usize {
        self.rows.iter().filter(|row| row.measured(target).is_some() && row.estimated(target).is_some()).count()
    }

    /// Those rows whose estimate of peak memory has a spread.
    pub(crate) fn with_spread(&self) -> Self {
        let spread = |row: &&Prediction| {
            row.measured(Target::PeakMemory).is_some()
                && row.estimate.memory_quantile_mib(0.5).is_some_and(f64::is_finite)
        };
        Self { rows: self.rows.iter().copied().filter(spread).collect(), ..self.clone() }
    }
}

/// Every k-th point, so that few enough are left.
fn thin<T>(points: Vec<T>, limit: usize) -> Vec<T> {
    let stride = points.len().div_ceil(limit).max(1);
    points.into_iter().step_by(stride).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_few_points_and_small_sets_whole() {
        assert_eq!(thin((0..5).collect(), 10).len(), 5);
        assert_eq!(thin((0..10_001).collect(), 2000).len(), 1667);
        assert!(thin(Vec::<u8>::new(), 10).is_empty());
    }

    #[test]
    fn colours_are_written_as_css() {
        assert_eq!(Colour::of(0).hex(), "#0072b2");
        assert_eq!(Colour::of(7), Colour::of(0));
    }
}
