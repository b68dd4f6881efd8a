//! The exported graph: a learned network from raw features to estimates.
//!
//! ```text
//! tokens, layers, mask ─ scale ─ encoder ─ mean over real layers ─ norm ┐
//! summary ─ scale ──────────────────────────────────────────────────────┼ trunks ┐
//! gpu ───── scale ────────────────────────────────────────────────┬─────┘        ├─ heads
//!                                                                  └─────────────┤
//! simulated_mib ────────────────────────────────────────────────────────────────┘
//! ```

mod blocks;
mod encoder;
mod heads;

use plimsoll_model::{Description, Learned};

use self::blocks::Writer;
use crate::error::Result;
use crate::interface::{self, GPU, LAYERS, MASK, Port, SIMULATED, SUMMARY, TOKENS};
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
    let weights = Weights::of(learned.network());
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
        sequence: find(TOKENS).zip(find(LAYERS)).zip(find(MASK)).map(|((tokens, layers), mask)| (tokens, layers, mask)),
    }
}

fn doc(port: &Port) -> String {
    format!("{} Unit: {}.", port.description, port.unit)
}

/// Wires the network; returns its outputs in the order of [`interface::outputs`].
fn network(writer: &mut Writer, weights: &Weights, description: &Description, inputs: &Inputs) -> Result<Vec<Value>> {
    let scaler = &description.scaler;
    let summary = writer.standardize("scaler.summary", &inputs.summary, &scaler.summary)?;
    let gpu = writer.standardize("scaler.gpu", &inputs.gpu, &scaler.gpu)?;
    let mut joined = Vec::new();
    if let (Some(reader), Some((tokens, layers, mask))) = (&weights.reader, &inputs.sequence) {
        let layers = writer.standardize("scaler.layer", layers, &scaler.layer)?;
        joined.push(encoder::mean(writer, reader, tokens, &layers, mask)?);
    }
    joined.extend([summary, gpu.clone()]);
    let joined: Vec<&Value> = joined.iter().collect();
    let joined = writer.builder().node("Concat", "trunk.joined", &joined, vec![Attribute::Int("axis", 1)]);
    let trunk = writer.stack("trunk", &joined, &weights.trunk)?;
    let utilisation = writer.stack("utilisation_trunk", &joined, &weights.utilisation_trunk)?;
    let is_fitted = description.utilisation_rows.map(|rows| rows > 0);
    heads::heads(
        writer,
        &weights.heads,
        &description.settings.output,
        is_fitted,
        [&trunk, &utilisation],
        &gpu,
        &inputs.simulated,
    )
}
