//! The answer as JSON: bytes throughout.

use plimsoll_simulate::{Holding, Snapshot, When};
use serde_json::{Map, Value, json};

use super::Answer;

impl Answer {
    /// One object.
    pub(super) fn json(&self) -> Value {
        let explanation = &self.explanation;
        let (graph, gpu) = (self.workload.graph(), self.workload.gpu());
        let layers = explanation.layers.iter().take(self.top).map(|share| {
            let (operator, output) = self.operator(share.node);
            json!({
                "name": self.name_of(share.node),
                "op": operator,
                "output": output,
                "bytes": share.holding.total(),
                "uses": uses(share.holding),
            })
        });
        let weights = explanation.weights.iter().take(self.top).map(|share| {
            let weight = graph.weight(share.weight);
            json!({
                "name": weight.name,
                "shape": weight.shape,
                "bytes": share.total(),
                "weight": share.weight_bytes,
                "gradient": share.gradient_bytes,
                "optimizer": share.optimizer_bytes,
            })
        });
        let failure = explanation.failure.map(|failure| {
            json!({
                "moment": self.when(failure.when),
                "requested_bytes": failure.requested_bytes,
                "allocated_bytes": failure.allocated_bytes,
                "reserved_bytes": failure.reserved_bytes,
            })
        });
        json!({
            "file": self.file,
            "name": graph.name(),
            "family": graph.family(),
            "gpu": { "name": gpu.name, "memory_mib": gpu.memory_mib },
            "setup": self.workload.setup(),
            "peak_bytes": explanation.peak_bytes(),
            "fits": explanation.fits(),
            "out_of_memory": failure,
            "allocated_peak": self.snapshot(&explanation.allocated_peak),
            "reserved_peak": self.snapshot(&explanation.reserved_peak),
            "largest_growth": {
                "moment": self.when(explanation.largest_growth.when),
                "bytes": explanation.largest_growth.bytes,
            },
            "layers": layers.collect::<Vec<_>>(),
            "layers_in_all": explanation.layers.len(),
            "outside_layers": {
                "bytes": explanation.outside_layers.total(),
                "uses": uses(explanation.outside_layers),
            },
            "weights": weights.collect::<Vec<_>>(),
            "weights_in_all": explanation.weights.len(),
            "warnings": self.warnings,
        })
    }

    /// A moment, and the parts that the peak is made of then.
    fn snapshot(&self, at: &Snapshot) -> Value {
        let parts = self.explanation.parts(at).map(|part| (part.name.to_owned(), json!(part.bytes)));
        json!({
            "moment": self.when(at.when),
            "allocated_bytes": at.allocated_bytes,
            "reserved_bytes": at.reserved_bytes,
            "parts": Map::from_iter(parts),
        })
    }

    fn when(&self, when: When) -> Value {
        json!({
            "step": when.step,
            "phase": when.phase.name(),
            "layer": when.node.map(|node| self.name_of(node)),
        })
    }
}

/// Bytes of a layer, by use.
fn uses(holding: Holding) -> Value {
    json!({
        "activations": holding.activations,
        "saved": holding.saved,
        "activation_gradients": holding.activation_gradients,
        "gradients": holding.gradients,
        "temporaries": holding.temporaries,
    })
}
