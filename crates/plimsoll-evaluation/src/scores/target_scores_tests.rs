//! Metric values by hand, and what must hold of any rows.

use proptest::prelude::*;

use super::*;
use crate::prediction::tests::row;

fn scored(rows: &[Prediction]) -> TargetScores {
    TargetScores::of(Target::PeakMemory, &rows.iter().collect::<Vec<_>>(), 1024.0, None)
}

fn near(value: Option<f64>, expected: f64) {
    let value = value.expect("known");
    assert!((value - expected).abs() < 1e-9, "expected {expected}, found {value}");
}

#[test]
fn metrics_match_values_by_hand() {
    // Errors +100, -100, +100, 0; APE 10, 5, 2.5, 0 percent.
    let rows = [
        row("a:1", 1000.0, 1100.0),
        row("a:2", 2000.0, 1900.0),
        row("a:3", 4000.0, 4100.0),
        row("a:4", 5000.0, 5000.0),
    ];
    let scores = scored(&rows);
    assert_eq!((scores.n, scores.missing, scores.ape_skipped), (4, 0, 0));
    near(scores.median_ape_pct, 3.75);
    near(scores.mape_pct, 4.375);
    near(scores.p90_ape_pct, 5.0 + 0.7 * 5.0);
    near(scores.p99_ape_pct, 5.0 + 0.97 * 5.0);
    near(scores.within_5_pct, 0.75);
    near(scores.within_10_pct, 1.0);
    near(scores.mae, 75.0);
    near(scores.rmse, 7500.0_f64.sqrt());
    near(scores.bias, 25.0);
    // Mean 3000, total 4e6 + 1e6 + 1e6 + 4e6.
    near(scores.r2, 1.0 - 3e4 / 1e7);
    near(scores.underestimation_rate, 0.25);
    near(scores.margin_95_pct, (2000.0 / 1900.0 - 1.0) * 100.0);
    let memory = scores.memory.expect("known");
    // Bins 0|1, 1|1, 3|4, 4|4.
    near(memory.bin_accuracy, 0.5);
    near(memory.fit_accuracy, 1.0);
    assert_eq!((memory.censored, memory.censored_above_limit), (0, None));
}

#[test]
fn bins_are_half_open() {
    let memory = scored(&[row("a:1", 1024.0, 1023.9), row("a:2", 1024.0, 2047.9)]).memory.expect("known");
    near(memory.bin_accuracy, 0.5);
}

#[test]
fn an_upper_edge_names_the_bin_below_it() {
    let edge = 2048.0_f64.ln().exp();
    for edge in [2048.0, edge, edge * (1.0 + 1e-15), edge * (1.0 - 1e-15)] {
        let memory = scored(&[row("a:1", 1500.0, edge), row("a:2", 2500.0, edge)]).memory.expect("known");
        near(memory.bin_accuracy, 0.5);
        let memory = scored(&[row("a:1", 1500.0, edge)]).memory.expect("known");
        near(memory.bin_accuracy, 1.0);
    }
}

#[test]
fn bins_without_a_width_have_no_accuracy() {
    let rows = [row("a:1", 1000.0, 2000.0)];
    for width in [0.0, -1.0, f64::NAN] {
        let scores = TargetScores::of(Target::PeakMemory, &[&rows[0]], width, None);
        assert_eq!(scores.memory.and_then(|memory| memory.bin_accuracy), None);
    }
}

#[test]
fn censored_rows_count_apart() {
    let mut rows = [row("a:1", 0.0, 45_000.0), row("a:2", 0.0, 39_000.0), row("a:3", 1000.0, 50_000.0)];
    for row in &mut rows[..2] {
        row.outcome = Outcome::OutOfMemory { above_mib: 40_000.0 };
    }
    let mut silent = rows[0].clone();
    silent.estimate.peak_memory_mib = None;
    let scores = scored(&[rows.to_vec(), vec![silent]].concat());
    assert_eq!((scores.n, scores.missing), (1, 1));
    let memory = scores.memory.expect("known");
    assert_eq!(memory.censored, 2);
    near(memory.censored_above_limit, 0.5);
    near(memory.fit_accuracy, 0.0);
}

#[test]
fn one_row_and_constant_rows_have_no_r2() {
    let one = scored(&[row("a:1", 1000.0, 1100.0)]);
    assert_eq!((one.n, one.r2), (1, None));
    near(one.median_ape_pct, 10.0);
    near(one.p99_ape_pct, 10.0);
    let constant = scored(&vec![row("a:1", 0.1, 0.2); 7]);
    assert_eq!(constant.r2, None);
}

#[test]
fn a_value_of_zero_has_no_ape_but_counts_elsewhere() {
    let mut rows = vec![row("a:1", 1000.0, 1000.0); 2];
    rows[0].utilisation[1] = Some(0.0);
    rows[0].estimate.utilisation[1] = Some(0.2);
    rows[1].utilisation[1] = Some(0.5);
    rows[1].estimate.utilisation[1] = Some(0.6);
    let scores = TargetScores::of(Target::Gract, &rows.iter().collect::<Vec<_>>(), 1024.0, None);
    assert_eq!((scores.n, scores.ape_skipped), (2, 1));
    near(scores.mape_pct, 20.0);
    near(scores.mae, 0.15);
    assert_eq!(scores.memory, None);
}

#[test]
fn no_margin_helps_an_estimate_of_zero() {
    assert_eq!(scored(&[row("a:1", 1000.0, 0.0)]).margin_95_pct, None);
    near(scored(&[row("a:1", 1000.0, 2000.0)]).margin_95_pct, -50.0);
}

fn rows() -> impl Strategy<Value = Vec<Prediction>> {
    prop::collection::vec((0.0..80_000.0_f64, 1.0..80_000.0_f64), 1..60)
        .prop_map(|pairs| pairs.into_iter().map(|(measured, estimated)| row("a:1", measured, estimated)).collect())
}

proptest! {
    #[test]
    fn perfect_predictions_have_no_error(measured in prop::collection::vec(1.0..80_000.0_f64, 1..60)) {
        let rows: Vec<_> = measured.iter().map(|peak| row("a:1", *peak, *peak)).collect();
        let scores = scored(&rows);
        prop_assert_eq!([scores.median_ape_pct, scores.mape_pct, scores.p99_ape_pct, scores.mae, scores.rmse], [Some(0.0); 5]);
        prop_assert_eq!([scores.underestimation_rate, scores.margin_95_pct, scores.margin_99_pct], [Some(0.0); 3]);
        prop_assert_eq!([scores.within_5_pct, scores.memory.expect("known").bin_accuracy], [Some(1.0); 2]);
        prop_assert!(scores.r2.is_none_or(|r2| r2 == 1.0));
    }

    #[test]
    fn margins_cover_what_they_say(rows in rows()) {
        let scores = scored(&rows);
        for (margin, covered) in [(scores.margin_95_pct, 0.95), (scores.margin_99_pct, 0.99)] {
            let margin = margin.expect("known");
            let enough = |row: &&Prediction| {
                let measured = row.measured(Target::PeakMemory).expect("known");
                row.estimated(Target::PeakMemory).expect("known") * (1.0 + margin / 100.0) >= measured * (1.0 - 1e-9) - 1e-6
            };
            let share = rows.iter().filter(enough).count() as f64 / rows.len() as f64;
            prop_assert!(share >= covered, "margin {} covers {}", margin, share);
        }
    }

    #[test]
    fn the_order_of_rows_does_not_matter(
        (rows, shuffled) in rows().prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle()))
    ) {
        prop_assert_eq!(scored(&rows), scored(&shuffled));
    }

    #[test]
    fn metrics_keep_their_order_and_range(rows in rows()) {
        let scores = scored(&rows);
        prop_assert!(scores.median_ape_pct <= scores.p90_ape_pct && scores.p90_ape_pct <= scores.p99_ape_pct);
        prop_assert!(scores.within_5_pct <= scores.within_10_pct && scores.within_10_pct <= scores.within_20_pct);
        prop_assert!(scores.mae.expect("known") <= scores.rmse.expect("known") * (1.0 + 1e-9));
        prop_assert!(scores.bias.expect("known").abs() <= scores.mae.expect("known") * (1.0 + 1e-9));
        prop_assert!(scores.margin_95_pct <= scores.margin_99_pct);
        prop_assert!(scores.r2.is_none_or(|r2| r2 <= 1.0));
    }
}
