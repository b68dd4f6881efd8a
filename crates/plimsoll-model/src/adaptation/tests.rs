use super::*;

/// An estimate with bounds 10, 20 and 30 % above it.
fn estimate(mib: f64) -> Estimate {
    let bounds = Bounds { p50: mib, p90: 1.1 * mib, p95: 1.2 * mib, p99: 1.3 * mib };
    Estimate { peak_memory_mib: Some(mib), bounds: Some(bounds), ..Estimate::default() }
}

/// A run of a job that is like no other.
fn reading(mib: f64, outcome: Outcome) -> Reading {
    let place = Place::new(&[5.0 * mib.sin() as f32, 5.0 * (3.0 * mib).cos() as f32, 0.0]);
    Reading { estimate: estimate(mib), place, architecture: mib.to_string(), outcome }
}

/// A place far from those of all runs.
fn strange() -> Place {
    Place::new(&[0.0, 0.0, 5.0])
}

/// So many runs of growing size whose measurement follows from the estimate, a little off in turns.
fn runs(count: u32, measured: impl Fn(f64) -> f64) -> Vec<Reading> {
    let run = |row: u32| {
        let mib = 2000.0 + 400.0 * f64::from(row * 7 % count);
        let wobble = 1.0 + 0.002 * (f64::from(row % 5) - 2.0);
        reading(mib, Outcome::Measured { peak_mib: wobble * measured(mib) })
    };
    (0..count).map(run).collect()
}

fn fit(readings: &[Reading]) -> Adaptation {
    Adaptation::fit("t4", Label::NvidiaSmiDevice, Stack::default(), readings).expect("enough rows")
}

fn peak(adaptation: &Adaptation, mib: f64) -> f64 {
    adaptation.apply(&estimate(mib), &strange()).peak_memory_mib.expect("a peak")
}

#[test]
fn a_few_runs_give_the_offset_of_a_stack() {
    let adaptation = fit(&runs(5, |mib| mib - 600.0));
    assert_eq!(adaptation.scale, 1.0);
    assert!((adaptation.offset_mib + 600.0).abs() < 15.0, "{adaptation:?}");
    assert!(adaptation.error_before_pct > 10.0 && adaptation.error_after_pct < 1.0, "{adaptation:?}");
}

#[test]
fn a_wild_run_does_not_bend_the_offset() {
    let mut readings = runs(9, |mib| mib - 600.0);
    readings[4].outcome = Outcome::Measured { peak_mib: 30_000.0 };
    assert!((fit(&readings).offset_mib + 600.0).abs() < 25.0);
}

#[test]
fn runs_that_agree_with_the_estimate_leave_it_as_it_is() {
    let adaptation = fit(&runs(30, |mib| mib));
    assert_eq!((adaptation.scale, adaptation.offset_mib), (1.0, 0.0));
}

#[test]
fn a_scale_takes_twenty_runs() {
    let law = |mib: f64| 1.3 * mib + 500.0;
    assert_eq!(fit(&runs(19, law)).scale, 1.0);
    let adaptation = fit(&runs(80, law));
    assert!((adaptation.scale - 1.3).abs() < 0.05, "{adaptation:?}");
    assert!((peak(&adaptation, 20_000.0) / law(20_000.0) - 1.0).abs() < 0.02);
}

#[test]
fn bounds_are_certified_only_as_far_as_rows_reach() {
    let certified = |rows: u32| fit(&runs(rows, |mib| mib - 300.0)).certified;
    assert_eq!(certified(8), [true, false, false, false]);
    assert_eq!(certified(9), [true, true, false, false]);
    assert_eq!(certified(19), [true, true, true, false]);
    assert_eq!(certified(99), [true; 4]);
    // What is not certified stays as wide as it was around the new estimate; what is may be narrower.
    let adaptation = fit(&runs(19, |mib| mib - 300.0));
    let adapted = adaptation.apply(&estimate(5000.0), &strange());
    let (peak, bounds) = (adapted.peak_memory_mib.expect("a peak"), adapted.bounds.expect("bounds"));
    assert!((bounds.p99 / peak - 1.3).abs() < 1e-9);
    assert!(bounds.p95 / peak < 1.02, "{bounds:?}");
}

#[test]
fn runs_above_every_bound_raise_what_they_cannot_certify() {
    let mut readings = runs(7, |mib| mib);
    readings[3].outcome = Outcome::Measured { peak_mib: 40_000.0 };
    let adaptation = fit(&readings);
    assert!(adaptation.log_bounds[1..].iter().all(|offset| *offset > 0.5), "{adaptation:?}");
}

#[test]
fn runs_out_of_memory_count_for_bounds_and_not_for_the_estimate() {
    let mut readings = runs(30, |mib| mib - 600.0);
    let without = fit(&readings);
    readings.extend((0..10).map(|_| reading(9000.0, Outcome::OutOfMemory { above_mib: 15_000.0 })));
    let adaptation = fit(&readings);
    assert_eq!((adaptation.rows, adaptation.censored_rows), (30, 10));
    assert_eq!((adaptation.scale, adaptation.offset_mib), (without.scale, without.offset_mib));
    assert!(adaptation.log_bounds[0] >= without.log_bounds[0]);
}

#[test]
fn too_few_runs_are_refused_with_their_number() {
    let mut readings = runs(2, |mib| mib);
    readings.push(reading(1000.0, Outcome::Unknown));
    let error = Adaptation::fit("t4", Label::Reserved, Stack::default(), &readings).expect_err("two rows").to_string();
    assert!(error.contains("t4") && error.ends_with("found 2"), "{error}");
}

#[test]
fn definitions_with_the_same_parts_share_an_adaptation() {
    let adaptation = fit(&runs(5, |mib| mib));
    let speaks = |gpu, label| adaptation.speaks_for(gpu, label, Stack::default());
    assert!(speaks("t4", Label::Unknown) && speaks("t4", Label::NvidiaSmiProcess));
    for (gpu, label) in
        [("t4", Label::Reserved), ("t4", Label::Allocated), ("t4", Label::Simulated), ("v100", Label::Unknown)]
    {
        assert!(!speaks(gpu, label), "{gpu} {label:?}");
    }
}

#[test]
fn runs_of_another_stack_do_not_speak_for_a_job() {
    let stack = |text: &str| text.parse::<Stack>().expect("versions");
    let runs = runs(5, |mib| mib - 600.0);
    let old = Adaptation::fit("t4", Label::NvidiaSmiDevice, stack("pytorch 1.13"), &runs).expect("enough rows");
    let speaks = |text| old.speaks_for("t4", Label::NvidiaSmiDevice, stack(text));
    assert!(speaks("pytorch 1.13") && speaks("pytorch 1.9, cuda 11.1") && !speaks("cuda 12.4"));
    assert!(!speaks("") && !speaks("pytorch 2.6") && !speaks("pytorch 2.0, cuda 11.8"));
    let text = serde_json::to_string(&old).expect("serialises");
    assert!(text.contains(r#""stack":"pytorch 1.13""#), "{text}");
    assert_eq!(serde_json::from_str::<Adaptation>(&text).expect("own text"), old);
    // One of before stacks were kept.
    let unnamed = serde_json::to_string(&fit(&runs)).expect("serialises");
    assert!(!unnamed.contains("stack"), "{unnamed}");
    assert_eq!(serde_json::from_str::<Adaptation>(&unnamed).expect("own text"), fit(&runs));
}

#[test]
fn what_a_line_leaves_is_carried_to_jobs_alike() {
    // Two networks at twelve batches each: the line cannot follow that one takes a fifth more than the other.
    let place = |network: u32, batch: u32| Place::new(&[2.0 * network as f32, 0.05 * batch as f32]);
    let run = |row: u32| {
        let (network, batch) = (row % 2, row / 2);
        let mib = 3000.0 + 500.0 * f64::from(batch);
        let factor = if network == 0 { 1.0 } else { 1.2 };
        Reading {
            estimate: estimate(mib),
            place: place(network, batch),
            architecture: network.to_string(),
            outcome: Outcome::Measured { peak_mib: factor * mib },
        }
    };
    let readings: Vec<Reading> = (0..24).map(run).collect();
    let adaptation = fit(&readings);
    assert!(adaptation.neighbours.is_some() && adaptation.error_after_pct < 1.0, "{adaptation:?}");
    let bounds = |place: &Place| {
        let adapted = adaptation.apply(&estimate(5250.0), place);
        (adapted.peak_memory_mib.expect("a peak"), adapted.bounds.expect("bounds"))
    };
    for (network, factor) in [(0, 1.0), (1, 1.2)] {
        let (peak, bounds) = bounds(&place(network, 4));
        assert!((peak / (factor * 5250.0) - 1.0).abs() < 0.01, "{peak} of network {network}");
        assert!(bounds.p90 / peak < 1.05, "{bounds:?}");
    }
    // A job like neither gets what the line says, with bounds as wide as it errs.
    let (_, strange) = bounds(&Place::new(&[-5.0, -5.0]));
    assert!(strange.p90 > 1.15 * 5250.0, "{strange:?}");
    let text = serde_json::to_string(&adaptation).expect("serialises");
    assert_eq!(serde_json::from_str::<Adaptation>(&text).expect("own text"), adaptation);
    assert!(adaptation.is_sound(2) && !adaptation.is_sound(5));
    for log_bound in [f64::NAN, 1e308] {
        assert!(!Adaptation { log_bounds: [log_bound; 4], ..adaptation.clone() }.is_sound(2));
        let neighbours = adaptation.neighbours.clone().map(|known| Neighbours { log_bounds: [log_bound; 4], ..known });
        assert!(!Adaptation { neighbours, ..adaptation.clone() }.is_sound(2));
    }
}

#[test]
fn what_one_network_takes_is_not_said_of_others() {
    // Four networks at six batches each, which differ by more than what all have in common.
    let run = |row: u32| {
        let (network, batch) = (row % 4, row / 4);
        let mib = 3000.0 + 500.0 * f64::from(batch);
        let factor = [0.8, 1.3, 0.9, 1.2][network as usize];
        Reading {
            estimate: estimate(mib),
            place: Place::new(&[2.0 * network as f32, 0.05 * batch as f32]),
            architecture: network.to_string(),
            outcome: Outcome::Measured { peak_mib: factor * mib },
        }
    };
    let adaptation = fit(&(0..24).map(run).collect::<Vec<_>>());
    // Each is known by itself, and nothing is held to be common.
    assert!(adaptation.error_after_pct < 1.0, "{adaptation:?}");
    assert_eq!((adaptation.scale, adaptation.offset_mib), (1.0, 0.0));
    // Of four networks none speaks for a level above 80 %: what is like none keeps bounds as wide as they were, and wider.
    assert_eq!(adaptation.certified, [true, false, false, false]);
    let bounds = adaptation.apply(&estimate(5000.0), &Place::new(&[-5.0, -5.0])).bounds.expect("bounds");
    assert!(bounds.p95 >= 1.29 * 5000.0, "{bounds:?}");
}

#[test]
fn thousands_of_runs_take_no_time() {
    let start = std::time::Instant::now();
    let adaptation = fit(&runs(5000, |mib| 0.9 * mib + 100.0));
    assert!((adaptation.scale - 0.9).abs() < 0.01, "{adaptation:?}");
    assert!(start.elapsed().as_secs() < 20);
}
