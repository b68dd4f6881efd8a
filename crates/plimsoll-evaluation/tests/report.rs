//! A whole report of made-up predictions: what stands in it, and that nothing in it is taken for markup.

use std::path::Path;

use plimsoll_dataset::{Label, Outcome, Rejection};
use plimsoll_evaluation::{
    Bootstrap, Cost, DataDescription, Leaderboard, LeaderboardRow, Prediction, Report, RunName, ScoreContext, Scores,
    Section,
};
use plimsoll_graph::Family;
use plimsoll_model::Estimate;

/// Numbers between 0 and 1 that look random and are always the same.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A draw from a logistic distribution.
    fn logistic(&mut self, scale: f64) -> f64 {
        let share = self.next().clamp(1e-9, 1.0 - 1e-9);
        scale * (share / (1.0 - share)).ln()
    }
}

/// Runs on two GPUs, with estimates whose errors have this spread and bias.
fn predictions(estimator: &str, rows: usize, spread: f64, bias: f64, learned: bool) -> Vec<Prediction> {
    // Runs are the same for every estimator; errors are its own.
    let (mut runs, mut errors) = (Noise(7), Noise(estimator.len() as u64));
    (0..rows)
        .map(|place| {
            let peak_mib = 400.0 * 2.0_f64.powf(7.0 * runs.next());
            let ratios: [f64; 6] = std::array::from_fn(|metric| (0.9 - 0.12 * metric as f64) * runs.next());
            let out_of_memory = peak_mib > 40_000.0;
            let guess = |ratio: f64, errors: &mut Noise| (ratio + 0.4 * spread * (errors.next() - 0.5)).clamp(0.0, 1.0);
            Prediction {
                estimator: estimator.to_owned(),
                id: format!("runs.csv:{}", place + 1),
                fold: None,
                family: Family::ALL[place % 3],
                architecture: format!("architecture-{}", place % 17),
                shape: String::new(),
                gpu: if place % 4 == 0 { "V100-16GB" } else { "A100-40GB" }.to_owned(),
                capacity_mib: if place % 4 == 0 { 16_160.0 } else { 40_536.0 },
                batch_size: 8 << (place % 5),
                label: Label::NvidiaSmiDevice,
                outcome: if out_of_memory {
                    Outcome::OutOfMemory { above_mib: 40_000.0 }
                } else {
                    Outcome::Measured { peak_mib }
                },
                utilisation: ratios.map(Some),
                estimate: Estimate {
                    peak_memory_mib: Some(peak_mib * (bias + errors.logistic(spread)).exp()),
                    log_scale: learned.then_some(spread),
                    utilisation: if learned { ratios.map(|ratio| Some(guess(ratio, &mut errors))) } else { [None; 6] },
                    ..Estimate::default()
                },
                simulated_mib: Some(0.8 * peak_mib),
                doubt: None,
            }
        })
        .collect()
}

fn report() -> Report {
    // Few resamples: this test is not about intervals, and they take long in unoptimised code.
    let bootstrap = Some(Bootstrap { seed: 1, resamples: 100 });
    let context =
        ScoreContext { rejected: 3, bootstrap, ..ScoreContext::new("made-up runs", "5-fold by architecture") };
    let mut large = predictions("transformer", 3000, 0.02, 0.0, true);
    large.extend(predictions("mlp", 3000, 0.05, 0.01, true));
    large.extend(predictions("analytic", 3000, 0.1, -0.12, false));
    let mut small = predictions("transformer", 24, 0.03, 0.0, true);
    small.extend(predictions("faketensor (published)", 24, 0.1, -0.9, false));
    small.extend(predictions("horus (published)", 15, 0.3, 0.8, false));

    let mut leaderboard = Leaderboard::default();
    for scores in Scores::by_estimator(&large, &context) {
        let cost = Cost { size_bytes: Some(1_400_000), latency_ms: Some(0.31) };
        leaderboard.merge(LeaderboardRow::of(RunName { id: "2f81c0de", config: "test" }, &scores, cost));
    }
    let rejection = |reason: &str| Rejection { id: "runs.csv:9".into(), reason: reason.into(), content: String::new() };
    let rejections =
        [rejection("batch size is 0"), rejection("batch size is 0"), rejection("<script>alert(1)</script>")];
    let text = "Runs that never ran, to show what a report looks like.".to_owned();
    let data = DataDescription { text, ..DataDescription::new("made-up runs", 3000, &rejections, 155) };
    Report {
        title: "Peak memory & utilisation <script>alert(1)</script>".to_owned(),
        run_id: "2f81c0de".to_owned(),
        created: None,
        config: "[data]\nname = \"made-up runs\"\n[network]\nkind = \"transformer\" # <b>\n".to_owned(),
        data: vec![data],
        sections: vec![
            Section {
                text: "Every row is estimated by the fold that had not seen its architecture.".to_owned(),
                ..Section::new("Runs on two GPUs", context, large)
            },
            Section::new("Beside published estimates", ScoreContext::new("published", "all rows"), small),
            Section::new("Nothing yet", ScoreContext::new("empty", "test"), Vec::new()),
        ],
        leaderboard: Some(leaderboard),
    }
}

#[test]
fn a_report_says_what_its_numbers_are_over() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    let files = report().write(&folder).expect("written");
    let html = std::fs::read_to_string(files.html).expect("readable");
    let markdown = std::fs::read_to_string(files.markdown).expect("readable");
    let measured = predictions("mlp", 3000, 0.05, 0.01, true).iter().filter(|row| !row.outcome.is_censored()).count();
    let n = format!("{},{:03}", measured / 1000, measured % 1000);
    for text in [&html, &markdown] {
        assert!(text.contains("Data: made-up runs; split: 5-fold by architecture; label: nvidia_smi_device"));
        assert!(text.contains(&format!("n = {n}")), "n = {n}");
        for part in ["transformer", "horus (published)", "batch size is 0", "2f81c0de", "There are no predictions."] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }
    assert_eq!(html.matches("<svg ").count(), html.matches("</svg>").count());
    assert!(html.matches("<svg ").count() > 10);
    assert!(html.len() < 2_000_000, "a page of {} bytes is too heavy", html.len());
}

#[test]
fn nothing_in_a_report_is_taken_for_markup_or_fetched() {
    let html = report().html().expect("drawn");
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(!html.contains("src=") && !html.contains("@import") && !html.contains("url("));
    let markdown = report().markdown().expect("drawn");
    let outside_code = markdown.split("```").step_by(2).collect::<String>();
    assert!(!outside_code.contains("<script"));
}

#[test]
fn the_same_contents_give_the_same_page() {
    assert_eq!(report().html().expect("drawn"), report().html().expect("drawn"));
}

#[test]
fn small_sets_are_shown_row_by_row_and_on_the_same_rows() {
    let report = report();
    let small = Report { sections: vec![report.sections[1].clone()], ..Report::default() };
    let markdown = small.markdown().expect("drawn");
    assert!(markdown.contains("Peak memory, every row."));
    assert!(markdown.contains("estimators on each other's rows"));
    // Every row of the set, and those without a Horus estimate say so.
    assert!(markdown.contains("| runs.csv:24 | transformer | architecture-6 |"), "{markdown}");
    assert!(markdown.lines().any(|line| line.starts_with("| runs.csv:24 ") && line.ends_with("| – |")));
}

#[test]
fn a_report_of_nothing_is_a_page() {
    let html = Report::default().html().expect("drawn");
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
}

#[test]
fn one_row_and_rows_of_nothing_but_zero_can_be_drawn() {
    let mut rows = predictions("mlp", 1, 0.1, 0.0, true);
    rows[0].outcome = Outcome::Measured { peak_mib: 0.0 };
    rows[0].utilisation = [Some(0.0); 6];
    rows[0].estimate = Estimate { peak_memory_mib: Some(0.0), utilisation: [Some(0.0); 6], ..Estimate::default() };
    for rows in [predictions("mlp", 1, 0.1, 0.0, true), rows] {
        let section = Section::new("One", ScoreContext::new("one", "test"), rows);
        let html = Report { sections: vec![section], ..Report::default() }.html().expect("drawn");
        assert!(!html.contains("NaN"));
    }
}
