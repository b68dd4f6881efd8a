//! Samples with made-up labels, and one fit at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_dataset::{Measurement, Outcome, Sample};
use plimsoll_graph::generator::{Generator, GeneratorConfig};
use plimsoll_graph::{Family, GpuCatalogue};
use plimsoll_model::{
    DataDescription, DeviceKind, LearnedFit, NetworkSettings, Observer, Settings, Silent, TrainingSettings,
};

/// Burn's random generator is global to the process: tests that fit take turns.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Generated workloads; memory is the live peak and a context, a tenth more for the second half of the rows.
pub(crate) fn samples(count: u64) -> Vec<Sample> {
    let config = GeneratorConfig {
        count,
        seed: 5,
        families: vec![Family::Mlp, Family::Cnn, Family::Transformer],
        gpus: vec!["a100-40".into(), "t4".into()],
        ..GeneratorConfig::default()
    };
    let generator = Generator::new(config, GpuCatalogue::built_in()).expect("valid");
    generator
        .enumerate()
        .map(|(index, generated)| {
            let mut sample = Sample::from_measurement(&Measurement::generated(generated));
            let factor = if (index as u64) < count / 2 { 1.0 } else { 1.1 };
            let peak_mib = f64::from(sample.features.analytic.reserved_mib) * factor + 1500.0;
            sample.outcome = Outcome::Measured { peak_mib };
            sample.utilisation[0] = Some(if sample.family == Family::Mlp { 0.2 } else { 0.8 });
            sample
        })
        .collect()
}

#[allow(dead_code, reason = "not every test file uses it")]
pub(crate) fn mlp() -> NetworkSettings {
    NetworkSettings::Mlp { hidden: 32, blocks: 1, dropout: 0.0 }
}

pub(crate) fn transformer(dropout: f64) -> NetworkSettings {
    NetworkSettings::Transformer { width: 16, heads: 2, layers: 1, feed_forward: 32, hidden: 32, blocks: 1, dropout }
}

pub(crate) fn fit(network: NetworkSettings, epochs: usize, observer: &dyn Observer) -> LearnedFit<'_> {
    LearnedFit {
        settings: Settings {
            training: TrainingSettings { seed: 3, epochs, batch_size: 8, learning_rate: 5e-3, ..Default::default() },
            ..Settings::new(network)
        },
        data: DataDescription { name: "test".into(), hash: "0".into(), ..Default::default() },
        device: DeviceKind::Cpu.open().expect("always there"),
        observer,
        folder: None,
        start: None,
        events: None,
    }
}

pub(crate) const SILENT: Silent = Silent;
