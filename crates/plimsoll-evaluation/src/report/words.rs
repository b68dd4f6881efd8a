//! Names and numbers as readers see them.

use plimsoll_dataset::Target;

/// What stands where there is no number.
pub(crate) const NOTHING: &str = "–";

/// What the metrics mean.
pub(crate) const GLOSSARY: [(&str, &str); 9] = [
    ("APE", "absolute percentage error: |estimate - measured| / measured. MAPE is its mean, p90 its 90 % quantile."),
    (
        "R²",
        "share of the variance of the measured values that the estimates explain; 1 is perfect, below 0 is worse than the mean.",
    ),
    ("MAE, RMSE, bias", "mean absolute error, root of the mean squared error, mean of estimate minus measured."),
    (
        "underestimated",
        "share of rows whose estimate lies below the measured value: the risk of running out of memory.",
    ),
    (
        "margin for 95 %",
        "what to add to every estimate, in percent of it, so that 95 % of the runs are not underestimated; below 0 where estimates could be cut.",
    ),
    ("right bin", "share of rows whose estimate lies in the same half-open memory bin as the measured peak."),
    ("rightly said to fit", "share of runs, all of which fitted, whose estimate is at most the memory of the GPU."),
    (
        "label",
        "how a measured peak was read. Definitions differ by more than a gigabyte and are not compared with each other.",
    ),
    (
        "bootstrap interval",
        "95 % of the resamples of these rows. Rows are drawn one by one, so that near-twin rows make it too narrow.",
    ),
];

/// A target's name for headings.
pub(crate) const fn title(target: Target) -> &'static str {
    match target {
        Target::PeakMemory => "Peak memory",
        Target::Gputl => "GPU utilisation (GPUTL)",
        Target::Gract => "Graphics engine active (GRACT)",
        Target::Smact => "SM active (SMACT)",
        Target::Smocc => "SM occupancy (SMOCC)",
        Target::Fp32a => "FP32 pipe active (FP32A)",
        Target::Drama => "Memory interface active (DRAMA)",
    }
}

/// Which rows a number is over.
pub(crate) fn origin(data: &str, split: &str, label: &str) -> String {
    let label = if label.is_empty() { "none" } else { label };
    format!("Data: {data}; split: {split}; label: {label}")
}

/// A whole number with its thousands apart.
pub(crate) fn count(value: usize) -> String {
    thousands(&value.to_string())
}

/// A number with this many digits after the point.
pub(crate) fn fixed(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(
        || NOTHING.to_owned(),
        |value| {
            let text = format!("{value:.digits$}");
            // Rounding leaves a sign on what is now nothing.
            let zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
            thousands(if zero { text.trim_start_matches('-') } else { &text })
        },
    )
}

/// A share of rows in percent.
pub(crate) fn share(value: Option<f64>) -> String {
    fixed(value.map(|share| share * 100.0), 1)
}

/// An amount in the target's unit, with as many digits as it deserves.
pub(crate) fn amount(value: Option<f64>, target: Target) -> String {
    let digits = match target {
        Target::PeakMemory => usize::from(value.is_some_and(|value| value.abs() < 100.0)),
        Target::Gputl => 1,
        _ => 3,
    };
    fixed(value, digits)
}

/// A size in bytes with a unit.
pub(crate) fn bytes(size: u64) -> String {
    match size {
        0..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{:.1} KiB", size as f64 / 1024.0),
        _ => format!("{} MiB", fixed(Some(size as f64 / 1_048_576.0), 1)),
    }
}

/// Puts a comma between thousands of the whole part.
fn thousands(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest.find('.').map_or((rest, ""), |point| rest.split_at(point));
    let mut grouped = String::with_capacity(text.len() + 4);
    grouped.push_str(sign);
    for (place, digit) in whole.char_indices() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(fixed(Some(-1234.567), 1), "-1,234.6");
        assert_eq!(fixed(Some(-0.001), 2), "0.00");
        assert_eq!(fixed(None, 2), NOTHING);
        assert_eq!(share(Some(0.125)), "12.5");
        assert_eq!(amount(Some(99.94), Target::PeakMemory), "99.9");
        assert_eq!(amount(Some(8222.4), Target::PeakMemory), "8,222");
        assert_eq!(amount(Some(0.0312), Target::Drama), "0.031");
        assert_eq!((bytes(12).as_str(), bytes(2048).as_str(), bytes(3 << 20).as_str()), ("12 B", "2.0 KiB", "3.0 MiB"));
    }
}
