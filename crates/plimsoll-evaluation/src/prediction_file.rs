//! Predictions as Parquet or CSV, one row each, with the same columns in both.

mod table;

use std::io::Write;
use std::path::Path;

use plimsoll_dataset::{Doubt, Label, Outcome, Target, UTILISATION};
use plimsoll_graph::Family;
use plimsoll_model::{Bounds, Estimate};
use polars::prelude::{Column, DataFrame, NamedFrom, ParquetWriter, PlSmallStr, Series};

use crate::error::{EvaluationError, Result};
use crate::prediction::Prediction;
use crate::replace_file::replace_file;
use table::Table;

/// The columns of upper bounds, in the order of their levels.
const BOUND_COLUMNS: [&str; 4] = ["bound_p50_mib", "bound_p90_mib", "bound_p95_mib", "bound_p99_mib"];

/// One column of a file. Utilisation is in its outside unit here: GPUTL in percent.
enum Cells {
    Text(Vec<String>),
    Whole(Vec<Option<u64>>),
    Number(Vec<Option<f64>>),
}

/// Writes predictions, as Parquet or CSV by the extension of the path.
///
/// # Errors
///
/// Any extension but `.parquet` and `.csv`, and whatever stops the file from being written. A failure leaves an
/// older file of that name untouched.
pub fn write_predictions(path: &Path, predictions: &[Prediction]) -> Result<()> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => replace_file(path, |writer| {
            write_parquet(writer, columns(predictions)).map_err(|source| EvaluationError::Parquet {
                action: "write",
                path: path.to_owned(),
                source,
            })
        }),
        Some("csv") => replace_file(path, |writer| {
            write_csv(writer, &columns(predictions), predictions.len()).map_err(|source| EvaluationError::Csv {
                action: "write",
                path: path.to_owned(),
                source,
            })
        }),
        other => Err(EvaluationError::Extension {
            path: path.to_owned(),
            expected: "`.parquet` or `.csv`",
            found: other.map_or_else(|| "none".to_owned(), |extension| format!("`.{extension}`")),
        }),
    }
}

/// Reads predictions from Parquet.
///
/// # Errors
///
/// A file that is not Parquet, a column that is missing or of another type, and a value that is not allowed where it
/// stands: the message names the file, the row and the column.
pub fn read_predictions(path: &Path) -> Result<Vec<Prediction>> {
    let table = Table::read(path)?;
    let text = |name| table.text(name);
    let (estimator, id, fold) = (text("estimator")?, text("id")?, table.whole("fold")?);
    let (family, architecture, shape) = (text("family")?, text("architecture")?, text("shape")?);
    let (gpu, capacity, batch) = (text("gpu")?, table.number("capacity_mib")?, table.whole("batch_size")?);
    let (label, outcome) = (text("label")?, text("outcome")?);
    let (peak, above) = (table.number(Target::PeakMemory.name())?, table.number("above_mib")?);
    let (simulated, estimated) = (table.number("simulated_mib")?, table.number("estimated_peak_memory_mib")?);
    let log_scale = table.number("estimated_log_scale")?;
    let (doubt, reading) = (text("doubt")?, table.number("reading_mib")?);
    let bounds = BOUND_COLUMNS.map(|name| table.number(name));
    let [p50, p90, p95, p99] = bounds;
    let (p50, p90, p95, p99, ood) = (p50?, p90?, p95?, p99?, table.number("ood")?);
    let measured_utilisation = table.utilisation("")?;
    let estimated_utilisation = table.utilisation("estimated_")?;

    (0..table.rows())
        .map(|row| {
            let cell = |column, expected, found: &str| table.refuse(row, column, expected, found);
            let missing = |column, expected| cell(column, expected, "nothing");
            let outcome = match outcome[row].as_str() {
                "measured" => Outcome::Measured {
                    peak_mib: peak[row].ok_or_else(|| missing("peak_memory_mib", "the peak of a measured run"))?,
                },
                "out_of_memory" => Outcome::OutOfMemory {
                    above_mib: above[row].ok_or_else(|| missing("above_mib", "the limit that was exceeded"))?,
                },
                "unknown" => Outcome::Unknown,
                other => return Err(cell("outcome", "`measured`, `out_of_memory` or `unknown`", other)),
            };
            let fold =
                fold[row].map(|fold| u32::try_from(fold).map_err(|_| cell("fold", "a fold number", &fold.to_string())));
            Ok(Prediction {
                estimator: estimator[row].clone(),
                id: id[row].clone(),
                fold: fold.transpose()?,
                family: Family::from_name(&family[row]).ok_or_else(|| cell("family", "a family", &family[row]))?,
                architecture: architecture[row].clone(),
                shape: shape[row].clone(),
                gpu: gpu[row].clone(),
                capacity_mib: capacity[row].ok_or_else(|| missing("capacity_mib", "the memory of the GPU"))?,
                batch_size: batch[row].ok_or_else(|| missing("batch_size", "the batch size"))?,
                label: Label::from_name(&label[row]).ok_or_else(|| cell("label", "a label definition", &label[row]))?,
                outcome,
                utilisation: std::array::from_fn(|metric| measured_utilisation[metric][row]),
                estimate: Estimate {
                    peak_memory_mib: estimated[row],
                    log_scale: log_scale[row],
                    bounds: (|| Some(Bounds { p50: p50[row]?, p90: p90[row]?, p95: p95[row]?, p99: p99[row]? }))(),
                    ood: ood[row].unwrap_or_default(),
                    utilisation: std::array::from_fn(|metric| estimated_utilisation[metric][row]),
                },
                simulated_mib: simulated[row],
                doubt: match (doubt[row].as_str(), reading[row]) {
                    ("", _) => None,
                    (reason, Some(reading_mib)) => Some(Doubt { reason: reason.to_owned(), reading_mib }),
                    (_, None) => return Err(missing("reading_mib", "the reading that is doubted")),
                },
            })
        })
        .collect()
}

/// The columns of a file, in order.
fn columns(predictions: &[Prediction]) -> Vec<(String, Cells)> {
    let text = |get: fn(&Prediction) -> &str| Cells::Text(predictions.iter().map(|row| get(row).to_owned()).collect());
    let whole = |get: fn(&Prediction) -> Option<u64>| Cells::Whole(predictions.iter().map(get).collect());
    let number = |get: fn(&Prediction) -> Option<f64>| Cells::Number(predictions.iter().map(get).collect());
    let mut columns = vec![
        ("estimator".to_owned(), text(|row| &row.estimator)),
        ("id".to_owned(), text(|row| &row.id)),
        ("fold".to_owned(), whole(|row| row.fold.map(u64::from))),
        ("family".to_owned(), text(|row| row.family.name())),
        ("architecture".to_owned(), text(|row| &row.architecture)),
        ("shape".to_owned(), text(|row| &row.shape)),
        ("gpu".to_owned(), text(|row| &row.gpu)),
        ("capacity_mib".to_owned(), number(|row| Some(row.capacity_mib))),
        ("batch_size".to_owned(), whole(|row| Some(row.batch_size))),
        ("label".to_owned(), text(|row| row.label.name())),
        ("outcome".to_owned(), text(|row| outcome_name(row.outcome))),
        (Target::PeakMemory.name().to_owned(), number(|row| row.outcome.peak_mib())),
        (
            "above_mib".to_owned(),
            number(|row| match row.outcome {
                Outcome::OutOfMemory { above_mib } => Some(above_mib),
                _ => None,
            }),
        ),
        ("simulated_mib".to_owned(), number(|row| row.simulated_mib)),
        ("estimated_peak_memory_mib".to_owned(), number(|row| row.estimate.peak_memory_mib)),
        ("estimated_log_scale".to_owned(), number(|row| row.estimate.log_scale)),
        ("doubt".to_owned(), text(|row| row.doubt.as_ref().map_or("", |doubt| &doubt.reason))),
        ("reading_mib".to_owned(), number(|row| row.doubt.as_ref().map(|doubt| doubt.reading_mib))),
        ("ood".to_owned(), number(|row| Some(row.estimate.ood))),
    ];
    for (level, name) in BOUND_COLUMNS.into_iter().enumerate() {
        let bound = |row: &Prediction| row.estimate.bounds.map(|bounds| bounds.to_array()[level]);
        columns.push((name.to_owned(), Cells::Number(predictions.iter().map(bound).collect())));
    }
    for (index, metric) in UTILISATION.into_iter().enumerate() {
        let outside = |ratio: Option<f64>| ratio.map(|ratio| ratio * metric.per_ratio());
        let measured = predictions.iter().map(|row| outside(row.utilisation[index])).collect();
        let estimated = predictions.iter().map(|row| outside(row.estimate.utilisation[index])).collect();
        columns.push((metric.name().to_owned(), Cells::Number(measured)));
        columns.push((format!("estimated_{metric}"), Cells::Number(estimated)));
    }
    columns
}

/// The name of an outcome in files.
const fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Measured { .. } => "measured",
        Outcome::OutOfMemory { .. } => "out_of_memory",
        Outcome::Unknown => "unknown",
    }
}

fn write_parquet(writer: impl Write, columns: Vec<(String, Cells)>) -> polars::prelude::PolarsResult<()> {
    let columns = columns.into_iter().map(|(name, cells)| {
        let name = PlSmallStr::from_string(name);
        Column::from(match cells {
            Cells::Text(values) => Series::new(name, values),
            Cells::Whole(values) => Series::new(name, values),
            Cells::Number(values) => Series::new(name, values),
        })
    });
    let mut frame = DataFrame::new_infer_height(columns.collect())?;
    ParquetWriter::new(writer).finish(&mut frame)?;
    Ok(())
}

fn write_csv(writer: impl Write, columns: &[(String, Cells)], rows: usize) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(writer);
    writer.write_record(columns.iter().map(|(name, _)| name))?;
    for row in 0..rows {
        for (_, cells) in columns {
            match cells {
                Cells::Text(values) => writer.write_field(&values[row])?,
                Cells::Whole(values) => writer.write_field(shown(values[row]))?,
                Cells::Number(values) => writer.write_field(shown(values[row]))?,
            }
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()?;
    Ok(())
}

/// A value as a CSV field; nothing stays empty.
fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prediction::tests::row;

    fn varied() -> Vec<Prediction> {
        let mut out_of_memory = row("b,\"quoted\"\nid:2", 0.0, 50_000.5);
        out_of_memory.outcome = Outcome::OutOfMemory { above_mib: 40_000.0 };
        out_of_memory.fold = Some(4);
        out_of_memory.utilisation = [Some(0.5), None, Some(0.25), None, None, Some(1.0)];
        out_of_memory.estimate.log_scale = Some(0.03);
        out_of_memory.estimate.bounds = Some(Bounds { p50: 50_000.0, p90: 51_000.5, p95: 52_000.0, p99: 60_000.25 });
        out_of_memory.estimate.ood = 0.75;
        let mut unknown = row("c:3", 0.0, 0.0);
        unknown.outcome = Outcome::Unknown;
        unknown.estimate = Estimate { utilisation: [Some(0.75); 6], ..Estimate::default() };
        unknown.simulated_mib = Some(12.5);
        unknown.doubt = Some(Doubt { reason: "more than the GPU has".to_owned(), reading_mib: 90_000.0 });
        vec![row("a:1", 1234.5, 1300.25), out_of_memory, unknown]
    }

    #[test]
    fn predictions_survive_parquet() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("predictions.parquet");
        for predictions in [varied(), Vec::new()] {
            write_predictions(&path, &predictions).expect("written");
            assert_eq!(read_predictions(&path).expect("readable"), predictions);
        }
        assert_eq!(
            std::fs::read_dir(folder.path().join("new")).expect("a folder").count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn csv_has_one_line_a_prediction_and_a_heading_even_without_any() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("predictions.csv");
        write_predictions(&path, &varied()).expect("written");
        let mut reader = csv::Reader::from_path(&path).expect("known");
        let gputl = reader.headers().expect("known").iter().position(|name| name == "gputl_pct").expect("known");
        let records: Vec<_> = reader.records().map(|record| record.expect("known")).collect();
        assert_eq!(records.len(), 3);
        assert_eq!(&records[1][gputl], "50", "GPUTL is in percent in files");
        assert_eq!(&records[1][1], "b,\"quoted\"\nid:2");
        write_predictions(&path, &[]).expect("written");
        assert!(std::fs::read_to_string(&path).expect("readable").starts_with("estimator,id,fold,family,"));
    }

    #[test]
    fn unknown_extensions_are_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = write_predictions(&folder.path().join("predictions.xlsx"), &varied()).expect_err("refused");
        assert!(error.to_string().contains("found `.xlsx`"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_bad_file_is_named_with_what_is_wrong() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("predictions.parquet");
        std::fs::write(&path, "not parquet").expect("written");
        let error = read_predictions(&path).expect_err("refused");
        assert!(matches!(error, EvaluationError::Parquet { .. }), "{error}");

        let write = |columns: Vec<(String, Cells)>| {
            replace_file(&path, |writer| {
                write_parquet(writer, columns).expect("written");
                Ok(())
            })
            .expect("known");
        };
        let mut short = columns(&varied());
        short.retain(|(name, _)| name != "label");
        write(short);
        let error = read_predictions(&path).expect_err("refused").to_string();
        assert!(error.contains("expected a column `label` of text, found no such column"), "{error}");

        let mut wrong = columns(&varied());
        wrong[10].1 = Cells::Text(vec!["measured".to_owned(), "lost".to_owned(), "unknown".to_owned()]);
        write(wrong);
        let error = read_predictions(&path).expect_err("refused").to_string();
        assert!(error.contains("row 2, column `outcome`") && error.contains("found `lost`"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn numbers_survive_parquet(peak in 0.0..1e6_f64, estimated in 0.0..1e6_f64, ratio in 0.0..=1.0_f64) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("predictions.parquet");
            let mut written = row("a:1", peak, estimated);
            written.utilisation[0] = Some(ratio);
            write_predictions(&path, std::slice::from_ref(&written)).expect("written");
            let read = read_predictions(&path).expect("readable");
            prop_assert_eq!(read[0].outcome, written.outcome);
            prop_assert_eq!(read[0].estimate, written.estimate);
            // Percent in files: times and through a hundred may move the last bit.
            prop_assert!((read[0].utilisation[0].expect("known") - ratio).abs() < 1e-15);
        }
    }
}
