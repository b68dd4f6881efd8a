//! The output heads of the graph.

use plimsoll_model::OutputSettings;
use plimsoll_model::network::{CONTEXT_RANGE, LOG_SCALE_CENTRE, LOG_SCALE_RANGE, RESERVED_RANGE};

use super::blocks::Writer;
use crate::error::Result;
use crate::interface::{BIN_PROBABILITIES, PEAK_MEMORY, SCALE, UTILISATION_RATIOS};
use crate::onnx::proto::DataType;
use crate::onnx::{Attribute, Value};
use crate::weights::HeadWeights;

/// Both heads; the outputs in the order of [`crate::interface::outputs`].
///
/// # Shapes
/// `trunks` are `[batch, hidden]` each, `gpu` is `[batch, g]`, scaled; `simulated` is `[batch, 2]`, raw.
pub(super) fn heads(
    writer: &mut Writer,
    weights: &HeadWeights,
    output: &OutputSettings,
    is_fitted: [bool; 6],
    trunks: [&Value; 2],
    gpu: &Value,
    simulated: &Value,
) -> Result<Vec<Value>> {
    let axis = || vec![Attribute::Int("axis", 1)];
    let joined = writer.builder().node("Concat", "heads.memory.joined", &[trunks[0], gpu], axis());
    let utilisation = writer.builder().node("Concat", "heads.utilisation.joined", &[trunks[1], gpu], axis());
    let (first, second) = &weights.memory;
    let memory = writer.pair("heads.memory", &joined, (first, second))?;
    let mut outputs = match *output {
        OutputSettings::Regression => regression(writer, &memory, simulated),
        OutputSettings::Bins { width_mib, .. } => bins(writer, &memory, width_mib),
    };
    let (first, second) = &weights.utilisation;
    let logits = writer.pair("heads.utilisation", &utilisation, (first, second))?;
    let ratios = writer.plain("Sigmoid", "heads.utilisation.ratios", &[&logits]);
    // What was never recorded was never learned: its column is 0 instead of an untrained number.
    let fitted = is_fitted.map(|fitted| f32::from(u8::from(fitted)));
    let fitted = writer.builder().tensor("heads.utilisation.fitted", &[fitted.len()], &fitted);
    outputs.push(writer.plain("Mul", UTILISATION_RATIOS, &[&ratios, &fitted]));
    Ok(outputs)
}

/// Memory and the scale of its logarithm from three bounded numbers.
///
/// The network takes the logarithm of memory, and estimates undo it; here memory is computed without the detour.
fn regression(writer: &mut Writer, memory: &Value, simulated: &Value) -> Vec<Value> {
    let ranges = [RESERVED_RANGE, CONTEXT_RANGE, LOG_SCALE_RANGE].map(|range| range as f32);
    let ranges = writer.builder().tensor("heads.memory.ranges", &[3], &ranges);
    let ratio = writer.plain("Div", "heads.memory.ratio", &[memory, &ranges]);
    let tanh = writer.plain("Tanh", "heads.memory.tanh", &[&ratio]);
    let bounded = writer.plain("Mul", "heads.memory.bounded", &[&tanh, &ranges]);
    let parts = writer.builder().wholes(&[1, 1, 1]);
    let names = ["heads.memory.reserved", "heads.memory.context", "heads.memory.log_scale"];
    let [reserved, context, log_scale] =
        writer.builder().nodes("Split", names, &[&bounded, &parts], vec![Attribute::Int("axis", 1)]);

    let columns = writer.builder().wholes(&[1, 1]);
    let names = ["heads.memory.reserved.simulated", "heads.memory.context.simulated"];
    let [simulated, nominal] =
        writer.builder().nodes("Split", names, &[simulated, &columns], vec![Attribute::Int("axis", 1)]);
    let reserved = writer.plain("Exp", "heads.memory.reserved.multiplier", &[&reserved]);
    let reserved = writer.plain("Mul", "heads.memory.reserved.mib", &[&simulated, &reserved]);
    let context = writer.plain("Exp", "heads.memory.context.multiplier", &[&context]);
    let context = writer.plain("Mul", "heads.memory.context.mib", &[&context, &nominal]);
    let peak = writer.plain("Add", PEAK_MEMORY, &[&reserved, &context]);

    let centre = writer.builder().scalar(LOG_SCALE_CENTRE as f32);
    let log_scale = writer.plain("Add", "heads.memory.log_scale.centred", &[&log_scale, &centre]);
    let scale = writer.plain("Exp", SCALE, &[&log_scale]);
    vec![peak, scale]
}

/// Probabilities of the bins, and the middle of the most probable one.
fn bins(writer: &mut Writer, logits: &Value, width_mib: f64) -> Vec<Value> {
    let probabilities =
        writer.builder().node("Softmax", BIN_PROBABILITIES, &[logits], vec![Attribute::Int("axis", -1)]);
    let attributes = vec![Attribute::Int("axis", 1), Attribute::Int("keepdims", 1)];
    let class = writer.builder().node("ArgMax", "heads.memory.class", &[logits], attributes);
    let float = i64::from(DataType::Float as i32);
    let class =
        writer.builder().node("Cast", "heads.memory.class.number", &[&class], vec![Attribute::Int("to", float)]);
    let (half, width) = (writer.builder().scalar(0.5), writer.builder().scalar(width_mib as f32));
    let middle = writer.plain("Add", "heads.memory.class.middle", &[&class, &half]);
    let peak = writer.plain("Mul", PEAK_MEMORY, &[&middle, &width]);
    vec![peak, probabilities]
}
