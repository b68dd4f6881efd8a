//! Axes with ticks where readers expect them.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// One axis of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// What it shows, with its unit.
    pub(crate) label: String,
    /// Both ends, before the logarithm.
    pub(crate) ends: (f64, f64),
    /// Whether equal steps are equal factors.
    logarithmic: bool,
    /// Where a line with a text stands.
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Equal steps between round numbers that hold both values.
    pub(crate) fn linear(label: &str, low: f64, high: f64) -> Self {
        let step = round_step((high - low).max(1e-9) / 5.0);
        let first = (low / step + 1e-9).floor();
        let last = (high / step - 1e-9).ceil().max(first + 1.0);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let ticks = (0..=(last - first) as usize).map(|place| (first + place as f64) * step);
        Self {
            label: label.to_owned(),
            ends: (first * step, last * step),
            logarithmic: false,
            // Adding zero turns -0 into 0.
            ticks: ticks.map(|tick| (tick, format!("{:.digits$}", tick + 0.0))).collect(),
        }
    }

    /// Memory: factors of two, in GiB; the values are MiB.
    pub(crate) fn memory(label: &str, low_mib: f64, high_mib: f64) -> Self {
        let low = low_mib.max(1.0);
        let high = high_mib.max(low);
        // A little room, and never less than a factor of two, so that one row is a chart too.
        let room = (1.06_f64).max((2.0 / (high / low)).sqrt());
        let ends = (low / room, high * room);
        let (first, last) = (ends.0.log2().ceil() as i32, ends.1.log2().floor() as i32);
        let every = 1 + (last - first).max(0) / 8;
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        let mut ticks: Vec<(f64, String)> = powers.map(|power| tick_gib(2.0_f64.powi(power))).collect();
        if last - first < 3 {
            // Two octaves or less: halfway between powers stands 1.5 times the lower one.
            let halves = (first - 1..=last).map(|power| tick_gib(1.5 * 2.0_f64.powi(power)));
            ticks.extend(halves.filter(|(tick, _)| (ends.0..=ends.1).contains(tick)));
        }
        Self { label: label.to_owned(), ends, logarithmic: true, ticks }
    }

    /// Counts: factors of two, from one to another.
    pub(crate) fn doubling(label: &str, low: f64, high: f64) -> Self {
        let low = low.max(1.0);
        let high = high.max(low);
        let room = (1.06_f64).max((2.0 / (high / low)).sqrt());
        let ends = (low / room, high * room);
        let (first, last) = (ends.0.log2().ceil() as i32, ends.1.log2().floor() as i32);
        let every = 1 + (last - first).max(0) / 16;
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0).map(|power| 2.0_f64.powi(power));
        let ticks = powers.map(|tick| (tick, short(tick))).collect();
        Self { label: label.to_owned(), ends, logarithmic: true, ticks }
    }

    /// Percentages over several orders of magnitude.
    pub(crate) fn logarithmic(label: &str, low: f64, high: f64) -> Self {
        let ends = (low / 1.15, high * 1.15);
        let powers = ends.0.log10().floor() as i32..=ends.1.log10().ceil() as i32;
        let wide = powers.clone().count() > 4;
        let steps: &[f64] = if wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let ticks = powers.flat_map(|power| steps.iter().map(move |step| step * 10.0_f64.powi(power)));
        let ticks = ticks.filter(|tick| (ends.0..=ends.1).contains(tick));
        Self {
            label: label.to_owned(),
            ends,
            logarithmic: true,
            ticks: ticks.map(|tick| (tick, short(tick))).collect(),
        }
    }

    /// Names at 0, 1, 2, ...
    pub(crate) fn names(label: &str, names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(place, name)| (place as f64, name.clone()));
        Self {
            label: label.to_owned(),
            ends: (-0.5, names.len().max(1) as f64 - 0.5),
            logarithmic: false,
            ticks: ticks.collect(),
        }
    }

    /// The text of a tick.
    pub(crate) fn text(&self, value: f64) -> String {
        self.ticks.iter().find(|(tick, _)| *tick == value).map_or_else(String::new, |(_, text)| text.clone())
    }

    /// Characters of the longest tick text: fonts are not measured, so that room has to be made by count.
    pub(crate) fn longest_text(&self) -> usize {
        self.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0)
    }

    /// The value, or the end of the axis that it lies beyond.
    pub(crate) fn inside(&self, value: f64) -> f64 {
        value.clamp(self.ends.0, self.ends.1)
    }

    /// Where a value stands between the ends: 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        if self.logarithmic { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = f64::from(limit.0) + self.share(*value) * f64::from(limit.1 - limit.0);
        place.round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(tick, _)| *tick).collect()
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.text(*value)
    }
}

/// 1, 2 or 5 times a power of ten, at least as large.
fn round_step(step: f64) -> f64 {
    let power = 10.0_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// A tick of a memory axis.
fn tick_gib(mib: f64) -> (f64, String) {
    (mib, short(mib / 1024.0))
}

/// As few digits as tell the number.
fn short(value: f64) -> String {
    let digits = (1.0 - value.abs().log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(texts(&Axis::linear("", 0.0, 100.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(&Axis::linear("", -0.3, 0.31)), ["-0.4", "-0.2", "0.0", "0.2", "0.4"]);
        assert_eq!(texts(&Axis::memory("", 300.0, 9000.0)), ["0.5", "1", "2", "4", "8"]);
        assert_eq!(texts(&Axis::memory("", 1024.0, 1024.0)), ["1", "0.75"]);
        assert_eq!(texts(&Axis::doubling("", 1.0, 65_536.0)).last(), Some(&"65536"));
        assert_eq!(texts(&Axis::doubling("", 24.0, 96.0)), ["32", "64"]);
        assert_eq!(texts(&Axis::logarithmic("", 1.0, 60.0)), ["1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn degenerate_ranges_are_charts_too() {
        for axis in
            [Axis::linear("", 0.0, 0.0), Axis::memory("", 0.0, 0.0), Axis::doubling("", 7.0, 7.0), Axis::names("", &[])]
        {
            assert!(axis.ends.0 < axis.ends.1, "{axis:?}");
            assert!((0..=100).contains(&axis.map(&axis.inside(0.0), (0, 100))));
        }
    }

    #[test]
    fn equal_factors_are_equal_steps() {
        let axis = Axis::memory("", 1024.0, 16_384.0);
        let places: Vec<i32> = [1024.0, 2048.0, 4096.0].map(|mib| axis.map(&mib, (0, 1000))).to_vec();
        assert!((places[2] - places[1] - (places[1] - places[0])).abs() <= 1);
    }
}
