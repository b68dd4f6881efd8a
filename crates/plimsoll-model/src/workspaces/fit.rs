//! One fit: the networks of the three directions, each on a thread of its own.

use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::Device;
use plimsoll_dataset::WorkspaceRow;
use plimsoll_simulate::Direction;
use plimsoll_simulate::workspace::{MAX_HIDDEN, NetworkWeights};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::batch::{Inputs, Targets};
use super::loss::loss;
use super::network::WorkspaceNetwork;
use crate::error::{ModelError, Result};

/// The directions, in the order of their networks.
const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::DataGradient, Direction::FilterGradient];
/// Rows of a step.
const BATCH: usize = 2048;
/// Share of all steps over which the learning rate rises.
const WARMUP: f64 = 0.1;

/// Settings of a fit. The same settings on the same rows make the same weights.
#[derive(Debug, Clone)]
pub struct WorkspaceFit {
    /// Passes over the rows.
    pub epochs: usize,
    /// Seed of initialisation and shuffling.
    pub seed: u64,
    /// Width of the hidden layers.
    pub hidden: usize,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Decoupled weight decay.
    pub weight_decay: f32,
}

impl Default for WorkspaceFit {
    fn default() -> Self {
        Self { epochs: 45, seed: 0, hidden: 96, learning_rate: 6e-3, weight_decay: 1e-3 }
    }
}

impl WorkspaceFit {
    /// Fits to rows. After every epoch of every direction `go_on` is asked whether to.
    ///
    /// # Errors
    /// Settings out of range, a direction without rows, a loss that leaves the numbers, an interruption.
    pub fn fit(
        &self,
        rows: &[WorkspaceRow],
        device: &Device,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<[NetworkWeights; 3]> {
        if self.hidden == 0 || self.hidden > MAX_HIDDEN {
            return Err(ModelError::Setting {
                name: "hidden".into(),
                expected: format!("1 to {MAX_HIDDEN}"),
                found: self.hidden.to_string(),
            });
        }
        let device = device.clone().autodiff();
        let mut generator = ChaCha8Rng::seed_from_u64(self.seed);
        let mut parts = Vec::with_capacity(DIRECTIONS.len());
        for direction in DIRECTIONS {
            let rows: Vec<WorkspaceRow> =
                rows.iter().filter(|row| row.query.convolution.direction == direction).copied().collect();
            if rows.is_empty() {
                return Err(ModelError::Data {
                    what: format!("workspaces of {direction:?}"),
                    expected: "rows of every direction".into(),
                    found: "none".into(),
                });
            }
            parts.push((rows, WorkspaceNetwork::new(self.hidden, &mut generator, &device)));
        }
        let fitted: Vec<Result<NetworkWeights>> = std::thread::scope(|scope| {
            let start = |(rows, network)| {
                let device = device.clone();
                scope.spawn(move || self.direction(rows, network, &device, go_on))
            };
            let threads: Vec<_> = parts.into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("a fit does not panic")).collect()
        });
        let fitted: Vec<NetworkWeights> = fitted.into_iter().collect::<Result<_>>()?;
        Ok(fitted.try_into().expect("one for each direction"))
    }

    fn direction(
        &self,
        mut rows: Vec<WorkspaceRow>,
        mut network: WorkspaceNetwork,
        device: &Device,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<NetworkWeights> {
        let inputs = Inputs::of(&rows);
        let mut generator = ChaCha8Rng::seed_from_u64(self.seed);
        let mut optimizer = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(self.weight_decay).init();
        let steps = (self.epochs * rows.len().div_ceil(BATCH)) as f64;
        let mut step = 0;
        for epoch in 0..self.epochs {
            rows.shuffle(&mut generator);
            let mut sum = 0.0;
            for batch in rows.chunks(BATCH) {
                let batch: Vec<&WorkspaceRow> = batch.iter().collect();
                let targets = Targets::of(&batch, device);
                let loss = loss(&network.forward(inputs.tensor(&batch, device)), &targets);
                let gradients = GradientsParams::from_grads(loss.backward(), &network);
                sum += f64::from(loss.into_scalar::<f32>()) * batch.len() as f64;
                network = optimizer.step(self.rate(f64::from(step) / steps), network, gradients);
                step += 1;
            }
            let mean = sum / rows.len() as f64;
            if !mean.is_finite() {
                return Err(ModelError::Diverged { epoch: epoch + 1, loss: mean });
            }
            if !go_on() {
                return Err(ModelError::Interrupted { epochs: epoch + 1 });
            }
        }
        let (weights, biases) = network.numbers();
        let Inputs { means, deviations, knots } = inputs;
        Ok(NetworkWeights { hidden: self.hidden, means, deviations, knots, weights, biases })
    }

    /// Rises linearly, then falls along a cosine to nothing.
    fn rate(&self, done: f64) -> f64 {
        let share = if done < WARMUP {
            (done / WARMUP).max(0.01)
        } else {
            0.5 * (1.0 + (std::f64::consts::PI * (done - WARMUP) / (1.0 - WARMUP)).cos())
        };
        self.learning_rate * share
    }
}
