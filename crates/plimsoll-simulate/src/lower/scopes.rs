//! How long a module holds what it was called with.
//!
//! A tensor that autograd does not keep dies with the last variable that names it. Whoever calls a module holds its
//! arguments until it returns, however early in the module they are read for the last time. Nodes are named by
//! module, so the end of a call is the end of the run of nodes that share a path.

use plimsoll_graph::Graph;

/// For each tensor the last node whose module was called with it, if that is a later one than its last reader.
pub(super) fn last_holders(graph: &Graph) -> Vec<Option<u32>> {
    let nodes = graph.nodes();
    let mut writers: Vec<Option<usize>> = vec![None; graph.tensors().len()];
    for (index, node) in nodes.iter().enumerate() {
        for id in &node.outputs {
            writers[id.0 as usize] = Some(index);
        }
    }
    let ends = Ends::of(graph);
    let mut holders = vec![None; graph.tensors().len()];
    for (index, node) in nodes.iter().enumerate() {
        for id in &node.inputs {
            let slot = id.0 as usize;
            let writer = writers[slot].map_or("", |writer| nodes[writer].name.as_str());
            let end = ends.of_call(index, shared_depth(writer, &node.name));
            holders[slot] = holders[slot].max(Some(end as u32));
        }
    }
    holders
}

/// How many modules two nodes have in common, from the outermost in.
fn shared_depth(one: &str, other: &str) -> usize {
    one.split('.').zip(other.split('.')).take_while(|(one, other)| one == other).count()
}

/// The last node of each run of nodes in a module, by node and depth of the module.
struct Ends(Vec<Vec<u32>>);

impl Ends {
    fn of(graph: &Graph) -> Self {
        let nodes = graph.nodes();
        let mut ends: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
        for index in (0..nodes.len()).rev() {
            // The last part of a name is the node's own.
            let modules = nodes[index].name.split('.').count() - 1;
            let next = nodes.get(index + 1).map_or("", |node| node.name.as_str());
            let shared = shared_depth(&nodes[index].name, next);
            let row = (0..modules).map(|depth| match ends.get(index + 1).and_then(|next| next.get(depth)) {
                Some(&end) if depth < shared => end,
                _ => index as u32,
            });
            ends[index] = row.collect();
        }
        Self(ends)
    }

    /// The end of the outermost call that a node belongs to and that is deeper than a depth.
    fn of_call(&self, index: usize, depth: usize) -> usize {
        self.0[index].get(depth).map_or(index, |&end| end as usize)
    }
}
