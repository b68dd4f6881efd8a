//! The exported graph: a learned network from raw features to estimates.
//!
//! ```text
//! tokens, layers, mask ─ scale ─ encoder ─ mean over real layers ─ norm ┐
//! summary ─ scale ──────────────────────────────────────────────────────┼ trunks ┐
//! gpu ───── scale ────────────────────────────────────────────────┬─────┘        ├─ heads ─ estimates
//! label, stack ───────────────────────────────────────────────────┴──────────────┤            │
//! simulated_mib ─────────────────────────────────────────────────────────────────┘          bounds
//! summary, gpu ─ ranges of what was fitted to ─ out of distribution ──────────────────────────┘
//! ```
//!
//! Where several networks were fitted side by side, all stand in the graph, and what their heads say is averaged.

mod blocks;
mod bounds;
mod encoder;
mod heads;

use plimsoll_model::{Description, Learned};

use self::blocks::Writer;
use crate::error::Result;
use crate::interface::{self, GPU, LABEL, LAYERS, MASK, Port, SIMULATED, STACK, SUMMARY, TOKENS};
use crate::onnx::proto::ModelProto;
use crate::onnx::{Attribute, OnnxBuilder, Value};
use crate::weights::Weights;

/// Writes a network as a model.
///
/// # Errors
/// Weights that are not finite.
pub(crate) fn model(learned: &Learned, metadata: Vec<(String, String)>) -> Result<ModelProto> {
    let description = learned.description();
    let inputs = interface::inputs(&description.settings, &description.schema);
    let outputs = interface::outputs(description);
    let weights: Vec<Weights> = learned.network().members.iter().map(Weights::of).collect();
    let mut writer = Writer::new("plimsoll");
    let declared = declare(writer.builder(), &inputs);
    let results = network(&mut writer, &weights, description, &declared)?;
    for (port, value) in outputs.iter().zip(&results) {
        assert_eq!(value.name(), port.name, "outputs are made under their names");
        writer.builder().output(value, port.dtype, &port.shape, &doc(port));
    }
    let doc = "Estimates GPU memory and utilisation of a training job from its features. See metadata_props.";
    Ok(writer.finish(doc, metadata))
}

/// Inputs by their role.
struct Inputs {
    summary: Value,
    gpu: Value,
    simulated: Value,
    label: Value,
    stack: Value,
    sequence: Option<(Value, Value, Value)>,
}

fn declare(builder: &mut OnnxBuilder, ports: &[Port]) -> Inputs {
    let values: Vec<Value> =
        ports.iter().map(|port| builder.input(&port.name, port.dtype, &port.shape, &doc(port))).collect();
    let find = |name: &str| values.iter().find(|value| value.name() == name).cloned();
    let always = |name: &str| find(name).expect("every network has it");
    Inputs {
        summary: always(SUMMARY),
        gpu: always(GPU),
        simulated: always(SIMULATED),
        label: always(LABEL),
        stack: always(STACK),
        sequence: find(TOKENS).zip(find(LAYERS)).zip(find(MASK)).map(|((tokens, layers), mask)| (tokens, layers, mask)),
    }
}

fn doc(port: &Port) -> String {
    format!("{} Unit: {}.", port.description, port.unit)
}

/// Wires the networks; returns the outputs in the order of [`interface::outputs`].
fn network(writer: &mut Writer, members: &[Weights], description: &Description, inputs: &Inputs) -> Result<Vec<Value>> {
    let scaler = &description.scaler;
    let summary = writer.standardize("scaler.summary", &inputs.summary, &scaler.summary)?;
    let gpu = writer.standardize("scaler.gpu", &inputs.gpu, &scaler.gpu)?;
    let layers = match &inputs.sequence {
        Some((_, layers, _)) => Some(writer.standardize("scaler.layer", layers, &scaler.layer)?),
        None => None,
    };
    let has_bounds = description.calibration.is_some();
    let mut parts = Vec::with_capacity(members.len());
    for (index, weights) in members.iter().enumerate() {
        let prefix = if members.len() == 1 { String::new() } else { format!("member.{index}.") };
        let mut joined = Vec::new();
        if let (Some(reader), Some((tokens, _, mask)), Some(layers)) = (&weights.reader, &inputs.sequence, &layers) {
            joined.push(encoder::mean(writer, reader, tokens, layers, mask)?);
        }
        joined.extend([summary.clone(), gpu.clone()]);
        let joined: Vec<&Value> = joined.iter().collect();
        let axis = || vec![Attribute::Int("axis", 1)];
        let joined = writer.builder().node("Concat", &format!("{prefix}trunk.joined"), &joined, axis());
        let trunk = writer.stack(&format!("{prefix}trunk"), &joined, &weights.trunk)?;
        let utilisation = writer.stack(&format!("{prefix}utilisation_trunk"), &joined, &weights.utilisation_trunk)?;
        let mut part = heads::heads(
            writer,
            &prefix,
            &weights.heads,
            &description.settings.output,
            [&trunk, &utilisation],
            &gpu,
            (&inputs.label, &inputs.stack),
        )?;
        // Without a calibration nothing reads them.
        if let Some(quantiles) = weights.quantiles.as_ref().filter(|_| has_bounds) {
            part.quantiles = Some(bounds::quantiles(writer, &prefix, quantiles, &summary, &inputs.label)?);
        }
        parts.push(part);
    }
    let mean = heads::mean(writer, &parts);
    let is_fitted = description.utilisation_rows.map(|rows| rows > 0);
    let roofline = description.settings.sees_roofline().then(|| heads::roofline(writer, &inputs.summary));
    let family = bounds::family(writer, &inputs.summary);
    let starts = (&inputs.simulated, &inputs.label, roofline.as_ref());
    let kind = heads::kind(writer, &inputs.summary, &family);
    let strength = (&description.strength, &kind);
    let mut outputs = heads::outputs(writer, &mean, &description.settings.output, is_fitted, starts, strength)?;
    let ood = bounds::out_of_distribution(writer, &description.familiarity, &inputs.summary, &inputs.gpu)?;
    outputs.push(ood.clone());
    if let Some(calibration) = &description.calibration {
        let peak = outputs[0].clone();
        outputs.push(bounds::bounds(
            writer,
            calibration,
            &peak,
            mean.quantiles.as_ref(),
            &ood,
            (&family, &inputs.label),
        )?);
    }
    Ok(outputs)
}
