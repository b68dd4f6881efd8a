//! Cells of a table as numbers, or why they are none.

use csv::StringRecord;

use crate::target::Target;

/// A larger peak than this (16 TiB) is in another unit.
const MAX_MIB: f64 = 16_777_216.0;

/// A ratio that rounding or sampling took a little over 1 counts as not recorded, not as wrong.
const MAX_RATIO: f64 = 1.05;

/// A cell's text; `None` if the column is not there or the cell is empty.
pub(super) fn text(record: &StringRecord, column: Option<usize>) -> Option<&str> {
    record.get(column?).map(str::trim).filter(|text| !text.is_empty())
}

/// A whole number of at least 0, which some writers print as `12.0`.
pub(super) fn count(name: &str, cell: Option<&str>) -> Result<u64, String> {
    let cell = cell.ok_or_else(|| format!("`{name}` is empty"))?;
    let whole = |number: f64| number.fract() == 0.0 && (0.0..9e15).contains(&number);
    cell.parse::<u64>()
        .ok()
        .or_else(|| cell.parse::<f64>().ok().filter(|&number| whole(number)).map(|number| number as u64))
        .ok_or_else(|| format!("`{name}` should be a whole number of at least 0, is `{}`", short(cell)))
}

/// Memory in MiB, at least 0.
pub(super) fn mib(name: &str, cell: &str) -> Result<f64, String> {
    cell.parse::<f64>()
        .ok()
        .filter(|mib| (0.0..=MAX_MIB).contains(mib))
        .ok_or_else(|| format!("`{name}` should be MiB from 0 to {MAX_MIB}, is `{}`", short(cell)))
}

/// A utilisation as a ratio; `None` where none was recorded.
///
/// `-1` and an empty cell say so themselves. Values that are not finite, or over 1 by rounding, are taken as not
/// recorded. Anything else outside 0 to 1 means that the column holds something else.
pub(super) fn utilisation(target: Target, name: &str, cell: Option<&str>) -> Result<Option<f64>, String> {
    let Some(cell) = cell else { return Ok(None) };
    let value: f64 = cell.parse().map_err(|_| format!("`{name}` should be a number, is `{}`", short(cell)))?;
    if value == -1.0 || !value.is_finite() {
        return Ok(None);
    }
    let ratio = target.ratio(value);
    if !(0.0..=MAX_RATIO).contains(&ratio) {
        return Err(format!("`{name}` should be a {} from 0 to {}, is {value}", target.unit(), target.per_ratio()));
    }
    Ok(Some(ratio).filter(|&ratio| ratio <= 1.0))
}

/// Yes or no, as spreadsheets and programs write it.
pub(super) fn flag(name: &str, cell: &str) -> Result<bool, String> {
    match cell.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(format!("`{name}` should be `true` or `false`, is `{}`", short(cell))),
    }
}

/// A cell as a reason quotes it.
pub(super) fn short(cell: &str) -> String {
    match cell.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &cell[..end]),
        None => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_and_not_negative() {
        assert_eq!(count("n", Some("717")), Ok(717));
        assert_eq!(count("n", Some("717.0")), Ok(717));
        for cell in ["-1", "1.5", "nan", "inf", "1e30", "many", "0x10"] {
            assert!(count("n", Some(cell)).is_err(), "{cell}");
        }
        assert!(count("n", None).expect_err("empty").contains("empty"));
    }

    #[test]
    fn memory_is_finite_and_of_sane_size() {
        assert_eq!(mib("m", "1443"), Ok(1443.0));
        for cell in ["-1", "nan", "inf", "1e9", "12 GB", ""] {
            assert!(mib("m", cell).is_err(), "{cell}");
        }
    }

    #[test]
    fn utilisation_tells_missing_from_wrong() {
        let gputl = |cell| utilisation(Target::Gputl, "Avg GPUTL", Some(cell));
        assert_eq!(gputl("25"), Ok(Some(0.25)));
        assert_eq!(gputl("100"), Ok(Some(1.0)));
        for missing in ["-1", "-1.0", "nan", "inf", "101"] {
            assert_eq!(gputl(missing), Ok(None), "{missing}");
        }
        for wrong in ["-2", "106", "high"] {
            assert!(gputl(wrong).is_err(), "{wrong}");
        }
        assert!(utilisation(Target::Smact, "Avg SMACT", Some("25")).is_err());
        assert_eq!(utilisation(Target::Smact, "Avg SMACT", None), Ok(None));
    }

    #[test]
    fn flags_are_yes_or_no() {
        assert_eq!((flag("f", "True"), flag("f", "0")), (Ok(true), Ok(false)));
        assert!(flag("f", "maybe").is_err());
    }
}
