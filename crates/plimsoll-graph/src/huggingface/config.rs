//! Fields of a configuration: typed, with the library's defaults, and each in its range.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::function::Function;
use super::options::Options;
use crate::error::{GraphError, Result};

/// A configuration's fields. Several names for one field are those that the library's `attribute_map` has.
pub(super) struct Config<'a> {
    pub(super) what: &'a str,
    pub(super) model_type: &'a str,
    pub(super) fields: &'a Map<String, Value>,
    pub(super) options: &'a Options,
}

impl Config<'_> {
    /// Wider networks mean a broken or hostile file.
    const MAX_SIZE: u64 = 1 << 24;
    /// Deeper ones too; it also keeps the graph small.
    pub(super) const MAX_LAYERS: u64 = 1_000;
    /// And longer samples.
    pub(super) const MAX_TOKENS: u64 = 1 << 22;
    /// Tokens of a sample where nobody says.
    const TOKENS: u64 = 512;

    fn field(&self, names: &[&str]) -> Option<(String, &Value)> {
        names.iter().find_map(|name| self.fields.get(*name).map(|value| ((*name).to_owned(), value)))
    }

    fn malformed(&self, name: &str, expected: &str, found: &Value) -> GraphError {
        let mut found = found.to_string();
        if let Some((end, _)) = found.char_indices().nth(60) {
            found.replace_range(end.., "...");
        }
        GraphError::Malformed { what: self.what.into(), at: format!("`{name}`"), expected: expected.into(), found }
    }

    pub(super) fn out_of_range(name: &str, expected: impl Into<String>, found: impl Display) -> GraphError {
        GraphError::OutOfRange { what: format!("`{name}`"), expected: expected.into(), found: found.to_string() }
    }

    /// A whole number up to a limit, from one or zero on; what is `null` is missing.
    fn whole(&self, names: &[&str], low: u64, high: u64) -> Result<Option<u64>> {
        let Some((name, value)) = self.field(names).filter(|(_, value)| !value.is_null()) else { return Ok(None) };
        match value.as_u64() {
            Some(size) if (low..=high).contains(&size) => Ok(Some(size)),
            _ if value.is_number() => Err(Self::out_of_range(&name, format!("a whole number, {low} to {high}"), value)),
            _ => Err(self.malformed(&name, "a whole number", value)),
        }
    }

    /// A width, or a number of rows, heads or groups.
    pub(super) fn size(&self, names: &[&str], default: u64) -> Result<u64> {
        Ok(self.whole(names, 1, Self::MAX_SIZE)?.unwrap_or(default))
    }

    /// A size that may be missing.
    pub(super) fn optional_size(&self, names: &[&str]) -> Result<Option<u64>> {
        self.whole(names, 1, Self::MAX_SIZE)
    }

    /// A size for which `null` says that there is none.
    pub(super) fn nullable_size(&self, name: &str, default: u64) -> Result<Option<u64>> {
        match self.fields.get(name) {
            None => Ok(Some(default)),
            Some(_) => self.optional_size(&[name]),
        }
    }

    /// An index, from zero on.
    pub(super) fn index(&self, name: &str, default: u64) -> Result<u64> {
        Ok(self.whole(&[name], 0, Self::MAX_SIZE)?.unwrap_or(default))
    }

    pub(super) fn layers(&self, names: &[&str], default: u64) -> Result<u64> {
        Ok(self.whole(names, 1, Self::MAX_LAYERS)?.unwrap_or(default))
    }

    /// Heads of a width, which they must divide.
    pub(super) fn heads(&self, names: &[&str], default: u64, width: u64) -> Result<u64> {
        let heads = self.size(names, default)?;
        if width.is_multiple_of(heads) {
            return Ok(heads);
        }
        Err(Self::out_of_range(names[0], format!("a divisor of the width {width}"), heads))
    }

    /// One extent for both sides of an image, or one each.
    pub(super) fn sides(&self, name: &str, default: u64) -> Result<[u64; 2]> {
        if let Some(value @ Value::Array(list)) = self.fields.get(name) {
            let side = |value: &Value| value.as_u64().filter(|side| (1..=Self::MAX_SIZE).contains(side));
            return match list.as_slice() {
                [height, width] => side(height).zip(side(width)).map(|(height, width)| [height, width]),
                _ => None,
            }
            .ok_or_else(|| self.malformed(name, "one whole number, or two", value));
        }
        self.size(&[name], default).map(|side| [side; 2])
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(value) => Err(self.malformed(name, "true or false", value)),
        }
    }

    /// A probability.
    pub(super) fn rate(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.optional_rate(name)?.unwrap_or(default))
    }

    /// A probability that may be missing.
    pub(super) fn optional_rate(&self, name: &str) -> Result<Option<f64>> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(rate) if (0.0..=1.0).contains(&rate) => Ok(Some(rate)),
                Some(rate) => Err(Self::out_of_range(name, "0 to 1", rate)),
                None => Err(self.malformed(name, "a number", value)),
            },
        }
    }

    /// Whether a field that has a number by default is not `null`.
    pub(super) fn is_given(&self, name: &str) -> Result<bool> {
        match self.fields.get(name) {
            None => Ok(true),
            Some(Value::Null) => Ok(false),
            Some(Value::Number(_)) => Ok(true),
            Some(value) => Err(self.malformed(name, "a number or null", value)),
        }
    }

    pub(super) fn text(&self, name: &str, default: &'static str) -> Result<&str> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::String(text)) => Ok(text),
            Some(value) => Err(self.malformed(name, "a text", value)),
        }
    }

    pub(super) fn function(&self, name: &str, default: &'static str) -> Result<Function> {
        let text = self.text(name, default)?;
        Function::from_name(text).ok_or_else(|| self.malformed(name, Function::KNOWN, &Value::from(text)))
    }

    /// The share of a head that rotary embeddings turn, as newer files nest it and older ones do not.
    pub(super) fn rotary_share(&self, old_name: &str, default: f64) -> Result<f64> {
        const NAME: &str = "partial_rotary_factor";
        let nested = self.fields.get("rope_parameters").and_then(|rope| rope.get(NAME));
        match nested.or_else(|| self.fields.get(old_name)) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value
                .as_f64()
                .filter(|share| *share > 0.0 && *share <= 1.0)
                .ok_or_else(|| Self::out_of_range(old_name, "more than 0, at most 1", value)),
        }
    }

    /// Dropout before a decoder's classifier of tokens.
    pub(super) fn classifier_dropout(&self) -> Result<f64> {
        let own = self.optional_rate("classifier_dropout")?;
        Ok(own.or(self.optional_rate("hidden_dropout")?).unwrap_or(0.1))
    }

    /// Which layers see a window only, where the file lists them; one entry for each layer.
    pub(super) fn windowed_layers(&self, layers: u64) -> Result<Option<Vec<bool>>> {
        const NAME: &str = "layer_types";
        let value = match self.fields.get(NAME) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value,
        };
        let kind = |value: &Value| match value.as_str() {
            Some("sliding_attention") => Some(true),
            Some("full_attention") => Some(false),
            _ => None,
        };
        let list = value.as_array().filter(|list| list.len() as u64 == layers);
        let list = list.and_then(|list| list.iter().map(kind).collect::<Option<Vec<bool>>>());
        let expected = "`full_attention` or `sliding_attention` for each layer";
        list.map(Some).ok_or_else(|| self.malformed(NAME, expected, value))
    }

    /// Classes of a classifier.
    pub(super) fn labels(&self) -> Result<u64> {
        match self.fields.get("id2label") {
            Some(Value::Object(labels)) if !labels.is_empty() => Ok(labels.len() as u64),
            None | Some(Value::Null) => self.size(&["num_labels", "_num_labels"], 2),
            Some(value) => Err(self.malformed("id2label", "a name for each class", value)),
        }
    }

    /// Tokens of a sample, at most as many as there are positions.
    pub(super) fn tokens(&self, asked: Option<u64>, default: Option<u64>, positions: Option<u64>) -> Result<u64> {
        let high = positions.unwrap_or(Self::MAX_TOKENS);
        let tokens = asked.unwrap_or_else(|| default.unwrap_or(Self::TOKENS).min(Self::TOKENS).min(high));
        if (1..=high).contains(&tokens) {
            return Ok(tokens);
        }
        Err(GraphError::OutOfRange {
            what: format!("tokens of a sample for {}", self.model_type),
            expected: format!("1 to {high}"),
            found: tokens.to_string(),
        })
    }

    /// Whether attention is made of separate products although a fused kernel could do it.
    pub(super) fn is_eager(&self) -> Result<bool> {
        let name = if self.fields.contains_key("_attn_implementation") {
            "_attn_implementation"
        } else {
            "attn_implementation"
        };
        Ok(self.options.eager_attention || self.text(name, "sdpa")? == "eager")
    }

    /// Refuses a switch that changes the network in a way that is not built here.
    pub(super) fn refuse(&self, name: &str) -> Result<()> {
        match self.fields.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => Ok(()),
            Some(Value::Object(fields)) if fields.is_empty() => Ok(()),
            Some(value) => Err(self.malformed(name, "none: such networks must be captured", value)),
        }
    }
}
