//! Recurrent layers that were one stack before they were exported one by one.

use plimsoll_graph::{Op, RecurrentCell};

use super::web::Web;
use crate::program::ValueId;

/// Joins recurrent layers that feed nothing but the next one.
pub(super) fn join(web: &mut Web<'_>) {
    for last in (0..web.len()).rev() {
        let Some(cell) = web.step(last).and_then(|step| cell_of(step.op())) else { continue };
        let mut chain = vec![last];
        let mut layers = vec![last];
        while let Some((below, between)) = layer_below(web, layers[layers.len() - 1]) {
            if !is_alike(web, below, last) {
                break;
            }
            chain.extend(between);
            chain.push(below);
            layers.push(below);
        }
        let bottom = layers[layers.len() - 1];
        let Some(input) = web.input(bottom, 0).filter(|_| layers.len() > 1) else { continue };
        let Some(hidden) = web.input(last, 2).map(|id| web.value(id).shape.last().factor()) else { continue };
        let mut inputs = vec![Some(input)];
        for &layer in layers.iter().rev() {
            inputs.extend((1..4).map(|place| web.input(layer, place)));
        }
        let op =
            Op::Recurrent { cell, hidden, layers: layers.len() as u64, bidirectional: is_bidirectional(web, last) };
        web.replace(last, &chain, op, inputs);
    }
}

pub(crate) fn cell_of(op: &str) -> Option<RecurrentCell> {
    match op {
        "LSTM" => Some(RecurrentCell::Lstm),
        "GRU" => Some(RecurrentCell::Gru),
        "RNN" => Some(RecurrentCell::Rnn),
        _ => None,
    }
}

fn is_bidirectional(web: &Web<'_>, index: usize) -> bool {
    web.step(index).is_some_and(|step| step.attributes.text("direction") == Some("bidirectional"))
}

/// The layer whose result a layer reads, and the steps in between, if nothing else reads either.
fn layer_below(web: &Web<'_>, layer: usize) -> Option<(usize, Vec<usize>)> {
    let mut between = Vec::new();
    let (mut value, mut reader): (ValueId, usize) = (web.input(layer, 0)?, layer);
    loop {
        (web.only_reader(value) == Some(reader)).then_some(())?;
        let writer = web.any_writer(value)?;
        let op = web.step(writer)?.op();
        if cell_of(op).is_some() {
            // Only the sequence of results may be read, not the last states.
            let outputs = web.step(writer)?.outputs.clone();
            let is_first = outputs.first() == Some(&value);
            let are_unread = outputs.iter().skip(1).all(|&id| web.is_inside(id, &[]));
            return (is_first && are_unread).then_some((writer, between));
        }
        matches!(op, "Squeeze" | "Transpose" | "Reshape" | "Dropout").then_some(())?;
        between.push(writer);
        (value, reader) = (web.input(writer, 0)?, writer);
    }
}

/// Whether two layers are of one kind, so that one stack may hold both.
fn is_alike(web: &Web<'_>, one: usize, other: usize) -> bool {
    let hidden = |index: usize| web.input(index, 2).map(|id| web.value(id).shape.last());
    let op = |index: usize| web.step(index).map(|step| step.op().to_owned());
    op(one) == op(other) && hidden(one) == hidden(other) && is_bidirectional(web, one) == is_bidirectional(web, other)
}
