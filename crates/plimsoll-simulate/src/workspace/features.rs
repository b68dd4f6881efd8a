//! A query as the numbers that the network reads.

use super::forms::Operands;
use super::query::{Format, Generation, GpuClass, WorkspaceQuery};
use crate::trace::Direction;

/// Numbers of a query.
pub const FEATURE_COUNT: usize = 58;
/// Of these the first are base-two logarithms, all others are 0 or 1.
pub const LOGARITHM_COUNT: usize = 18;
/// Side of the tiles that matrix kernels cut their product into.
const TILE: u64 = 128;
/// Channel counts that kernels like multiples of.
const MULTIPLES: [u64; 6] = [2, 4, 8, 16, 32, 64];

/// The features of a query: the same for the same query, on every machine.
pub fn features(query: &WorkspaceQuery) -> [f32; FEATURE_COUNT] {
    let c = &query.convolution;
    let groups = c.groups.max(1);
    let [input_channels, height, width] = c.input;
    let [output_channels, output_height, output_width] = c.output;
    let (input_group, output_group) = (input_channels / groups, output_channels / groups);
    let kernel = c.kernel[0].saturating_mul(c.kernel[1]);
    let taps = input_group.saturating_mul(kernel);
    let output_pixels = c.batch.saturating_mul(output_height).saturating_mul(output_width);
    let input_pixels = c.batch.saturating_mul(height).saturating_mul(width);
    let [x, y, w] = Operands::of(c).padded;
    let mut row = Row { values: [0.0; FEATURE_COUNT], next: 0 };
    for value in [
        c.batch,
        input_channels,
        output_channels,
        height,
        width,
        output_height,
        output_width,
        kernel,
        x,
        y,
        w,
        output_pixels,
        input_pixels,
        taps,
        groups,
        tiles(output_group, taps),
        tiles(output_pixels, output_group),
        tiles(input_pixels, input_group),
    ] {
        row.push((value.max(1) as f32).log2());
    }
    for flag in [
        kernel == 1,
        c.kernel == [3, 3],
        c.kernel[0] != c.kernel[1],
        c.stride == 2,
        c.stride > 2,
        c.dilation > 1,
        c.padding == 0,
        output_height == height && output_width == width,
    ] {
        row.flag(flag);
    }
    for multiple in MULTIPLES {
        row.flag(input_group.is_multiple_of(multiple));
        row.flag(output_group.is_multiple_of(multiple));
    }
    row.flag(input_group <= 4);
    row.flag(output_group <= 4);
    row.flag(groups > 1);
    row.flag(groups > 1 && input_group == 1);
    row.flag(c.direction == Direction::DataGradient);
    row.flag(c.direction == Direction::FilterGradient);
    row.flag(matches!(query.format, Format::Fp16 | Format::Bf16));
    row.flag(query.format == Format::Bf16);
    row.flag(query.format == Format::Fp32);
    row.flag(query.is_channels_last);
    for class in GpuClass::ALL {
        row.flag(query.class == class);
    }
    row.flag(query.generation == Generation::New);
    debug_assert_eq!(row.next, FEATURE_COUNT, "every feature is written once");
    row.values
}

/// Tiles that cover a matrix.
fn tiles(rows: u64, columns: u64) -> u64 {
    rows.div_ceil(TILE).saturating_mul(columns.div_ceil(TILE))
}

/// A row in the making.
struct Row {
    values: [f32; FEATURE_COUNT],
    next: usize,
}

impl Row {
    fn push(&mut self, value: f32) {
        self.values[self.next] = value;
        self.next += 1;
    }

    fn flag(&mut self, flag: bool) {
        self.push(f32::from(u8::from(flag)));
    }
}
