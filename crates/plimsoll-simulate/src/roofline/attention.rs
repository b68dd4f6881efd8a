//! Kernels of attention.

use plimsoll_graph::{AttentionKernel, Node};

use super::kernel::{Kernel, KernelKind};
use super::lower::Passes;
use super::products::products;
use super::scene::Scene;

/// Elements that a fused attention block covers of the queries.
const ATTENTION_ROWS: f64 = 64.0;

/// Scaled dot-product attention: one kernel forwards and two backwards if fused, its parts otherwise.
pub(super) fn attention(scene: &Scene, node: &Node, heads: u64, kernel: AttentionKernel, dropout: f64) -> Passes {
    let heads = heads.max(1) as f64;
    let query = node.inputs.first();
    let queries = scene.extent_from_end(query, 1);
    let keys = scene.extent_from_end(node.inputs.get(1).or(query), 1);
    let inputs = scene.first_input(node);
    let width = scene.width();
    // (batch, tokens, width) or (batch, heads, tokens, width): elements over tokens are batch times heads times depth.
    let batch = query.and_then(|&id| {
        let dims = scene.workload.graph().tensor(id).shape.dims();
        dims.first().and_then(|dim| dim.at(scene.workload.setup().batch_size))
    });
    let count = batch.unwrap_or(1).max(1) as f64 * heads;
    let depth = (inputs / (count * queries)).max(1.0);
    let mut passes = Passes::default();
    if kernel == AttentionKernel::Eager {
        let scores = count * queries * keys;
        let bytes = scores * width;
        products(scene, &mut passes, (queries, keys, depth), count);
        let softmax = Kernel::stream(KernelKind::Normalisation, scores, bytes, bytes, 8.0);
        passes.forward.push(softmax);
        passes.backward.push(Kernel { read_bytes: 2.0 * bytes, ..softmax });
        if dropout > 0.0 {
            let drop = Kernel::stream(KernelKind::Elementwise, scores, bytes, bytes + scores, 8.0);
            passes.forward.push(drop);
            passes.backward.push(Kernel { write_bytes: bytes, ..drop });
        }
        products(scene, &mut passes, (queries, depth, keys), count);
        return passes;
    }
    let flops = 4.0 * count * queries * keys * depth;
    let fused = Kernel {
        flops,
        pipe: scene.pipe(false),
        efficiency: 0.5,
        read_bytes: scene.input_bytes(node),
        write_bytes: inputs * width,
        blocks: (queries / ATTENTION_ROWS).ceil() * count,
        blocks_per_sm: 2.0,
        ..Kernel::stream(KernelKind::Attention, inputs, 0.0, 0.0, 0.0)
    };
    passes.forward.push(fused);
    // Backward forms the scores again and then makes four products of two.
    let backward = Kernel {
        flops: 2.5 * flops,
        efficiency: 0.4,
        read_bytes: fused.read_bytes + 2.0 * fused.write_bytes,
        write_bytes: fused.read_bytes,
        ..fused
    };
    let row_sums = Kernel::reduction(inputs, count * queries, 2.0 * inputs * width);
    passes.backward.extend([row_sums, backward]);
    passes
}
