//! Quantised operators as the float operators that train.

use super::call::Call;
use crate::program::Program;

/// The call without quantisation: a model is trained in floats, and quantised when it is done.
pub(super) fn as_float(call: Call, program: &mut Program) -> Call {
    let is_known = call.domain.is_empty() || call.domain == "com.microsoft";
    if !is_known {
        return call;
    }
    let take = |places: &[usize]| places.iter().map(|&place| call.inputs.get(place).copied().flatten()).collect();
    let (op, inputs): (&str, Vec<_>) = match call.op.as_str() {
        "QLinearConv" => ("Conv", take(&[0, 3, 8])),
        "ConvInteger" => ("Conv", take(&[0, 1])),
        "QLinearMatMul" => ("MatMul", take(&[0, 3])),
        "MatMulInteger" | "MatMulIntegerToFloat" | "DynamicQuantizeMatMul" => ("MatMul", take(&[0, 1])),
        "QLinearAdd" => ("Add", take(&[0, 3])),
        "QLinearMul" => ("Mul", take(&[0, 3])),
        "QLinearSigmoid" => ("Sigmoid", take(&[0])),
        "QLinearLeakyRelu" => ("LeakyRelu", take(&[0])),
        "QLinearSoftmax" => ("Softmax", take(&[0])),
        "QLinearGlobalAveragePool" => ("GlobalAveragePool", take(&[0])),
        "QLinearAveragePool" => ("AveragePool", take(&[0])),
        "QGemm" => ("Gemm", take(&[0, 3, 6])),
        "QuantizeLinear" | "DequantizeLinear" | "DynamicQuantizeLinear" => ("Dequantized", take(&[0])),
        _ => return call,
    };
    program.warn("the model is quantised: it is read as the float model that is trained");
    Call { op: op.into(), domain: String::new(), inputs, ..call }
}
