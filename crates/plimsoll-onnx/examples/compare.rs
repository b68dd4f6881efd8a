//! Compares what an ONNX file tells of a training step with what PyTorch's own capture of the same model tells.
//!
//!     cargo run --release -p plimsoll-onnx --example compare -- FOLDER-OF-ONNX FOLDER-OF-GRAPHS [BATCH]
//!
//! For each `NAME.onnx` with a `NAME.json`: the ratio of parameters, of bytes saved for the backward pass, and of the
//! peak; then how many are within 5 % and the median deviation.

#![expect(clippy::print_stdout, reason = "a table is what the program is for")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use plimsoll_graph::{GpuCatalogue, Graph, Optimizer, TrainingSetup, Workload, json};
use plimsoll_simulate::Simulation;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(models), Some(graphs)) = (arguments.next(), arguments.next()) else {
        return Err("expected a folder of ONNX files and a folder of graphs".into());
    };
    let batch: u64 = arguments.next().map_or(Ok(32), |text| text.parse())?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&models)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    paths.sort();
    let mut rows = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match compare(&path, &Path::new(&graphs).join(format!("{name}.json")), batch) {
            Ok(row) => {
                println!("{name:<28} {row}");
                rows.push(row);
            }
            Err(error) => println!("{name:<28} FAILED: {error}"),
        }
    }
    summarise(&rows);
    Ok(())
}

struct Row {
    parameters: i128,
    saved: f64,
    peak: f64,
    seconds: f64,
    warnings: String,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (saved, peak) = (100.0 * (self.saved - 1.0), 100.0 * (self.peak - 1.0));
        write!(
            f,
            "parameters {:+9}  saved {saved:+7.2} %  peak {peak:+7.2} %  read in {:.3} s  {}",
            self.parameters, self.seconds, self.warnings
        )
    }
}

fn compare(onnx: &Path, graph: &Path, batch: u64) -> Result<Row, Box<dyn Error>> {
    let start = Instant::now();
    let read = plimsoll_onnx::read(onnx)?;
    let seconds = start.elapsed().as_secs_f64();
    let captured = json::read(graph)?;
    let parameters = i128::from(read.graph.parameter_count()) - i128::from(captured.parameter_count());
    if let Ok(folder) = std::env::var("WRITE_GRAPHS") {
        let name = onnx.file_stem().unwrap_or_default();
        std::fs::write(Path::new(&folder).join(name).with_extension("json"), json::write(&read.graph))?;
    }
    let (saved, peak) = simulate(read.graph, batch)?;
    let (wanted_saved, wanted_peak) = simulate(captured, batch)?;
    let warnings = read.warnings.join("; ").chars().take(90).collect();
    Ok(Row { parameters, saved: saved / wanted_saved, peak: peak / wanted_peak, seconds, warnings })
}

fn simulate(graph: Graph, batch: u64) -> Result<(f64, f64), Box<dyn Error>> {
    let mut setup = TrainingSetup::new(batch);
    setup.optimizer = Optimizer::SgdMomentum;
    let gpu = GpuCatalogue::built_in().find("a100-40")?.clone();
    let simulation = Simulation::of(&Workload::new(graph, setup, gpu)?);
    Ok((simulation.trace.saved_bytes as f64, simulation.peak_mib()))
}

fn summarise(rows: &[Row]) {
    let count = rows.len().max(1);
    let near = |within: f64, of: fn(&Row) -> f64| {
        let near = rows.iter().filter(|row| (of(row) - 1.0).abs() <= within).count();
        format!("{near} of {} within {} %", rows.len(), 100.0 * within)
    };
    let median = |of: fn(&Row) -> f64| {
        let mut deviations: Vec<f64> = rows.iter().map(|row| 100.0 * (of(row) - 1.0).abs()).collect();
        deviations.sort_by(f64::total_cmp);
        deviations.get(count / 2).copied().unwrap_or(0.0)
    };
    let exact = rows.iter().filter(|row| row.parameters == 0).count();
    println!("parameters equal: {exact} of {}", rows.len());
    println!("saved: {}, median {:.2} %", near(0.05, |row| row.saved), median(|row| row.saved));
    println!("peak: {}, median {:.2} %", near(0.05, |row| row.peak), median(|row| row.peak));
}
