//! What fitting promises: it learns, it is repeatable, it masks what is unknown, and company changes nothing.

mod support;

use plimsoll_dataset::{Outcome, Sample};
use plimsoll_model::{Estimate, Estimator, Fit, Learned, OutputSettings};
use support::{SILENT, fit, mlp, one_at_a_time, samples, transformer};

fn refs(samples: &[Sample]) -> Vec<&Sample> {
    samples.iter().collect()
}

fn memory(estimates: &[Estimate]) -> Vec<f64> {
    estimates.iter().map(|estimate| estimate.peak_memory_mib.expect("estimated")).collect()
}

fn mape(learned: &Learned, samples: &[Sample]) -> f64 {
    let estimates = memory(&learned.estimate(&refs(samples)));
    let errors = estimates.iter().zip(samples).map(|(estimate, sample)| {
        let measured = sample.outcome.peak_mib().expect("measured");
        (estimate - measured).abs() / measured
    });
    100.0 * errors.sum::<f64>() / samples.len() as f64
}

#[test]
fn both_networks_overfit_eight_samples() {
    let _turn = one_at_a_time();
    let samples = samples(8);
    for network in [mlp(), transformer(0.0)] {
        let untrained = fit(network.clone(), 1, &SILENT).fit(&refs(&samples), &[]).expect("fits");
        let trained = fit(network, 300, &SILENT).fit(&refs(&samples), &[]).expect("fits");
        let (before, after) = (mape(&untrained, &samples), mape(&trained, &samples));
        assert!(after < 0.5 && before > 3.0, "{}: {before} % before, {after} % after", trained.name());
        for (estimate, sample) in trained.estimate(&refs(&samples)).iter().zip(&samples) {
            let (estimated, measured) = (estimate.utilisation[0].expect("fitted"), sample.utilisation[0].expect("set"));
            assert!((estimated - f64::from(measured)).abs() < 0.05, "{estimated} for {measured}");
            assert_eq!(estimate.utilisation[5], None, "what was never recorded is not estimated");
        }
    }
}

#[test]
fn the_seed_decides_the_weights() {
    let _turn = one_at_a_time();
    let samples = samples(24);
    let estimates = |seed: u64| {
        let mut settings = fit(transformer(0.2), 3, &SILENT);
        settings.settings.training.seed = seed;
        memory(&settings.fit(&refs(&samples), &[]).expect("fits").estimate(&refs(&samples)))
    };
    let first = estimates(1);
    assert_eq!(first, estimates(1));
    assert_ne!(first, estimates(2));
}

#[test]
fn padding_and_company_never_change_an_estimate() {
    let _turn = one_at_a_time();
    let samples = samples(40);
    let learned = fit(transformer(0.0), 4, &SILENT).fit(&refs(&samples), &[]).expect("fits");
    let together = learned.estimate(&refs(&samples));
    for (sample, company) in samples.iter().zip(together) {
        let alone = learned.estimate(&[sample])[0];
        let pairs = [
            (alone.peak_memory_mib, company.peak_memory_mib),
            (alone.log_scale, company.log_scale),
            (alone.utilisation[0], company.utilisation[0]),
        ];
        for (alone, company) in pairs {
            let (alone, company) = (alone.expect("estimated"), company.expect("estimated"));
            // Kernels may sum in another order for another batch size; nothing else may differ.
            assert!((alone - company).abs() <= 2e-5 * alone.abs(), "{alone} alone, {company} in company");
        }
    }
}

#[test]
fn runs_out_of_memory_push_estimates_above_their_limit() {
    let _turn = one_at_a_time();
    let mut samples = samples(16);
    let limit = 2.0 * samples[0].outcome.peak_mib().expect("measured");
    let plain = fit(mlp(), 200, &SILENT).fit(&refs(&samples), &[]).expect("fits");
    samples[0].outcome = Outcome::OutOfMemory { above_mib: limit };
    let censored = fit(mlp(), 200, &SILENT).fit(&refs(&samples), &[]).expect("fits");
    let first = |learned: &Learned| memory(&learned.estimate(&[&samples[0]]))[0];
    assert!(first(&plain) < limit);
    assert!(first(&censored) > 0.95 * limit, "{} for a limit of {limit}", first(&censored));
}

#[test]
fn a_classifier_names_the_bin() {
    let _turn = one_at_a_time();
    let samples = samples(12);
    let mut settings = fit(mlp(), 200, &SILENT);
    settings.settings.output = OutputSettings::Bins { width_mib: 4096.0, count: 20 };
    let learned = settings.fit(&refs(&samples), &[]).expect("fits");
    let estimates = memory(&learned.estimate(&refs(&samples)));
    let right = estimates.iter().zip(&samples).filter(|(estimate, sample)| {
        let measured = sample.outcome.peak_mib().expect("measured");
        (*estimate / 4096.0).floor() == (measured / 4096.0).floor().min(19.0)
    });
    assert!(right.count() >= 11);
}

#[test]
fn data_without_a_measurement_is_refused() {
    let _turn = one_at_a_time();
    let mut samples = samples(4);
    for sample in &mut samples {
        sample.outcome = Outcome::Unknown;
    }
    assert!(fit(mlp(), 1, &SILENT).fit(&refs(&samples), &[]).is_err());
    assert!(fit(mlp(), 1, &SILENT).fit(&[], &[]).is_err());
    let mut broken = fit(mlp(), 1, &SILENT);
    broken.settings.training.learning_rate = f64::NAN;
    assert!(broken.fit(&refs(&support::samples(4)), &[]).is_err());
}
