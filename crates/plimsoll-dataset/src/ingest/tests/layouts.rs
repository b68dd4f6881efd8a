//! Published tables in their own layouts, with made-up rows.

use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_graph::{GpuCatalogue, Optimizer, Precision};

use super::{Folder, failure, read_with};
use crate::ingest::{Converted, Format, GraphFolder, IngestOptions, Layout, convert};
use crate::measurement::{Label, Measurement, Outcome};

const TIMM: &str =
    "model,batch_size,max_gpu_memory_mib,faketensor_after_forward,faketensor_after_backward,faketensor_peak
neta50,8,12001,1,2,3000.5
neta50,16,22001,1,2,6000.5
neta50,32,39801,1,2,90000.5
neta50,64,3001,1,2,
netb,8,0,1,2,3
netc,8,2001,1,2,3
";

const SCHEDTUNE: &str =
    "model,batch_size,gpu,peak_memory_mib,cuda_cores,memory_bandwidth_gb_s,memory_clock_mhz,tensor_cores,sm_count
neta50,8,RTX3090,1720,10496,935.8,19495,328,82
neta50,8,Moonshot 9,9000,4096,700,14000,512,64
neta50,8,Broken,9000,4096,700,14000,512,0
";

const MILABENCH: &str = "gpu,benchmark,batch_size,memory_mib,samples_per_s
H100,resnet50,8,2001.0,100
H100,resnet50,8,2011.0,300
H100,resnet50,8,1001.0,200
H100,resnet50-noio,8,3001.0,100
MI325,convnext_large-tf32-fp16,8,4001.0,100
MI325,convnext_large-fp32,8,4001.0,100
H100,brax,512,2885.0,9
L40S,bert-tf32,8,5001.0,
";

const PUBLISHED: &str = "model,library,input,batch_size,optimizer,precision,gpu,peak_memory_mib,gpumemnet_estimate_mib,faketensor_estimate_mb,horus_estimate_mb
neta50,\"torchvision, no auxiliary head\",32,32,adam,fp32,A100-40GB,8222,16000,3121.5,
neta50,torchvision,3x224x64,32,adam,fp32,A100-40GB,8222,16000,,
neta50,torchvision,wide,32,adam,fp32,A100-40GB,8222,16000,,
bert,transformers,512 tokens,8,adamw,fp32,A100-40GB,8222,,,
";

const LUCID: &str = "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label
ResNet50,ImageNet,32,1,84.8,99.5,62.4,8162.0,2
DCGAN,LSUN,32,0,84.8,99.5,62.4,2162.0,2
";

/// A folder with a zoo whose every model is the fixture's graph, whose input has 32 features.
fn folder() -> (Folder, IngestOptions) {
    let folder = Folder::new();
    for name in ["timm/neta50", "timm/netc", "torchvision/neta50", "torchvision/resnet50", "torchvision/convnext_large"]
    {
        folder.write_graph(&format!("zoo/{name}.json"));
    }
    let graphs = Arc::new(GraphFolder::new(folder.path().join("zoo")));
    (folder, IngestOptions { graphs: Some(graphs), ..IngestOptions::default() })
}

fn converted(folder: &Folder, text: &str, options: &IngestOptions) -> (PathBuf, Converted) {
    let path = folder.write("runs.csv", text);
    let converted = convert(&path, None, options, GpuCatalogue::built_in()).expect("converts");
    let out = folder.path().join("table.csv");
    converted.write(&out).expect("writes");
    (out, converted)
}

fn outcomes(rows: &[Measurement]) -> Vec<(Outcome, bool)> {
    rows.iter().map(|row| (row.outcome, row.doubt.is_some())).collect()
}

#[test]
fn each_layout_is_told_from_its_columns() {
    let folder = Folder::new();
    for (text, layout) in [
        (TIMM, Layout::Timm),
        (SCHEDTUNE, Layout::Schedtune),
        (MILABENCH, Layout::Milabench),
        (PUBLISHED, Layout::Published),
        (LUCID, Layout::Lucid),
    ] {
        let path = folder.write("runs.csv", text);
        assert_eq!(Format::detect(&path).expect("known"), Format::Layout(layout));
        assert_eq!(
            (Layout::from_name(layout.name()), Format::from_name(layout.name())),
            (Some(layout), Some(Format::Layout(layout)))
        );
        // Read as what it is not, a table is an error that names what it lacks.
        let other = if layout == Layout::Lucid { Layout::Timm } else { Layout::Lucid };
        let wrong = IngestOptions { format: Some(Format::Layout(other)), ..IngestOptions::default() };
        assert!(read_with(&path, &wrong).expect_err("of another layout").to_string().contains(other.name()));
    }
    let error = failure(&folder.write("runs.csv", "model,batch_size,memory\nx,1,2\n"));
    assert!(error.contains("max_gpu_memory_mib"), "{error}");
}

#[test]
fn a_table_and_what_it_is_converted_to_are_the_same_measurements() {
    let (folder, options) = folder();
    let lucid_gpu = GpuCatalogue::built_in().find("rtx-3090").expect("known").clone();
    for text in [TIMM, SCHEDTUNE, MILABENCH, PUBLISHED, LUCID] {
        let options = if text == LUCID {
            IngestOptions { gpu: Some(lucid_gpu.clone()), ..options.clone() }
        } else {
            options.clone()
        };
        let (table, _) = converted(&folder, text, &options);
        let (raw, _, _) = read_with(&folder.path().join("runs.csv"), &options).expect("readable");
        let (own, _, counts) = read_with(&table, &options).expect("readable");
        assert!(counts.ignored_columns.is_empty(), "{:?}", counts.ignored_columns);
        assert!(!raw.is_empty());
        let renamed: Vec<Measurement> =
            own.iter().zip(&raw).map(|(own, raw)| Measurement { id: raw.id.clone(), ..own.clone() }).collect();
        assert_eq!(renamed, raw);
    }
}

#[test]
fn timm_rows_are_judged_and_bear_the_setup_of_their_script() {
    let (folder, options) = folder();
    let (rows, rejected, _) = read_with(&folder.write("runs.csv", TIMM), &options).expect("readable");
    let measured = |peak_mib| (Outcome::Measured { peak_mib }, false);
    let expected = [
        measured(12_001.0),
        measured(22_001.0),
        (Outcome::OutOfMemory { above_mib: 39_801.0 }, true),
        (Outcome::OutOfMemory { above_mib: 40_960.0 }, true),
        measured(2_001.0),
    ];
    assert_eq!(outcomes(&rows), expected);
    assert_eq!(rows[3].doubt.as_ref().expect("doubted").reading_mib, 3_001.0);
    assert_eq!(rejected[0].id, "runs.csv:6");
    let setup = rows[0].workload.setup();
    assert_eq!(
        (setup.optimizer, setup.precision, setup.cudnn_benchmark),
        (Optimizer::SgdMomentum, Precision::Fp32, true)
    );
    assert_eq!((rows[0].architecture.as_str(), rows[0].shape.as_str()), ("neta50", "neta"));
    assert_eq!((rows[0].label, rows[0].workload.gpu().name.as_str()), (Label::NvidiaSmiDevice, "a100-40"));
    assert_eq!(rows[0].published_estimates, [("faketensor".to_owned(), 3000.5)]);
    assert!(rows[3].published_estimates.is_empty());
}

#[test]
fn repeats_stand_as_their_median_or_each_alone() {
    let (folder, options) = folder();
    let (_, medians) = converted(&folder, MILABENCH, &options);
    assert_eq!((medians.runs.len(), medians.merged), (5, 2));
    let first = &medians.runs[0];
    assert_eq!((first.run.reading_mib, first.run.repeats, first.run.samples_per_s), (2001.0, 3, Some(200.0)));
    let options = IngestOptions { all_repeats: true, ..options };
    let (_, all) = converted(&folder, MILABENCH, &options);
    assert_eq!((all.runs.len(), all.merged), (7, 0));
    let doubted: Vec<f64> = all.runs.iter().filter_map(|row| Some(row.doubt.as_ref()?.reading_mib)).collect();
    assert_eq!(doubted, [1001.0], "half of what its repeats read");
}

#[test]
fn benchmarks_say_model_and_precision_by_their_names() {
    let (folder, options) = folder();
    let (_, converted) = converted(&folder, MILABENCH, &options);
    let rows: Vec<_> = converted
        .runs
        .iter()
        .map(|judged| (judged.run.workload.as_str(), judged.run.setup.precision, judged.run.gpu.name.as_str()))
        .collect();
    let expected = [
        ("zoo:torchvision/resnet50", Precision::AmpFp16, "h100-80"),
        ("zoo:torchvision/resnet50", Precision::Tf32, "h100-80"),
        ("zoo:torchvision/convnext_large", Precision::AmpFp16, "mi325x"),
        ("zoo:torchvision/convnext_large", Precision::Fp32, "mi325x"),
        ("zoo:hf/bert-base-uncased@512", Precision::Tf32, "l40s"),
    ];
    assert_eq!(rows, expected);
    assert_eq!(converted.rejected.len(), 1);
    assert!(converted.rejected[0].reason.contains("`brax`"), "{:?}", converted.rejected);
}

#[test]
fn a_gpu_outside_the_catalogue_is_built_from_its_figures() {
    let (folder, options) = folder();
    let (table, converted) = converted(&folder, SCHEDTUNE, &options);
    let gpu = &converted.runs[1].run.gpu;
    assert_eq!((gpu.name.as_str(), gpu.sms, gpu.bandwidth_gb_s, gpu.memory_mib), ("Moonshot 9", 64, 700.0, 10_240));
    assert_eq!(gpu.compute_capability, 7.5, "eight tensor cores a multiprocessor");
    assert!(converted.rejected[0].reason.contains("sm"), "{:?}", converted.rejected);
    let (rows, _, _) = read_with(&table, &options).expect("readable");
    assert_eq!(rows[1].workload.gpu(), gpu);
}

#[test]
fn a_size_in_a_name_is_held_against_the_graph() {
    let (folder, options) = folder();
    let (rows, rejected, _) = read_with(&folder.write("runs.csv", PUBLISHED), &options).expect("readable");
    assert_eq!(rows.len(), 1, "the fixture takes 32 features");
    assert_eq!(rows[0].published_estimates, [("gpumemnet".to_owned(), 16_000.0), ("faketensor".to_owned(), 3121.5)]);
    let reasons: Vec<&str> = rejected.iter().map(|rejection| rejection.reason.as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("for an input of 32, not of 64")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("`wide`")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("no model `hf/bert@512`")), "{reasons:?}");
}

#[test]
fn without_a_zoo_rows_are_rejected_and_hostile_names_lead_nowhere() {
    let (folder, options) = folder();
    folder.write_graph("secret.json");
    let (rows, rejected, _) = read_with(&folder.write("runs.csv", TIMM), &IngestOptions::default()).expect("readable");
    assert!(rows.is_empty() && rejected.iter().any(|rejection| rejection.reason.contains("no zoo")));
    let hostile = TIMM.replace("neta50", "../../secret");
    let (rows, rejected, _) = read_with(&folder.write("runs.csv", hostile), &options).expect("readable");
    assert_eq!(rows.len(), 1);
    assert!(rejected.iter().any(|rejection| rejection.reason.contains("no name of a model")), "{rejected:?}");
}

#[test]
fn damaged_rows_are_rejected_one_by_one() {
    let (folder, options) = folder();
    let path = folder.write(
        "runs.csv",
        "model,batch_size,max_gpu_memory_mib\nneta50,8,1443\nneta50,nan,1443\nneta50,0,1443\nneta50,8\nneta50,8,-5\n\
         neta50,8,inf\n,8,5\nneta50,99999999999,5000\n",
    );
    let (rows, rejected, counts) = read_with(&path, &options).expect("readable");
    assert_eq!((rows.len(), rejected.len(), counts.merged), (1, 7, 0));
}
