//! Files of every kind: folders, single workloads, damage.

use std::path::PathBuf;

use plimsoll_graph::{GpuCatalogue, TrainingSetup};

use super::{Folder, failure, only_reason, read, read_with};
use crate::error::DatasetError;
use crate::fixtures;
use crate::ingest::{Format, IngestOptions, ingest, ingest_all};
use crate::measurement::Outcome;
use crate::parquet::{MeasurementWriter, SampleWriter};
use crate::sample::Sample;

const TABLE: &str = "workload,batch_size,gpu,peak_memory_mib\na.json,8,t4,1500\nmissing.json,8,t4,1500\n";

const SUMMARY: &str = "----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Linear-1                   [-1, 16]             528
              ReLU-2                   [-1, 16]               0
================================================================
Total params: 528
Trainable params: 528
Non-trainable params: 0
----------------------------------------------------------------
";

fn options() -> IngestOptions {
    IngestOptions {
        gpu: Some(GpuCatalogue::built_in().find("t4").expect("known").clone()),
        setup: Some(TrainingSetup::new(16)),
        ..IngestOptions::default()
    }
}

#[test]
fn a_graph_alone_is_a_workload_of_which_nothing_was_measured() {
    let folder = Folder::new();
    let path = folder.write_graph("net.json");
    assert_eq!(Format::detect(&path).expect("known"), Format::Graph);
    assert!(only_reason(&path).contains("batch size"));
    let (accepted, _, _) = read_with(&path, &options()).expect("readable");
    assert_eq!((accepted[0].id.as_str(), accepted[0].outcome), ("net.json", Outcome::Unknown));
    assert_eq!(accepted[0].workload.setup().batch_size, 16);
}

#[test]
fn a_printed_summary_is_a_workload_too() {
    let folder = Folder::new();
    let options = IngestOptions { gpu: None, ..options() };
    let with_gpu = self::options();
    for name in ["net.txt", "net"] {
        let path = folder.write(name, SUMMARY);
        assert_eq!(Format::detect(&path).expect("known"), Format::Summary);
        let (_, rejected, _) = read_with(&path, &options).expect("readable");
        assert!(rejected[0].reason.contains("GPU"), "{rejected:?}");
        let (accepted, _, _) = read_with(&path, &with_gpu).expect("readable");
        assert_eq!(accepted[0].workload.graph().parameter_count(), 528);
    }
    let table = TABLE.replace("a.json", "net.txt").replace("missing.json", "net.csv");
    let (accepted, rejected, _) = read(&folder.write("runs.csv", table)).expect("readable");
    assert_eq!((accepted.len(), rejected.len()), (1, 1));
    let error = failure(&folder.write("cut.txt", &SUMMARY[..200]));
    assert!(error.contains("cut.txt"), "{error}");
}

#[test]
fn a_folder_gives_tables_and_the_workloads_that_no_table_names() {
    let folder = Folder::new();
    folder.write("runs.csv", TABLE);
    folder.write_graph("a.json");
    folder.write_graph("deep/b.json");
    folder.write("notes.json", "{\"title\": \"no graph\"}");
    folder.write("other.csv", "x,y\n1,2\n");
    let (accepted, rejected, counts) = read_with(folder.path(), &options()).expect("readable");
    let ids: Vec<&str> = accepted.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["runs.csv:2", "b.json"]);
    let ids: Vec<&str> = rejected.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["other.csv", "runs.csv:3", "notes.json"]);
    assert_eq!(counts.files, 4);
}

#[test]
fn unknown_operators_are_told_once() {
    let folder = Folder::new();
    let text = r#"{"plimsoll_graph": 1, "name": "odd", "inputs": [{"name": "x", "shape": ["batch", 3]}],
        "nodes": [{"name": "n", "op": "frobnicate", "inputs": ["x"], "outputs": [{"name": "y", "shape": ["batch", 3]}]}],
        "outputs": ["y"]}"#;
    let paths = [folder.write("a.json", text), folder.write("b.json", text)];
    let (accepted, _, counts) = ingest_all(&paths, &options(), GpuCatalogue::built_in()).expect("readable");
    assert_eq!(accepted.len(), 2);
    assert_eq!(counts.unknown_operators.iter().collect::<Vec<_>>(), ["frobnicate"]);
}

#[test]
fn measurements_written_by_us_come_back() {
    let folder = Folder::new();
    let path = folder.path().join("kept.parquet");
    let kept = [fixtures::measurement(2, 8), fixtures::measurement(3, 16)];
    let mut writer = MeasurementWriter::create(&path).expect("creates");
    for measurement in &kept {
        writer.write(measurement).expect("writes");
    }
    writer.finish().expect("finishes");
    assert_eq!(Format::detect(&path).expect("known"), Format::Parquet);
    let (accepted, rejected, _) = read(&path).expect("readable");
    assert_eq!((accepted.as_slice(), rejected.as_slice()), (&kept[..], &[][..]));
}

#[test]
fn samples_are_not_measurements() {
    let folder = Folder::new();
    let path = folder.path().join("samples.parquet");
    let mut writer = SampleWriter::create(&path).expect("creates");
    writer.write(&Sample::from_measurement(&fixtures::measurement(2, 8))).expect("writes");
    writer.finish().expect("finishes");
    assert!(failure(&path).contains("samples"));
}

#[test]
fn damage_is_met_with_words() {
    let folder = Folder::new();
    for (content, word) in [
        (&b""[..], "empty"),
        (b"PAR1", "Parquet"),
        (b"PAR1 and then nothing that is Parquet", "Parquet"),
        (b"\x7fELF\x00\x00\x00\x01", "binary"),
        (b"a,b\n\xff\xfe\n", "UTF-8"),
        (b"a,b,c\n1,2,3\n", "`workload`"),
        (b"[1, 2, 3]", "workload"),
        (b"{\"plimsoll_graph\": 1, \"name\"", "malformed"),
        (b"\n\n\n", "empty"),
    ] {
        let error = failure(&folder.write("data", content));
        assert!(error.contains(word), "{}: {error}", String::from_utf8_lossy(content));
    }
    assert!(failure(&folder.path().join("none")).contains("cannot read"));
}

#[test]
fn a_quote_left_open_does_not_take_the_memory_of_the_whole_file() {
    let folder = Folder::new();
    let mut text = TABLE.to_owned().into_bytes();
    text.extend_from_slice(b"\"");
    text.resize(40 << 20, b'x');
    let error = failure(&folder.write("runs.csv", text));
    assert!(error.contains("line 4") && error.contains("quote"), "{error}");
}

#[test]
fn bytes_that_are_not_text_reject_their_row_only() {
    let folder = Folder::new();
    folder.write_graph("a.json");
    // Far enough from the start that detection does not see it.
    let mut text = TABLE.to_owned().into_bytes();
    text.extend(b"a.json,8,t4,1500\n".repeat(5_000));
    text.extend(b"a.json,8,t\xff4,1500\na.json,8,t4,1500\n");
    let (accepted, rejected, _) = read(&folder.write("runs.csv", text)).expect("readable");
    assert_eq!((accepted.len(), rejected.len()), (5_002, 2));
    assert!(rejected[1].reason.contains("`gpu` is not UTF-8"), "{}", rejected[1].reason);
}

#[test]
fn a_layout_can_be_demanded() {
    let folder = Folder::new();
    let path = folder.write("runs.csv", TABLE);
    let options = IngestOptions { format: Some(Format::Gpumemnet), ..IngestOptions::default() };
    let error = read_with(&path, &options).expect_err("other columns").to_string();
    assert!(error.contains("Filename"), "{error}");
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(format));
    }
}

#[test]
fn files_of_one_name_do_not_share_ids() {
    let folder = Folder::new();
    folder.write_graph("x/a.json");
    folder.write_graph("y/a.json");
    let paths: Vec<PathBuf> = ["x", "y"].map(|name| folder.write(&format!("{name}/runs.csv"), TABLE)).into();
    let (accepted, _, _) = ingest_all(&paths, &IngestOptions::default(), GpuCatalogue::built_in()).expect("readable");
    assert_eq!(accepted.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["x/runs.csv:2", "y/runs.csv:2"]);
}

#[test]
fn an_error_of_the_receiver_ends_the_reading() {
    let folder = Folder::new();
    folder.write("runs.csv", TABLE);
    folder.write_graph("a.json");
    let mut calls = 0;
    let result = ingest(&[folder.path().into()], &options(), GpuCatalogue::built_in(), &mut |_| {
        calls += 1;
        Err(DatasetError::Empty { what: "the disk".into(), expected: "space".into() })
    });
    assert!(result.expect_err("ends").to_string().contains("the disk"));
    assert_eq!(calls, 1);
}
