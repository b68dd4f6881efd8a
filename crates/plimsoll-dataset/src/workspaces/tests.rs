//! Tables of the right form, and of wrong ones.

use std::fs::File;

use polars::prelude::{Column, DataFrame, NamedFrom, ParquetWriter, Series};

use super::*;

/// A table of two rows, the second without a plan, with one column replaced.
fn table(replaced: Option<Column>) -> (tempfile::TempDir, std::path::PathBuf) {
    let sizes = [8, 3, 224, 112, 64, 7, 3, 2, 3, 1, 1, 1, 92_600];
    let numbers = SIZES.iter().zip(sizes).map(|(name, size)| Series::new((*name).into(), [size, size]));
    let names = ["filter_gradient", "fp32_tf32", "nchw", "h200"];
    let texts = NAMES.iter().zip(names).map(|(name, text)| Series::new((*name).into(), [text, text]));
    let mut columns: Vec<Column> = numbers.chain(texts).map(Column::from).collect();
    columns.push(Series::new("status".into(), ["ok", "unsupported"]).into());
    columns.push(Series::new("first_plan_bytes".into(), [Some(1_000_i64), None]).into());
    columns.push(Series::new("max_plan_bytes".into(), [Some(5_000_i64), None]).into());
    if let Some(column) = replaced {
        columns.retain(|other| other.name() != column.name());
        columns.push(column);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("workspaces.parquet");
    let mut frame = DataFrame::new(2, columns).expect("columns of one length");
    ParquetWriter::new(File::create(&path).expect("a file")).finish(&mut frame).expect("written");
    (folder, path)
}

fn read(path: &Path) -> Result<WorkspaceTable> {
    read_workspaces(path, GpuCatalogue::built_in())
}

#[test]
fn a_row_becomes_a_question_and_its_answer() {
    let (_folder, path) = table(None);
    let read = read(&path).expect("a table");
    assert_eq!((read.rows.len(), read.unsupported), (1, 1));
    let row = read.rows[0];
    assert_eq!((row.first_bytes, row.largest_bytes), (1_000, 5_000));
    assert_eq!(row.query.class, GpuClass::Hopper);
    assert_eq!(row.query.generation, Generation::New);
    let convolution = row.query.convolution;
    assert_eq!(convolution.direction, Direction::FilterGradient);
    // (224 + 6 - 7) / 2 + 1 and (112 + 2 - 3) / 2 + 1.
    assert_eq!((convolution.input, convolution.output), ([3, 224, 112], [64, 112, 56]));
    assert_eq!((convolution.kernel, convolution.padding, convolution.element_bytes), ([7, 3], 3, 4));
}

#[test]
fn a_damaged_row_is_named() {
    for (column, expected) in [
        (Series::new("gpu".into(), ["h200", "gtx-1080-ti"]), "row 2"),
        (Series::new("layout".into(), ["chwn", "nchw"]), "`layout` to be nchw or nhwc"),
        (Series::new("c_in".into(), [-3, 3]), "whole numbers from 0"),
        (Series::new("stride".into(), [0, 1]), "a kernel that fits into the input"),
        (Series::new("kernel_h".into(), [300, 1]), "a kernel that fits into the input"),
        (Series::new("max_plan_bytes".into(), [None::<i64>, None]), "bytes of every row that is ok"),
    ] {
        let (_folder, path) = table(Some(column.into()));
        let message = read(&path).expect_err("damaged").to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn another_file_is_told_by_what_it_lacks() {
    let (_folder, path) = table(None);
    let mut frame = DataFrame::new(1, vec![Series::new("n".into(), [1]).into()]).expect("a column");
    ParquetWriter::new(File::create(&path).expect("a file")).finish(&mut frame).expect("written");
    assert!(read(&path).expect_err("columns are missing").to_string().contains("no `c_in`"));
}

#[test]
fn about_one_shape_in_seven_is_held_out_whatever_the_direction() {
    let (_folder, path) = table(None);
    let row = read(&path).expect("a table").rows[0];
    let with = |batch: u64, direction: Direction, class: GpuClass| {
        let convolution = Convolution { batch, direction, ..row.query.convolution };
        WorkspaceRow { query: WorkspaceQuery { convolution, class, ..row.query }, ..row }.is_held_out()
    };
    let held_out = (1..=4_000).filter(|&batch| with(batch, Direction::Forward, GpuClass::Ada)).count();
    assert!((520..680).contains(&held_out), "{held_out} of 4000");
    for batch in 1..100 {
        let forward = with(batch, Direction::Forward, GpuClass::Ada);
        assert_eq!(forward, with(batch, Direction::DataGradient, GpuClass::Volta));
    }
}
