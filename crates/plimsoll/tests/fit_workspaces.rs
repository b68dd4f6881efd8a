//! `plimsoll fit-workspaces` where it cannot do what it is asked to.

use std::process::{Command, Output};

fn fit(table: &std::path::Path, out: &std::path::Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("fit-workspaces")
        .arg(table)
        .arg("--out")
        .arg(out)
        .args(more)
        .output()
        .expect("the binary runs")
}

#[test]
fn what_is_no_table_is_named_and_the_old_weights_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let (table, out) = (folder.path().join("table.parquet"), folder.path().join("weights.bin"));
    std::fs::write(&table, "not a table").expect("written");
    std::fs::write(&out, "old weights").expect("written");
    let output = fit(&table, &out, &[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && message.contains("table.parquet"), "{message}");
    assert_eq!(std::fs::read_to_string(&out).expect("still there"), "old weights");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn a_gpu_without_workspaces_cannot_be_held_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = fit(&folder.path().join("none"), &folder.path().join("weights.bin"), &["--hold-out", "k80"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("older than Volta"), "{message}");
}
