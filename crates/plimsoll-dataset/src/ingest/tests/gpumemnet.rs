//! The GPUMemNet layouts.

use plimsoll_graph::{Family, GpuCatalogue};

use super::{Folder, failure, only_reason, read, read_with};
use crate::ingest::{Format, IngestOptions};
use crate::measurement::{Label, Outcome};

const MLP_HEADER: &str = "Filename,Depth,Activations-Params,Activation Function,Total Activations,Total Parameters,\
    Batch Size,Max GPU Memory (MiB),Avg GPUTL,Avg GRACT,Avg SMACT,Avg SMOCC,Avg FP32A";
const MLP: &str = "input:100_output:10_depth:2_arch:pyramid_batch:16.out,3,\"[('linear', 50, 5050), ('ReLU', 50, 0)]\",\
    ReLU,185,6585,16,1461.0,25.5,0.25,0.125,-1,0.0625";

const NORMED_HEADER: &str = "Filename,Depth,Activations-Params,Activation Function,Total Activations,Total Parameters,\
    Batch Size,Batch Normalization Layers,Dropout Layers,Max GPU Memory (MiB),Avg GPUTL,Avg GRACT,Avg SMACT,Avg SMOCC,\
    Avg FP32A";
const NORMED: &str = "input:100_output:10_depth:2_arch:bottleneck_batch:16_act:leaky_relu_dropout:0.2_dropout:True_\
    batchnorm:True.out,4,\"[('linear', 50, 5050)]\",LeakyReLU,300,6941,16,3,3,1463,12,0.1,0.1,0.1,0.1";

const CNN_HEADER: &str = "Filename,Depth,Activations-Params,Activation Function,Total Activations,Total Parameters,\
    Batch Size,Max GPU Memory (MiB),Avg GPUTL,Avg GRACT,Avg SMACT,Avg SMOCC,Avg FP32A,Conv2d Count,BatchNorm2d Count,\
    Dropout Count,AdaptiveAvgPool2d Count,Linear Count,Status";
const CNN: &str = "input_channels:3_num_classes:20_depth:4_arch:residual_base_filters:32_batch:8_input_size:64_act:swish_\
    dropout:0.3_dropout:False_batchnorm:True.out,4,\"[('conv2d', 131072, 896)]\",SiLU,9000,114794,8,2345,-1,-1,-1,-1,-1,\
    6,6,0,1,1,SUCCESSFUL";

const TRANSFORMER_HEADER: &str = "Filename,Batch Size,Seq Length,Embedding Size,Num Layers,Num Heads,Depth,\
    Accumulated Params,Activations-Params,Total Activations,Total Parameters,Max GPU Memory (MiB),\
    NonDynamicallyQuantizableLinear Count,Linear Count,LayerNorm Count,Dropout Count,Status";
// 900 x 48 embedded, three times (49 x 48 + 49 x 100 + 101 x 48), 49 x 11 out: what a layer list shows.
const TRANSFORMER: &str = "num_classes:11_embedding_size:48_num_layers:3_num_heads:4_ff_hidden_size:100_\
    dropout_rate:0.15_seq_length:20_input_size:900_num_samples:1000_batch_size:6.out,6,20,48,3,4,26,80039,\
    \"[('Embedding', 5760, 43200)]\",9000,80039,1801,3,7,6,9,SUCCESSFUL";

fn file(folder: &Folder, header: &str, rows: &[&str]) -> std::path::PathBuf {
    folder.write("runs.csv", format!("{header}\n{}\n", rows.join("\n")))
}

#[test]
fn a_row_of_each_layout_becomes_a_measurement() {
    let folder = Folder::new();
    for (header, row, family, shape, batch, peak) in [
        (MLP_HEADER, MLP, Family::Mlp, "pyramid", 16, 1461.0),
        (NORMED_HEADER, NORMED, Family::Mlp, "bottleneck", 16, 1463.0),
        (CNN_HEADER, CNN, Family::Cnn, "residual", 8, 2345.0),
        (TRANSFORMER_HEADER, TRANSFORMER, Family::Transformer, "encoder", 6, 1801.0),
    ] {
        let path = file(&folder, header, &[row]);
        assert_eq!(Format::detect(&path).expect("known"), Format::Gpumemnet);
        let (accepted, rejected, _) = read(&path).expect("readable");
        assert_eq!(rejected, [], "{family}");
        let measurement = &accepted[0];
        assert_eq!(measurement.id, "runs.csv:2");
        assert_eq!(measurement.workload.graph().family(), family);
        assert_eq!(measurement.workload.setup().batch_size, batch);
        assert_eq!(measurement.workload.gpu().name, "a100-40");
        assert_eq!(measurement.shape, shape);
        assert_eq!(measurement.label, Label::NvidiaSmiDevice);
        assert_eq!(measurement.outcome, Outcome::Measured { peak_mib: peak });
    }
}

#[test]
fn slopes_of_prelu_are_not_listed() {
    let folder = Folder::new();
    let row = NORMED.replace("leaky_relu", "prelu");
    let (accepted, rejected, _) = read(&file(&folder, NORMED_HEADER, &[&row])).expect("readable");
    assert_eq!((accepted.len(), rejected.len()), (1, 0), "{rejected:?}");
    assert!(accepted[0].workload.graph().parameter_count() > 6_941);
}

#[test]
fn utilisation_is_a_ratio_and_minus_one_is_none() {
    let folder = Folder::new();
    let (accepted, _, _) = read(&file(&folder, MLP_HEADER, &[MLP])).expect("readable");
    assert_eq!(accepted[0].utilisation, [Some(0.255), Some(0.25), Some(0.125), None, Some(0.0625), None]);
    let (accepted, _, _) = read(&file(&folder, CNN_HEADER, &[CNN])).expect("readable");
    assert_eq!(accepted[0].utilisation, [None; 6]);
}

#[test]
fn counters_that_missed_a_run_are_not_recorded() {
    let folder = Folder::new();
    let row = MLP.replace(",25.5,0.25,0.125,-1,0.0625", ",25.5,0.25,0,0,0");
    let (accepted, _, _) = read(&file(&folder, MLP_HEADER, &[&row])).expect("readable");
    assert_eq!(accepted[0].utilisation, [Some(0.255), None, None, None, None, None]);
    let idle = MLP.replace(",25.5,0.25,0.125,-1,0.0625", ",0,0,0,0,0");
    let (accepted, _, _) = read(&file(&folder, MLP_HEADER, &[&idle])).expect("readable");
    assert_eq!(accepted[0].utilisation[..5], [Some(0.0); 5]);
}

#[test]
fn counters_that_contradict_each_other_are_not_recorded() {
    let folder = Folder::new();
    let keeping = IngestOptions { keeps_contradictions: true, ..IngestOptions::default() };
    // GPUTL in percent, then GRACT, SMACT, SMOCC and FP32A as ratios.
    for (counters, contradict) in [
        ("50,0.5,0.4,0.2,0.1", false),
        // Everything within what averages over different samples may differ by.
        ("50,0.36,0.4,0.2,0.1", false),
        ("36,0.5,0.4,0.2,0.1", false),
        ("50,0.5,0.61,0.2,0.1", false),
        ("50,0.5,0.4,0.41,0.41", false),
        ("0,0,0,0,0", false),
        ("100,1,1,1,1", false),
        // GPUTL and GRACT count the same thing.
        ("50,0.34,0.3,0.2,0.1", true),
        ("34,0.5,0.4,0.2,0.1", true),
        ("0,0.5,0.4,0.2,0.1", true),
        // A multiprocessor is active, but no kernel runs.
        ("50,0.5,0.63,0.2,0.1", true),
        // Warps are resident, or units busy, on no active multiprocessor.
        ("50,0.5,0.4,0.43,0.1", true),
        ("50,0.5,0.4,0.2,0.43", true),
        // Of counters that were not all recorded nothing is said.
        ("50,0.1,0.9,0.9,-1", false),
        ("-1,0.1,0.9,0.9,0.9", false),
    ] {
        let row = MLP.replace("25.5,0.25,0.125,-1,0.0625", counters);
        assert!(row.ends_with(counters));
        let path = file(&folder, MLP_HEADER, &[&row]);
        let (accepted, rejected, _) = read(&path).expect("readable");
        assert_eq!((accepted.len(), rejected.len()), (1, 0), "the peak is as good as any: {counters}");
        let (kept, _, _) = read_with(&path, &keeping).expect("readable");
        assert!(kept[0].utilisation.iter().any(Option::is_some), "{counters}");
        let expected = if contradict { [None; 6] } else { kept[0].utilisation };
        assert_eq!(accepted[0].utilisation, expected, "{counters}");
    }
}

#[test]
fn runs_that_crashed_before_training_are_no_measurements() {
    let folder = Folder::new();
    // 101 x 50, 51 x 25, 26 x 1.
    let row = MLP.replace("output:10", "output:1").replace("6585", "6351");
    assert!(only_reason(&file(&folder, MLP_HEADER, &[&row])).contains("one output"));
}

#[test]
fn another_gpu_and_label_may_be_given() {
    let folder = Folder::new();
    let options = IngestOptions {
        gpu: Some(GpuCatalogue::built_in().find("t4").expect("known").clone()),
        label: Some(Label::NvidiaSmiProcess),
        stack: Some("torch 1.7".parse().expect("a version")),
        ..IngestOptions::default()
    };
    let (accepted, _, _) = read_with(&file(&folder, MLP_HEADER, &[MLP]), &options).expect("readable");
    assert_eq!(accepted[0].workload.gpu().name, "t4");
    assert_eq!((accepted[0].label, accepted[0].stack.to_string().as_str()), (Label::NvidiaSmiProcess, "pytorch 1.7"));
}

#[test]
fn runs_out_of_memory_are_bounds_and_not_peaks() {
    let folder = Folder::new();
    let crash = CNN.replace("SUCCESSFUL", "OOM_CRASH");
    let late = crash.replace(",2345,", ",40313,");
    let (accepted, rejected, _) = read(&file(&folder, CNN_HEADER, &[&crash, &late])).expect("readable");
    assert_eq!(rejected, []);
    assert_eq!(accepted[0].outcome, Outcome::OutOfMemory { above_mib: 40_960.0 });
    assert_eq!(accepted[1].outcome, Outcome::OutOfMemory { above_mib: 40_313.0 });
}

#[test]
fn what_is_wrong_with_a_row_is_its_reason() {
    let folder = Folder::new();
    for (header, row, from, to, word) in [
        (CNN_HEADER, CNN, "\"[('conv2d', 131072, 896)]\"", "[]", "layer list is empty"),
        (CNN_HEADER, CNN, ",2345,", ",0,", "no memory was recorded"),
        (CNN_HEADER, CNN, ",2345,", ",-5,", "-5"),
        (CNN_HEADER, CNN, ",2345,", ",nan,", "nan"),
        (CNN_HEADER, CNN, ",2345,", ",inf,", "inf"),
        (CNN_HEADER, CNN, ",2345,", ",,", "Max GPU Memory"),
        (CNN_HEADER, CNN, ",2345,", ",50000,", "more than the 40960 MiB"),
        (CNN_HEADER, CNN, "SUCCESSFUL", "SUCCESSF", "`SUCCESSF`"),
        (CNN_HEADER, CNN, "SUCCESSFUL", "", "Status"),
        (CNN_HEADER, CNN, ",114794,", ",114795,", "114795 parameters, but the configuration has 114794"),
        (CNN_HEADER, CNN, ",114794,", ",-114794,", "whole number"),
        (CNN_HEADER, CNN, "114794,8,", "114794,9,", "`Batch Size` is 9, but the configuration's batch is 8"),
        (CNN_HEADER, CNN, "residual", "spiral", "spiral"),
        (CNN_HEADER, CNN, "input_size:64", "input_size:-64", "input_size"),
        (CNN_HEADER, CNN, "-1,-1,-1", "-1,-3,-1", "-3"),
        (CNN_HEADER, CNN, "-1,-1,-1", "-1,high,-1", "high"),
        (CNN_HEADER, CNN, ",1,SUCC", ",1,1,SUCC", "20 fields where the header has 19"),
        (CNN_HEADER, CNN, ",1,SUCC", ",SUCC", "18 fields where the header has 19"),
        (MLP_HEADER, MLP, "batch:16", "batch:0", "batch"),
        (MLP_HEADER, MLP, "batch:16", "batch:99999999999", "batch"),
        (MLP_HEADER, MLP, ",16,", ",16.5,", "16.5"),
        (MLP_HEADER, MLP, ",25.5,", ",25.5.1,", "25.5.1"),
        (MLP_HEADER, MLP, ",0.25,", ",25,", "`Avg GRACT`"),
        (MLP_HEADER, MLP, "('ReLU', 50, 0)]", "('ReLU'", "truncated"),
        (MLP_HEADER, MLP, "input:100", "inputs:100", "key"),
        (TRANSFORMER_HEADER, TRANSFORMER, ",80039,1801", ",80040,1801", "has 102743"),
        (TRANSFORMER_HEADER, TRANSFORMER, ",20,48,3,", ",20,9999999999,3,", "absurd"),
        (TRANSFORMER_HEADER, TRANSFORMER, "batch_size:6", "batch_size:7", "batch is 7"),
    ] {
        let broken = row.replace(from, to);
        assert_ne!(broken, row, "{from} must occur");
        let reason = only_reason(&file(&folder, header, &[&broken]));
        assert!(reason.contains(word), "{to}: {reason}");
    }
}

#[test]
fn rows_of_another_layout_are_rejected_in_place() {
    let folder = Folder::new();
    let padded = format!("{MLP},0,0,0,0,0,SUCCESSFUL");
    let rows = [CNN, MLP, &padded, CNN_HEADER, TRANSFORMER, CNN];
    let (accepted, rejected, _) = read(&file(&folder, CNN_HEADER, &rows)).expect("readable");
    assert_eq!(accepted.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["runs.csv:2", "runs.csv:7"]);
    let reasons: Vec<&str> = rejected.iter().map(|rejection| rejection.reason.as_str()).collect();
    assert!(reasons[0].contains("13 fields"), "{reasons:?}");
    assert!(reasons[1].contains("family `mlp`"), "{reasons:?}");
    assert!(reasons[2].contains("header is repeated"), "{reasons:?}");
    assert!(reasons[3].contains("17 fields"), "{reasons:?}");
}

#[test]
fn rows_may_repeat_and_keep_ids_of_their_own() {
    let folder = Folder::new();
    let (accepted, rejected, _) = read(&file(&folder, MLP_HEADER, &[MLP, MLP])).expect("readable");
    assert_eq!(rejected, []);
    assert_eq!((accepted[0].id.as_str(), accepted[1].id.as_str()), ("runs.csv:2", "runs.csv:3"));
    assert_eq!(accepted[0].architecture, accepted[1].architecture);
}

#[test]
fn a_file_cut_anywhere_never_fails_silently() {
    let folder = Folder::new();
    let whole = format!("{CNN_HEADER}\n{CNN}\n{CNN}\n");
    let second = CNN_HEADER.len() + 1 + CNN.len() + 1;
    // Without its last line break the second row is still whole.
    for length in (second + 1..whole.len() - 1).step_by(7) {
        let (accepted, rejected, _) = read(&folder.write("runs.csv", &whole[..length])).expect("readable");
        assert_eq!((accepted.len(), rejected.len()), (1, 1), "cut at {length}");
    }
}

#[test]
fn a_header_that_lacks_columns_names_them() {
    let folder = Folder::new();
    let error = failure(&folder.write("runs.csv", format!("{}\n", CNN_HEADER.replace("Total Parameters", "Params"))));
    assert!(error.contains("`Total Parameters`") && error.contains("gpumemnet"), "{error}");
    let error = failure(&folder.write("runs.csv", format!("{MLP_HEADER},Filename\n")));
    assert!(error.contains("`Filename` twice"), "{error}");
}

#[test]
fn columns_may_stand_in_another_order_after_a_byte_order_mark() {
    let folder = Folder::new();
    let text = "\u{feff}Max GPU Memory (MiB),Batch Size,Total Parameters,Activations-Params,Filename\n\
                1461,16,6585,\"[('linear', 50, 5050)]\",input:100_output:10_depth:2_arch:pyramid_batch:16.out\n";
    let (accepted, rejected, _) = read(&folder.write("runs.csv", text)).expect("readable");
    assert_eq!((accepted.len(), rejected.len()), (1, 0), "{rejected:?}");
}
