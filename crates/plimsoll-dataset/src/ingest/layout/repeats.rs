//! Several readings of one run.

use std::collections::BTreeMap;

use super::run::Run;
use crate::ingest::judge::median;

/// From this many repeats on, their median holds whatever one of them says.
const SETTLED: usize = 3;

/// Each job and batch once, in the place of its first row, with the median of its readings.
pub(super) fn medians(runs: &[Run]) -> Vec<Run> {
    let groups = groups(runs);
    let mut kept = Vec::with_capacity(groups.len());
    for (index, run) in runs.iter().enumerate() {
        let rows = &groups[&key(run)];
        if rows[0] != index {
            continue;
        }
        let readings: Vec<f64> = rows.iter().map(|&row| runs[row].reading_mib).collect();
        let throughput: Vec<f64> = rows.iter().filter_map(|&row| runs[row].samples_per_s).collect();
        kept.push(Run {
            spread: if rows.len() < SETTLED { spread(&readings) } else { 0.0 },
            // Of an even number of readings, one of the two in the middle: their mean was never read.
            reading_mib: lower_median(readings),
            samples_per_s: (!throughput.is_empty()).then(|| median(throughput)),
            repeats: rows.len(),
            ..run.clone()
        });
    }
    kept
}

/// Every row, each with its distance from what its repeats say.
pub(super) fn beside_each_other(mut runs: Vec<Run>) -> Vec<Run> {
    for rows in groups(&runs).into_values() {
        let readings: Vec<f64> = rows.iter().map(|&row| runs[row].reading_mib).collect();
        let (all, middle) = (spread(&readings), median(readings));
        for &row in &rows {
            let run = &mut runs[row];
            run.repeats = rows.len();
            run.spread = if rows.len() < SETTLED { all } else { (run.reading_mib - middle).abs() / middle };
        }
    }
    runs
}

fn key(run: &Run) -> (String, u64) {
    (run.job(), run.setup.batch_size)
}

/// The rows of each job and batch.
fn groups(runs: &[Run]) -> BTreeMap<(String, u64), Vec<usize>> {
    let mut groups: BTreeMap<(String, u64), Vec<usize>> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        groups.entry(key(run)).or_default().push(index);
    }
    groups
}

fn lower_median(mut readings: Vec<f64>) -> f64 {
    readings.sort_unstable_by(f64::total_cmp);
    readings[(readings.len() - 1) / 2]
}

/// The distance of the outermost readings as a share of their median.
fn spread(readings: &[f64]) -> f64 {
    let (least, most) =
        readings.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), &mib| (least.min(mib), most.max(mib)));
    (most - least) / median(readings.to_vec())
}
