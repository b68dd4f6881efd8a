//! Which readings of a file are believed, by rules that look at the file only.
//!
//! Tables without a status column hold runs that ran out of memory beside runs that ended well. The larger batch of a
//! job needs the more memory, and in about even steps; what does not fit that, or the card, gives such runs away. No
//! estimate of ours takes part: an estimator may be judged on what is left. Where a table itself counts the tensors of a
//! job, that is the least a run can take.

use std::collections::BTreeMap;

/// A reading as the rules see it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading<'a> {
    /// The job apart from its batch: workload, setup and GPU.
    pub(super) job: &'a str,
    /// Name of the GPU.
    pub(super) gpu: &'a str,
    /// Memory of the GPU, MiB.
    pub(super) capacity_mib: f64,
    /// Samples per step.
    pub(super) batch: u64,
    /// What was read, MiB.
    pub(super) mib: f64,
    /// What the job's tensors alone take at their peak, MiB, where the file says it; 0 where it does not.
    pub(super) tensors_mib: f64,
    /// How far the readings that stand behind this one lie apart, as a share of their median; 0 for a single one.
    pub(super) spread: f64,
}

/// What the rules say of a reading. Reasons are the same text for every row that a rule catches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is believed.
    Good,
    /// The run needed more than was read.
    OutOfMemory(&'static str),
    /// The reading is wrong, or cannot be told from a wrong one.
    Suspect(&'static str),
}

/// Readings of a card reach this much of its memory as the catalogue has it, whatever the driver.
const MOST_OF_CAPACITY: f64 = 1.01;

/// From this share of the card on, a run may have been cut short by it: the request that failed is not in the reading.
const NEAR_CAPACITY: f64 = 0.95;

/// Readings of one run differ by this much.
const NOISE: f64 = 0.01;

/// A run near the capacity did fit if it read what its smaller batches let expect: not over this much less, ...
const CUT_SHORT: f64 = 0.02;

/// ... nor over this much more, for then those batches say nothing of it.
const UNEXPECTED: f64 = 0.1;

/// Memory grows evenly with the batch: a reading of less than this share of what that leads to was cut short.
const STUNTED_BELOW: f64 = 0.65;

/// Two readings of one run that differ by more than this cannot both be right.
const MAX_SPREAD: f64 = 0.2;

/// The allocator takes memory from the driver in steps of 2 MiB, so that readings of one GPU are all odd or all even
/// if this share of them is.
const ON_STEP: f64 = 0.85;

/// Fewer readings of a GPU show nothing about steps.
const MIN_FOR_STEPS: usize = 16;

const BEYOND: &str = "the reading is more than the GPU has";
const OFF_STEP: &str = "the reading is off the 2 MiB steps of all others on its GPU";
const REPEATS: &str = "repeats of the run disagree";
const NEAR: &str = "the run ended near the memory of its GPU";
const AFTER: &str = "a smaller batch of the job ran out of memory";
const GROWTH: &str = "no more was read than at a smaller batch, whose growth leads beyond the GPU";
const LESS: &str = "less was read than at a smaller batch";
const FLAT: &str = "no more was read than at half the batch";
const STUNTED: &str = "far less was read than smaller batches lead to, which is beyond the GPU";
const TENSORS: &str = "less was read than the job's tensors take";
const TENSORS_BEYOND: &str = "the job's tensors alone take more than the GPU has";
const SAME: &str = "the same was read at another batch of the job";
const TOO_LITTLE: &str = "twice as much would fit, but larger batches of the job did not run";
const AFTER_SUSPECT: &str = "a smaller batch of the job did not run";
const AFTER_FLAT: &str = "a smaller batch of the job read no more than half of it did";
const FLAT_FROM_START: &str = "no less was read than at twice the batch";

/// Judges all readings of a file; verdicts come in their order.
///
/// 1. More than the GPU has: suspect. Off the steps in which the GPU's other readings stand: suspect.
/// 2. Repeats that lie over 20 % apart, where no third one settles it: suspect.
/// 3. By batch within a job: near the capacity (95 %), unless smaller batches let expect just that: out of memory.
///    So is every larger batch after it.
/// 4. Less than at a smaller batch, or no more (1 %) than at half the batch: out of memory if the growth between
///    smaller batches leads beyond 95 % of the GPU, else suspect.
/// 5. The smallest batch, if twice the batch reads the same: suspect. So is every larger batch after one that reads no
///    more than half of it.
/// 6. The same (1 %) at any two batches of a job: both suspect. So is a larger batch after one that is suspect, but for
///    one of over twice its reading, unless less was read there than at a smaller batch, which may have been a spike.
/// 7. So little that the next batch of the job would fit too, though neither that one nor any larger one is believed:
///    suspect. Memory at most doubles with the batch.
/// 8. Under 65 % of what growth leads to, if that is beyond 95 % of the GPU: suspect.
/// 9. Less than the job's tensors take, where the file counts them: out of memory if they alone take more than 95 % of
///    the GPU, else suspect.
pub(super) fn judge(readings: &[Reading<'_>]) -> Vec<Verdict> {
    let steps = steps(readings);
    let mut jobs: BTreeMap<&str, BTreeMap<u64, Vec<usize>>> = BTreeMap::new();
    let mut verdicts = vec![Verdict::Good; readings.len()];
    for (index, reading) in readings.iter().enumerate() {
        let off_step = steps.get(reading.gpu).is_some_and(|&step| reading.mib.rem_euclid(2.0) != step);
        if reading.mib > MOST_OF_CAPACITY * reading.capacity_mib {
            verdicts[index] = Verdict::Suspect(BEYOND);
        } else if off_step {
            verdicts[index] = Verdict::Suspect(OFF_STEP);
        } else if reading.spread > MAX_SPREAD {
            verdicts[index] = Verdict::Suspect(REPEATS);
        } else {
            jobs.entry(reading.job).or_default().entry(reading.batch).or_default().push(index);
        }
    }
    for batches in jobs.values() {
        judge_job(readings, batches, &mut verdicts);
    }
    verdicts
}

/// Whether the readings of each GPU are odd or even, where they are one of them.
fn steps<'a>(readings: &[Reading<'a>]) -> BTreeMap<&'a str, f64> {
    let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for reading in readings.iter().filter(|reading| reading.mib <= MOST_OF_CAPACITY * reading.capacity_mib) {
        let rest = reading.mib.rem_euclid(2.0);
        let place = if rest == 0.0 { 0 } else { 1 + usize::from(rest != 1.0) };
        counts.entry(reading.gpu).or_default()[place] += 1;
    }
    let of_gpu = |(gpu, counts): (&'a str, [usize; 3])| {
        let all: usize = counts.iter().sum();
        let place = (0..2).find(|&place| counts[place] as f64 >= ON_STEP * all as f64)?;
        (all >= MIN_FOR_STEPS).then_some((gpu, place as f64))
    };
    counts.into_iter().filter_map(of_gpu).collect()
}

/// A job's readings, from its smallest batch on.
fn judge_job(readings: &[Reading<'_>], batches: &BTreeMap<u64, Vec<usize>>, verdicts: &mut [Verdict]) {
    let mut growth = Growth::default();
    let mut first: Option<(u64, f64, &[usize])> = None;
    let mut jobs: Vec<(u64, f64, &[usize])> = Vec::new();
    for (place, (&batch, indices)) in batches.iter().enumerate() {
        let mib = median(indices.iter().map(|&index| readings[index].mib).collect());
        let tensors_mib = median(indices.iter().map(|&index| readings[index].tensors_mib).collect());
        let verdict = growth.judge(batch, mib, tensors_mib, readings[indices[0]].capacity_mib);
        for &index in indices {
            verdicts[index] = verdict;
        }
        jobs.push((batch, mib, indices.as_slice()));
        match first {
            None => first = Some((batch, mib, indices)),
            Some((smallest, least, indices))
                if place == 1 && batch >= 2 * smallest && (mib - least).abs() <= NOISE * least =>
            {
                for &index in indices {
                    if verdicts[index] == Verdict::Good {
                        verdicts[index] = Verdict::Suspect(FLAT_FROM_START);
                    }
                }
                growth.trusted.clear();
            }
            Some(_) => {}
        }
    }
    cross_examine(&jobs, readings[jobs[0].2[0]].capacity_mib, verdicts);
}

/// Holds a job's readings, from its smallest batch on, against each other.
fn cross_examine(job: &[(u64, f64, &[usize])], capacity_mib: f64, verdicts: &mut [Verdict]) {
    let is_same = |one: f64, other: f64| (one - other).abs() <= NOISE * one.max(other);
    for &(batch, mib, indices) in job {
        // Neighbouring batches may well read the same: only doubling must show.
        let is_apart = |at: u64| 2 * at.min(batch) <= at.max(batch);
        if job.iter().any(|&(at, other, _)| is_apart(at) && is_same(mib, other)) {
            doubt(verdicts, indices, SAME);
        }
    }
    let mut stopped: Option<f64> = None;
    for &(_, mib, indices) in job {
        if stopped.is_some_and(|at| mib <= 2.0 * at) {
            doubt(verdicts, indices, AFTER_SUSPECT);
        }
        // Less than at a smaller batch may be no more than that one's spike.
        let did_not_run = matches!(verdicts[indices[0]], Verdict::Suspect(reason) if reason != LESS);
        stopped = stopped.or(did_not_run.then_some(mib));
    }
    let mut larger: Option<u64> = None;
    for &(batch, mib, indices) in job.iter().rev() {
        match larger {
            Some(at) if mib * at as f64 / (batch as f64) < NEAR_CAPACITY * capacity_mib => {
                doubt(verdicts, indices, TOO_LITTLE);
            }
            // From the first batch that ran on, larger ones have nothing to say.
            _ if verdicts[indices[0]] == Verdict::Good => return,
            _ => {}
        }
        larger = Some(batch);
    }
}

/// Readings that were believed so far are so no more.
fn doubt(verdicts: &mut [Verdict], indices: &[usize], reason: &'static str) {
    for &index in indices {
        if verdicts[index] == Verdict::Good {
            verdicts[index] = Verdict::Suspect(reason);
        }
    }
}

/// What smaller batches of a job have shown.
#[derive(Default)]
struct Growth {
    /// Batches and readings that are believed.
    trusted: Vec<(u64, f64)>,
    /// All batches and readings.
    seen: Vec<(u64, f64)>,
    ran_out: bool,
    is_flat: bool,
}

impl Growth {
    fn judge(&mut self, batch: u64, mib: f64, tensors_mib: f64, capacity_mib: f64) -> Verdict {
        let expected = self.expected(batch);
        let is_less = self.seen.iter().any(|&(_, smaller)| mib < (1.0 - NOISE) * smaller);
        let is_flat = self.seen.iter().any(|&(smaller, at)| 2 * smaller <= batch && mib <= (1.0 + NOISE) * at);
        let verdict = if self.ran_out {
            Verdict::OutOfMemory(AFTER)
        } else if mib < tensors_mib && tensors_mib > NEAR_CAPACITY * capacity_mib {
            Verdict::OutOfMemory(TENSORS_BEYOND)
        } else if mib < tensors_mib {
            Verdict::Suspect(TENSORS)
        } else if mib > NEAR_CAPACITY * capacity_mib {
            match expected {
                Some(expected)
                    if !is_flat && ((1.0 - UNEXPECTED) * mib..=(1.0 + CUT_SHORT) * mib).contains(&expected) =>
                {
                    Verdict::Good
                }
                _ => Verdict::OutOfMemory(NEAR),
            }
        } else if self.is_flat && !is_flat {
            Verdict::Suspect(AFTER_FLAT)
        } else if !is_less && !is_flat {
            let beyond = expected.filter(|&expected| expected > NEAR_CAPACITY * capacity_mib);
            match beyond {
                Some(expected) if mib < STUNTED_BELOW * expected => Verdict::Suspect(STUNTED),
                _ => Verdict::Good,
            }
        } else if expected.is_some_and(|expected| expected > NEAR_CAPACITY * capacity_mib) {
            Verdict::OutOfMemory(GROWTH)
        } else if is_less {
            Verdict::Suspect(LESS)
        } else {
            Verdict::Suspect(FLAT)
        };
        self.seen.push((batch, mib));
        // Less than at a smaller batch may be that one's spike; the same at half the batch is no coincidence.
        self.is_flat |= verdict == Verdict::Suspect(FLAT);
        match verdict {
            Verdict::Good => self.trusted.push((batch, mib)),
            Verdict::OutOfMemory(_) => self.ran_out = true,
            Verdict::Suspect(_) => {}
        }
        verdict
    }

    /// What the last two believed readings let expect of a batch.
    fn expected(&self, batch: u64) -> Option<f64> {
        let [.., (before, less), (last, more)] = self.trusted[..] else { return None };
        Some(more + (more - less) * (batch - last) as f64 / (last - before) as f64)
    }
}

/// The middle of at least one number; between the two middle ones, their mean.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    f64::midpoint(numbers[(numbers.len() - 1) / 2], numbers[numbers.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdicts on a job's readings on a GPU of 40 GiB.
    fn verdicts(runs: &[(u64, f64)]) -> Vec<Verdict> {
        let reading = |&(batch, mib): &(u64, f64)| Reading {
            job: "net",
            gpu: "a100-40",
            capacity_mib: 40_960.0,
            batch,
            mib,
            tensors_mib: 0.0,
            spread: 0.0,
        };
        judge(&runs.iter().map(reading).collect::<Vec<_>>())
    }

    #[test]
    fn even_growth_is_believed_up_to_the_brim() {
        let runs = [(8, 6_001.0), (16, 10_801.0), (32, 20_401.0), (64, 39_601.0)];
        assert_eq!(verdicts(&runs), [Verdict::Good; 4]);
    }

    #[test]
    fn runs_that_the_card_cut_short_are_out_of_memory_and_so_are_larger_batches() {
        let runs = [(8, 12_001.0), (16, 22_001.0), (32, 39_801.0), (64, 3_001.0)];
        let expected = [Verdict::Good, Verdict::Good, Verdict::OutOfMemory(NEAR), Verdict::OutOfMemory(AFTER)];
        assert_eq!(verdicts(&runs), expected);
        // Rows may stand in any order.
        let mut turned: Vec<(u64, f64)> = runs.to_vec();
        turned.reverse();
        assert_eq!(verdicts(&turned), expected.iter().rev().copied().collect::<Vec<_>>());
        assert_eq!(verdicts(&[(8, 40_301.0)]), [Verdict::OutOfMemory(NEAR)]);
        // Smaller batches that cannot have run do not vouch for it.
        assert_eq!(verdicts(&[(8, 3_849.0), (16, 4_285.0), (64, 40_309.0)])[2], Verdict::OutOfMemory(NEAR));
    }

    #[test]
    fn a_drop_is_out_of_memory_where_growth_leads_beyond_the_card_and_suspect_elsewhere() {
        let runs = [(8, 8_001.0), (16, 14_001.0), (32, 26_001.0), (64, 4_001.0), (128, 4_001.0)];
        assert_eq!(verdicts(&runs)[3..], [Verdict::OutOfMemory(GROWTH), Verdict::OutOfMemory(AFTER)]);
        // A spike at the smallest batch, and a good run after the drop.
        let runs = [(8, 6_119.0), (16, 4_179.0), (32, 7_001.0)];
        assert_eq!(verdicts(&runs), [Verdict::Good, Verdict::Suspect(LESS), Verdict::Good]);
    }

    #[test]
    fn jobs_that_do_not_grow_are_suspect_from_the_start() {
        let runs = [(8, 2_035.0), (16, 2_035.0), (32, 2_035.0)];
        let expected = [Verdict::Suspect(FLAT_FROM_START), Verdict::Suspect(FLAT), Verdict::Suspect(FLAT)];
        assert_eq!(verdicts(&runs), expected);
        let runs = [(8, 4_649.0), (16, 4_649.0), (32, 25_309.0)];
        assert_eq!(verdicts(&runs)[2], Verdict::Suspect(AFTER_FLAT));
    }

    #[test]
    fn growth_that_stops_short_of_the_card_is_suspect() {
        let runs = [(8, 6_069.0), (16, 11_823.0), (32, 21_599.0), (64, 22_493.0)];
        assert_eq!(verdicts(&runs)[3], Verdict::Suspect(STUNTED));
        let runs = [(8, 6_069.0), (16, 9_823.0), (32, 17_599.0), (64, 27_001.0)];
        assert_eq!(verdicts(&runs), [Verdict::Good; 4]);
    }

    #[test]
    fn runs_that_contradict_larger_ones_are_suspect() {
        // Twice 12 GB would fit: that larger batches did not run shows that these did not either.
        let runs = [(8, 10_461.0), (16, 12_607.0), (32, 9_001.0), (64, 9_003.0)];
        let verdicts_found = verdicts(&runs);
        assert!(verdicts_found.iter().all(|verdict| *verdict != Verdict::Good), "{verdicts_found:?}");
        assert_eq!(verdicts_found[1], Verdict::Suspect(TOO_LITTLE));
        // The same reading at batches far apart.
        let runs = [(8, 14_127.0), (16, 37_125.0), (32, 14_127.0), (64, 30_335.0)];
        assert_eq!(verdicts(&runs)[0], Verdict::Suspect(SAME));
        // A job that fills the card at its last batch is believed.
        let runs = [(8, 12_001.0), (16, 22_001.0), (32, 40_301.0)];
        assert_eq!(verdicts(&runs)[..2], [Verdict::Good; 2]);
    }

    #[test]
    fn readings_beyond_the_card_or_off_its_steps_are_suspect() {
        let mut runs: Vec<(u64, f64)> = (1..=30).map(|batch| (batch, 1_001.0 + 200.0 * batch as f64)).collect();
        runs.push((400, 80_001.0));
        runs.push((31, 7_202.0));
        let verdicts = verdicts(&runs);
        assert_eq!(verdicts[..30], [Verdict::Good; 30]);
        assert_eq!(verdicts[30..], [Verdict::Suspect(BEYOND), Verdict::Suspect(OFF_STEP)]);
    }

    #[test]
    fn repeats_that_disagree_are_suspect() {
        let reading = Reading {
            job: "net",
            gpu: "t4",
            capacity_mib: 15_360.0,
            batch: 8,
            mib: 3_000.0,
            tensors_mib: 0.0,
            spread: 0.4,
        };
        assert_eq!(judge(&[reading]), [Verdict::Suspect(REPEATS)]);
        assert_eq!(judge(&[]), []);
    }

    #[test]
    fn no_run_takes_less_than_its_tensors() {
        let reading = |batch, mib, tensors_mib| Reading {
            job: "net",
            gpu: "a100-40",
            capacity_mib: 40_960.0,
            batch,
            mib,
            tensors_mib,
            spread: 0.0,
        };
        let runs = [reading(8, 25_001.0, 45_000.0), reading(16, 26_501.0, 90_000.0)];
        assert_eq!(judge(&runs), [Verdict::OutOfMemory(TENSORS_BEYOND), Verdict::OutOfMemory(AFTER)]);
        let runs = [reading(8, 12_001.0, 7_000.0), reading(16, 22_001.0, 14_000.0), reading(32, 27_401.0, 28_000.0)];
        assert_eq!(judge(&runs), [Verdict::Good, Verdict::Good, Verdict::Suspect(TENSORS)]);
    }
}
