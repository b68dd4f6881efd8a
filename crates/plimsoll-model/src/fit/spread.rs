//! How far above its estimate memory may lie, learned from rows that the estimate was not fitted to.
//!
//! A network sees little of its own error among the rows it was fitted to. Of an ensemble every row is unknown to one
//! network: by how much that one missed it is what upper quantiles are fitted to, once the estimates stand. The quantile
//! head of a network learns from rows of the other parts alone, so that calibration still judges it by rows that are new
//! to it.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};

use super::holdout::{Division, Judge};
use super::{order, schedule};
use crate::batch::{Batch, Table};
use crate::error::{ModelError, Result};
use crate::events::Observer;
use crate::learned::Learned;
use crate::network::{Network, QuantileHead};
use crate::objective::quantile_error;
use crate::settings::TrainingSettings;

/// Share of a fit's epochs that quantiles take.
const SHARE_OF_EPOCHS: f64 = 0.5;

/// What a row shows of the spread around estimates that do not know it.
#[derive(Debug, Clone, Copy, Default)]
struct Miss {
    /// Logarithm of truth, or of its lower limit, over estimate.
    above: f32,
    /// The scale that the network gave its estimate: what the row's loss is held against.
    scale: f32,
    is_measured: bool,
}

/// Fits the quantile heads of an ensemble on the device's autodiff network; `learned` makes its estimates.
pub(super) struct SpreadFit<'a> {
    pub(super) settings: &'a TrainingSettings,
    pub(super) table: &'a Table,
    pub(super) division: &'a Division<'a>,
    pub(super) device: &'a Device,
    pub(super) observer: &'a dyn Observer,
}

impl SpreadFit<'_> {
    /// The quantile heads of each network, in their order; `None` of a network that has none.
    pub(super) fn fit(&self, network: &Network, learned: &Learned) -> Result<Vec<Option<QuantileHead>>> {
        let misses = self.misses(learned);
        let heads = network.members.iter().enumerate().map(|(member, network)| {
            let head = network.quantiles().cloned();
            head.map(|head| self.fit_head(head, member, &misses)).transpose()
        });
        heads.collect()
    }

    /// What each row of the table shows; nothing where all networks know it, or nothing is known of its memory.
    fn misses(&self, learned: &Learned) -> Vec<Option<Miss>> {
        let rows = self.division.fitted.iter().zip(&self.division.hidden_from).enumerate();
        let (places, judges): (Vec<usize>, Vec<Judge<'_>>) = rows
            .filter(|(_, (sample, member))| member.is_some() && sample.outcome.known_mib().is_some())
            .map(|(place, (sample, member))| (place, Judge { sample, member: *member }))
            .unzip();
        let mut misses = vec![None; self.division.fitted.len()];
        for ((place, judge), (log_memory, log_scale)) in
            places.into_iter().zip(&judges).zip(learned.medians_unseen(&judges))
        {
            misses[place] = judge.sample.outcome.known_mib().map(|mib| Miss {
                above: (mib.max(1.0).ln() - log_memory) as f32,
                scale: log_scale.exp() as f32,
                is_measured: judge.sample.outcome.peak_mib().is_some(),
            });
        }
        misses
    }

    fn fit_head(&self, head: QuantileHead, member: usize, misses: &[Option<Miss>]) -> Result<QuantileHead> {
        let settings = self.settings;
        let known = |&row: &usize| misses[row].is_some() && self.division.hidden_from[row] != Some(member);
        let rows: Vec<usize> = (0..misses.len()).filter(known).collect();
        let epochs = ((settings.epochs as f64 * SHARE_OF_EPOCHS) as usize).max(1);
        let steps = (epochs * rows.len().div_ceil(settings.batch_size)) as f64;
        let mut optimizer = super::optimizer(settings);
        let (mut head, mut step) = (head, 0_usize);
        for epoch in 0..epochs {
            let seed = order::mix(settings.seed, (member * epochs + epoch) as u64);
            self.device.seed(seed);
            for rows in order::batches_of(rows.clone(), self.table, settings.batch_size, seed, epoch as u64) {
                if self.observer.should_stop() {
                    return Err(ModelError::Interrupted { epochs: settings.epochs });
                }
                let loss = self.loss(&head, &rows, misses);
                let gradients = GradientsParams::from_grads(loss.backward(), &head);
                let learning_rate = schedule::learning_rate(settings, step as f64 / steps);
                head = optimizer.step(learning_rate, head, gradients);
                step += 1;
            }
        }
        Ok(head)
    }

    fn loss(&self, head: &QuantileHead, rows: &[usize], misses: &[Option<Miss>]) -> Tensor<1> {
        let Batch { summary, label, .. } = self.table.batch(rows, self.device);
        let log_quantiles = head.forward(summary, label);
        let column = |value: fn(&Miss) -> f32| {
            let data: Vec<f32> = rows.iter().map(|&row| value(&misses[row].unwrap_or_default())).collect();
            Tensor::<1>::from_data(TensorData::new(data, [rows.len()]), self.device)
        };
        let is_measured = column(|miss| f32::from(u8::from(miss.is_measured)));
        quantile_error(&log_quantiles, &column(|miss| miss.above), &is_measured, column(|miss| miss.scale)).mean()
    }
}
