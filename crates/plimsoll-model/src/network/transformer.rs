//! The network over the layer sequence.

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::{Dense, Heads, Outputs, QuantileHead, Widths};
use crate::batch::Batch;
use crate::settings::{NetworkSettings, OutputSettings};

/// Tokens and numbers of each layer through an encoder; its mean joined with summary and GPU.
#[derive(Module, Debug)]
pub struct TransformerNetwork {
    /// Embeds a layer's token.
    pub token: Embedding,
    /// Projects a layer's numbers.
    pub numbers: Linear,
    /// Pre-norm encoder.
    pub encoder: TransformerEncoder,
    /// Normalises the mean over layers.
    pub norm: LayerNorm,
    /// Joins mean, summary and GPU under the memory head.
    pub trunk: Dense,
    /// The same under the utilisation head: what serves one target would bend the other.
    pub utilisation_trunk: Dense,
    /// The heads.
    pub heads: Heads,
    /// Upper quantiles of memory, for a regressor. They read no sequence: a spread needs no more than the summary.
    pub quantiles: Option<QuantileHead>,
}

impl TransformerNetwork {
    pub(super) fn new(settings: &NetworkSettings, output: &OutputSettings, widths: Widths, device: &Device) -> Self {
        let NetworkSettings::Transformer { width, heads, layers, feed_forward, hidden, blocks, dropout } = *settings
        else {
            unreachable!("the caller matched the kind");
        };
        let summary = widths.summary + widths.gpu;
        let trunk = || Dense::new(width + summary, hidden, blocks, dropout, device);
        Self {
            token: EmbeddingConfig::new(widths.tokens, width).init(device),
            numbers: LinearConfig::new(widths.layer, width).init(device),
            encoder: TransformerEncoderConfig::new(width, feed_forward, heads, layers)
                .with_dropout(dropout)
                .with_norm_first(true)
                .init(device),
            norm: LayerNormConfig::new(width).init(device),
            trunk: trunk(),
            utilisation_trunk: trunk(),
            heads: Heads::new(hidden, widths.gpu, output, device),
            quantiles: super::quantile_head(output, widths.summary, hidden, dropout, device),
        }
    }

    pub(super) fn forward(&self, batch: &Batch, with_quantiles: bool) -> Outputs {
        let sequence = batch.sequence.as_ref().expect("batches for this network carry the sequence");
        let x = self.token.forward(sequence.tokens.clone()) + self.numbers.forward(sequence.numbers.clone());
        let x = self.encoder.forward(TransformerEncoderInput::new(x).mask_pad(sequence.is_padding.clone()));
        // Padding takes no part in the mean: its share is exactly zero.
        let mean = (x * sequence.share.clone()).sum_dim(1).squeeze_dim(1);
        let mean = self.norm.forward(mean);
        let summary = Tensor::cat(vec![batch.summary.clone(), batch.gpu.clone()], 1);
        let x = Tensor::cat(vec![mean, summary], 1);
        let trunks = [self.trunk.forward(x.clone()), self.utilisation_trunk.forward(x)];
        let quantiles = self.quantiles.as_ref().filter(|_| with_quantiles);
        let log_quantiles = quantiles.map(|head| head.forward(batch.summary.clone(), batch.label.clone()));
        Outputs { log_quantiles, ..self.heads.forward(trunks, batch) }
    }
}
