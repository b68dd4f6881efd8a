//! What ONNX's operators are called in the graph format.

use plimsoll_graph::{
    Activation, AttentionKernel, Binary, Conv, Dim, Op, PadMode, Pool, PoolKind, RecurrentCell, Reduction,
};

use super::weights::Role;
use crate::program::{Action, Program, Step, ValueId};

/// A step as one node.
pub(super) struct Translation {
    pub(super) op: Op,
    /// What it reads, in the order of the format: operands, then weights.
    pub(super) operands: Vec<(ValueId, Role)>,
}

/// The operator of a step.
pub(super) fn translate(program: &Program, step: &Step) -> Translation {
    let given = || step.inputs.iter().flatten().copied();
    let first = || step.input(0).map(|id| (id, Role::Operand)).into_iter().collect::<Vec<_>>();
    let all = || given().map(|id| (id, Role::Operand)).collect::<Vec<_>>();
    let layer = |roles: &[Role]| -> Vec<(ValueId, Role)> {
        let inputs = step.inputs.iter().zip(roles);
        inputs.filter_map(|(id, &role)| id.map(|id| (id, role))).collect()
    };
    let plain = |op: Op| Translation { op, operands: all() };
    let single = |op: Op| Translation { op, operands: first() };
    let other = |name: &str| Translation { op: Op::Other { name: name.into() }, operands: all() };
    let layered = |op: Op| Translation { op, operands: layer(&[Role::Operand, Role::Weight, Role::Bias]) };
    let name = match &step.action {
        Action::Known(op) => return known(step, op),
        Action::Onnx(name) => name.as_str(),
    };
    if let Some(function) = activation(program, step, name) {
        return single(Op::Activation { function, inplace: false });
    }
    match name {
        "Conv" | "FusedConv" => layered(Op::Conv(conv(program, step, false))),
        "ConvTranspose" => layered(Op::Conv(conv(program, step, true))),
        "BatchNormalization" => Translation { op: Op::BatchNorm, operands: layer(&BATCH_NORM) },
        "LayerNormalization" => layered(Op::LayerNorm),
        "RMSNormalization" | "SimplifiedLayerNormalization" => layered(Op::RmsNorm),
        "InstanceNormalization" => layered(Op::InstanceNorm),
        "GroupNormalization" => layered(Op::GroupNorm { groups: whole(step, "num_groups", 1) }),
        "GroupNorm" => layered(Op::GroupNorm { groups: whole(step, "groups", 1) }),
        "LRN" => single(Op::LocalResponseNorm),
        "PRelu" => layered(Op::Activation { function: Activation::Prelu, inplace: false }),
        "BiasGelu" => layered(Op::Activation { function: Activation::Gelu, inplace: false }),
        "Softmax" => single(Op::Softmax),
        "LogSoftmax" => single(Op::LogSoftmax),
        "Dropout" => single(Op::Dropout { p: dropped(program, step), inplace: false }),
        "MaxPool" => single(Op::Pool(pool(step, PoolKind::Max))),
        "AveragePool" | "LpPool" => single(Op::Pool(pool(step, PoolKind::Average))),
        "GlobalAveragePool" | "GlobalLpPool" => single(Op::Pool(adaptive(PoolKind::AdaptiveAverage))),
        "GlobalMaxPool" => single(Op::Pool(adaptive(PoolKind::AdaptiveMax))),
        "Gather" => gather(program, step),
        "GatherElements" | "GatherND" => plain(Op::Gather),
        "MatMul" | "FusedMatMul" | "Gemm" | "FusedGemm" => product(program, step),
        "Einsum" if step.inputs.len() > 1 => plain(Op::MatMul),
        "Einsum" => single(reduce(Reduction::Sum)),
        "Sub" => plain(Op::Binary { function: Binary::Subtract, inplace: false }),
        "Add" | "Sum" | "Mean" | "BiasAdd" => plain(Op::Binary { function: Binary::Add, inplace: false }),
        "Mul" => plain(Op::Binary { function: Binary::Multiply, inplace: false }),
        "Div" => quotient(program, step),
        "Pow" | "Mod" | "Max" | "Min" | "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And"
        | "Or" | "Xor" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => {
            plain(Op::Binary { function: Binary::Other, inplace: false })
        }
        "Concat" => plain(Op::Concat),
        "Reshape" | "Transpose" | "Flatten" | "Squeeze" | "Unsqueeze" | "Split" | "Expand" | "Identity" => {
            single(Op::View)
        }
        "Slice" if is_reversed(program, step) => single(Op::Copy),
        "Slice" => single(Op::View),
        "Tile" | "Cast" | "CastLike" | "ReverseSequence" => single(Op::Copy),
        "RandomUniform" | "RandomUniformLike" | "RandomNormal" | "RandomNormalLike" | "Bernoulli" | "Multinomial" => {
            Translation { op: Op::Copy, operands: Vec::new() }
        }
        "Pad" => single(Op::Pad { mode: pad_mode(step) }),
        "ArgMax" | "ArgMin" => single(reduce(Reduction::Index)),
        name if name.starts_with("Reduce") => single(reduce(reduction(name))),
        "Resize" | "Upsample" => single(Op::Upsample),
        "LSTM" => recurrent(program, step, RecurrentCell::Lstm),
        "GRU" => recurrent(program, step, RecurrentCell::Gru),
        "RNN" => recurrent(program, step, RecurrentCell::Rnn),
        "Attention" | "MultiHeadAttention" => attention(program, step),
        "Where" => other("where"),
        "Clip" => {
            let name =
                if step.input(2).is_some() || step.attributes.float("max").is_some() { "clamp" } else { "clamp_min" };
            Translation { op: Op::Other { name: name.into() }, operands: first() }
        }
        "Trilu" => Translation { op: Op::Other { name: "tril".into() }, operands: first() },
        "CumSum" => Translation { op: Op::Other { name: "cumsum".into() }, operands: first() },
        "DepthToSpace" => single(Op::Other { name: "pixel_shuffle".into() }),
        "SpaceToDepth" => single(Op::Other { name: "pixel_unshuffle".into() }),
        name => other(ATEN.iter().find(|(onnx, _)| *onnx == name).map_or(name, |(_, aten)| *aten)),
    }
}

/// Operands of a batch norm.
const BATCH_NORM: [Role; 5] =
    [Role::Operand, Role::Weight, Role::Bias, Role::Statistic("running_mean"), Role::Statistic("running_var")];

/// `ATen`'s names of operators that it spells in another way.
const ATEN: [(&str, &str); 18] = [
    ("Neg", "neg"),
    ("Exp", "exp"),
    ("Sqrt", "sqrt"),
    ("Rsqrt", "rsqrt"),
    ("Reciprocal", "reciprocal"),
    ("Abs", "abs"),
    ("Log", "log"),
    ("Cos", "cos"),
    ("Sin", "sin"),
    ("Erf", "erf"),
    ("Floor", "floor"),
    ("Ceil", "ceil"),
    ("Round", "round"),
    ("Not", "logical_not"),
    ("ScatterND", "index_put"),
    ("ScatterElements", "scatter"),
    ("GridSample", "grid_sampler"),
    ("TopK", "topk"),
];

/// A recognised operator: what it reads beside its operands are its weights, in order.
fn known(step: &Step, op: &Op) -> Translation {
    let roles: &[Role] = match op {
        Op::BatchNorm => &BATCH_NORM,
        Op::Linear | Op::Conv(_) | Op::LayerNorm | Op::RmsNorm | Op::GroupNorm { .. } | Op::InstanceNorm => {
            &[Role::Operand, Role::Weight, Role::Bias]
        }
        Op::Recurrent { .. } => &[Role::Operand],
        _ => &[],
    };
    // A stack of layers has the weights of each.
    let rest = if matches!(op, Op::Recurrent { .. }) { Role::Weight } else { Role::Operand };
    let inputs = step.inputs.iter().enumerate();
    let operands = inputs.filter_map(|(place, id)| id.map(|id| (id, roles.get(place).copied().unwrap_or(rest))));
    Translation { op: op.clone(), operands: operands.collect() }
}

fn activation(program: &Program, step: &Step, name: &str) -> Option<Activation> {
    Some(match name {
        "Relu" => Activation::Relu,
        "LeakyRelu" => Activation::LeakyRelu,
        "Elu" | "Celu" => Activation::Elu,
        "Selu" => Activation::Selu,
        "Gelu" | "FastGelu" | "QuickGelu" => Activation::Gelu,
        "Swish" | "Silu" => Activation::Silu,
        "Mish" => Activation::Mish,
        "Softplus" => Activation::Softplus,
        "Tanh" => Activation::Tanh,
        "Sigmoid" => Activation::Sigmoid,
        "HardSwish" => Activation::HardSwish,
        "HardSigmoid" => Activation::HardSigmoid,
        "Relu6" => Activation::Relu6,
        "Clip" => match bounds(program, step) {
            (Some(low), Some(high)) if low == 0.0 && high == 6.0 => Activation::Relu6,
            (Some(low), Some(high)) if low == -1.0 && high == 1.0 => Activation::HardTanh,
            (Some(0.0), None) => Activation::Relu,
            _ => return None,
        },
        _ => return None,
    })
}

/// What a clip clips to, where constants tell.
pub(crate) fn bounds(program: &Program, step: &Step) -> (Option<f64>, Option<f64>) {
    let bound = |attribute: &str, place: usize| match step.attributes.float(attribute) {
        Some(bound) => Some(f64::from(bound)),
        None => step.input(place).and_then(|id| program.value(id).scalar()),
    };
    (bound("min", 1), bound("max", 2))
}

fn whole(step: &Step, attribute: &str, default: u64) -> u64 {
    step.attributes.int(attribute).and_then(|value| u64::try_from(value).ok()).unwrap_or(default)
}

fn extents(step: &Step, attribute: &str, rank: usize, is_plain: impl Fn(&u64) -> bool) -> Vec<u64> {
    let list = step.attributes.ints(attribute).unwrap_or_default();
    let list: Vec<u64> = list.iter().take(rank).filter_map(|&value| u64::try_from(value).ok()).collect();
    if list.iter().all(is_plain) { Vec::new() } else { list }
}

fn conv(program: &Program, step: &Step, transposed: bool) -> Conv {
    let weight = step.input(1).map(|id| program.value(id).dims()).unwrap_or_default();
    let kernel: Vec<u64> = weight.iter().skip(2).map(|dim| dim.factor()).collect();
    let rank = kernel.len();
    Conv {
        stride: extents(step, "strides", rank, |&stride| stride == 1),
        padding: extents(step, "pads", rank, |&padding| padding == 0),
        dilation: extents(step, "dilations", rank, |&dilation| dilation == 1),
        groups: whole(step, "group", 1).max(1),
        kernel,
        transposed,
    }
}

const fn reduce(function: Reduction) -> Op {
    Op::Reduce { function }
}

/// The function of an operator whose name begins with `Reduce`.
fn reduction(name: &str) -> Reduction {
    match name {
        "ReduceMean" => Reduction::Mean,
        "ReduceMax" | "ReduceMin" => Reduction::Amax,
        "ReduceProd" => Reduction::Product,
        "ReduceL1" | "ReduceL2" | "ReduceSumSquare" => Reduction::Norm,
        "ReduceLogSumExp" => Reduction::LogSumExp,
        _ => Reduction::Sum,
    }
}

fn pad_mode(step: &Step) -> PadMode {
    match step.attributes.text("mode") {
        Some("reflect" | "wrap") => PadMode::Reflect,
        Some("edge") => PadMode::Replicate,
        _ => PadMode::Constant,
    }
}

fn pool(step: &Step, kind: PoolKind) -> Pool {
    let kernel = extents(step, "kernel_shape", 3, |_| false);
    let rank = kernel.len();
    let mut stride = extents(step, "strides", rank, |_| false);
    if stride.is_empty() {
        stride = vec![1; rank];
    }
    if stride == kernel {
        stride.clear();
    }
    Pool { kind, kernel, stride, padding: extents(step, "pads", rank, |&padding| padding == 0) }
}

fn adaptive(kind: PoolKind) -> Pool {
    Pool { kind, kernel: Vec::new(), stride: Vec::new(), padding: Vec::new() }
}

/// The probability of a dropout; one that only a run tells is taken for a half.
fn dropped(program: &Program, step: &Step) -> f64 {
    let rate = match step.attributes.float("ratio") {
        Some(rate) => Some(f64::from(rate)),
        None => step.input(1).and_then(|id| program.value(id).scalar()),
    };
    rate.filter(|rate| (0.0..=1.0).contains(rate)).unwrap_or(0.5)
}

fn gather(program: &Program, step: &Step) -> Translation {
    let (table, indices) = (step.input(0), step.input(1));
    let runs = |id: Option<ValueId>| id.is_some_and(|id| program.value(id).is_runtime());
    let operands = |list: [(Option<ValueId>, Role); 2]| {
        list.into_iter().filter_map(|(id, role)| id.map(|id| (id, role))).collect()
    };
    let is_table = table.is_some_and(|id| program.value(id).weight().is_some() && program.value(id).rank() == 2);
    if is_table && runs(indices) && step.attributes.int_or("axis", 0) == 0 {
        let operands = operands([(indices, Role::Operand), (table, Role::Weight)]);
        return Translation { op: Op::Embedding { sparse: false }, operands };
    }
    let is_row = indices.is_some_and(|id| program.value(id).rank() == 0 && program.value(id).folded().is_some());
    if is_row && runs(table) {
        return Translation { op: Op::View, operands: operands([(table, Role::Operand), (None, Role::Operand)]) };
    }
    Translation { op: Op::Gather, operands: operands([(table, Role::Operand), (indices, Role::Operand)]) }
}

/// A linear layer where the right side is a weight, otherwise a product of two activations.
fn product(program: &Program, step: &Step) -> Translation {
    let is_weight = |place: usize| step.input(place).is_some_and(|id| !program.value(id).is_runtime());
    let is_layer = is_weight(1) && !is_weight(0);
    let roles =
        if is_layer { [Role::Operand, Role::Weight, Role::Bias] } else { [Role::Weight, Role::Operand, Role::Bias] };
    let operands = step.inputs.iter().zip(roles).filter_map(|(id, role)| id.map(|id| (id, role)));
    Translation { op: if is_layer { Op::Linear } else { Op::MatMul }, operands: operands.collect() }
}

/// A number over a tensor is its reciprocal.
fn quotient(program: &Program, step: &Step) -> Translation {
    let number = step.input(0).is_some_and(|id| program.value(id).scalar().is_some());
    if let (true, Some(below)) = (number, step.input(1)) {
        return Translation { op: Op::Other { name: "reciprocal".into() }, operands: vec![(below, Role::Operand)] };
    }
    let operands = step.inputs.iter().flatten().map(|&id| (id, Role::Operand)).collect();
    Translation { op: Op::Binary { function: Binary::Divide, inplace: false }, operands }
}

/// Whether a slice turns an axis around, which no view can.
fn is_reversed(program: &Program, step: &Step) -> bool {
    let steps = step.input(4).and_then(|id| program.value(id).numbers.as_deref()).unwrap_or_default();
    steps.iter().any(|step| step.known().is_some_and(|step| step < 0.0))
}

fn recurrent(program: &Program, step: &Step, cell: RecurrentCell) -> Translation {
    let hidden = step.input(2).and_then(|id| program.value(id).dims().last().copied()).map_or(1, Dim::factor);
    let bidirectional = step.attributes.text("direction") == Some("bidirectional");
    // Further inputs are lengths and first states, which the graph format does not list.
    let roles = [Role::Operand, Role::Weight, Role::Weight, Role::Bias];
    let operands = step.inputs.iter().zip(roles).filter_map(|(id, role)| id.map(|id| (id, role)));
    Translation { op: Op::Recurrent { cell, hidden, layers: 1, bidirectional }, operands: operands.collect() }
}

fn attention(program: &Program, step: &Step) -> Translation {
    let query = step.input(0).map(|id| program.value(id).dims()).unwrap_or_default();
    let of_shape = if let &[_, heads, _, _] = query { heads.factor() } else { 1 };
    let named = |name: &str| step.attributes.int(name).and_then(|heads| u64::try_from(heads).ok());
    let heads = named("q_num_heads").or_else(|| named("num_heads")).unwrap_or(of_shape).max(1);
    let key = step.input(1).map(|id| program.value(id).dims()).unwrap_or_default();
    let kv_heads = match (named("kv_num_heads"), key) {
        (Some(kv_heads), _) => kv_heads,
        (None, &[_, kv_heads, _, _]) => kv_heads.factor(),
        _ => heads,
    };
    let causal = step.attributes.flag("is_causal") || step.attributes.flag("unidirectional");
    let op = Op::Attention {
        heads,
        kv_heads: if kv_heads == heads { 0 } else { kv_heads.min(heads) },
        kernel: AttentionKernel::Fused,
        causal,
        dropout: 0.0,
    };
    // The mask stands fourth in ONNX; in ONNX Runtime a bias does.
    let operands = step.inputs.iter().take(4).flatten().map(|&id| (id, Role::Operand)).collect();
    Translation { op, operands }
}
