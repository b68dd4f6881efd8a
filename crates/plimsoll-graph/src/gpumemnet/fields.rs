//! Splitting a configuration string into its fields.

use std::collections::BTreeMap;

use crate::error::{GraphError, Result};

/// A layout: what it is called, the keys it must have, and the first of them that no other layout has.
struct Layout {
    kind: Kind,
    keys: &'static [&'static str],
    mark: &'static str,
}

/// The kinds of network that strings describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A chain of linear and activation layers.
    PlainMlp,
    /// An MLP with a choice of activation, batch normalisation, dropout and a softmax.
    Mlp,
    Cnn,
    Transformer,
}

/// The key of the second `dropout` in a string: the first is the rate, the second whether there is any.
pub(super) const HAS_DROPOUT: &str = "second dropout";

/// Most specific first: a string belongs to the first layout whose mark it has.
const LAYOUTS: [Layout; 4] = [
    Layout {
        kind: Kind::Transformer,
        keys: &[
            "num_classes",
            "embedding_size",
            "num_layers",
            "num_heads",
            "ff_hidden_size",
            "dropout_rate",
            "seq_length",
            "input_size",
            "num_samples",
            "batch_size",
        ],
        mark: "embedding_size",
    },
    Layout {
        kind: Kind::Cnn,
        keys: &[
            "input_channels",
            "num_classes",
            "depth",
            "arch",
            "base_filters",
            "batch",
            "input_size",
            "act",
            "dropout",
            HAS_DROPOUT,
            "batchnorm",
        ],
        mark: "base_filters",
    },
    Layout {
        kind: Kind::Mlp,
        keys: &["input", "output", "depth", "arch", "batch", "act", "dropout", HAS_DROPOUT, "batchnorm"],
        mark: "act",
    },
    Layout { kind: Kind::PlainMlp, keys: &["input", "output", "depth", "arch", "batch"], mark: "output" },
];

/// The fields of one string, all that its layout needs and no other.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    pub(super) kind: Kind,
    values: BTreeMap<&'static str, &'a str>,
}

impl<'a> Fields<'a> {
    /// A longer string is no configuration.
    const MAX_BYTES: usize = 4096;

    /// Splits `key:value_key:value...`. Keys and values may hold `_` themselves, so keys are known by name.
    pub(super) fn split(configuration: &'a str) -> Result<Self> {
        if configuration.len() > Self::MAX_BYTES {
            let found = format!("{} bytes", configuration.len());
            return Err(malformed("end", &format!("at most {} bytes", Self::MAX_BYTES), &found));
        }
        let text = configuration.strip_suffix(".out").unwrap_or(configuration);
        let mut values = BTreeMap::new();
        let mut parts = text.split(':');
        // Each part but the first starts with a value, each but the last ends with the next one's key.
        let mut key = key_at_end(parts.next().unwrap_or_default(), true)?.1;
        let mut parts = parts.peekable();
        while let Some(part) = parts.next() {
            let (value, next) = if parts.peek().is_some() { key_at_end(part, false)? } else { (part, "") };
            if key == "dropout" && values.contains_key(key) {
                key = HAS_DROPOUT;
            }
            if values.insert(key, value).is_some() {
                return Err(malformed(key, "the field once", "it twice"));
            }
            key = next;
        }
        let layout = LAYOUTS.iter().find(|layout| values.contains_key(layout.mark)).ok_or_else(|| {
            let marks = LAYOUTS.map(|layout| format!("`{}`", layout.mark)).join(", ");
            malformed("keys", &format!("one of {marks}"), configuration)
        })?;
        if let Some(key) = layout.keys.iter().find(|key| !values.contains_key(*key)) {
            return Err(malformed(key, "a value", "no such field"));
        }
        if let Some(key) = values.keys().find(|key| !layout.keys.contains(key)) {
            return Err(malformed(key, &format!("no such field beside `{}`", layout.mark), "one"));
        }
        Ok(Self { kind: layout.kind, values })
    }

    pub(super) fn text(&self, key: &str) -> &'a str {
        self.values.get(key).copied().unwrap_or_default()
    }

    pub(super) fn number(&self, key: &str) -> Result<u64> {
        self.text(key).parse().map_err(|_| malformed(key, "a whole number", self.text(key)))
    }

    pub(super) fn rate(&self, key: &str) -> Result<f64> {
        let rate = self.text(key).parse().map_err(|_| malformed(key, "a number", self.text(key)))?;
        if (0.0..1.0).contains(&rate) { Ok(rate) } else { Err(malformed(key, "0 up to 1", self.text(key))) }
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        match self.text(key) {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(malformed(key, "`True` or `False`", other)),
        }
    }
}

/// Parts `value_key` (or `key` alone, where a string starts) at the longest key that any layout knows.
fn key_at_end(part: &str, alone: bool) -> Result<(&str, &'static str)> {
    LAYOUTS
        .iter()
        .flat_map(|layout| layout.keys)
        .filter_map(|&key| {
            let rest = part.strip_suffix(key)?;
            let value = if alone { rest.is_empty().then_some("")? } else { rest.strip_suffix('_')? };
            Some((value, key))
        })
        .max_by_key(|(_, key)| key.len())
        .ok_or_else(|| malformed("keys", "a known key before each `:`", part))
}

fn malformed(key: &str, expected: &str, found: &str) -> GraphError {
    let mut found = format!("`{}`", found.chars().take(60).collect::<String>());
    if found.len() > 60 {
        found.push_str(" and more");
    }
    GraphError::Malformed {
        what: "GPUMemNet configuration".into(),
        at: format!("`{key}`"),
        expected: expected.into(),
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_in_keys_and_values_are_told_apart() {
        let text =
            "input:9_output:3_depth:2_arch:uniform_batch:4_act:leaky_relu_dropout:0.25_dropout:True_batchnorm:False";
        let fields = Fields::split(text).expect("valid");
        assert_eq!(fields.kind, Kind::Mlp);
        assert_eq!(fields.text("act"), "leaky_relu");
        assert_eq!(fields.rate("dropout").expect("a rate"), 0.25);
        assert!(fields.flag(HAS_DROPOUT).expect("a flag"));
        assert!(!fields.flag("batchnorm").expect("a flag"));
        assert_eq!(fields.number("depth").expect("a number"), 2);
    }

    #[test]
    fn keys_that_do_not_belong_are_named() {
        for (text, word) in [
            ("", "known key"),
            ("input", "one of"),
            ("input:3", "one of"),
            ("input:3_output:4_depth:1_arch:uniform", "`batch`"),
            ("input:3_output:4_depth:1_depth:1_arch:uniform_batch:1", "twice"),
            ("input:3_output:4_depth:1_arch:uniform_batch:1_seq_length:8", "seq_length"),
            ("input:3_outputs:4", "known key"),
            ("x_input:3_output:4", "known key"),
        ] {
            let error = Fields::split(text).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(Fields::split(&"input:3_".repeat(1_000_000)).is_err());
    }
}
