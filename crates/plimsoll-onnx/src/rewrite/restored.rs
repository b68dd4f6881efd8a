//! Batch norms that exporters folded into the layer before them.

use plimsoll_graph::{DType, Op, Shape};

use crate::attributes::Attributes;
use crate::interpret::names::is_generated;
use crate::program::{Action, Origin, Program, Step, Stored, Value, ValueId};

/// Layers with a bias, and no norm at all, from which on folding is likely.
const MANY: usize = 8;

/// Puts batch norms back behind layers that carry the marks of one that was folded in.
pub(super) fn put_back(program: &mut Program) {
    let mut restored = 0;
    let mut steps = Vec::with_capacity(program.steps.len());
    for step in std::mem::take(&mut program.steps) {
        match mark(program, &step) {
            Some(path) => {
                restored += 1;
                let (layer, norm) = unfolded(program, step, &path);
                steps.extend([layer, norm]);
            }
            None => steps.push(step),
        }
    }
    program.steps = steps;
    if restored > 0 {
        program.warn(format!(
            "{restored} batch normalisations were folded into convolutions by the exporter and have been put back; an export in training mode says more"
        ));
    } else if is_suspicious(program) {
        program.warn(
            "the model has convolutions and no normalisation: if batch normalisations were folded into them, the memory is a lower bound; export in training mode",
        );
    }
}

/// The path of the batch norm that was folded into a layer.
fn mark(program: &Program, step: &Step) -> Option<String> {
    if !matches!(step.op(), "Conv" | "ConvTranspose" | "Gemm") {
        return None;
    }
    let stored = |place: usize| {
        step.input(place).and_then(|id| program.value(id).weight()).map(|index| program.stored[index].name.clone())
    };
    // The newer exporter keeps the norm's place in the program.
    if step.hint.contains("batch_norm") {
        return Some(step.module.to_string());
    }
    // The older one names the new weights itself, weight and bias alike.
    let made_up =
        |place: usize| stored(place).is_some_and(|name| name.starts_with("onnx::Conv") && is_generated(&name));
    let path = || if step.module.is_empty() { "norm".to_owned() } else { format!("{}.norm", step.module) };
    (made_up(1) && made_up(2)).then(path)
}

/// The layer without its bias, and the norm.
fn unfolded(program: &mut Program, mut layer: Step, path: &str) -> (Step, Step) {
    layer.inputs.truncate(2);
    let output = layer.outputs[0];
    let value = program.value(output).clone();
    let channels = value.dims().get(1).map_or(1, |dim| dim.factor());
    let before = program.add(Value { name: format!("{}.folded", value.name).into(), ..value });
    let weights = ["weight", "bias", "running_mean", "running_var"];
    let weights = weights.map(|name| Some(add_weight(program, format!("{path}.{name}"), channels)));
    let norm = Step {
        action: Action::Known(Op::BatchNorm),
        attributes: Attributes::default(),
        inputs: std::iter::once(Some(before)).chain(weights).collect(),
        outputs: vec![output],
        module: path.into(),
        label: "batch_norm".into(),
        hint: "".into(),
    };
    layer.outputs[0] = before;
    if !layer.hint.is_empty() {
        // The layer's own place is told by its weight.
        let own =
            layer.input(1).and_then(|id| program.value(id).weight()).map(|index| program.stored[index].name.clone());
        let own = own.as_deref().and_then(|name| name.strip_suffix(".weight")).unwrap_or(path);
        layer.module = own.into();
    }
    (layer, norm)
}

fn add_weight(program: &mut Program, name: String, channels: u64) -> ValueId {
    let origin = Origin::Weight(program.stored.len());
    let stored = Stored { name: name.into(), extents: vec![channels], dtype: DType::Float32, is_uniform: Some(false) };
    let value = Value {
        name: stored.name.clone(),
        dtype: DType::Float32,
        shape: Shape::fixed(&[channels]),
        origin,
        numbers: None,
    };
    program.stored.push(stored);
    program.add(value)
}

fn is_suspicious(program: &Program) -> bool {
    let is_norm = |step: &Step| step.op().contains("Norm") || step.op() == "LRN";
    // A layer that kept its parameter's name was not rewritten.
    let is_rewritten = |step: &&Step| {
        let stored = step.input(1).and_then(|id| program.value(id).weight()).map(|index| &program.stored[index].name);
        step.op() == "Conv" && step.input(2).is_some() && stored.is_some_and(|name| !name.ends_with(".weight"))
    };
    let with_bias = program.steps.iter().filter(is_rewritten).count();
    with_bias >= MANY && !program.steps.iter().any(is_norm)
}
