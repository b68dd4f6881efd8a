//! What boosted trees promise: they learn, they are repeatable, and one kind of them is shown nothing that was simulated.

#[allow(dead_code, reason = "networks are another file's subject")]
mod support;

use plimsoll_dataset::{Outcome, Sample};
use plimsoll_model::{BoostedFit, BoostedOn, BoostedSettings, BoostedTrees, CalibrationSettings, Estimator, Fit};
use support::samples;

fn fit(on: BoostedOn, seed: u64, training: &[Sample]) -> BoostedTrees {
    let settings = BoostedSettings { trees: 150, seed, ..BoostedSettings::new(on) };
    let calibration = CalibrationSettings { fraction: 0.25, ..CalibrationSettings::default() };
    let fit = BoostedFit { name: "trees".into(), settings, calibration };
    fit.fit(&training.iter().collect::<Vec<_>>(), &[]).expect("fits")
}

fn memory(trees: &BoostedTrees, samples: &[Sample]) -> Vec<f64> {
    let estimates = trees.estimate(&samples.iter().collect::<Vec<_>>());
    estimates.iter().map(|estimate| estimate.peak_memory_mib.expect("estimated")).collect()
}

fn median_error(estimates: &[f64], samples: &[Sample]) -> f64 {
    let measured = |sample: &Sample| sample.outcome.peak_mib().expect("measured");
    let mut errors: Vec<f64> =
        estimates.iter().zip(samples).map(|(mib, sample)| (mib / measured(sample) - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    errors[errors.len() / 2]
}

#[test]
fn both_kinds_tell_new_rows_better_than_one_number_for_all() {
    let samples = samples(400);
    // Every fourth row is new, so that both halves of the rows are fitted to.
    let (new, training): (Vec<_>, Vec<_>) = samples.into_iter().enumerate().partition(|(index, _)| index % 4 == 0);
    let rows = |part: Vec<(usize, Sample)>| -> Vec<Sample> { part.into_iter().map(|(_, sample)| sample).collect() };
    let (new, training) = (rows(new), rows(training));
    let mut peaks: Vec<f64> = training.iter().filter_map(|sample| sample.outcome.peak_mib()).collect();
    peaks.sort_by(f64::total_cmp);
    let constant = median_error(&vec![peaks[peaks.len() / 2]; new.len()], &new);
    let features = median_error(&memory(&fit(BoostedOn::Features, 0, &training), &new), &new);
    let simulation = median_error(&memory(&fit(BoostedOn::Simulation, 0, &training), &new), &new);
    assert!(features < 0.6 * constant, "{features} against {constant}");
    assert!(simulation < 0.1 && simulation < features, "{simulation} against {features}");
}

#[test]
fn the_seed_decides_the_trees_and_company_changes_nothing() {
    let samples = samples(80);
    let first = memory(&fit(BoostedOn::Features, 1, &samples), &samples);
    assert_eq!(first, memory(&fit(BoostedOn::Features, 1, &samples), &samples));
    assert_ne!(first, memory(&fit(BoostedOn::Features, 2, &samples), &samples));
    let trees = fit(BoostedOn::Features, 1, &samples);
    for (sample, company) in samples.iter().zip(first) {
        assert_eq!(memory(&trees, std::slice::from_ref(sample)), [company]);
    }
    assert!(trees.size_bytes() > 1000 && trees.estimate(&[]).is_empty());
}

#[test]
fn features_alone_are_blind_to_the_simulator() {
    let samples = samples(80);
    let mut changed = samples.clone();
    for sample in &mut changed {
        for place in plimsoll_features::FeatureSchema::simulated_summary() {
            sample.features.summary[place] *= 3.0;
        }
        sample.features.analytic.reserved_mib *= 3.0;
    }
    let (features, simulation) = (fit(BoostedOn::Features, 0, &samples), fit(BoostedOn::Simulation, 0, &samples));
    assert_eq!(memory(&features, &samples), memory(&features, &changed));
    assert_ne!(memory(&simulation, &samples), memory(&simulation, &changed));
}

#[test]
fn runs_out_of_memory_are_left_out_of_the_fit() {
    let samples = samples(60);
    let mut with_limits = samples.clone();
    with_limits.extend(
        samples
            .iter()
            .take(20)
            .cloned()
            .map(|sample| Sample { outcome: Outcome::OutOfMemory { above_mib: 1e6 }, ..sample }),
    );
    let settings = BoostedSettings { trees: 20, ..BoostedSettings::new(BoostedOn::Features) };
    let calibration = CalibrationSettings { fraction: 0.0, ..CalibrationSettings::default() };
    let fit = BoostedFit { name: "trees".into(), settings, calibration };
    let fitted = |rows: &[Sample]| fit.fit(&rows.iter().collect::<Vec<_>>(), &[]).expect("fits");
    assert_eq!(memory(&fitted(&samples), &samples), memory(&fitted(&with_limits), &samples));
    let unknown: Vec<Sample> = with_limits.into_iter().skip(60).collect();
    let error = fit.fit(&unknown.iter().collect::<Vec<_>>(), &[]).err().expect("nothing to fit to").to_string();
    assert!(error.contains("measured") && error.contains("found 0"), "{error}");
}

#[test]
fn bounds_hold_on_new_rows() {
    let samples = samples(600);
    let (new, training): (Vec<_>, Vec<_>) = samples.into_iter().enumerate().partition(|(index, _)| index % 3 == 0);
    let training: Vec<Sample> = training.into_iter().map(|(_, sample)| sample).collect();
    let new: Vec<Sample> = new.into_iter().map(|(_, sample)| sample).collect();
    let trees = fit(BoostedOn::Features, 0, &training);
    let estimates = trees.estimate(&new.iter().collect::<Vec<_>>());
    let holds = estimates.iter().zip(&new).filter(|(estimate, sample)| {
        estimate.bounds.expect("calibrated").p95 >= sample.outcome.peak_mib().expect("measured")
    });
    let share = holds.count() as f64 / new.len() as f64;
    // Both parts are drawn: three standard deviations of what 100 rows promise and 200 show.
    assert!((share - 0.95).abs() < 3.0 * (0.95_f64 * 0.05 * (1.0 / 100.0 + 1.0 / 200.0)).sqrt(), "{share}");
}

#[test]
fn settings_out_of_range_are_named() {
    let bad = |change: fn(&mut BoostedSettings)| {
        let mut settings = BoostedSettings::new(BoostedOn::Features);
        change(&mut settings);
        settings.check().expect_err("out of range").to_string()
    };
    assert!(bad(|settings| settings.trees = 0).contains("boosted.trees"));
    assert!(bad(|settings| settings.learning_rate = f64::NAN).contains("boosted.learning_rate"));
    assert!(bad(|settings| settings.rows = 1.5).contains("boosted.rows"));
}
