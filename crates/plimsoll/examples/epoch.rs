//! Times epochs of training, for `benches/training.py` to hold against PyTorch.
//!
//! `cargo run --release --example epoch -- ROWS EPOCHS` generates workloads, trains the Transformer of the
//! GPUMemNet configs on them, and prints one JSON object: seconds of each epoch, the shape of every step, and the
//! widths of the network. The first epoch warms up.

use std::cell::RefCell;
use std::time::Instant;

use plimsoll_dataset::{Measurement, Outcome, Sample};
use plimsoll_graph::generator::{Generator, GeneratorConfig};
use plimsoll_graph::{Family, GpuCatalogue};
use plimsoll_model::network::Widths;
use plimsoll_model::{DataDescription, DeviceKind, Epoch, Fit, LearnedFit, NetworkSettings, Observer};
use plimsoll_model::{Settings, TrainingSettings};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Clock {
    start: RefCell<Instant>,
    seconds: RefCell<Vec<f64>>,
    shapes: RefCell<Vec<(usize, usize)>>,
}

impl Observer for Clock {
    fn begin(&self, _epochs: usize, _done: usize, _steps: usize) {
        *self.start.borrow_mut() = Instant::now();
    }

    fn step(&self, rows: usize, layers: usize) {
        self.shapes.borrow_mut().push((rows, layers));
    }

    fn epoch(&self, _epoch: &Epoch) {
        self.seconds.borrow_mut().push(self.start.borrow().elapsed().as_secs_f64());
        *self.start.borrow_mut() = Instant::now();
    }
}

fn sample(generator: &Generator, index: u64) -> Sample {
    let measurement = Measurement::generated(generator.generate(index));
    let mut sample = Sample::from_measurement(&Measurement { utilisation: [Some(0.5); 6], ..measurement });
    sample.outcome = Outcome::Measured { peak_mib: f64::from(sample.features.analytic.simulated_mib()).max(1.0) };
    sample
}

#[expect(clippy::print_stdout, reason = "an example's result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().as_deref().unwrap_or("1000").parse()?;
    let epochs: usize = arguments.next().as_deref().unwrap_or("4").parse()?;
    let config = GeneratorConfig {
        count: rows,
        seed: 1,
        families: vec![Family::Cnn, Family::Transformer],
        gpus: vec!["a100-40".into()],
        ..GeneratorConfig::default()
    };
    let generator = Generator::new(config, GpuCatalogue::built_in())?;
    let samples: Vec<Sample> = (0..rows).map(|index| sample(&generator, index)).collect();
    let clock = Clock { start: RefCell::new(Instant::now()), seconds: RefCell::default(), shapes: RefCell::default() };
    let network = NetworkSettings::Transformer {
        width: 64,
        heads: 4,
        layers: 2,
        feed_forward: 128,
        hidden: 128,
        blocks: 2,
        dropout: 0.0,
    };
    let training = TrainingSettings { epochs, batch_size: 64, ..TrainingSettings::default() };
    let fit = LearnedFit {
        settings: Settings { training, ..Settings::new(network.clone()) },
        data: DataDescription::default(),
        device: DeviceKind::Cpu.open()?,
        observer: &clock,
        folder: None,
        start: None,
        events: None,
    };
    fit.fit(&samples.iter().collect::<Vec<_>>(), &[])?;
    let shapes = clock.shapes.borrow();
    let steps = shapes.len() / epochs;
    let widths = Widths::current();
    println!(
        "{}",
        json!({
            "seconds": *clock.seconds.borrow(),
            "shapes": shapes[..steps],
            "network": network,
            "widths": { "tokens": widths.tokens, "layer": widths.layer, "summary": widths.summary, "gpu": widths.gpu },
        })
    );
    Ok(())
}
