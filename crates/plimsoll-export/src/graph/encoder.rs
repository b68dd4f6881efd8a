//! The part of the graph that reads the layer sequence.

use super::blocks::Writer;
use crate::error::Result;
use crate::onnx::proto::DataType;
use crate::onnx::{Attribute, Value};
use crate::weights::{EncoderLayer, Reader};

/// Encodes the layers and takes their normalised mean, `[batch, width]`; padding takes no part in it.
///
/// Tokens and numbers in padding are replaced by zeros at the start: even a token outside the vocabulary or a number
/// that is not one cannot get through.
///
/// # Shapes
/// `tokens` and `mask` are `[batch, layers]`; `numbers` is `[batch, layers, f]`, scaled.
pub(super) fn mean(
    writer: &mut Writer,
    reader: &Reader,
    tokens: &Value,
    numbers: &Value,
    mask: &Value,
) -> Result<Value> {
    let last = writer.builder().wholes(&[-1]);
    let column = writer.plain("Unsqueeze", "mask.column", &[mask, &last]);
    let (no_token, nothing) = (writer.builder().whole(0), writer.builder().scalar(0.0));
    let tokens = writer.plain("Where", "tokens.real", &[mask, tokens, &no_token]);
    let numbers = writer.plain("Where", "layers.real", &[&column, numbers, &nothing]);

    let vectors = writer.weight("tokens.vectors", &reader.tokens)?;
    let embedded =
        writer.builder().node("Gather", "tokens.embedded", &[&vectors, &tokens], vec![Attribute::Int("axis", 0)]);
    let projected = writer.affine("layers.projection", &numbers, &reader.numbers)?;
    let mut x = writer.plain("Add", "encoder.input", &[&embedded, &projected]);

    // `[batch, 1, 1, layers]`: the same for every head and every query.
    let middle = writer.builder().wholes(&[1, 2]);
    let keys = writer.plain("Unsqueeze", "mask.keys", &[mask, &middle]);
    for (index, layer) in reader.layers.iter().enumerate() {
        x = encoder_layer(writer, &format!("encoder.layers.{index}"), reader, layer, &x, &keys)?;
    }

    let share = share(writer, &column);
    let weighted = writer.plain("Mul", "mean.weighted", &[&x, &share]);
    let axis = writer.builder().wholes(&[1]);
    let sum = writer.builder().node("ReduceSum", "mean.sum", &[&weighted, &axis], vec![Attribute::Int("keepdims", 0)]);
    writer.norm("mean.norm", &sum, &reader.norm)
}

/// One over the number of real layers inside them, exactly zero in padding, `[batch, layers, 1]`.
fn share(writer: &mut Writer, column: &Value) -> Value {
    let float = i64::from(DataType::Float as i32);
    let flags = writer.builder().node("Cast", "mean.flags", &[column], vec![Attribute::Int("to", float)]);
    let axis = writer.builder().wholes(&[1]);
    let count =
        writer.builder().node("ReduceSum", "mean.layers", &[&flags, &axis], vec![Attribute::Int("keepdims", 1)]);
    // A workload without layers has the mean zero.
    let one = writer.builder().scalar(1.0);
    let count = writer.plain("Max", "mean.count", &[&count, &one]);
    writer.plain("Div", "mean.share", &[&flags, &count])
}

/// Attention and feed-forward, a norm before each.
fn encoder_layer(
    writer: &mut Writer,
    name: &str,
    reader: &Reader,
    layer: &EncoderLayer,
    x: &Value,
    keys: &Value,
) -> Result<Value> {
    let inner = writer.norm(&format!("{name}.attention.norm"), x, &layer.attention_norm)?;
    let inner = attention(writer, &format!("{name}.attention"), reader, layer, &inner, keys)?;
    let x = writer.plain("Add", &format!("{name}.attention.residual"), &[x, &inner]);
    let inner = writer.norm(&format!("{name}.feed_forward.norm"), &x, &layer.feed_forward_norm)?;
    let (first, second) = &layer.feed_forward;
    let inner = writer.pair(&format!("{name}.feed_forward"), &inner, (first, second))?;
    Ok(writer.plain("Add", &format!("{name}.feed_forward.residual"), &[&x, &inner]))
}

fn attention(
    writer: &mut Writer,
    name: &str,
    reader: &Reader,
    layer: &EncoderLayer,
    x: &Value,
    keys: &Value,
) -> Result<Value> {
    let width = layer.output.weight.shape[0];
    let head = width / reader.heads;
    let whole = |extent: usize| i64::try_from(extent).expect("a checked setting");
    // Zeros copy the extents of batch and layers.
    let (split, join) = ([0, 0, whole(reader.heads), whole(head)], [0, 0, whole(width)]);
    let (split, join) = (writer.builder().wholes(&split), writer.builder().wholes(&join));
    let permute = |writer: &mut Writer, name: &str, x: &Value, order: [i64; 4]| {
        writer.builder().node("Transpose", name, &[x], vec![Attribute::Ints("perm", order.to_vec())])
    };

    let mut parts = Vec::with_capacity(3);
    for (part, affine, order) in [
        ("query", &layer.query, [0, 2, 1, 3]),
        ("key", &layer.key, [0, 2, 3, 1]),
        ("value", &layer.value, [0, 2, 1, 3]),
    ] {
        let name = format!("{name}.{part}");
        let projected = writer.affine(&name, x, affine)?;
        let heads = writer.plain("Reshape", &format!("{name}.heads"), &[&projected, &split]);
        parts.push(permute(writer, &format!("{name}.ordered"), &heads, order));
    }
    let [query, key, value] = &parts[..] else { unreachable!("three parts were made") };

    let product = writer.plain("MatMul", &format!("{name}.product"), &[query, key]);
    let root = writer.builder().scalar((head as f32).sqrt());
    let scores = writer.plain("Div", &format!("{name}.scores"), &[&product, &root]);
    let masked = writer.builder().scalar(reader.masked_score);
    let scores = writer.plain("Where", &format!("{name}.masked"), &[keys, &scores, &masked]);
    let weights =
        writer.builder().node("Softmax", &format!("{name}.weights"), &[&scores], vec![Attribute::Int("axis", -1)]);
    let context = writer.plain("MatMul", &format!("{name}.context"), &[&weights, value]);
    let context = permute(writer, &format!("{name}.context.ordered"), &context, [0, 2, 1, 3]);
    let context = writer.plain("Reshape", &format!("{name}.context.joined"), &[&context, &join]);
    writer.affine(&format!("{name}.output"), &context, &layer.output)
}
