//! Few measured runs teach a GPU, and tables of jobs are answered row by row.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The binary under test.
const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

fn plimsoll(arguments: &[&str]) -> Output {
    Command::new(PLIMSOLL).args(arguments).output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a command that must succeed.
fn good(arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a command that must fail with an exit code.
fn bad(code: i32, arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    error
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON value")
}

fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("written");
    path
}

fn estimate(batch: u32, gpu: &str, checkpoint: Option<&str>) -> Value {
    let batch = batch.to_string();
    let mut arguments = vec!["estimate", "zoo:torchvision/resnet18", "--batch", &batch, "--gpu", gpu, "--json"];
    arguments.extend(checkpoint.iter().flat_map(|folder| ["--checkpoint", folder]));
    json(&good(&arguments))
}

fn peak(answer: &Value) -> f64 {
    answer["peak_memory_mib"].as_f64().expect("a number")
}

#[test]
fn a_stack_that_takes_less_context_is_learned_from_a_few_runs() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let mut table = "workload,batch_size,gpu,peak_memory_mib,label\n".to_owned();
    for batch in [4, 8, 16, 24, 48] {
        let measured = peak(&estimate(batch, "b200", None)) - 400.0;
        writeln!(table, "zoo:torchvision/resnet18,{batch},b200,{measured},nvidia_smi_device").expect("a string");
    }
    let runs = write(folder.path(), "runs.csv", &table);
    let (runs, out) = (runs.to_str().expect("UTF-8"), path("checkpoint"));
    let answer = json(&good(&["adapt", "shipped", "--data", runs, "--gpu", "b200", "--out", &out, "--json"]));
    // The shipped estimator brings what it knows of other GPUs.
    let of_b200 = |answer: &Value| -> Vec<Value> {
        let all = answer["adaptations"].as_array().expect("a list");
        all.iter().filter(|adaptation| adaptation["gpu"] == "b200").cloned().collect()
    };
    let adaptations = of_b200(&answer);
    let adaptation = &adaptations[0];
    assert_eq!((&adaptation["gpu"], &adaptation["rows"]), (&"b200".into(), &5.into()));
    assert!((adaptation["offset_mib"].as_f64().expect("a number") + 400.0).abs() < 1.0, "{adaptation}");

    let (before, after) = (estimate(32, "b200", None), estimate(32, "b200", Some(&out)));
    assert!((peak(&before) - peak(&after) - 400.0).abs() < 1.0);
    let warnings = |answer: &Value| answer["warnings"].to_string();
    assert!(warnings(&before).contains("not among the GPUs") && !warnings(&after).contains("not among the GPUs"));
    assert_eq!(peak(&estimate(32, "v100-16", None)), peak(&estimate(32, "v100-16", Some(&out))));

    // The exported network stays as it was; its manifest says what a GPU needs.
    good(&["export", &out, "--out", &path("exported")]);
    let manifest = json(&std::fs::read_to_string(path("exported/manifest.json")).expect("a manifest"));
    assert_eq!(of_b200(&manifest)[0]["offset_mib"], adaptation["offset_mib"]);

    let fewer = json(&good(&["adapt", &out, "--data", runs, "--rows", "3", "--out", &path("again"), "--json"]));
    let again = of_b200(&fewer);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0]["rows"], 3);
    assert!(bad(2, &["adapt", "shipped", "--data", runs, "--gpu", "v100-16", "--out", &out]).contains("v100-16"));
    assert!(bad(2, &["adapt", "shipped", "--data", runs]).contains("--out"));
    assert!(bad(1, &["adapt", "shipped", "--data", runs, "--curve", "0,3"]).contains("ten more"));
}

#[test]
fn runs_of_a_stack_speak_for_jobs_on_it() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut table = "workload,batch_size,gpu,peak_memory_mib,label,stack\n".to_owned();
    for batch in [4, 8, 16, 24, 48] {
        let measured = peak(&estimate(batch, "b200", None)) - 400.0;
        let stack = "\"torch==1.13.1, cu117\"";
        writeln!(table, "zoo:torchvision/resnet18,{batch},b200,{measured},nvidia_smi_device,{stack}")
            .expect("a string");
    }
    let runs = write(folder.path(), "runs.csv", &table);
    let (runs, out) = (runs.to_str().expect("UTF-8"), folder.path().join("checkpoint"));
    let out = out.to_str().expect("UTF-8");
    assert!(good(&["adapt", "shipped", "--data", runs, "--out", out]).contains("pytorch 1.13, cuda 11.7"));
    let job = ["estimate", "zoo:torchvision/resnet18", "--batch", "32", "--gpu", "b200", "--checkpoint", out];
    let ask = |stack: &str| json(&good(&[&job[..], &["--stack", stack, "--json"]].concat()));
    let (old, today, unnamed) = (ask("pytorch 1.9"), ask("pytorch 2.6, cuda 12.4"), ask(""));
    assert!((peak(&today) - peak(&old) - 400.0).abs() < 1.0, "{old} and {today}");
    assert_eq!((&old["adaptation"]["rows"], &today["adaptation"]), (&5.into(), &Value::Null));
    let warnings = today["warnings"].to_string();
    assert!(warnings.contains("there are runs of it on pytorch 1.13, cuda 11.7: say --stack"), "{warnings}");
    assert_eq!(today["stack"], "pytorch 2.6, cuda 12.4");
    // Who says nothing is taken to run on today's.
    assert_eq!(unnamed["peak_memory_mib"], today["peak_memory_mib"]);
    let words = good(&[&job[..], &["--stack", "torch 1.13"]].concat());
    assert!(words.contains("5 runs of b200 on pytorch 1.13, cuda 11.7"), "{words}");
    assert!(bad(2, &[&job[..], &["--stack", "newest"]].concat()).contains("pytorch 2.4, cuda 12.4"));
    // Commands that search ask with the stack too.
    let fit = ["fit-batch", "zoo:torchvision/resnet18", "--gpu", "b200", "--checkpoint", out, "--max", "64", "--json"];
    let at_64 = |stack: &str| peak(&json(&good(&[&fit[..], &["--stack", stack]].concat())));
    assert!((at_64("pytorch 2.6") - at_64("pytorch 1.13") - 400.0).abs() < 1.0);
    // A row that names no version is refused, for it would silently count as on today's.
    let unread = write(folder.path(), "unread.csv", &table.replace("torch==1.13.1, cu117", "cluster A"));
    let error = bad(1, &["adapt", "shipped", "--data", unread.to_str().expect("UTF-8"), "--out", out]);
    assert!(error.contains("cluster A") && error.contains("pytorch 2.4"), "{error}");
}

#[test]
fn a_curve_says_what_runs_are_worth() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut table = "workload,batch_size,gpu,peak_memory_mib,label\n".to_owned();
    for batch in 1..=18 {
        let measured = 3500 + 40 * batch;
        writeln!(table, "zoo:torchvision/resnet18,{batch},b200,{measured},nvidia_smi_device").expect("a string");
    }
    let runs = write(folder.path(), "runs.csv", &table);
    let runs = runs.to_str().expect("UTF-8");
    let arguments = ["adapt", "shipped", "--data", runs, "--curve", "0,5,100", "--repeats", "4", "--json"];
    let (first, second) = (good(&arguments), good(&arguments));
    assert_eq!(first, second);
    let points = json(&first)["curves"][0]["points"].clone();
    assert_eq!(points.as_array().map(Vec::len), Some(2), "too few rows for the last: {points}");
    let error = |point: usize| points[point]["median_ape_pct"].as_f64().expect("a number");
    assert!(error(1) < error(0) && points[1]["judged"] == 13, "{points}");
    let page = folder.path().join("curve.html");
    let plotted = [&arguments[..arguments.len() - 1], &["--plot", page.to_str().expect("UTF-8")]].concat();
    assert!(good(&plotted).starts_with("GPU"));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<svg") && page.contains("b200") && !page.contains("NaN"), "{page}");
}

const JOBS: &str = "workload,batch_size,gpu,precision\n\
    zoo:torchvision/resnet18,32,b200,\n\
    zoo:no-such-model,32,b200,\n\
    zoo:torchvision/resnet18,32,a100-40,fp32\n\
    zoo:torchvision/resnet18,0,a100-40,fp32\n";

#[test]
fn a_table_of_jobs_is_answered_row_by_row() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let jobs = write(folder.path(), "jobs.csv", JOBS);
    let jobs = jobs.to_str().expect("UTF-8");
    let lines = good(&["estimate", "--jobs", jobs, "--json"]);
    let rows: Vec<Value> = lines.lines().map(json).collect();
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    assert_eq!(ids, ["jobs.csv:2", "jobs.csv:3", "jobs.csv:4", "jobs.csv:5"]);
    for (row, gpu) in [(0, "b200"), (2, "a100-40")] {
        let single = estimate(32, gpu, None);
        for (field, expected) in [
            ("peak_memory_mib", &single["peak_memory_mib"]),
            ("bound_p95_mib", &single["bounds_mib"]["p95"]),
            ("probability_fits", &single["probability_fits"]),
            ("ood", &single["ood"]),
            ("spike_risk", &single["spike_risk"]),
            ("gputl_pct", &single["gputl_pct"]),
            ("simulated_peak_mib", &single["simulated_peak_mib"]),
        ] {
            let (found, expected) = (rows[row][field].as_f64(), expected.as_f64());
            let (found, expected) = (found.expect("a number"), expected.expect("a number"));
            assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{field}: {found} for {expected}");
        }
        assert_eq!(rows[row]["rejected"], Value::Null);
    }
    assert!(rows[1]["rejected"].as_str().expect("a reason").contains("no-such-model"));
    assert!(rows[3]["rejected"].as_str().expect("a reason").contains("batch size"));

    // Arguments hold where a row leaves something open.
    let amp: Vec<Value> =
        good(&["estimate", "--jobs", jobs, "--precision", "amp", "--json"]).lines().map(json).collect();
    assert_eq!((&amp[0]["precision"], &amp[2]["precision"]), (&"amp_fp16".into(), &"fp32".into()));
    assert_eq!(good(&["estimate", "--jobs", jobs]).lines().count(), 5, "a header and four rows");

    let out = folder.path().join("out.parquet");
    let out = out.to_str().expect("UTF-8");
    assert!(good(&["estimate", "--jobs", jobs, "--out", out]).starts_with("estimated 2, rejected 2"));
    assert!(bad(1, &["estimate", "--jobs", jobs, "--out", &format!("{out}.txt")]).contains(".jsonl"));
    bad(1, &["estimate", "--jobs", "no-such-table.csv"]);
    for usage in [&["estimate"][..], &["estimate", "a.json", "--jobs", jobs], &["estimate", "a.json", "--out", out]] {
        bad(2, usage);
    }
}

#[test]
fn many_jobs_keep_their_order() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut table = "workload,batch_size\n".to_owned();
    for row in 0..2_500 {
        // Now and then a row that is none.
        let batch = if row % 500 == 7 { 0 } else { 1 + row % 64 };
        writeln!(table, "zoo:torchvision/alexnet,{batch}").expect("a string");
    }
    let jobs = write(folder.path(), "jobs.csv", &table);
    let text = good(&["estimate", "--jobs", jobs.to_str().expect("UTF-8"), "--gpu", "a100-40", "--json"]);
    let rows: Vec<Value> = text.lines().map(json).collect();
    assert_eq!(rows.len(), 2_500);
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["id"], format!("jobs.csv:{}", index + 2));
        let expected = if index % 500 == 7 { Value::Null } else { (1 + index % 64).into() };
        assert_eq!(row["batch_size"], expected);
    }
}
