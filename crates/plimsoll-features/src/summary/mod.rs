//! A workload in one vector: totals, counts, shares and the setup.

mod layers;
mod memory;
mod setup;
mod time;

use std::fmt::Display;

use plimsoll_graph::Workload;
use plimsoll_simulate::Simulation;

use crate::layer::Layer;

use memory::SPIKE_RISK;

/// What the summary is made from.
struct Subject<'a> {
    workload: &'a Workload,
    simulation: &'a Simulation,
    layers: &'a [Layer],
}

/// Names of the numbers, in order.
pub(crate) fn names() -> Vec<String> {
    let mut entries = Entries { names: Some(Vec::new()), values: Vec::new() };
    entries.fill(None);
    entries.names.unwrap_or_default()
}

/// Places, in the order of [`names`], of the numbers that only a simulated step knows.
pub(crate) fn simulated() -> Vec<usize> {
    let mut of_simulator = Entries { names: Some(Vec::new()), values: Vec::new() };
    memory::add(&mut of_simulator, None);
    time::add(&mut of_simulator, None);
    let of_simulator = of_simulator.names.unwrap_or_default();
    let is_simulated = |name: &String| of_simulator.contains(name) && !memory::COUNTED.contains(&name.as_str());
    let names = names();
    (0..names.len()).filter(|&place| is_simulated(&names[place])).collect()
}

/// Place, in the order of [`names`], of the roofline's ratio behind FP32A.
pub(crate) fn fp32() -> usize {
    place(time::FED_FP32)
}

/// Place, in the order of [`names`], of the flag of cuDNN's benchmark mode.
pub(crate) fn benchmark() -> usize {
    place(setup::BENCHMARK)
}

/// Place, in the order of [`names`], of [`SPIKE_RISK`].
pub(crate) fn spike_risk() -> usize {
    place(SPIKE_RISK)
}

fn place(wanted: &str) -> usize {
    names().iter().position(|name| name == wanted).expect("a feature of this build")
}

/// The numbers, in the order of [`names`].
pub(crate) fn summary(workload: &Workload, simulation: &Simulation, layers: &[Layer]) -> Vec<f32> {
    let mut entries = Entries { names: None, values: Vec::with_capacity(128) };
    entries.fill(Some(&Subject { workload, simulation, layers }));
    entries.values
}

/// Names and numbers side by side, so that neither can be out of step. Names are written out only where they are asked
/// for; without a workload the numbers are zero.
struct Entries {
    names: Option<Vec<String>>,
    values: Vec<f32>,
}

impl Entries {
    fn fill(&mut self, subject: Option<&Subject<'_>>) {
        memory::add(self, subject);
        layers::add(self, subject);
        time::add(self, subject);
        setup::add(self, subject);
    }

    fn add(&mut self, name: impl Display, value: f32) {
        if let Some(names) = &mut self.names {
            names.push(name.to_string());
        }
        self.values.push(value);
    }
}

fn flag(condition: bool) -> f32 {
    f32::from(u8::from(condition))
}

fn share(part: u64, whole: u64) -> f32 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64) as f32 }
}

fn log_ratio(numerator: u64, denominator: u64) -> f32 {
    (numerator as f64 / (denominator as f64).max(1.0)).ln_1p() as f32
}
