//! Tables of our own.

use plimsoll_graph::{GpuCatalogue, Optimizer, Precision, TrainingSetup};
use polars::prelude::{Column, DataFrame, ParquetWriter};

use super::{Folder, failure, only_reason, read, read_with};
use crate::ingest::{Format, IngestOptions};
use crate::measurement::{Label, Outcome};

const HEADER: &str = "workload,batch_size,gpu,precision,optimizer,sequence_length,input_size,activation_checkpointing,\
    gradient_accumulation,architecture,shape,family,peak_memory_mib,label,stack,status,gputl_pct,gract,drama,\
    horus_estimate_mib,remark";
const ROW: &str = "graphs/net.json,32,RTX 3090,amp_fp16,sgd,128,224,true,4,net-a,wide,cnn,5262,reserved,torch 2.9,ok,\
    50,0.25,0.125,7903.9316,a note";

fn file(folder: &Folder, rows: &[&str]) -> std::path::PathBuf {
    folder.write_graph("graphs/net.json");
    folder.write("runs.csv", format!("{HEADER}\n{}\n", rows.join("\n")))
}

#[test]
fn every_column_reaches_its_place() {
    let folder = Folder::new();
    let path = file(&folder, &[ROW]);
    assert_eq!(Format::detect(&path).expect("known"), Format::Measurements);
    let (accepted, rejected, counts) = read(&path).expect("readable");
    assert_eq!(rejected, []);
    let measurement = &accepted[0];
    let setup = measurement.workload.setup();
    assert_eq!((setup.batch_size, setup.gradient_accumulation), (32, 4));
    assert_eq!((setup.precision, setup.optimizer), (Precision::AmpFp16, Optimizer::Sgd));
    assert_eq!((setup.sequence_length, setup.input_size), (Some(128), Some(224)));
    assert!(setup.activation_checkpointing);
    assert_eq!(measurement.workload.gpu().name, "rtx-3090");
    assert_eq!((measurement.architecture.as_str(), measurement.shape.as_str()), ("net-a", "wide"));
    assert_eq!((measurement.label, measurement.stack.to_string().as_str()), (Label::Reserved, "pytorch 2.9"));
    assert_eq!(measurement.outcome, Outcome::Measured { peak_mib: 5262.0 });
    assert_eq!(measurement.utilisation, [Some(0.5), Some(0.25), None, None, None, Some(0.125)]);
    assert_eq!(measurement.published_estimates, [("horus".to_owned(), 7903.9316)]);
    assert_eq!(counts.ignored_columns.iter().collect::<Vec<_>>(), ["remark"]);
}

#[test]
fn few_columns_and_options_do() {
    let folder = Folder::new();
    folder.write_graph("net.json");
    let path = folder.write("runs.csv", "workload,batch_size,peak_memory_mib\nnet.json,8,1500\n");
    let error = failure(&path);
    assert!(error.contains("`gpu`"), "{error}");
    let options = IngestOptions {
        gpu: Some(GpuCatalogue::built_in().find("t4").expect("known").clone()),
        setup: Some(TrainingSetup { optimizer: Optimizer::AdamW, ..TrainingSetup::new(1) }),
        ..IngestOptions::default()
    };
    let (accepted, _, _) = read_with(&path, &options).expect("readable");
    assert_eq!(accepted[0].architecture, "mlp-3", "the graph's name stands in");
    assert_eq!(accepted[0].workload.setup().batch_size, 8, "the row's batch comes first");
    assert_eq!(accepted[0].workload.setup().optimizer, Optimizer::AdamW);
    assert_eq!(accepted[0].label, Label::Unknown);
}

#[test]
fn a_run_without_a_peak_is_unknown_or_out_of_memory() {
    let folder = Folder::new();
    let rows = [
        ROW.replace(",5262,", ",,").replace(",ok,", ",,"),
        ROW.replace(",5262,", ",,").replace(",ok,", ",oom,"),
        ROW.replace(",5262,", ",24000,").replace(",ok,", ",oom,"),
        ROW.replace(",ok,", ",unknown,"),
    ];
    let (accepted, rejected, _) = read(&file(&folder, &rows.each_ref().map(String::as_str))).expect("readable");
    assert_eq!(rejected, []);
    let outcomes: Vec<Outcome> = accepted.iter().map(|row| row.outcome).collect();
    let out_of_memory = |above_mib| Outcome::OutOfMemory { above_mib };
    assert_eq!(outcomes, [Outcome::Unknown, out_of_memory(24_576.0), out_of_memory(24_000.0), Outcome::Unknown]);
}

#[test]
fn what_is_wrong_with_a_row_is_its_reason() {
    let folder = Folder::new();
    folder.write("graphs/broken.json", "{\"plimsoll_graph\": 1");
    for (from, to, word) in [
        ("graphs/net.json", "graphs/none.json", "none.json"),
        ("graphs/net.json", "graphs/broken.json", "malformed"),
        ("graphs/net.json", "", "`workload` is empty"),
        (",32,", ",0,", "batch size"),
        (",32,", ",-1,", "-1"),
        (",32,", ",99999999999,", "batch size"),
        ("RTX 3090", "RTX 3091", "rtx-3090"),
        ("RTX 3090", "", "`gpu` is empty"),
        ("amp_fp16", "fp17", "fp17"),
        (",sgd,", ",sgdd,", "did you mean `sgd`"),
        (",128,", ",-128,", "sequence_length"),
        (",true,", ",perhaps,", "perhaps"),
        (",4,net", ",0,net", "gradient accumulation"),
        (",5262,", ",0,", "no memory was recorded"),
        (",5262,", ",NaN,", "NaN"),
        (",5262,", ",99000,", "more than"),
        (",5262,", ",,", "`peak_memory_mib` is empty"),
        ("reserved", "guessed", "guessed"),
        (",ok,", ",fine,", "fine"),
        (",50,", ",-7,", "gputl_pct"),
        ("7903.9316", "-1", "horus_estimate_mib"),
        (",a note", "", "20 fields where the header has 21"),
    ] {
        let broken = ROW.replace(from, to);
        assert_ne!(broken, ROW, "{from} must occur");
        let reason = only_reason(&file(&folder, &[&broken]));
        assert!(reason.contains(word), "{to}: {reason}");
    }
}

#[test]
fn a_misspelt_column_is_not_ignored() {
    let folder = Folder::new();
    for (from, to, word) in [
        ("optimizer", "optimiser", "is `optimizer` meant"),
        ("peak_memory_mib", "peak_memory_mb", "is `peak_memory_mib` meant"),
        ("workload", "model", "`workload`"),
    ] {
        let text = format!("{}\n{ROW}\n", HEADER.replace(from, to));
        let error = failure(&folder.write("runs.csv", text));
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn parquet_and_csv_give_the_same() {
    let folder = Folder::new();
    let csv = file(&folder, &[ROW, &ROW.replace(",5262,", ",0,")]);
    let texts = |name: &str, text: &str| Column::new(name.into(), [text, text]);
    let columns = vec![
        texts("workload", "graphs/net.json"),
        Column::new("batch_size".into(), [32_i64, 32]),
        texts("gpu", "RTX 3090"),
        texts("precision", "amp_fp16"),
        texts("optimizer", "sgd"),
        Column::new("sequence_length".into(), [128.0_f64, 128.0]),
        Column::new("input_size".into(), [224_u32, 224]),
        Column::new("activation_checkpointing".into(), [true, true]),
        Column::new("gradient_accumulation".into(), [4_i32, 4]),
        texts("architecture", "net-a"),
        texts("shape", "wide"),
        Column::new("peak_memory_mib".into(), [5262.0_f64, 0.0]),
        texts("label", "reserved"),
        texts("stack", "torch 2.9"),
        texts("status", "ok"),
        Column::new("gputl_pct".into(), [50_i64, 50]),
        Column::new("gract".into(), [0.25_f32, 0.25]),
        Column::new("drama".into(), [Some(0.125_f64), None]),
        Column::new("horus_estimate_mib".into(), [7903.9316_f64, 1.0]),
    ];
    let path = folder.path().join("runs.parquet");
    let mut frame = DataFrame::new(2, columns).expect("columns of one length");
    ParquetWriter::new(std::fs::File::create(&path).expect("creates")).finish(&mut frame).expect("writes");
    assert_eq!(Format::detect(&path).expect("known"), Format::Measurements);

    let (mut from_parquet, rejected, _) = read(&path).expect("readable");
    let (from_csv, rejected_csv, _) = read(&csv).expect("readable");
    assert_eq!((rejected.len(), &rejected[0].reason), (1, &rejected_csv[0].reason));
    assert_eq!(rejected[0].id, "runs.parquet:2");
    from_parquet[0].id.clone_from(&from_csv[0].id);
    assert_eq!(from_parquet, from_csv);

    // A row group of one row is read as constants, whose text is owned.
    let writer = ParquetWriter::new(std::fs::File::create(&path).expect("creates"));
    writer.with_row_group_size(Some(1)).finish(&mut frame).expect("writes");
    let (mut from_groups, _, _) = read(&path).expect("readable");
    from_groups[0].id.clone_from(&from_csv[0].id);
    assert_eq!(from_groups, from_csv);
}

#[test]
fn the_whole_setup_can_stand_in_a_row() {
    let folder = Folder::new();
    folder.write_graph("net.json");
    let header = "workload,batch_size,gpu,trainable,last_batch,startup_batch,cudnn_benchmark,keeps_gradients,\
        expandable_segments,max_split_size_mib";
    let path = folder.write("runs.csv", format!("{header}\nnet.json,8,t4,linear1 linear2,3,2,true,1,yes,128\n"));
    let (accepted, rejected, _) = read(&path).expect("readable");
    assert_eq!(rejected, []);
    let expected = TrainingSetup {
        trainable: vec!["linear1".into(), "linear2".into()],
        last_batch: Some(3),
        startup_batch: Some(2),
        cudnn_benchmark: true,
        keeps_gradients: true,
        expandable_segments: true,
        max_split_size_mib: Some(128),
        ..TrainingSetup::new(8)
    };
    assert_eq!(accepted[0].workload.setup(), &expected);
}

#[test]
fn a_suspect_reading_is_kept_and_not_believed() {
    let folder = Folder::new();
    folder.write_graph("net.json");
    let rows = "net.json,8,t4,1500,suspect,it fell\nnet.json,8,t4,1500,suspect,\nnet.json,8,t4,,suspect,it fell\n\
        net.json,8,t4,15000,oom,it ended there\nnet.json,8,t4,1500,ok,no matter\n";
    let path = folder.write("runs.csv", format!("workload,batch_size,gpu,peak_memory_mib,status,doubt\n{rows}"));
    let (accepted, rejected, _) = read(&path).expect("readable");
    let found: Vec<_> = accepted
        .iter()
        .map(|row| (row.outcome, row.doubt.as_ref().map(|doubt| (doubt.reason.as_str(), doubt.reading_mib))))
        .collect();
    let expected = [
        (Outcome::Unknown, Some(("it fell", 1500.0))),
        (Outcome::Unknown, Some(("the table says so", 1500.0))),
        (Outcome::OutOfMemory { above_mib: 15_000.0 }, Some(("it ended there", 15_000.0))),
        (Outcome::Measured { peak_mib: 1500.0 }, None),
    ];
    assert_eq!(found, expected);
    assert!(rejected[0].reason.contains("suspect"), "{rejected:?}");
}

#[test]
fn a_gpu_of_its_own_stands_in_a_row_as_json() {
    let folder = Folder::new();
    folder.write_graph("net.json");
    let mut gpu = GpuCatalogue::built_in().find("t4").expect("known").clone();
    gpu.name = "t4-half".into();
    gpu.memory_mib /= 2;
    let text = serde_json::to_string(&gpu).expect("serialises").replace('"', "\"\"");
    let broken = text.replace("\"\"sms\"\":40", "\"\"sms\"\":0");
    let path = folder.write(
        "runs.csv",
        format!("workload,batch_size,gpu,gpu_json\nnet.json,8,t4-half,\"{text}\"\nnet.json,8,t4-half,\"{broken}\"\nnet.json,8,,{{}}\n"),
    );
    let (accepted, rejected, _) = read(&path).expect("readable");
    assert_eq!(accepted[0].workload.gpu(), &gpu);
    assert_eq!((accepted.len(), rejected.len()), (1, 2), "{rejected:?}");
}
