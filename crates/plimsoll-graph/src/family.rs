//! Architecture families: what estimates are grouped by, and what splits hold out.

use serde::{Deserialize, Serialize};

/// The architecture family of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Fully connected layers only.
    Mlp,
    /// Convolutions.
    Cnn,
    /// Attention.
    Transformer,
    /// Recurrent cells.
    Recurrent,
    /// Anything else, or not known.
    #[default]
    Other,
}

impl Family {
    /// Every family, in order.
    pub const ALL: [Self; 5] = [Self::Mlp, Self::Cnn, Self::Transformer, Self::Recurrent, Self::Other];

    /// The name used in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mlp => "mlp",
            Self::Cnn => "cnn",
            Self::Transformer => "transformer",
            Self::Recurrent => "recurrent",
            Self::Other => "other",
        }
    }

    /// The family of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
