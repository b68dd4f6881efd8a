use plimsoll_model::Bounds;
use polars::prelude::{ParquetReader, SerReader};

use super::*;

fn rows() -> Vec<JobRow> {
    let bounds = Bounds { p50: 5000.0, p90: 5100.0, p95: 5200.5, p99: 6000.0 };
    let mut utilisation = [None; 6];
    utilisation[0] = Some(0.5);
    let job = EstimatedJob {
        architecture: "a, \"b\"".into(),
        gpu: "t4".into(),
        capacity_mib: 15_360.0,
        batch_size: 8,
        precision: "fp32",
        optimizer: "adam",
        label: Label::NvidiaSmiDevice,
        estimate: Estimate {
            peak_memory_mib: Some(4990.0),
            bounds: Some(bounds),
            ood: 0.25,
            utilisation,
            ..Estimate::default()
        },
        probability_fits: Some(0.999),
        spike_risk: 0.125,
        simulated_mib: 4980.0,
        warnings: String::new(),
    };
    let rejected = JobRow { id: "jobs.csv:3".into(), job: Err("no such model".into()) };
    vec![JobRow { id: "jobs.csv:2".into(), job: Ok(job) }, rejected]
}

/// What a file holds after rows were written in two parts.
fn written(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join(name);
    let mut writer = JobWriter::create(&path).expect("created");
    for row in rows() {
        writer.write(&[row]).expect("written");
    }
    assert!(!path.exists(), "nothing has the name before it is whole");
    writer.finish().expect("finished");
    (folder, path)
}

#[test]
fn csv_keeps_rejected_rows_in_their_place() {
    let (_folder, path) = written("out.csv");
    let text = std::fs::read_to_string(path).expect("read");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("id,architecture,gpu,") && lines[0].ends_with(",warnings,rejected"));
    assert!(lines[1].starts_with("jobs.csv:2,\"a, \"\"b\"\"\",t4,15360,8,fp32,adam,nvidia_smi_device,4990,5000,5100,5200.5,6000,0.999,0.25,0.125,4980,50,"));
    assert!(lines[2].starts_with("jobs.csv:3,,,") && lines[2].ends_with(",no such model"));
}

#[test]
fn json_lines_have_null_where_nothing_is_known() {
    let (_folder, path) = written("out.jsonl");
    let text = std::fs::read_to_string(path).expect("read");
    let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(
        (&values[0]["batch_size"], &values[0]["gputl_pct"], &values[0]["rejected"]),
        (&8.into(), &50.0.into(), &Value::Null)
    );
    assert_eq!((&values[1]["peak_memory_mib"], &values[1]["rejected"]), (&Value::Null, &"no such model".into()));
}

#[test]
fn parquet_has_the_same_columns_with_types() {
    let (_folder, path) = written("out.parquet");
    let frame = ParquetReader::new(File::open(path).expect("opened")).finish().expect("Parquet");
    assert_eq!((frame.height(), frame.width()), (2, NAMES.len()));
    let peaks = frame.column("peak_memory_mib").expect("a column").f64().expect("numbers");
    assert_eq!((peaks.get(0), peaks.get(1)), (Some(4990.0), None));
    assert_eq!(frame.column("batch_size").expect("a column").u64().expect("whole").get(0), Some(8));
}

#[test]
fn an_unfinished_file_leaves_nothing_and_other_formats_are_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut writer = JobWriter::create(&folder.path().join("out.csv")).expect("created");
    writer.write(&rows()).expect("written");
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0);
    let error = JobWriter::create(&folder.path().join("out.xlsx")).err().expect("refused").to_string();
    assert!(error.contains("`.csv`, `.jsonl` or `.parquet`") && error.contains("`.xlsx`"), "{error}");
}
