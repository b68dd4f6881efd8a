//! Tensor shapes with a symbolic batch.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{GraphError, Result};

/// One dimension of a tensor: a fixed extent, or a multiple of the batch size.
///
/// Written `7`, `"batch"` or `"49*batch"` in files; the last is what flattening a batch of 49 tokens gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dim {
    /// An extent that does not depend on the batch.
    Fixed(u64),
    /// An extent of this factor times the batch size.
    Batch(u64),
}

impl Dim {
    /// The extent at a batch size; `None` on overflow.
    pub const fn at(self, batch: u64) -> Option<u64> {
        match self {
            Self::Fixed(extent) => Some(extent),
            Self::Batch(factor) => factor.checked_mul(batch),
        }
    }

    /// The fixed extent, or the factor of the batch.
    pub const fn factor(self) -> u64 {
        match self {
            Self::Fixed(extent) => extent,
            Self::Batch(factor) => factor,
        }
    }

    /// Whether the extent grows with the batch.
    pub const fn scales_with_batch(self) -> bool {
        matches!(self, Self::Batch(_))
    }
}

impl From<u64> for Dim {
    fn from(extent: u64) -> Self {
        Self::Fixed(extent)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(extent) => write!(f, "{extent}"),
            Self::Batch(1) => f.write_str("batch"),
            Self::Batch(factor) => write!(f, "{factor}*batch"),
        }
    }
}

impl FromStr for Dim {
    type Err = GraphError;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || GraphError::Malformed {
            what: "dimension".into(),
            at: format!("`{text}`"),
            expected: "a whole number, `batch` or `N*batch`".into(),
            found: text.into(),
        };
        if text == "batch" {
            return Ok(Self::Batch(1));
        }
        let (digits, is_batch) = match text.strip_suffix("*batch") {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let value: u64 = digits.parse().map_err(|_| malformed())?;
        Ok(if is_batch { Self::Batch(value) } else { Self::Fixed(value) })
    }
}

impl Serialize for Dim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(extent) => serializer.serialize_u64(*extent),
            Self::Batch(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Dim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Dim;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, \"batch\" or \"N*batch\"")
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Dim, E> {
                Ok(Dim::Fixed(value))
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Dim, E> {
                value.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Str(value), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The extents of a tensor, outermost first. A scalar has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shape(Vec<Dim>);

impl Shape {
    /// More dimensions than any framework allows mean a broken or hostile file.
    pub const MAX_RANK: usize = 16;

    /// A shape of these extents.
    pub fn new(dims: impl IntoIterator<Item = Dim>) -> Self {
        Self(dims.into_iter().collect())
    }

    /// A shape that does not depend on the batch.
    pub fn fixed(extents: &[u64]) -> Self {
        Self::new(extents.iter().copied().map(Dim::Fixed))
    }

    /// `batch` first, then fixed extents.
    pub fn batched(extents: &[u64]) -> Self {
        Self::new(std::iter::once(Dim::Batch(1)).chain(extents.iter().copied().map(Dim::Fixed)))
    }

    /// The extents.
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }

    /// How many dimensions there are.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The last extent, or 1 for a scalar.
    pub fn last(&self) -> Dim {
        self.0.last().copied().unwrap_or(Dim::Fixed(1))
    }

    /// The number of elements at a batch size; `None` on overflow.
    pub fn elements(&self, batch: u64) -> Option<u64> {
        self.0.iter().try_fold(1_u64, |product, dim| product.checked_mul(dim.at(batch)?))
    }

    /// Whether any extent grows with the batch.
    pub fn scales_with_batch(&self) -> bool {
        self.0.iter().any(|dim| dim.scales_with_batch())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, dim) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_survives_a_round_trip_through_text() {
        for dim in [Dim::Fixed(0), Dim::Fixed(7), Dim::Batch(1), Dim::Batch(49)] {
            assert_eq!(dim.to_string().parse::<Dim>().expect("own text parses"), dim);
        }
        assert!("-3".parse::<Dim>().is_err());
        assert!("batch*2".parse::<Dim>().is_err());
    }

    #[test]
    fn elements_count_with_the_batch_and_never_wrap() {
        let shape = Shape::new([Dim::Batch(49), Dim::Fixed(768)]);
        assert_eq!(shape.elements(2), Some(49 * 2 * 768));
        assert_eq!(Shape::batched(&[u64::MAX]).elements(2), None);
        assert_eq!(Shape::default().elements(9), Some(1));
    }
}
