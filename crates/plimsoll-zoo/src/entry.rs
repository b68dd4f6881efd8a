//! What the index says of a model.

use plimsoll_graph::{Family, Shape};
use serde::{Deserialize, Serialize};

/// The library that a model comes from. Their order is that in which a name without a library is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Library {
    /// `timm`, image models.
    #[serde(rename = "timm")]
    Timm,
    /// `torchvision`: classification, detection, segmentation.
    #[serde(rename = "torchvision")]
    Torchvision,
    /// Hugging Face `transformers`.
    #[serde(rename = "hf")]
    HuggingFace,
}

impl Library {
    /// Every library, in order.
    pub const ALL: [Self; 3] = [Self::Timm, Self::Torchvision, Self::HuggingFace];

    /// The name in files and before the `/` of a full name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timm => "timm",
            Self::Torchvision => "torchvision",
            Self::HuggingFace => "hf",
        }
    }

    /// The library of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|library| library.name() == name)
    }
}

/// A model of the zoo, before its graph is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it comes from.
    pub library: Library,
    /// Its name there.
    pub name: String,
    /// Architecture family.
    pub family: Family,
    /// Parameters, frozen ones included, buffers not.
    pub parameters: u64,
    /// Nodes of the graph.
    pub operators: u64,
    /// What is fed in.
    pub inputs: Vec<Shape>,
    /// Where its text lies.
    pub(crate) place: Place,
}

/// A stretch of a group's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: usize,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

impl Entry {
    /// Library and name, which no other entry has: `torchvision/resnet50`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.library.name(), self.name)
    }
}

/// Whether a model may be called that: what file names, command lines and tables bear without quotes.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+');
    (1..=128).contains(&name.len()) && name.bytes().all(is_plain)
}
