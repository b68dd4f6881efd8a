//! Networks and samples for this crate's tests.

use plimsoll_dataset::{Label, Measurement, Outcome, Sample};
use plimsoll_graph::GpuCatalogue;
use plimsoll_graph::generator::{Generated, Generator, GeneratorConfig};
use plimsoll_model::{
    BinEstimate, DataDescription, DeviceKind, Fit, Learned, LearnedFit, NetworkSettings, OutputSettings, Settings,
    Silent, TrainingSettings,
};

/// Generated workloads with made-up labels: every third ran out of memory, utilisation is partly unknown.
pub(crate) fn samples(count: u64, seed: u64) -> Vec<Sample> {
    let gpus = ["a100-40", "rtx-3090", "h100-80"].map(str::to_owned).to_vec();
    let config = GeneratorConfig { count, seed, gpus, candidates: 4, ..GeneratorConfig::default() };
    let generator = Generator::new(config, GpuCatalogue::built_in()).expect("a valid configuration");
    generator.enumerate().map(|(index, generated)| sample(index, generated)).collect()
}

/// Rows from which enough are kept out of a fit to calibrate its bounds.
pub(crate) const CALIBRATED: u64 = 400;

fn sample(index: usize, generated: Generated) -> Sample {
    // Every definition occurs, and all are learned from.
    let label = Label::ALL[index % Label::ALL.len()];
    // And every second row of older software, which takes less.
    let (stack, context_mib) = if index.is_multiple_of(2) { ("", 900.0) } else { ("pytorch 1.13, cuda 11.7", 400.0) };
    let stack = stack.parse().expect("versions");
    let mut sample = Sample::from_measurement(&Measurement { label, stack, ..Measurement::generated(generated) });
    let peak = f64::from(sample.features.analytic.reserved_mib) * (1.1 + 0.2 * (index as f64).sin()) + context_mib;
    sample.outcome = match index % 3 {
        2 => Outcome::OutOfMemory { above_mib: 0.9 * peak },
        _ => Outcome::Measured { peak_mib: peak },
    };
    for (metric, ratio) in sample.utilisation.iter_mut().enumerate() {
        *ratio = (!(index + metric).is_multiple_of(4)).then(|| (((index * 7 + metric * 3) % 11) as f32) / 10.0);
    }
    sample
}

/// A small multilayer perceptron.
pub(crate) const MLP: NetworkSettings = NetworkSettings::Mlp { hidden: 24, blocks: 2, dropout: 0.1 };
/// A small Transformer.
pub(crate) const TRANSFORMER: NetworkSettings = NetworkSettings::Transformer {
    width: 16,
    heads: 2,
    layers: 2,
    feed_forward: 24,
    hidden: 24,
    blocks: 1,
    dropout: 0.1,
};
/// Few bins.
pub(crate) const BINS: OutputSettings =
    OutputSettings::Bins { width_mib: 2048.0, count: 20, estimate: BinEstimate::Middle };

/// Two networks side by side.
#[allow(dead_code, reason = "not every test file uses it")]
pub(crate) fn fit_pair(network: NetworkSettings, samples: &[Sample]) -> Learned {
    fit_many(network, OutputSettings::Regression, samples, 2)
}

/// Fits a network for a few epochs at a high rate, so that no weight is where initialisation put it.
pub(crate) fn fit(network: NetworkSettings, output: OutputSettings, samples: &[Sample]) -> Learned {
    fit_many(network, output, samples, 1)
}

fn fit_many(network: NetworkSettings, output: OutputSettings, samples: &[Sample], ensemble: usize) -> Learned {
    let training = TrainingSettings {
        seed: 5,
        epochs: 6,
        batch_size: 8,
        learning_rate: 1e-2,
        warmup: 0.0,
        ..TrainingSettings::default()
    };
    let fit = LearnedFit {
        settings: Settings { output, training, ensemble, ..Settings::new(network) },
        data: DataDescription {
            name: "synthetic".into(),
            split: "everything".into(),
            label: Label::NvidiaSmiDevice,
            hash: "0123456789abcdef".into(),
            training_rows: samples.len(),
            censored_rows: samples.iter().filter(|sample| sample.outcome.is_censored()).count(),
            gpus: vec!["a100-40".into(), "h100-80".into(), "rtx-3090".into()],
            families: vec!["cnn".into(), "mlp".into(), "transformer".into()],
        },
        device: DeviceKind::Cpu.open().expect("always there"),
        observer: &Silent,
        folder: None,
        start: None,
        events: None,
    };
    fit.fit(&samples.iter().collect::<Vec<_>>(), &[]).expect("a fit on sound data")
}
