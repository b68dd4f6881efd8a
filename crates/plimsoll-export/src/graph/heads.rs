//! The output heads of the graph.

use plimsoll_dataset::Label;
use plimsoll_features::FeatureSchema;
use plimsoll_graph::Family;
use plimsoll_model::batch::{ROOFLINE_PARTS, ROOFLINE_RANGE};
use plimsoll_model::network::{
    CONTEXT_RANGE, LEAST_MIB, LIVE_RANGE, LOG_SCALE_CENTRE, LOG_SCALE_RANGE, RESERVED_RANGE, labels,
};
use plimsoll_model::{OutputSettings, Strength, Strengths};

use super::blocks::Writer;
use super::bounds;
use crate::error::Result;
use crate::interface::{BIN_PROBABILITIES, PEAK_MEMORY, SCALE, UTILISATION_RATIOS};
use crate::onnx::proto::DataType;
use crate::onnx::{Attribute, Value};
use crate::weights::{HeadWeights, Weight};

/// What one network says before its numbers become estimates; the mean of several is of the same form.
pub(super) struct HeadValues {
    /// Logits of the bins, `[batch, bins]`; or logarithms of three ratios and of the scale, `[batch, 4]`.
    memory: Value,
    /// Logits, `[batch, 6]`.
    utilisation: Value,
    /// Logarithms of quantile over median, `[batch, 3]`, where there are bounds.
    pub(super) quantiles: Option<Value>,
}

/// Both heads of one network.
///
/// # Shapes
/// `trunks` are `[batch, hidden]` each, `gpu` is `[batch, g]`, scaled; `label` is `[batch]`, `software` `[batch, 9]`.
pub(super) fn heads(
    writer: &mut Writer,
    prefix: &str,
    weights: &HeadWeights,
    output: &OutputSettings,
    trunks: [&Value; 2],
    gpu: &Value,
    (label, software): (&Value, &Value),
) -> Result<HeadValues> {
    let axis = || vec![Attribute::Int("axis", 1)];
    let name = format!("{prefix}heads.memory");
    let joined = writer.builder().node("Concat", &format!("{name}.joined"), &[trunks[0], gpu], axis());
    let (first, second) = &weights.memory;
    let hidden = writer.affine(&format!("{name}.first"), &joined, first)?;
    let shift = bounds::label_shift(writer, &format!("{name}.label"), &weights.label, label)?;
    let hidden = writer.plain("Add", &format!("{name}.labelled"), &[&hidden, &shift]);
    let shift = writer.affine(&format!("{name}.stack"), software, &weights.stack)?;
    let hidden = writer.plain("Add", &format!("{name}.hidden"), &[&hidden, &shift]);
    let hidden = writer.gelu(&format!("{name}.first"), &hidden);
    let mut memory = writer.affine(&format!("{name}.second"), &hidden, second)?;
    if matches!(output, OutputSettings::Regression) {
        memory = bounded(writer, &name, &memory);
    }
    let name = format!("{prefix}heads.utilisation");
    let joined = writer.builder().node("Concat", &format!("{name}.joined"), &[trunks[1], gpu], axis());
    let (first, second) = &weights.utilisation;
    let utilisation = writer.pair(&name, &joined, (first, second))?;
    Ok(HeadValues { memory, utilisation, quantiles: None })
}

/// Numbers kept within their ranges.
fn bounded(writer: &mut Writer, name: &str, memory: &Value) -> Value {
    let ranges = [RESERVED_RANGE, CONTEXT_RANGE, LIVE_RANGE, LOG_SCALE_RANGE].map(|range| range as f32);
    let ranges = writer.builder().tensor(&format!("{name}.ranges"), &[ranges.len()], &ranges);
    let ratio = writer.plain("Div", &format!("{name}.ratio"), &[memory, &ranges]);
    let tanh = writer.plain("Tanh", &format!("{name}.tanh"), &[&ratio]);
    writer.plain("Mul", &format!("{name}.bounded"), &[&tanh, &ranges])
}

/// The mean of what several networks say.
pub(super) fn mean(writer: &mut Writer, parts: &[HeadValues]) -> HeadValues {
    let mut of = |name: &str, values: Vec<&Value>| -> Option<Value> {
        match values[..] {
            [] => None,
            [value] => Some(value.clone()),
            _ => Some(writer.plain("Mean", name, &values)),
        }
    };
    let always = "there is at least one network";
    HeadValues {
        memory: of("heads.memory.mean", parts.iter().map(|part| &part.memory).collect()).expect(always),
        utilisation: of("heads.utilisation.mean", parts.iter().map(|part| &part.utilisation).collect()).expect(always),
        quantiles: of("quantiles.mean", parts.iter().filter_map(|part| part.quantiles.as_ref()).collect()),
    }
}

/// Logits that utilisation starts from, from the raw summary: `[batch, 6]`.
pub(super) fn roofline(writer: &mut Writer, summary: &Value) -> Value {
    let place = writer.builder().wholes(&[FeatureSchema::fp32_summary() as i64]);
    let axis = vec![Attribute::Int("axis", 1)];
    let ratio = writer.builder().node("Gather", "roofline.ratio", &[summary, &place], axis);
    let [low, high, one] = [ROOFLINE_RANGE[0], ROOFLINE_RANGE[1], 1.0].map(|number| writer.builder().scalar(number));
    let ratio = writer.plain("Max", "roofline.raised", &[&ratio, &low]);
    let ratio = writer.plain("Min", "roofline.lowered", &[&ratio, &high]);
    let rest = writer.plain("Sub", "roofline.rest", &[&one, &ratio]);
    let odds = writer.plain("Div", "roofline.odds", &[&ratio, &rest]);
    let logit = writer.plain("Log", "roofline.logit", &[&odds]);
    let parts = writer.builder().tensor("roofline.parts", &[ROOFLINE_PARTS.len()], &ROOFLINE_PARTS);
    writer.plain("Mul", "roofline.logits", &[&logit, &parts])
}

/// Which strength a job's correction has: that of its family, in cuDNN's benchmark mode or without: `[batch]`.
pub(super) fn kind(writer: &mut Writer, summary: &Value, family: &Value) -> Value {
    let place = writer.builder().whole(FeatureSchema::benchmark_summary() as i64);
    let flag = writer.builder().node("Gather", "kind.flag", &[summary, &place], vec![Attribute::Int("axis", 1)]);
    let half = writer.builder().scalar(0.5);
    let flag = writer.plain("Greater", "kind.is_benchmarked", &[&flag, &half]);
    let whole = i64::from(DataType::Int64 as i32);
    let flag = writer.builder().node("Cast", "kind.mode", &[&flag], vec![Attribute::Int("to", whole)]);
    let families = writer.builder().whole(Family::ALL.len() as i64);
    let first = writer.plain("Mul", "kind.first", &[&flag, &families]);
    writer.plain("Add", "kind", &[&first, family])
}

/// Estimates of memory and utilisation, in the order of [`crate::interface::outputs`].
///
/// # Shapes
/// `simulated` is `[batch, 3]`, raw; `label` is `[batch]`; `roofline` is `[batch, 6]`, logits that utilisation starts from.
pub(super) fn outputs(
    writer: &mut Writer,
    values: &HeadValues,
    output: &OutputSettings,
    is_fitted: [bool; 6],
    (simulated, label, roofline): (&Value, &Value, Option<&Value>),
    strength: (&Strengths, &Value),
) -> Result<Vec<Value>> {
    let mut outputs = match *output {
        OutputSettings::Regression => regression(writer, &values.memory, simulated, label, strength)?,
        OutputSettings::Bins { width_mib, estimate, .. } => bins(writer, &values.memory, width_mib, estimate.share()),
    };
    let logits = match roofline {
        Some(roofline) => writer.plain("Add", "heads.utilisation.logits", &[&values.utilisation, roofline]),
        None => values.utilisation.clone(),
    };
    let ratios = writer.plain("Sigmoid", "heads.utilisation.ratios", &[&logits]);
    // What was never recorded was never learned: its column is 0 instead of an untrained number.
    let fitted = is_fitted.map(|fitted| f32::from(u8::from(fitted)));
    let fitted = writer.builder().tensor("heads.utilisation.fitted", &[fitted.len()], &fitted);
    outputs.push(writer.plain("Mul", UTILISATION_RATIOS, &[&ratios, &fitted]));
    Ok(outputs)
}

/// Memory and the scale of its logarithm from four bounded numbers: simulated quantities, of which the label definition
/// adds up some, corrected as strongly as the family's strength says.
fn regression(
    writer: &mut Writer,
    memory: &Value,
    simulated: &Value,
    label: &Value,
    (strengths, kind): (&Strengths, &Value),
) -> Result<Vec<Value>> {
    let axis = || vec![Attribute::Int("axis", 1)];
    let extents = writer.builder().wholes(&[labels::QUANTITIES as i64, 1]);
    let names = ["heads.memory.residuals", "heads.memory.log_scale"];
    let [residuals, log_scale] = writer.builder().nodes("Split", names, &[memory, &extents], axis());
    let parts: Vec<f32> = Label::ALL.into_iter().flat_map(labels::parts).collect();
    let parts = writer.builder().tensor("heads.memory.parts.table", &[Label::ALL.len(), labels::QUANTITIES], &parts);
    let parts = bounds::pick(writer, "heads.memory.parts", &parts, label);
    let read = writer.plain("Mul", "heads.memory.read", &[simulated, &parts]);

    // What is corrected: the simulation with the context of its kind, or with the fitted one.
    let context =
        of_kind(writer, "context", strengths, kind, |strength| [0.0, strength.log_context.unwrap_or_default(), 0.0])?;
    let is_fitted = of_kind(writer, "context.is_fitted", strengths, kind, |strength| {
        [0.0, if strength.log_context.is_some() { 0.0 } else { 1.0 }, 0.0]
    })?;
    let fitted_context = writer.plain("Mul", "heads.memory.context.fitted", &[&residuals, &is_fitted]);
    let context = writer.plain("Add", "heads.memory.context.counted", &[&context, &fitted_context]);
    let before = log_sum(writer, "heads.memory.before", &read, &context);
    let after = log_sum(writer, "heads.memory.after", &read, &residuals);

    // The correction, firmly thresholded.
    let threshold = of_kind(writer, "threshold", strengths, kind, |strength| [strength.threshold])?;
    let share = of_kind(writer, "share", strengths, kind, |strength| [strength.share])?;
    let correction = writer.plain("Sub", "heads.memory.correction", &[&after, &before]);
    let sign = writer.plain("Sign", "heads.memory.correction.sign", &[&correction]);
    let size = writer.plain("Abs", "heads.memory.correction.size", &[&correction]);
    let above = writer.plain("Sub", "heads.memory.correction.above", &[&size, &threshold]);
    let twice = writer.plain("Add", "heads.memory.correction.twice", &[&above, &above]);
    let rising = writer.plain("Relu", "heads.memory.correction.rising", &[&twice]);
    let counted = writer.plain("Min", "heads.memory.correction.firm", &[&size, &rising]);
    let counted = writer.plain("Mul", "heads.memory.correction.signed", &[&counted, &sign]);
    let counted = writer.plain("Mul", "heads.memory.correction.counted", &[&counted, &share]);
    let log_peak = writer.plain("Add", "heads.memory.log_peak", &[&before, &counted]);
    let peak = writer.plain("Exp", PEAK_MEMORY, &[&log_peak]);

    let centre = writer.builder().scalar(LOG_SCALE_CENTRE as f32);
    let log_scale = writer.plain("Add", "heads.memory.log_scale.centred", &[&log_scale, &centre]);
    let scale = writer.plain("Exp", SCALE, &[&log_scale]);
    Ok(vec![peak, scale])
}

/// Numbers of each row's strength: `[batch, N]`.
fn of_kind<const N: usize>(
    writer: &mut Writer,
    name: &str,
    strengths: &Strengths,
    kind: &Value,
    of: fn(Strength) -> [f64; N],
) -> Result<Value> {
    let kinds = [false, true].into_iter().flat_map(|mode| Family::ALL.map(|family| strengths.get(family, mode)));
    let numbers = kinds.flat_map(of).map(|number| number as f32).collect();
    let table = Weight { shape: vec![2 * Family::ALL.len(), N], numbers };
    let table = writer.weight(&format!("heads.memory.{name}.table"), &table)?;
    Ok(bounds::pick(writer, &format!("heads.memory.{name}"), &table, kind))
}

/// The logarithm of the sum of corrected quantities, at least that of the least memory: `[batch, 1]`.
fn log_sum(writer: &mut Writer, name: &str, read: &Value, residuals: &Value) -> Value {
    let multipliers = writer.plain("Exp", &format!("{name}.multipliers"), &[residuals]);
    let corrected = writer.plain("Mul", &format!("{name}.corrected"), &[read, &multipliers]);
    let columns = writer.builder().wholes(&[1]);
    let keeps = vec![Attribute::Int("keepdims", 1)];
    let sum = writer.builder().node("ReduceSum", &format!("{name}.sum"), &[&corrected, &columns], keeps);
    let least = writer.builder().scalar(LEAST_MIB as f32);
    let sum = writer.plain("Max", &format!("{name}.raised"), &[&sum, &least]);
    writer.plain("Log", &format!("{name}.log"), &[&sum])
}

/// Probabilities of the bins, and what stands for the most probable one, which lies a share of its width above its lower
/// edge.
fn bins(writer: &mut Writer, logits: &Value, width_mib: f64, share: f64) -> Vec<Value> {
    let probabilities =
        writer.builder().node("Softmax", BIN_PROBABILITIES, &[logits], vec![Attribute::Int("axis", -1)]);
    let attributes = vec![Attribute::Int("axis", 1), Attribute::Int("keepdims", 1)];
    let class = writer.builder().node("ArgMax", "heads.memory.class", &[logits], attributes);
    let float = i64::from(DataType::Float as i32);
    let class =
        writer.builder().node("Cast", "heads.memory.class.number", &[&class], vec![Attribute::Int("to", float)]);
    let (share, width) = (writer.builder().scalar(share as f32), writer.builder().scalar(width_mib as f32));
    let place = writer.plain("Add", "heads.memory.class.place", &[&class, &share]);
    let peak = writer.plain("Mul", PEAK_MEMORY, &[&place, &width]);
    vec![peak, probabilities]
}
