//! Operators that ONNX Runtime's optimiser made of several, taken apart again.

use crate::attributes::Attributes;
use crate::program::{Action, Origin, Program, Step, Value, ValueId};
use crate::proto::AttributeProto;

/// Takes fused operators apart.
pub(super) fn take_apart(program: &mut Program) {
    let mut steps = Vec::with_capacity(program.steps.len());
    for step in std::mem::take(&mut program.steps) {
        match step.op() {
            "SkipLayerNormalization" => skip_norm(program, &step, "LayerNormalization", &mut steps),
            "SkipSimplifiedLayerNormalization" => skip_norm(program, &step, "SimplifiedLayerNormalization", &mut steps),
            "FusedConv" => fused(program, step, "Conv", &mut steps),
            "FusedGemm" => fused(program, step, "Gemm", &mut steps),
            "Attention"
                if step.attributes.int("num_heads").is_some()
                    && step.input(1).is_some_and(|id| !program.value(id).is_runtime()) =>
            {
                packed_attention(program, &step, &mut steps);
            }
            _ => steps.push(step),
        }
    }
    program.steps = steps;
}

/// A value shaped like another.
fn like(program: &mut Program, id: ValueId, suffix: &str) -> ValueId {
    let value = program.value(id).clone();
    program.add(Value {
        name: format!("{}.{suffix}", value.name).into(),
        origin: Origin::Computed,
        numbers: None,
        ..value
    })
}

fn part(step: &Step, op: &str, inputs: Vec<Option<ValueId>>, output: ValueId) -> Step {
    Step {
        action: Action::Onnx(op.into()),
        inputs,
        outputs: vec![output],
        label: op.to_lowercase().into(),
        ..step.clone()
    }
}

/// A residual sum, a bias in it, and the norm of the sum.
fn skip_norm(program: &mut Program, step: &Step, norm: &str, steps: &mut Vec<Step>) {
    let Some(output) = step.outputs.first().copied() else { return };
    let is_layer = norm == "LayerNormalization";
    let (weight, bias) = (step.input(2), if is_layer { step.input(3) } else { None });
    let added = step.input(if is_layer { 4 } else { 3 });
    let sum = step.outputs.get(3).or(step.outputs.get(1)).copied().unwrap_or_else(|| like(program, output, "sum"));
    let mut inputs = vec![step.input(0), step.input(1)];
    inputs.extend(added.map(Some));
    steps.push(part(step, "Sum", inputs, sum));
    steps.push(part(step, norm, vec![Some(sum), weight, bias], output));
}

/// A layer and the activation after it.
fn fused(program: &mut Program, step: Step, op: &str, steps: &mut Vec<Step>) {
    let Some(output) = step.outputs.first().copied() else { return };
    let Some(activation) = step.attributes.text("activation").map(str::to_owned) else {
        return steps.push(Step { action: Action::Onnx(op.into()), ..step });
    };
    let before = like(program, output, "before");
    steps.push(part(&step, op, step.inputs.clone(), before));
    steps.push(part(&step, &activation, vec![Some(before)], output));
}

/// One product for queries, keys and values, and the attention on them.
fn packed_attention(program: &mut Program, step: &Step, steps: &mut Vec<Step>) {
    let Some(output) = step.outputs.first().copied() else { return };
    let product = like(program, output, "product");
    let parts = ["query", "key", "value"].map(|name| like(program, output, name));
    let mut dims = program.value(output).dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = plimsoll_graph::Dim::Fixed(last.factor().saturating_mul(3));
    }
    program.values[product].shape = plimsoll_graph::Shape::new(dims);
    steps.push(part(step, "Gemm", vec![step.input(0), step.input(1), step.input(2)], product));
    let mut split = part(step, "Split", vec![Some(product)], parts[0]);
    split.outputs = parts.to_vec();
    split.attributes =
        Attributes::new(vec![AttributeProto { name: Some("axis".into()), i: Some(-1), ..AttributeProto::default() }]);
    steps.push(split);
    let mut attention = part(step, "MultiHeadAttention", parts.map(Some).to_vec(), output);
    attention.label = "attention".into();
    steps.push(attention);
}
