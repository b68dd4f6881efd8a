//! Tables that the terminal and the page share.

use plimsoll_evaluation::TimelineTable;
use plimsoll_simulate::Holding;

use super::{Answer, mib, shape};

/// A column: its name and its bytes.
type Use = (&'static str, fn(&Holding) -> u64);

impl Answer {
    /// What the peak consists of, when most is allocated and when most is reserved.
    pub(super) fn parts_table(&self) -> TimelineTable {
        let explanation = &self.explanation;
        let total = explanation.peak_bytes();
        let cells = |bytes: u64| [number(bytes), format!("{:.1}%", 100.0 * bytes as f64 / total as f64)];
        let used = explanation.parts(&explanation.allocated_peak);
        let held = explanation.parts(&explanation.reserved_peak);
        let row = |title: &str, used: u64, held: u64| {
            [vec![title.to_owned()], cells(used).to_vec(), cells(held).to_vec()].concat()
        };
        let mut rows: Vec<_> =
            used.iter().zip(held).map(|(used, held)| row(used.title, used.bytes, held.bytes)).collect();
        rows.push(row("the peak", total, total));
        TimelineTable {
            heading: "What the peak is made of".into(),
            caption: "The peak is what the GPU shows when the allocator has reserved most. It is split by what memory \
                      is used for at two moments: when most is allocated, and when most is first reserved."
                .into(),
            columns: columns(&["the peak", "MiB, most allocated", "", "MiB, most reserved", ""], 1),
            rows,
        }
    }

    /// The largest layers when most is allocated, and the batch and the loss among them.
    pub(super) fn layers_table(&self) -> TimelineTable {
        let explanation = &self.explanation;
        let mut holders: Vec<([String; 3], Holding)> = explanation
            .layers
            .iter()
            .take(self.top)
            .map(|share| {
                let (operator, output) = self.operator(share.node);
                ([self.name_of(share.node).to_owned(), operator.to_owned(), shape(&output)], share.holding)
            })
            .collect();
        let outside = explanation.outside_layers;
        let place = holders.partition_point(|(_, holding)| holding.total() >= outside.total());
        if place < self.top && outside.total() > 0 {
            holders.insert(place, (["(batch and loss)".into(), "-".into(), "-".into()], outside));
        }
        let uses: [Use; 6] = [
            ("MiB", |holding| holding.total()),
            ("activations", |holding| holding.activations),
            ("saved beside", |holding| holding.saved),
            ("gradients of activations", |holding| holding.activation_gradients),
            ("gradients of weights", |holding| holding.gradients),
            ("temporaries", |holding| holding.temporaries),
        ];
        // Columns of nothing but zeros make a table wide and say no more.
        let says_something = |(name, bytes): &Use| {
            *name == "MiB" || holders.iter().any(|(_, holding)| number(bytes(holding)) != number(0))
        };
        let uses: Vec<Use> = uses.into_iter().filter(says_something).collect();
        let name = format!("largest of {} layers", explanation.layers.len());
        let names: Vec<&str> = [name.as_str(), "op", "output"].into_iter().chain(uses.iter().map(|of| of.0)).collect();
        let rows = holders.iter().map(|(texts, holding)| {
            texts.iter().cloned().chain(uses.iter().map(|(_, bytes)| number(bytes(holding)))).collect()
        });
        TimelineTable {
            heading: "The largest layers".into(),
            caption: "What layers hold when most is allocated, in MiB; their weights and workspaces apart.".into(),
            columns: columns(&names, 3),
            rows: rows.collect(),
        }
    }

    /// The largest weights over the whole of training.
    pub(super) fn weights_table(&self) -> TimelineTable {
        let explanation = &self.explanation;
        let rows = explanation.weights.iter().take(self.top).map(|share| {
            let weight = self.workload.graph().weight(share.weight);
            let dims: Vec<u64> = weight.shape.dims().iter().map(|dim| dim.factor()).collect();
            let bytes = [share.total(), share.weight_bytes, share.gradient_bytes, share.optimizer_bytes];
            [weight.name.clone(), shape(&dims)].into_iter().chain(bytes.map(number)).collect()
        });
        let name = format!("largest of {} weights", explanation.weights.len());
        TimelineTable {
            heading: "The largest weights".into(),
            caption: "Weights with what training keeps beside them, in MiB.".into(),
            columns: columns(&[&name, "shape", "MiB", "weight", "gradient", "optimiser"], 2),
            rows: rows.collect(),
        }
    }
}

/// MiB with one digit: a table is for comparing.
fn number(bytes: u64) -> String {
    format!("{:.1}", mib(bytes))
}

/// Columns of which the first so many hold texts.
fn columns(names: &[&str], texts: usize) -> Vec<(String, bool)> {
    names.iter().enumerate().map(|(place, name)| ((*name).to_owned(), place >= texts)).collect()
}
