//! Which tensors share memory, and how wide their elements are under a precision.

use plimsoll_graph::{DType, Op, Precision, TensorId, Workload};

/// The storage behind each tensor of a workload, and its size.
#[derive(Debug, Clone)]
pub struct Storages {
    roots: Vec<u32>,
    bytes: Vec<u64>,
}

impl Storages {
    /// Follows views and in-place operators to the tensor that owns the memory.
    pub fn new(workload: &Workload) -> Self {
        let graph = workload.graph();
        let mut roots: Vec<u32> = (0..graph.tensors().len() as u32).collect();
        let mut bytes: Vec<u64> = (0..graph.tensors().len() as u32)
            .map(|index| {
                let id = TensorId(index);
                workload.elements(id) * element_bytes(graph.tensor(id).dtype, None, workload.setup().precision)
            })
            .collect();
        for node in graph.nodes() {
            for &output in &node.outputs {
                let slot = output.0 as usize;
                match node.inputs.first() {
                    Some(input) if node.op.shares_storage() => roots[slot] = roots[input.0 as usize],
                    _ => {
                        let dtype = graph.tensor(output).dtype;
                        bytes[slot] = workload.elements(output)
                            * element_bytes(dtype, Some(&node.op), workload.setup().precision);
                    }
                }
            }
        }
        Self { roots, bytes }
    }

    /// The tensor that owns a tensor's memory.
    pub fn root(&self, id: TensorId) -> TensorId {
        TensorId(self.roots[id.0 as usize])
    }

    /// Bytes of the storage behind a tensor.
    pub fn bytes(&self, id: TensorId) -> u64 {
        self.bytes[self.roots[id.0 as usize] as usize]
    }
}

/// Bytes an element of an operator's output takes under a precision.
///
/// Under autocast PyTorch keeps layer normalisation, softmax and losses in fp32 and runs the rest at half width.
fn element_bytes(dtype: DType, op: Option<&Op>, precision: Precision) -> u64 {
    let wide = matches!(
        op,
        None | Some(
            Op::LayerNorm | Op::RmsNorm | Op::GroupNorm { .. } | Op::Softmax | Op::LogSoftmax | Op::Embedding { .. }
        )
    );
    match precision {
        Precision::Bf16 if dtype == DType::Float32 => 2,
        Precision::AmpFp16 | Precision::AmpBf16 if dtype == DType::Float32 && !wide => 2,
        _ => dtype.bytes(),
    }
}
