//! Writes and reads back a million samples, and prints what it took: memory must not grow with the number of rows.
//!
//! `cargo run --release -p plimsoll-dataset --example million_samples [ROWS]`
#![expect(clippy::print_stdout, reason = "the figures are what the example is for")]

use std::time::Instant;

use plimsoll_dataset::{ContentHasher, Label, Outcome, Sample, SampleReader, SampleWriter, ScalerFit, Stack};
use plimsoll_features::featurize;
use plimsoll_graph::{Activation, DType, Family, GpuCatalogue, GraphBuilder, Shape, TrainingSetup, Workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("samples.parquet");

    let begin = Instant::now();
    let samples = (1..=50).map(sample).collect::<Result<Vec<_>, _>>()?;
    let mut writer = SampleWriter::create(&path)?;
    for row in 0..rows {
        let mut sample = samples[row as usize % samples.len()].clone();
        sample.id = format!("row:{row}");
        sample.outcome = Outcome::Measured { peak_mib: 1_000.0 + row as f64 };
        // Features that differ from row to row, as real ones do.
        for number in &mut sample.features.layers {
            *number += (row % 1_009) as f32 * 1e-3;
        }
        writer.write(&sample)?;
    }
    writer.finish()?;
    let size = std::fs::metadata(&path)?.len() >> 20;
    println!("wrote {rows} rows, {size} MiB, in {:.1?}; peak memory {}", begin.elapsed(), peak_memory());

    let begin = Instant::now();
    let (mut hasher, mut scaler, mut count) = (ContentHasher::new(), ScalerFit::new(), 0);
    for chunk in SampleReader::open(&path)? {
        for sample in chunk? {
            hasher.add(&sample);
            scaler.add(&sample.features);
            count += 1;
        }
    }
    scaler.finish()?;
    let hash = hasher.finish();
    println!("read {count} rows in {:.1?}; peak memory {}; hash {hash}", begin.elapsed(), peak_memory());
    Ok(())
}

/// A chain of linear layers, some fifty numbers of layers deep.
fn sample(depth: u64) -> Result<Sample, Box<dyn std::error::Error>> {
    let mut builder = GraphBuilder::new("chain", Family::Mlp);
    let mut value = builder.input("x", Shape::batched(&[128]), DType::Float32);
    for index in 0..depth {
        value = builder.linear(&format!("linear{index}"), value, 64 + index * 3 % 50, true)?;
        value = builder.activation(&format!("act{index}"), value, Activation::Relu, false);
    }
    let gpu = GpuCatalogue::built_in().find("a100-40")?.clone();
    let workload = Workload::new(builder.finish(&[value])?, TrainingSetup::new(64), gpu)?;
    Ok(Sample {
        id: String::new(),
        family: Family::Mlp,
        architecture: format!("chain-{depth}"),
        shape: "uniform".into(),
        gpu: workload.gpu().name.clone(),
        capacity_mib: workload.gpu().memory_mib as f64,
        batch_size: 64,
        label: Label::Simulated,
        stack: Stack::default(),
        outcome: Outcome::Unknown,
        utilisation: [Some(0.5); 6],
        published_estimates: Vec::new(),
        doubt: None,
        features: featurize(&workload),
    })
}

/// The most memory this process has held, as Linux tells it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not known here");
    line.trim_start_matches("VmHWM:").trim().to_owned()
}
