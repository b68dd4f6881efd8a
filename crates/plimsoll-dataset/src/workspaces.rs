//! Tables of what cuDNN answers, as `python -m cudnn_workspaces` writes them: one direction of one convolution a row.

use std::collections::HashMap;
use std::path::Path;

use plimsoll_graph::GpuCatalogue;
use plimsoll_simulate::workspace::{Format, Generation, GpuClass, WorkspaceQuery};
use plimsoll_simulate::{Convolution, Direction};
use polars::prelude::DataType;

use crate::error::{DatasetError, Result};
use crate::parquet::{Chunk, RowGroups};

/// Columns of numbers: the shape, then the version.
const SIZES: [&str; 13] = [
    "n",
    "c_in",
    "h",
    "w",
    "c_out",
    "kernel_h",
    "kernel_w",
    "stride",
    "padding_h",
    "padding_w",
    "dilation",
    "groups",
    "cudnn_version",
];
/// Columns of names.
const NAMES: [&str; 5] = ["direction", "precision", "layout", "gpu", "status"];
/// Columns that are empty where cuDNN has no plan.
const ANSWERS: [&str; 2] = ["first_plan_bytes", "max_plan_bytes"];

/// A question and cuDNN's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceRow {
    /// What was asked.
    pub query: WorkspaceQuery,
    /// Bytes of the plan that PyTorch takes without benchmark mode.
    pub first_bytes: u64,
    /// Bytes of the largest plan.
    pub largest_bytes: u64,
}

impl WorkspaceRow {
    /// Of a thousand shapes as many are kept for judging.
    const HELD_OUT_PERMILLE: u64 = 150;

    /// Whether its shape, in all directions and on all GPUs, is for judging instead of fitting. The shape alone decides.
    pub fn is_held_out(&self) -> bool {
        let c = &self.query.convolution;
        let sizes = [c.batch, c.stride, c.padding, c.dilation, c.groups];
        let numbers = sizes.into_iter().chain(c.input).chain(c.output).chain(c.kernel);
        // The finaliser of SplitMix64 on every number.
        let hash = numbers.fold(0_u64, |hash, number| {
            let mut mixed = (hash ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        hash % 1000 < Self::HELD_OUT_PERMILLE
    }
}

/// The answers of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceTable {
    /// In the file's order.
    pub rows: Vec<WorkspaceRow>,
    /// Rows for which cuDNN had no plan.
    pub unsupported: usize,
}

/// Reads a table, one row group at a time. GPUs are named as in the catalogue.
///
/// # Errors
/// A file that is no such table, an unknown GPU, a row whose sizes do not fit each other.
pub fn read_workspaces(path: &Path, catalogue: &GpuCatalogue) -> Result<WorkspaceTable> {
    let columns: Vec<&str> = SIZES.into_iter().chain(NAMES).chain(ANSWERS).collect();
    let file = RowGroups::open(path)?;
    file.require(&columns, "a workspace table")?;
    let mut file = file.only(&columns);
    let mut table = WorkspaceTable { rows: Vec::with_capacity(file.rows()), unsupported: 0 };
    let mut classes = HashMap::new();
    let mut before = 0;
    while let Some(chunk) = file.next_group() {
        let columns = Columns::new(&chunk?, path, before, catalogue, &mut classes)?;
        for row in 0..columns.status.len() {
            match columns.row(row)? {
                Some(answer) => table.rows.push(answer),
                None => table.unsupported += 1,
            }
        }
        before += columns.status.len();
    }
    Ok(table)
}

/// The columns of one row group.
struct Columns<'a> {
    path: &'a Path,
    /// Rows of earlier groups.
    before: usize,
    sizes: Vec<Vec<Option<i64>>>,
    answers: Vec<Vec<Option<i64>>>,
    direction: Vec<Direction>,
    format: Vec<Format>,
    is_channels_last: Vec<bool>,
    class: Vec<GpuClass>,
    status: Vec<bool>,
}

impl<'a> Columns<'a> {
    fn new(
        chunk: &Chunk,
        path: &'a Path,
        before: usize,
        catalogue: &GpuCatalogue,
        classes: &mut HashMap<String, GpuClass>,
    ) -> Result<Self> {
        let numbers = |name: &&str| -> Result<Vec<Option<i64>>> {
            let read = || chunk.frame().column(name)?.cast(&DataType::Int64)?.i64().map(|all| all.iter().collect());
            read().map_err(|source| DatasetError::Parquet { action: "read", path: path.into(), source })
        };
        let reader = NameReader { chunk, path, before };
        let class = reader.read("gpu", "a GPU of the catalogue, of compute capability 7.0 or more", |name| {
            if let Some(class) = classes.get(name) {
                return Some(*class);
            }
            let class = catalogue.find(name).ok().and_then(GpuClass::of)?;
            classes.insert(name.to_owned(), class);
            Some(class)
        })?;
        Ok(Self {
            path,
            before,
            sizes: SIZES.iter().map(numbers).collect::<Result<_>>()?,
            answers: ANSWERS.iter().map(numbers).collect::<Result<_>>()?,
            direction: reader.read("direction", "forward, data_gradient or filter_gradient", |name| match name {
                "forward" => Some(Direction::Forward),
                "data_gradient" => Some(Direction::DataGradient),
                "filter_gradient" => Some(Direction::FilterGradient),
                _ => None,
            })?,
            format: reader.read("precision", "fp32_tf32, fp32, fp16 or bf16", |name| match name {
                "fp32_tf32" => Some(Format::Tf32),
                "fp32" => Some(Format::Fp32),
                "fp16" => Some(Format::Fp16),
                "bf16" => Some(Format::Bf16),
                _ => None,
            })?,
            is_channels_last: reader.read("layout", "nchw or nhwc", |name| match name {
                "nchw" => Some(false),
                "nhwc" => Some(true),
                _ => None,
            })?,
            class,
            status: reader.read("status", "a status", |name| Some(name == "ok"))?,
        })
    }

    fn row(&self, row: usize) -> Result<Option<WorkspaceRow>> {
        if !self.status[row] {
            return Ok(None);
        }
        let damaged = |expected: &str, found: String| DatasetError::Row {
            path: self.path.into(),
            row: self.before + row + 1,
            expected: expected.into(),
            found,
        };
        let mut sizes = [0_u64; SIZES.len()];
        for ((size, column), name) in sizes.iter_mut().zip(&self.sizes).zip(SIZES) {
            *size = column[row]
                .and_then(|value| u64::try_from(value).ok())
                .ok_or_else(|| damaged("whole numbers from 0", format!("`{name}` {:?}", column[row])))?;
        }
        let mut answers = [0_u64; ANSWERS.len()];
        for ((bytes, column), name) in answers.iter_mut().zip(&self.answers).zip(ANSWERS) {
            *bytes = column[row]
                .and_then(|value| u64::try_from(value).ok())
                .ok_or_else(|| damaged("bytes of every row that is ok", format!("`{name}` {:?}", column[row])))?;
        }
        let [n, c_in, h, w, c_out, kernel_h, kernel_w, stride, padding_h, padding_w, dilation, groups, version] = sizes;
        let extent = |size: u64, padding: u64, kernel: u64| {
            let room = size.checked_add(padding.checked_mul(2)?)?;
            let reach = dilation.checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?;
            Some(room.checked_sub(reach)?.checked_div(stride)? + 1)
        };
        let output = extent(h, padding_h, kernel_h).zip(extent(w, padding_w, kernel_w));
        let Some((output_h, output_w)) = output.filter(|_| groups > 0) else {
            return Err(damaged("a kernel that fits into the input", format!("{sizes:?}")));
        };
        let format = self.format[row];
        let convolution = Convolution {
            direction: self.direction[row],
            batch: n,
            input: [c_in, h, w],
            output: [c_out, output_h, output_w],
            kernel: [kernel_h, kernel_w],
            stride,
            padding: padding_h.max(padding_w),
            dilation,
            groups,
            element_bytes: if matches!(format, Format::Tf32 | Format::Fp32) { 4 } else { 2 },
        };
        let query = WorkspaceQuery {
            convolution,
            class: self.class[row],
            format,
            is_channels_last: self.is_channels_last[row],
            generation: Generation::of(version),
        };
        Ok(Some(WorkspaceRow { query, first_bytes: answers[0], largest_bytes: answers[1] }))
    }
}

/// Reads columns of names, which stand as text or as dictionaries.
struct NameReader<'a> {
    chunk: &'a Chunk,
    path: &'a Path,
    before: usize,
}

impl NameReader<'_> {
    fn read<T>(&self, column: &str, expected: &str, mut parse: impl FnMut(&str) -> Option<T>) -> Result<Vec<T>> {
        let cast = || self.chunk.frame().column(column)?.cast(&DataType::String);
        let failed = |source| DatasetError::Parquet { action: "read", path: self.path.into(), source };
        let text = cast().map_err(failed)?;
        let names = text.str().map_err(failed)?;
        let parsed = names.iter().enumerate().map(|(row, name)| {
            name.and_then(&mut parse).ok_or_else(|| DatasetError::Row {
                path: self.path.into(),
                row: self.before + row + 1,
                expected: format!("`{column}` to be {expected}"),
                found: format!("{name:?}"),
            })
        });
        parsed.collect()
    }
}

#[cfg(test)]
mod tests;
