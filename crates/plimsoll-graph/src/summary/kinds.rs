//! The family that the layers of a table speak for.

use super::layer::Layer;
use crate::family::Family;
use crate::op::Op;

/// Families whose layers occur, and the two layers that are a transformer together.
#[derive(Default)]
pub(super) struct Kinds {
    seen: Vec<Family>,
    embeds: bool,
    normalises: bool,
}

impl Kinds {
    /// Notes a row's class.
    pub(super) fn see(&mut self, class: &str) {
        let family = match Layer::of(class) {
            Layer::Conv { .. } => Family::Cnn,
            Layer::Linear => Family::Mlp,
            Layer::Attention => Family::Transformer,
            Layer::Recurrent(_) => Family::Recurrent,
            Layer::Embedding => {
                self.embeds = true;
                return;
            }
            Layer::Norm(Op::LayerNorm | Op::RmsNorm) => {
                self.normalises = true;
                return;
            }
            _ if class.contains("Attention") || class.contains("Transformer") => Family::Transformer,
            _ => return,
        };
        if !self.seen.contains(&family) {
            self.seen.push(family);
        }
    }

    /// Attention stands for more than the convolution that makes its patches, and so on.
    pub(super) fn family(&self) -> Family {
        if self.embeds && self.normalises {
            return Family::Transformer;
        }
        let order = [Family::Transformer, Family::Recurrent, Family::Cnn, Family::Mlp];
        order.into_iter().find(|family| self.seen.contains(family)).unwrap_or_default()
    }
}
