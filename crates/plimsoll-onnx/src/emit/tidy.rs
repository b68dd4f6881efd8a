//! Joins views of views, as a framework's own trace has them.

use std::collections::HashMap;

use plimsoll_graph::{GraphParts, Op, TensorId};

/// Makes one view of a view that only another view reads.
pub(super) fn tidy(parts: &mut GraphParts) {
    let mut readers: HashMap<TensorId, u32> = HashMap::new();
    for id in parts.nodes.iter().flat_map(|node| &node.inputs).chain(&parts.outputs) {
        *readers.entry(*id).or_default() += 1;
    }
    let mut writers: HashMap<TensorId, usize> = HashMap::new();
    let mut dropped = vec![false; parts.nodes.len()];
    for index in 0..parts.nodes.len() {
        let node = &parts.nodes[index];
        let before = match (&node.op, node.inputs.as_slice()) {
            (Op::View, &[input]) if readers.get(&input) == Some(&1) => writers.get(&input).copied(),
            _ => None,
        };
        let before =
            before.filter(|&before| parts.nodes[before].op == Op::View && parts.nodes[before].outputs.len() == 1);
        if let Some(before) = before {
            dropped[before] = true;
            let (inputs, weights) = (parts.nodes[before].inputs.clone(), parts.nodes[before].weights.clone());
            parts.nodes[index].inputs = inputs;
            parts.nodes[index].weights = weights;
        }
        for &output in &parts.nodes[index].outputs {
            writers.insert(output, index);
        }
    }
    let mut index = 0;
    parts.nodes.retain(|_| {
        index += 1;
        !dropped[index - 1]
    });
    drop_unused_tensors(parts);
}

/// Tensors that no node writes or is fed are gone with the views that wrote them.
fn drop_unused_tensors(parts: &mut GraphParts) {
    let mut is_used = vec![false; parts.tensors.len()];
    for id in parts.nodes.iter().flat_map(|node| &node.outputs).chain(&parts.inputs) {
        is_used[id.0 as usize] = true;
    }
    let mut places = vec![TensorId(0); parts.tensors.len()];
    let mut kept = Vec::with_capacity(parts.tensors.len());
    for (index, tensor) in std::mem::take(&mut parts.tensors).into_iter().enumerate() {
        if is_used[index] {
            places[index] = TensorId(kept.len() as u32);
            kept.push(tensor);
        }
    }
    parts.tensors = kept;
    let all = parts.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs));
    for id in all.chain(&mut parts.inputs).chain(&mut parts.outputs) {
        *id = places[id.0 as usize];
    }
}
