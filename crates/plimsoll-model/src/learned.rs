//! A fitted network as an estimator.

use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use plimsoll_dataset::Sample;

use crate::batch::Table;
use crate::checkpoint::{self, Description};
use crate::error::Result;
use crate::estimate::Estimate;
use crate::estimator::Estimator;
use crate::network::{Network, Widths};
use crate::settings::OutputSettings;

/// Rows that are run at once.
const ROWS: usize = 256;

/// A fitted network with everything its use needs.
#[derive(Debug, Clone)]
pub struct Learned {
    description: Description,
    network: Network,
    device: Device,
    name: String,
}

impl Learned {
    pub(crate) fn new(mut description: Description, network: &Network, device: &Device) -> Self {
        let network = network.valid();
        description.parameters = network.num_params();
        let form = match description.settings.output {
            OutputSettings::Regression => "",
            OutputSettings::Bins { .. } => "-bins",
        };
        let name = format!("{}{form}", description.settings.network.name());
        Self { description, network, device: device.clone().inner(), name }
    }

    /// Reads a checkpoint folder.
    ///
    /// # Errors
    /// A folder that is no checkpoint, is damaged, or was made under another feature schema.
    pub fn load(folder: &Path, device: &Device) -> Result<Self> {
        let device = device.clone().inner();
        let (description, network) = checkpoint::load(folder, &device)?;
        Ok(Self::new(description, &network, &device))
    }

    /// A checkpoint from the content of its description and weight files; `origin` names them in errors.
    ///
    /// # Errors
    /// As [`Learned::load`].
    pub fn parse(description: &[u8], weights: Vec<u8>, origin: &Path, device: &Device) -> Result<Self> {
        let device = device.clone().inner();
        let (description, network) = checkpoint::parse(description, weights, origin, &device)?;
        Ok(Self::new(description, &network, &device))
    }

    /// Writes a checkpoint folder.
    ///
    /// # Errors
    /// Files that cannot be written; what stood there before stays.
    pub fn save(&self, folder: &Path) -> Result<()> {
        checkpoint::save(folder, &self.description, &self.network)
    }

    /// Everything but the weights.
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// The network.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    fn run(&self, table: &Table, rows: &[usize], estimates: &mut [Estimate]) {
        let batch = table.batch(rows, &self.device);
        let outputs = self.network.forward(&batch);
        let numbers = |tensor: Tensor<1>| -> Vec<f64> { tensor.into_data().iter::<f32>().map(f64::from).collect() };
        let utilisation = numbers(burn::tensor::activation::sigmoid(outputs.utilisation_logits).flatten(0, 1));
        let memory: Vec<f64> = match (self.description.settings.output.bins(), outputs.log_memory, outputs.bin_logits) {
            (Some(bins), _, Some(logits)) => {
                let classes: Tensor<1, Int> = logits.argmax(1).squeeze_dim(1);
                // A class says no more than its bin: the middle stands for it.
                classes.into_data().iter::<i64>().map(|class| bins.middle(class as usize)).collect()
            }
            (_, Some(log_memory), _) => numbers(log_memory).into_iter().map(f64::exp).collect(),
            _ => unreachable!("the network was built for its output"),
        };
        let log_scale = outputs.log_scale.map(numbers);
        for (index, &row) in rows.iter().enumerate() {
            let estimate = &mut estimates[row];
            estimate.peak_memory_mib = Some(memory[index]);
            estimate.log_scale = log_scale.as_ref().map(|scales| scales[index].exp());
            for (metric, slot) in estimate.utilisation.iter_mut().enumerate() {
                let was_recorded = self.description.utilisation_rows[metric] > 0;
                *slot = was_recorded.then(|| utilisation[index * 6 + metric]);
            }
        }
    }
}

impl Estimator for Learned {
    fn name(&self) -> &str {
        &self.name
    }

    fn estimate(&self, samples: &[&Sample]) -> Vec<Estimate> {
        let table = Table::new(samples, &self.description.scaler, Widths::current(), self.network.reads_layers());
        let mut order: Vec<usize> = (0..samples.len()).collect();
        order.sort_by_key(|&row| table.length(row));
        let mut estimates = vec![Estimate::default(); samples.len()];
        for rows in order.chunks(ROWS) {
            self.run(&table, rows, &mut estimates);
        }
        estimates
    }
}
