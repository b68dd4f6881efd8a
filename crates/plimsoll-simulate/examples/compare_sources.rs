//! Compares both sources of a step on graph files that have a record: rules against the record, one line a file.
//!
//! `cargo run -p plimsoll-simulate --example compare_sources -- [--batch N] [--nodes N] [--difference] FILE...`

#![expect(clippy::print_stdout, reason = "an example that prints a table")]

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_graph::{GpuCatalogue, NodeId, Op, TrainingSetup, Workload, json};
use plimsoll_simulate::{Event, StepTrace, lower, recorded_trace, replay};

/// Bytes of a step.
struct Figures {
    saved: u64,
    live_peak: u64,
    reserved: u64,
}

impl Figures {
    fn of(workload: &Workload, trace: &StepTrace) -> Self {
        let (mut live, mut live_peak) = (0_u64, 0);
        for event in &trace.events {
            match event {
                Event::Allocate(id) => live += trace.bytes(*id),
                Event::Free(id) => live -= trace.bytes(*id),
                _ => {}
            }
            live_peak = live.max(live_peak);
        }
        let reserved = replay(workload, trace, None).reserved_bytes;
        Self { saved: trace.saved_bytes, live_peak, reserved }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut batch, mut shown, mut files, mut shows_difference) = (8, 0, Vec::new(), false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--batch" => batch = arguments.next().unwrap_or_default().parse()?,
            "--difference" => shows_difference = true,
            "--nodes" => shown = arguments.next().unwrap_or_default().parse()?,
            _ => files.push(argument),
        }
    }
    let gpu = GpuCatalogue::built_in().find("a100-40")?.clone();
    println!("name saved_mib saved_% peak_mib peak_% reserved_mib reserved_% unknown");
    for file in files {
        let graph = json::read(Path::new(&file))?;
        let Some(record) = graph.step_records().first().cloned() else { continue };
        let mut setup = TrainingSetup::new(batch);
        (setup.precision, setup.loss) = (record.precision, record.loss);
        let workload = Workload::new(graph, setup, gpu.clone())?;
        let (by_rule, by_record) = (lower(&workload), recorded_trace(&workload, &record));
        let (rule, seen) = (Figures::of(&workload, &by_rule), Figures::of(&workload, &by_record));
        let pair = |rule: u64, seen: u64| {
            let mib = seen as f64 / f64::from(1 << 20);
            format!("{mib:.1} {:+.3}", 100.0 * (rule as f64 - seen as f64) / (seen as f64).max(1.0))
        };
        let name = workload.graph().name();
        let unknown = plimsoll_simulate::unruled_operators(workload.graph()).join(",");
        println!(
            "{name} {} {} {} {unknown}",
            pair(rule.saved, seen.saved),
            pair(rule.live_peak, seen.live_peak),
            pair(rule.reserved, seen.reserved)
        );
        if shows_difference {
            show_difference(&workload, &by_rule, &by_record);
        }
        for (kind, difference) in differences(&workload, &by_rule, &by_record).into_iter().take(shown) {
            println!("    {:+.3} MiB {kind}", difference as f64 / f64::from(1 << 20));
        }
    }
    Ok(())
}

/// What is alive between forward and backward pass, by the kind of node that made it: rule less record.
fn differences(workload: &Workload, rule: &StepTrace, record: &StepTrace) -> Vec<(String, i64)> {
    let mut by_kind: BTreeMap<String, i64> = BTreeMap::new();
    let mut add = |trace: &StepTrace, sign: i64| {
        for (node, bytes) in alive(trace) {
            *by_kind.entry(kind(workload, node)).or_default() += sign * bytes as i64;
        }
    };
    add(rule, 1);
    add(record, -1);
    let mut differences: Vec<_> = by_kind.into_iter().filter(|(_, bytes)| *bytes != 0).collect();
    differences.sort_by_key(|(_, bytes)| -bytes.abs());
    differences
}

/// Buffers alive when the backward pass begins, by node.
fn alive(trace: &StepTrace) -> Vec<(Option<NodeId>, u64)> {
    let mut is_alive = vec![false; trace.buffers.len()];
    for event in trace.events.iter().take_while(|event| **event != Event::Backward) {
        match event {
            Event::Allocate(id) => is_alive[id.0 as usize] = true,
            Event::Free(id) => is_alive[id.0 as usize] = false,
            _ => {}
        }
    }
    let buffers = trace.buffers.iter().zip(is_alive).filter(|(_, is_alive)| *is_alive);
    buffers.map(|(buffer, _)| (buffer.node, buffer.bytes)).collect()
}

/// A node's operator, and those that read it.
fn kind(workload: &Workload, node: Option<NodeId>) -> String {
    let Some(id) = node else { return "batch and loss".into() };
    let graph = workload.graph();
    let node = &graph.nodes()[id.0 as usize];
    let name = |op: &Op| match op {
        Op::Other { name } => name.clone(),
        op => op.token().to_owned(),
    };
    let mut readers: Vec<String> = graph
        .nodes()
        .iter()
        .filter(|reader| reader.inputs.iter().any(|input| node.outputs.contains(input)))
        .map(|reader| name(&reader.op))
        .collect();
    readers.sort();
    readers.dedup();
    format!("{} -> {}", name(&node.op), readers.join(","))
}

/// The allocations around the first that differs: bytes, bytes alive then, and whose they are.
fn show_difference(workload: &Workload, rule: &StepTrace, record: &StepTrace) {
    let allocations = |trace: &StepTrace| {
        let mut live = 0_u64;
        let mut allocations = Vec::new();
        for event in &trace.events {
            match event {
                Event::Allocate(id) => {
                    live += trace.bytes(*id);
                    allocations.push((trace.bytes(*id), live, trace.buffers[id.0 as usize].node));
                }
                Event::Free(id) => live -= trace.bytes(*id),
                _ => {}
            }
        }
        allocations
    };
    let (rule, record) = (allocations(rule), allocations(record));
    let sizes =
        |side: &[(u64, u64, Option<NodeId>)], index: usize| side.get(index).map(|&(bytes, live, _)| (bytes, live));
    let length = rule.len().max(record.len());
    let Some(at) = (0..length).find(|&index| sizes(&rule, index) != sizes(&record, index)) else { return };
    println!("    rule: {} allocations; record: {}; the first that differs is {at}", rule.len(), record.len());
    for index in at.saturating_sub(4)..(at + 12).min(length) {
        let side = |side: &[(u64, u64, Option<NodeId>)]| match side.get(index) {
            Some((bytes, live, node)) => {
                let name = node.map_or("-", |id| workload.graph().nodes()[id.0 as usize].name.as_str());
                format!("{bytes:>12} {live:>12} {name}")
            }
            None => String::new(),
        };
        println!("    {:<70} | {}", side(&rule), side(&record));
    }
}
