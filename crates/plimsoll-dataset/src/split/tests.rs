//! What every split promises.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn key(architecture: &str, family: Family, gpu: &str, shape: &str) -> SplitKey {
    SplitKey { architecture: architecture.into(), family, gpu: gpu.into(), shape: shape.into() }
}

/// 60 architectures of three families, two batch sizes each, on two GPUs.
fn keys() -> Vec<SplitKey> {
    let families = [Family::Mlp, Family::Cnn, Family::Transformer];
    let shapes = ["uniform", "pyramid", "hourglass", "residual"];
    (0..240)
        .map(|row| {
            let architecture = row % 60;
            let gpu = if row < 120 { "a100-40" } else { "t4" };
            key(&format!("net-{architecture}"), families[architecture % 3], gpu, shapes[architecture % 4])
        })
        .collect()
}

fn group(key: &SplitKey, by: SplitBy, row: usize) -> String {
    match by {
        SplitBy::Row => row.to_string(),
        SplitBy::Architecture => key.architecture.clone(),
        SplitBy::Family => key.family.name().into(),
        SplitBy::Gpu => key.gpu.clone(),
        SplitBy::Shape => format!("{}/{}", key.family, key.shape),
        SplitBy::ModelFamily => key.model_family().to_owned(),
    }
}

/// Every row in one part; groups of `by` in one part, `validation` against `training` by the carve.
fn assert_sound(keys: &[SplitKey], split: &Split, by: SplitBy, carve: SplitBy) {
    let mut rows: Vec<usize> =
        [&split.training, &split.validation, &split.test].into_iter().flatten().copied().collect();
    rows.sort_unstable();
    assert_eq!(rows, (0..keys.len()).collect::<Vec<_>>());
    let groups =
        |rows: &[usize], by| -> BTreeSet<String> { rows.iter().map(|&row| group(&keys[row], by, row)).collect() };
    let outside: Vec<usize> = split.training.iter().chain(&split.validation).copied().collect();
    assert!(groups(&split.test, by).is_disjoint(&groups(&outside, by)));
    assert!(groups(&split.training, carve).is_disjoint(&groups(&split.validation, carve)));
}

#[test]
fn shares_come_out_as_asked() {
    let keys = keys();
    let split = Split::ratio(&keys, SplitBy::Architecture, 0.1, 0.2, 7).expect("divides");
    assert_eq!((split.training.len(), split.validation.len(), split.test.len()), (168, 24, 48));
    assert_sound(&keys, &split, SplitBy::Architecture, SplitBy::Architecture);
}

#[test]
fn a_seed_gives_one_split_and_another_seed_another() {
    let keys = keys();
    let split = |seed| Split::ratio(&keys, SplitBy::Row, 0.1, 0.2, seed).expect("divides");
    assert_eq!(split(1), split(1));
    assert_ne!(split(1), split(2));
}

#[test]
fn every_row_is_tested_once_over_the_folds() {
    let keys = keys();
    let carve = Carve { share: 0.2, by: SplitBy::Architecture };
    let folds = Split::k_fold(&keys, SplitBy::Architecture, 5, carve, 3).expect("divides");
    let mut tested: Vec<usize> = folds.iter().flat_map(|fold| fold.test.clone()).collect();
    tested.sort_unstable();
    assert_eq!(tested, (0..keys.len()).collect::<Vec<_>>());
    for fold in &folds {
        assert_eq!(fold.test.len(), 48);
        assert!(!fold.validation.is_empty());
        assert_sound(&keys, fold, SplitBy::Architecture, SplitBy::Architecture);
    }
    assert_ne!(folds[0].validation, folds[1].validation);
}

#[test]
fn each_group_is_left_out_under_its_name() {
    let keys = keys();
    let carve = Carve { share: 0.1, by: SplitBy::Architecture };
    let splits = Split::leave_one_out(&keys, SplitBy::Family, carve, 3).expect("divides");
    assert_eq!(splits.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["cnn", "mlp", "transformer"]);
    for (name, split) in &splits {
        assert!(split.test.iter().all(|&row| keys[row].family.name() == name));
        assert_eq!(split.test.len(), 80);
        assert_sound(&keys, split, SplitBy::Family, SplitBy::Architecture);
    }
    let shapes = Split::leave_one_out(&keys, SplitBy::Shape, carve, 3).expect("divides");
    assert!(shapes.iter().any(|(name, _)| name == "cnn/residual"));
}

#[test]
fn too_few_groups_are_named() {
    let keys = keys();
    let none = Carve { share: 0.0, by: SplitBy::Gpu };
    let error = Split::k_fold(&keys, SplitBy::Gpu, 3, none, 1).expect_err("two GPUs").to_string();
    assert!(error.contains("3 or more groups") && error.contains("a100-40"), "{error}");
    let error = Split::ratio(&keys, SplitBy::Gpu, 0.1, 0.1, 1).expect_err("two GPUs").to_string();
    assert!(error.contains("3 parts"), "{error}");
    let single = vec![key("a", Family::Mlp, "t4", ""); 4];
    assert!(Split::leave_one_out(&single, SplitBy::Family, none, 1).is_err());
}

#[test]
fn senseless_requests_are_refused() {
    let keys = keys();
    let carve = Carve { share: 0.1, by: SplitBy::Row };
    assert!(matches!(Split::ratio(&[], SplitBy::Row, 0.1, 0.1, 1), Err(DatasetError::Empty { .. })));
    for (validation, test) in [(0.5, 0.5), (-0.1, 0.1), (0.1, 1.0), (f64::NAN, 0.1)] {
        assert!(Split::ratio(&keys, SplitBy::Row, validation, test, 1).is_err(), "{validation} {test}");
    }
    assert!(Split::k_fold(&keys, SplitBy::Row, 1, carve, 1).is_err());
    let many = vec![key("a", Family::Mlp, "t4", ""); Split::MAX_LEFT_OUT + 1];
    assert!(Split::leave_one_out(&many, SplitBy::Row, carve, 1).is_err());
}

proptest! {
    #[test]
    fn groups_never_straddle_parts(
        rows in prop::collection::vec((0_u8..12, 0_usize..5, 0_u8..4, 0_u8..3), 1..120),
        by in prop::sample::select(SplitBy::ALL.to_vec()),
        carve_by in prop::sample::select(SplitBy::ALL.to_vec()),
        (validation, test) in (0.0_f64..0.4, 0.0_f64..0.4),
        k in 2_usize..6,
        seed: u64,
    ) {
        let keys: Vec<SplitKey> = rows
            .into_iter()
            .map(|(architecture, family, gpu, shape)| {
                key(&format!("a{architecture}"), Family::ALL[family], &format!("g{gpu}"), &format!("s{shape}"))
            })
            .collect();
        let carve = Carve { share: validation, by: carve_by };
        if let Ok(split) = Split::ratio(&keys, by, validation, test, seed) {
            assert_sound(&keys, &split, by, by);
            prop_assert!(!split.training.is_empty());
            prop_assert_eq!(split.test.is_empty(), test == 0.0);
        }
        for split in Split::k_fold(&keys, by, k, carve, seed).unwrap_or_default() {
            assert_sound(&keys, &split, by, carve_by);
            prop_assert!(!split.training.is_empty() && !split.test.is_empty());
        }
        for (_, split) in Split::leave_one_out(&keys, by, carve, seed).unwrap_or_default() {
            assert_sound(&keys, &split, by, carve_by);
        }
    }
}
