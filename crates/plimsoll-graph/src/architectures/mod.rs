//! Parametric architectures: a few numbers from which a whole graph is built.
//!
//! They are the networks of the GPUMemNet measurements, module by module and under PyTorch's names, with the
//! additions, concatenations, copies and views that a printed layer list leaves out; and beyond them language models
//! and other convolutions, which no default asks for. Sizes are capped, so that a hostile configuration is refused
//! before it costs memory.

mod cnn;
mod mlp;
mod transformer;

pub use cnn::{CnnConfig, CnnShape, Convolution};
pub use mlp::{MlpConfig, MlpShape};
pub use transformer::{LanguageModel, TransformerConfig, TransformerShape};

use crate::builder::{GraphBuilder, Value};
use crate::error::{GraphError, Result};
use crate::op::{Activation, Op};

/// No network of this kind is deeper; more layers mean a broken or hostile configuration.
pub const MAX_DEPTH: u64 = 10_000;

/// No layer of this kind is wider; more features mean a broken or hostile configuration.
pub const MAX_WIDTH: u64 = 1 << 24;

/// The largest side of a square input image.
pub const MAX_SIDE: u64 = 1 << 16;

fn check_range(what: &str, value: u64, high: u64) -> Result<()> {
    if (1..=high).contains(&value) {
        return Ok(());
    }
    Err(GraphError::OutOfRange { what: what.into(), expected: format!("1 to {high}"), found: value.to_string() })
}

fn check_rate(rate: f64) -> Result<()> {
    if (0.0..1.0).contains(&rate) {
        return Ok(());
    }
    Err(GraphError::OutOfRange {
        what: "dropout rate".into(),
        expected: "0 up to, but not including, 1".into(),
        found: rate.to_string(),
    })
}

/// Gated functions halve the width, which no layer here expects.
fn check_activation(function: Activation) -> Result<()> {
    if function == Activation::Glu {
        return Err(GraphError::OutOfRange {
            what: "activation function".into(),
            expected: "one that keeps the width".into(),
            found: function.name().into(),
        });
    }
    Ok(())
}

/// An activation module. PyTorch's identity hands its input on, so that one shares its input's storage.
fn activate(builder: &mut GraphBuilder, name: &str, input: Value, function: Activation) -> Value {
    builder.activation(name, input, function, function == Activation::Identity)
}

/// What turns the last layer's outputs into probabilities: a softmax, or a sigmoid for a single output.
fn probabilities(builder: &mut GraphBuilder, name: &str, input: Value, outputs: u64) -> Value {
    if outputs > 1 {
        builder.same_shape(name, Op::Softmax, &[input], vec![])
    } else {
        builder.activation(name, input, Activation::Sigmoid, false)
    }
}

/// `base * factor ^ power` without its fraction, as the generators of these networks round.
fn grown(base: u64, factor: f64, power: u64) -> u64 {
    (base as f64 * factor.powf(power as f64)) as u64
}

/// The switches of an identifier that are on, each with its dash.
fn switches(list: &[(bool, &str)]) -> String {
    let on = list.iter().filter(|(on, _)| *on);
    on.fold(String::new(), |text, (_, name)| text + "-" + name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::json;

    fn one_of_each() -> [Graph; 5] {
        let activation = Activation::Identity;
        let mlp = MlpConfig {
            shape: MlpShape::Bottleneck,
            inputs: 8,
            outputs: 1,
            depth: 2,
            activation,
            batch_norm: true,
            dropout: Some(0.5),
            softmax: true,
        };
        let cnn = CnnConfig {
            shape: CnnShape::Dense,
            channels: 1,
            input_size: 20,
            classes: 3,
            depth: 12,
            base_filters: 1,
            activation: Activation::Prelu,
            batch_norm: true,
            dropout: None,
            pool_every: 0,
            transition_every: 1,
            convolution: Convolution { kernel: 5, groups: 2, stem: true, separable: true },
        };
        let transformer = |shape| TransformerConfig {
            shape,
            vocabulary: 9,
            sequence_length: 5,
            width: 8,
            layers: 2,
            heads: 2,
            feed_forward: 6,
            classes: 3,
            dropout: 0.0,
            activation: Activation::Gelu,
            language_model: LanguageModel { tied: true, packed: true, target_length: 4 },
        };
        let [encoder, decoder, both] = TransformerShape::ALL.map(|shape| transformer(shape).build());
        [mlp.build(), cnn.build(), encoder, decoder, both].map(|graph| graph.expect("valid"))
    }

    #[test]
    fn names_are_unique_so_that_files_can_hold_the_graphs() {
        for graph in one_of_each() {
            assert_eq!(json::parse(&json::write(&graph), "test").expect("own text parses"), graph);
        }
    }

    #[test]
    fn what_a_configuration_leaves_out_has_a_default() {
        let text = r#"{"shape": "dense", "channels": 3, "input_size": 32, "classes": 9, "depth": 8, "base_filters": 8,
                      "activation": "relu"}"#;
        let config: CnnConfig = serde_json::from_str(text).expect("parses");
        assert_eq!((config.dropout, config.pool_every, config.transition_every), (None, 0, 5));
        let again = serde_json::from_str(&serde_json::to_string(&config).expect("serialises"));
        assert_eq!(again.ok(), Some(config));
    }
}
