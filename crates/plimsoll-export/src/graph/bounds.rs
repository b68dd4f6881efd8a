//! Upper bounds: the quantile head, the distance from what was measured, and the calibration; which family a job is of.

use plimsoll_dataset::Label;
use plimsoll_graph::Family;
use plimsoll_model::network::{STEP_CENTRES, STEP_RANGE, STEPS, labels};
use plimsoll_model::{Calibration, EXCESS_UNIT, Familiarity, LEVELS, OOD_WIDENING, family_flags};

use super::blocks::Writer;
use crate::error::Result;
use crate::interface::{OUT_OF_DISTRIBUTION, QUANTILES};
use crate::onnx::{Attribute, Value};
use crate::weights::{QuantileWeights, Weight};

fn axis() -> Vec<Attribute> {
    vec![Attribute::Int("axis", 1)]
}

/// What each label definition adds to a hidden layer, picked for every row: `[batch, hidden]`.
///
/// # Shapes
/// `weight` is `[4, hidden]`, a row for each definition that is not the reference; `label` is `[batch]`.
pub(super) fn label_shift(writer: &mut Writer, name: &str, weight: &Weight, label: &Value) -> Result<Value> {
    let width = weight.shape[1];
    let row = |label: Label| -> Vec<f32> {
        let shifted = labels::SHIFTED.iter().position(|shifted| *shifted == label);
        shifted.map_or_else(|| vec![0.0; width], |row| weight.numbers[row * width..(row + 1) * width].to_vec())
    };
    let table =
        Weight { shape: vec![Label::ALL.len(), width], numbers: Label::ALL.into_iter().flat_map(row).collect() };
    let table = writer.weight(&format!("{name}.table"), &table)?;
    Ok(pick(writer, &format!("{name}.shift"), &table, label))
}

/// A row of a table for each row of the batch.
pub(super) fn pick(writer: &mut Writer, name: &str, table: &Value, label: &Value) -> Value {
    writer.builder().node("Gather", name, &[table, label], vec![Attribute::Int("axis", 0)])
}

/// Logarithms of quantile over median at 90, 95 and 99 %: `[batch, 3]`.
pub(super) fn quantiles(
    writer: &mut Writer,
    prefix: &str,
    weights: &QuantileWeights,
    summary: &Value,
    label: &Value,
) -> Result<Value> {
    let name = format!("{prefix}quantiles");
    let trunk = writer.stack(&format!("{name}.trunk"), summary, &weights.trunk)?;
    let shift = label_shift(writer, &format!("{name}.label"), &weights.label, label)?;
    let hidden = writer.plain("Add", &format!("{name}.hidden"), &[&trunk, &shift]);
    let raw = writer.affine(&format!("{name}.output"), &hidden, &weights.output)?;
    let range = writer.builder().scalar(STEP_RANGE as f32);
    let raw = writer.plain("Div", &format!("{name}.ratio"), &[&raw, &range]);
    let raw = writer.plain("Tanh", &format!("{name}.tanh"), &[&raw]);
    let raw = writer.plain("Mul", &format!("{name}.bounded"), &[&raw, &range]);
    let centres = STEP_CENTRES.map(|centre| centre as f32);
    let centres = writer.builder().tensor(&format!("{name}.centres"), &[STEPS], &centres);
    let steps = writer.plain("Add", &format!("{name}.log_steps"), &[&raw, &centres]);
    let steps = writer.plain("Exp", &format!("{name}.steps"), &[&steps]);
    let extents = writer.builder().wholes(&[1; STEPS]);
    let names = ["p90", "p95.step", "p99.step"].map(|part| format!("{name}.{part}"));
    let [first, second, third] =
        writer.builder().nodes("Split", names.each_ref().map(String::as_str), &[&steps, &extents], axis());
    let second = writer.plain("Add", &format!("{name}.p95"), &[&first, &second]);
    let third = writer.plain("Add", &format!("{name}.p99"), &[&second, &third]);
    Ok(writer.builder().node("Concat", &format!("{name}.all"), &[&first, &second, &third], axis()))
}

/// The score of [`Familiarity`]: `[batch, 1]`, from raw features.
pub(super) fn out_of_distribution(
    writer: &mut Writer,
    familiarity: &Familiarity,
    summary: &Value,
    gpu: &Value,
) -> Result<Value> {
    let vector = |numbers: &[f32]| Weight { shape: vec![numbers.len()], numbers: numbers.to_vec() };
    let low = writer.weight("ood.low", &vector(&familiarity.low))?;
    let high = writer.weight("ood.high", &vector(&familiarity.high))?;
    let width = writer.weight("ood.width", &vector(&familiarity.widths()))?;
    let values = writer.builder().node("Concat", "ood.values", &[summary, gpu], axis());
    let below = writer.plain("Sub", "ood.below", &[&low, &values]);
    let above = writer.plain("Sub", "ood.above", &[&values, &high]);
    let excess = writer.plain("Max", "ood.outside", &[&below, &above]);
    let excess = writer.plain("Relu", "ood.excess", &[&excess]);
    let excess = writer.plain("Div", "ood.excess.share", &[&excess, &width]);
    let one = writer.builder().scalar(1.0);
    let excess = writer.plain("Min", "ood.excess.limited", &[&excess, &one]);
    let attributes = vec![Attribute::Ints("axes", vec![1]), Attribute::Int("keepdims", 1)];
    let mean = writer.builder().node("ReduceMean", "ood.excess.mean", &[&excess], attributes);
    let unit = writer.builder().scalar(-EXCESS_UNIT);
    let power = writer.plain("Div", "ood.power", &[&mean, &unit]);
    let familiar = writer.plain("Exp", "ood.familiar", &[&power]);
    Ok(writer.plain("Sub", OUT_OF_DISTRIBUTION, &[&one, &familiar]))
}

/// Which family a job is of, by the flag of the summary that is largest: `[batch]`.
pub(super) fn family(writer: &mut Writer, summary: &Value) -> Value {
    let flags: Vec<i64> = family_flags().iter().map(|&place| place as i64).collect();
    let flags = writer.builder().wholes(&flags);
    let flags = writer.builder().node("Gather", "family.flags", &[summary, &flags], axis());
    let attributes = vec![Attribute::Int("axis", 1), Attribute::Int("keepdims", 0)];
    writer.builder().node("ArgMax", "family", &[&flags], attributes)
}

/// Which row of the offsets a job takes: label definitions, and within each the families.
fn group(writer: &mut Writer, family: &Value, label: &Value) -> Value {
    let families = writer.builder().whole(Family::ALL.len() as i64);
    let first = writer.plain("Mul", "bounds.label.first", &[label, &families]);
    writer.plain("Add", "bounds.group", &[&first, family])
}

/// Calibrated upper bounds in MiB, none below the one before: `[batch, 4]`.
pub(super) fn bounds(
    writer: &mut Writer,
    calibration: &Calibration,
    peak: &Value,
    quantiles: Option<&Value>,
    ood: &Value,
    (family, label): (&Value, &Value),
) -> Result<Value> {
    let groups = || Label::ALL.into_iter().flat_map(|label| Family::ALL.map(|family| (label, family)));
    let offsets =
        groups().flat_map(|(label, family)| calibration.offsets(label, family).log.map(|offset| offset as f32));
    let table = Weight { shape: vec![Label::ALL.len() * Family::ALL.len(), LEVELS.len()], numbers: offsets.collect() };
    let table = writer.weight("bounds.offsets.table", &table)?;
    let group = group(writer, family, label);
    let offsets = pick(writer, "bounds.offsets", &table, &group);
    let extents = writer.builder().wholes(&[1; LEVELS.len()]);
    let names = ["bounds.offset.p50", "bounds.offset.p90", "bounds.offset.p95", "bounds.offset.p99"];
    let offsets = writer.builder().nodes("Split", names, &[&offsets, &extents], axis());
    let spreads = groups().map(|(label, family)| calibration.offsets(label, family).spread as f32);
    let table = Weight { shape: vec![Label::ALL.len() * Family::ALL.len(), 1], numbers: spreads.collect() };
    let steps = match quantiles {
        None => None,
        Some(quantiles) => {
            let table = writer.weight("bounds.spread.table", &table)?;
            let spread = pick(writer, "bounds.spread", &table, &group);
            let quantiles = writer.plain("Mul", "bounds.spread.quantiles", &[quantiles, &spread]);
            let extents = writer.builder().wholes(&[1; STEPS]);
            let names = ["bounds.quantile.p90", "bounds.quantile.p95", "bounds.quantile.p99"];
            Some(writer.builder().nodes("Split", names, &[&quantiles, &extents], axis()))
        }
    };
    let log_peak = writer.plain("Log", "bounds.log_peak", &[peak]);
    let mut columns: Vec<Value> = Vec::with_capacity(LEVELS.len());
    for (index, (offset, widening)) in offsets.iter().zip(OOD_WIDENING).enumerate() {
        let mut bound = writer.plain("Add", &format!("bounds.{index}.offset"), &[&log_peak, offset]);
        if let Some(steps) = steps.as_ref().filter(|_| index > 0) {
            bound = writer.plain("Add", &format!("bounds.{index}.quantile"), &[&bound, &steps[index - 1]]);
        }
        if widening > 0.0 {
            let widening = writer.builder().scalar(widening as f32);
            let wider = writer.plain("Mul", &format!("bounds.{index}.widening"), &[ood, &widening]);
            bound = writer.plain("Add", &format!("bounds.{index}.wider"), &[&bound, &wider]);
        }
        if let Some(before) = columns.last() {
            bound = writer.plain("Max", &format!("bounds.{index}.raised"), &[&bound, before]);
        }
        columns.push(bound);
    }
    let columns: Vec<&Value> = columns.iter().collect();
    let logarithms = writer.builder().node("Concat", "bounds.logarithms", &columns, axis());
    Ok(writer.plain("Exp", QUANTILES, &[&logarithms]))
}
