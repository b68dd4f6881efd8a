//! The binary as scripts and people meet it: contracts, exit codes, and what happens when things go wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The binary under test.
const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

fn plimsoll(arguments: &[&str]) -> Output {
    let mut command = Command::new(PLIMSOLL);
    command.current_dir(repository()).args(arguments).env_remove("PLIMSOLL_DATA").output().expect("runs")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must succeed and gives its standard output.
fn good(arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs a command that must fail with exit code 1 and one error, and gives its standard error.
fn bad(arguments: &[&str]) -> String {
    let output = plimsoll(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert_eq!(error.matches("error: ").count(), 1, "{error}");
    assert!(!error.contains("panicked"), "{error}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    error
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON value")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("temporary folder")
}

fn path(folder: &tempfile::TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

/// A config that is done in seconds.
const SMALL: &str = r#"
name = "small"
[data]
generate = { count = 60, seed = 2 }
[split]
by = "row"
folds = 2
[[estimator]]
name = "tiny"
network = { kind = "mlp", hidden = 8, blocks = 1 }
training = { epochs = 2, seed = 1 }
[[estimator]]
name = "tiny-sequence"
network = { kind = "transformer", width = 8, heads = 2, layers = 1, feed_forward = 8, hidden = 8, blocks = 1 }
training = { epochs = 2, seed = 1 }
[[estimator]]
name = "tiny-upper-edges"
network = { kind = "mlp", hidden = 8, blocks = 1 }
inputs = "graph"
output = { kind = "bins", width_mib = 8192.0, count = 5, estimate = "upper" }
training = { epochs = 2, seed = 1 }
[[estimator]]
name = "tiny-trees"
boosted = { on = "simulation", trees = 20 }
[evaluation]
held_out = ["data/published_real_models.csv"]
"#;

#[test]
fn a_run_leaves_everything_that_it_promises_and_repeats_itself() {
    let folder = folder();
    let config = path(&folder, "small.toml", SMALL);
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let scores = json(&good(&["run", &config, "--out", first.to_str().expect("UTF-8"), "--json"]));
    for name in [
        "report.md",
        "report.html",
        "scores.json",
        "predictions.parquet",
        "leaderboard.csv",
        "checkpoint/checkpoint.json",
        "checkpoint/weights.bpk",
        "model.onnx",
        "manifest.json",
        "parity.json",
    ] {
        assert!(first.join(name).exists(), "{name} is missing");
    }
    let names: Vec<&str> =
        scores.as_array().expect("a list").iter().filter_map(|row| row["estimator"].as_str()).collect();
    for name in [
        "tiny",
        "tiny-sequence",
        "tiny-upper-edges",
        "tiny-trees",
        "live-peak+constant",
        "torchinfo+constant",
        "gpumemnet",
    ] {
        assert!(names.contains(&name), "{name} is missing from {names:?}");
    }
    let memory = &scores[0]["targets"]["peak_memory_mib"];
    assert!(memory["n"].as_u64().expect("a count") > 30);
    for key in [
        "median_ape_pct",
        "mape_pct",
        "p90_ape_pct",
        "r2",
        "mae",
        "underestimation_rate",
        "within_5_pct",
        "bin_accuracy",
    ] {
        assert!(memory[key].is_number(), "{key}");
    }
    good(&["run", &config, "--out", second.to_str().expect("UTF-8")]);
    for name in ["scores.json", "report.md", "model.onnx", "checkpoint/weights.bpk"] {
        let read = |folder: &Path| std::fs::read(folder.join(name)).expect("written");
        if name.ends_with("bpk") {
            // Parameter ids are drawn anew; sizes and estimates are not.
            assert_eq!(read(&first).len(), read(&second).len());
        } else if name != "report.md" {
            assert_eq!(read(&first), read(&second), "{name} differs");
        }
    }

    // What the run left can be used by itself.
    let checkpoint = first.join("checkpoint");
    let checkpoint = checkpoint.to_str().expect("UTF-8");
    let predictions = folder.path().join("rows.csv");
    let evaluated = json(&good(&[
        "evaluate",
        checkpoint,
        "--data",
        "data/published_real_models.csv",
        "--json",
        "--predictions",
        predictions.to_str().expect("UTF-8"),
    ]));
    assert_eq!((evaluated["rejected"].as_u64(), evaluated["censored"].as_u64()), (Some(0), Some(0)));
    assert_eq!(evaluated["targets"]["peak_memory_mib"]["n"], 24);
    assert!(evaluated["families"]["cnn"]["peak_memory_mib"]["n"].is_number());
    assert_eq!(std::fs::read_to_string(&predictions).expect("written").lines().count(), 25);
    good(&["report", first.to_str().expect("UTF-8")]);
    let board = folder.path().join("board.csv");
    let board = board.to_str().expect("UTF-8");
    let shown =
        good(&["leaderboard", first.to_str().expect("UTF-8"), second.to_str().expect("UTF-8"), "--into", board]);
    assert!(shown.contains("tiny-sequence"));
    let page = folder.path().join("board.html");
    let first = first.to_str().expect("UTF-8");
    good(&["leaderboard", first, "--fresh", "--into", board, "--page", page.to_str().expect("UTF-8")]);
    let lines = |path: &Path| std::fs::read_to_string(path).expect("written").lines().count();
    assert_eq!(lines(Path::new(board)), lines(&Path::new(first).join("leaderboard.csv")), "this run alone");
    assert!(std::fs::read_to_string(&page).expect("written").contains("tiny-trees"));
    assert!(folder.path().join("board.md").exists());
    bad(&["leaderboard", first, "--into", board, "--page", "board.pdf"]);
    good(&["export", checkpoint, "--out", folder.path().join("export").to_str().expect("UTF-8")]);
    assert!(folder.path().join("export/model.onnx").exists());
}

#[test]
fn an_estimate_answers_in_words_and_in_json() {
    let words = good(&["estimate", "data/graphs/resnet50.json", "--batch", "64", "--gpu", "a100-40"]);
    assert!(words.contains("peak memory") && words.contains("simulated") && words.contains("fits"), "{words}");
    let answer =
        json(&good(&["estimate", "data/graphs/resnet50.json", "--batch", "64", "--gpu", "A100-40GB", "--json"]));
    assert_eq!(answer["totals"]["parameters"], 25_557_032);
    let peak = answer["peak_memory_mib"].as_f64().expect("a number");
    assert!((4_000.0..16_000.0).contains(&peak), "{peak}");
    let larger =
        json(&good(&["estimate", "data/graphs/resnet50.json", "--batch", "256", "--gpu", "a100-40", "--json"]));
    assert!(larger["peak_memory_mib"].as_f64() > Some(peak));
    for key in ["gputl_pct", "gract", "smact", "smocc", "fp32a", "drama", "warnings", "fits"] {
        assert!(!answer[key].is_null() || key == "drama", "{key}");
    }
    assert!(words.contains("95 %: at most"), "{words}");
    let bounds = ["p50", "p90", "p95", "p99"].map(|name| answer["bounds_mib"][name].as_f64().expect("a bound"));
    assert!(bounds.is_sorted() && bounds[2] > 0.95 * peak, "{bounds:?} around {peak}");
    let fits = |answer: &Value| answer["probability_fits"].as_f64().expect("a probability");
    assert!(fits(&answer) > 0.95 && fits(&answer) > fits(&larger), "{} and {}", fits(&answer), fits(&larger));
    let other = json(&good(&["estimate", "data/graphs/resnet50.json", "--batch", "64", "--gpu", "b200", "--json"]));
    assert!(other["ood"].as_f64() > answer["ood"].as_f64(), "another GPU is farther from what was measured");
    assert!(text(other["warnings"].to_string().as_bytes()).contains("b200"));
}

#[test]
fn the_label_decides_which_memory_is_told_but_not_whether_the_job_fits() {
    let ask = |label: &str| {
        let arguments = ["estimate", "data/graphs/vgg16.json", "--batch", "32", "--gpu", "a100-40", "--label", label];
        json(&good(&[&arguments[..], &["--json"]].concat()))
    };
    let peak = |answer: &Value| answer["peak_memory_mib"].as_f64().expect("a number");
    let (device, reserved, allocated) = (ask("nvidia_smi_device"), ask("reserved"), ask("allocated"));
    assert!(peak(&device) > peak(&reserved) + 500.0, "a device shows the context too");
    assert!(peak(&reserved) >= peak(&allocated));
    assert_eq!(reserved["probability_fits"], device["probability_fits"]);
    assert_eq!(reserved["label"], "reserved");
    let graph = "data/graphs/vgg16.json";
    let error = bad(&["estimate", graph, "--batch", "1", "--gpu", "t4", "--label", "wattage"]);
    assert!(error.contains("wattage") && error.contains("nvidia_smi_device"), "{error}");
}

#[test]
fn an_unknown_layer_is_warned_of_once_and_never_crashes() {
    let folder = folder();
    let graph = r#"{"plimsoll_graph": 1, "name": "odd", "inputs": [{"name": "x", "shape": ["batch", 8]}], "nodes": [
        {"name": "a", "op": "frobnicate", "inputs": ["x"], "outputs": [{"name": "a", "shape": ["batch", 8]}]},
        {"name": "b", "op": "frobnicate", "inputs": ["a"], "outputs": [{"name": "b", "shape": ["batch", 8]}]}], "outputs": ["b"]}"#;
    let graph = path(&folder, "odd.json", graph);
    let words = good(&["estimate", &graph, "--batch", "2", "--gpu", "t4"]);
    assert_eq!(words.matches("frobnicate").count(), 1, "{words}");
}

#[test]
fn bad_graphs_are_refused_with_what_where_and_why() {
    let folder = folder();
    let good_graph = std::fs::read_to_string(repository().join("data/graphs/vgg16.json")).expect("there");
    for (name, content, word) in [
        ("truncated.json", good_graph[..5000].to_owned(), "line 1"),
        ("empty.json", String::new(), "empty.json"),
        ("binary.json", "\u{0}\u{1}\u{2}".to_owned(), "binary.json"),
        ("list.json", "[]".to_owned(), "list.json"),
        ("deep.json", "[".repeat(200_000), "deep.json"),
    ] {
        let graph = path(&folder, name, &content);
        let error = bad(&["estimate", &graph, "--batch", "2", "--gpu", "t4"]);
        assert!(error.contains(word), "{name}: {error}");
    }
    for batch in ["0", "4294967297"] {
        let error = bad(&["estimate", "data/graphs/vgg16.json", "--batch", batch, "--gpu", "t4"]);
        assert!(error.contains("batch size"), "{error}");
    }
    let error = bad(&["estimate", "data/graphs/vgg16.json", "--batch", "4000000000", "--gpu", "t4"]);
    assert!(error.contains("too large"), "{error}");
    for (given, missing) in [(["--gpu", "t4"], "--batch"), (["--batch", "1"], "--gpu")] {
        let usage = plimsoll(&[&["estimate", "data/graphs/vgg16.json"], &given[..]].concat());
        assert!(usage.status.code() == Some(2) && text(&usage.stderr).contains(missing));
    }
    let error = bad(&["estimate", "data/graphs/vgg16.json", "--batch", "1", "--gpu", "rtx-3091"]);
    assert!(error.contains("rtx-3090") && error.contains("hint: "), "{error}");
    assert!(bad(&["estimate", "nothing-here.json", "--batch", "1", "--gpu", "t4"]).contains("nothing-here.json"));
    let usage = plimsoll(&["estimate", "--batch", "many"]);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn bad_measurements_are_rejected_or_refused() {
    let folder = folder();
    let out = folder.path().join("out.parquet");
    let out = out.to_str().expect("UTF-8");
    let graph = repository().join("data/graphs/vgg16.json");
    let graph = graph.to_str().expect("UTF-8");
    let rejects = folder.path().join("rejects.csv");
    let table = path(
        &folder,
        "table.csv",
        &format!(
            "workload,batch_size,gpu,peak_memory_mib\n{graph},4,t4,4000\n{graph},0,t4,4000\n{graph},4,t5,4000\n\
             {graph},4,t4,nan\n{graph},4,t4,-7\nnone.json,4,t4,4000\n{graph},4\n"
        ),
    );
    let counts =
        json(&good(&["ingest", &table, "--out", out, "--rejects", rejects.to_str().expect("UTF-8"), "--json"]));
    assert_eq!((counts["accepted"].as_u64(), counts["rejected"].as_u64()), (Some(1), Some(6)), "{counts}");
    assert_eq!(std::fs::read_to_string(&rejects).expect("written").lines().count(), 7);
    // What was written before is not lost by a run that fails.
    let before = std::fs::read(out).expect("written");
    assert!(bad(&["ingest", &table, "--out", out, "--strict"]).contains("6 rows"));
    for (name, content) in [
        ("empty.csv", ""),
        ("header.csv", "workload,batch_size,gpu\n"),
        ("columns.csv", "a,b,c\n1,2,3\n"),
        ("junk.csv", "\u{0}\u{1}\u{2}\u{3}"),
    ] {
        let file = path(&folder, name, content);
        let error = bad(&["ingest", &file, "--out", out]);
        assert!(error.contains(name) || error.contains("no usable row"), "{name}: {error}");
    }
    assert_eq!(std::fs::read(out).expect("still there"), before);
    let samples = folder.path().join("samples.parquet");
    good(&["featurize", out, "--out", samples.to_str().expect("UTF-8")]);
    let cut = path(&folder, "cut.parquet", "");
    std::fs::write(&cut, &before[..before.len() / 2]).expect("written");
    assert!(bad(&["featurize", &cut, "--out", out]).contains("cut.parquet"));
}

#[test]
fn bad_configs_name_the_key() {
    let folder = folder();
    let out = folder.path().join("out");
    let out = out.to_str().expect("UTF-8");
    for (from, to, word) in [
        ("folds = 2", "flods = 2", "`folds`"),
        ("epochs = 2", "epohcs = 2", "`epochs`"),
        ("kind = \"mlp\"", "kind = \"mpl\"", "mlp"),
        ("count = 60", "count = 0", "count"),
        ("name = \"small\"", "name = \"../small\"", "name"),
        ("heads = 2", "heads = 3", "multiple"),
        (
            "hidden = 8, blocks = 1 }\ntraining = { epochs = 2",
            "hidden = 8, blocks = 1 }\ntraining = { learning_rate = -1.0, epochs = 2",
            "learning_rate",
        ),
        ("[split]", "[split", "line"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let config = path(&folder, "bad.toml", &SMALL.replacen(from, to, 1));
        let error = bad(&["run", &config, "--out", out]);
        assert!(error.contains(word), "{to}: {error}");
    }
    let config = path(&folder, "few.toml", &SMALL.replace("count = 60", "count = 2").replace("folds = 2", "folds = 9"));
    assert!(bad(&["run", &config, "--out", out]).contains("folds"));
    let config = path(
        &folder,
        "data.toml",
        &SMALL.replace("generate = { count = 60, seed = 2 }", "files = [\"${PLIMSOLL_DATA}/x.csv\"]"),
    );
    assert!(bad(&["run", &config, "--out", out]).contains("PLIMSOLL_DATA"));
    assert!(bad(&["run", "no-such-config.toml"]).contains("no-such-config.toml"));
    assert!(
        bad(&["evaluate", "no-such-checkpoint", "--data", "data/published_real_models.csv"])
            .contains("no-such-checkpoint")
    );
}

#[test]
fn a_killed_run_goes_on_where_it_stopped() {
    let folder = folder();
    let long = SMALL.replace("epochs = 2", "epochs = 60").replace("count = 60", "count = 300");
    let config = path(&folder, "long.toml", &long);
    let out = folder.path().join("out");
    let mut child = Command::new(PLIMSOLL)
        .current_dir(repository())
        .args(["run", &config, "--jobs", "1", "--out", out.to_str().expect("UTF-8")])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    // Killed once a fit has kept some epochs.
    let state = |out: &Path| {
        let work = std::fs::read_dir(out.join("work")).ok()?.flatten().next()?.path();
        let text = std::fs::read_to_string(work.join("tiny-fold-0/training.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()?["history"].as_array().map(Vec::len)
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(2);
    while state(&out).is_none_or(|epochs| epochs < 2) && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(state(&out).is_some_and(|epochs| epochs >= 2), "the killed run kept its epochs");
    // A worker that outlived its parent ends when it next tells of an epoch.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let resumed = json(&good(&["run", &config, "--out", out.to_str().expect("UTF-8"), "--json"]));
    let fresh = folder.path().join("fresh");
    let fresh = json(&good(&["run", &config, "--out", fresh.to_str().expect("UTF-8"), "--json"]));
    assert_eq!(resumed, fresh);
}

#[test]
fn the_catalogue_is_listed_and_extended() {
    assert!(good(&["gpus"]).lines().count() > 50);
    let found = json(&good(&["gpus", "3090", "--json"]));
    assert_eq!(found[0]["sms"], 82);
    let folder = folder();
    let own = path(&folder, "own.toml", &good(&["gpus", "--template"]));
    assert!(good(&["gpus", "my-gpu", "--gpu-file", &own]).contains("my-gpu"));
    let words = good(&["estimate", "data/graphs/vgg16.json", "--batch", "8", "--gpu", "my-gpu", "--gpu-file", &own]);
    assert!(words.contains("my-gpu"));
    let broken = path(&folder, "broken.toml", "[[gpu]]\nname = \"x\"\nsms = -3\n");
    assert!(bad(&["gpus", "--gpu-file", &broken]).contains("broken.toml"));
    assert!(good(&["--help"]).contains("plimsoll run"));
}

#[test]
fn the_help_of_every_command_shows_an_example() {
    let help = good(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> =
        commands.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"fit-batch") && commands.len() > 10, "{commands:?}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let help = good(&[command, "--help"]);
        assert!(help.contains(&format!("Example: plimsoll {command} ")), "{command}: {help}");
    }
}
