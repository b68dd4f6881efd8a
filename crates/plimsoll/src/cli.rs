//! Arguments, and the help that teaches them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use plimsoll_dataset::Stack;

/// Tells how much GPU memory a training job takes, and how hard it works the GPU, before it runs.
///
/// Start with `plimsoll run configs/quickstart.toml`: it makes workloads, fits an estimator, and leaves a report,
/// a leaderboard and an ONNX file. Then ask about a model of your own with `plimsoll estimate`.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Everything a config describes: data, fits, evaluation, report, export.
    ///
    /// Writes report.md, report.html, scores.json, predictions.parquet, leaderboard.csv, checkpoint/, model.onnx and
    /// manifest.json. Interrupted, the same command goes on where it stopped.
    ///
    /// Example: plimsoll run configs/quickstart.toml
    Run(RunArguments),
    /// Say what a training job will take.
    ///
    /// FILE is a computation graph (JSON), a printed layer summary (torchsummary or torchinfo), or a model of the zoo
    /// (zoo:NAME). `--jobs TABLE` instead estimates every row of a table (docs/measurement-tables.md), in order.
    ///
    /// Example: plimsoll estimate zoo:resnet50 --batch 64 --gpu a100-40
    Estimate(EstimateArguments),
    /// Show where the memory of a training step goes.
    ///
    /// Replays the job through PyTorch's allocator on the CPU: what the peak is made of, when it is reached, the layers
    /// and weights that hold it, and the course of memory over a step. This is the simulation alone:
    /// `plimsoll estimate` corrects it by what was measured.
    ///
    /// Example: plimsoll explain zoo:resnet50 --batch 64 --gpu a100-40 --plot step.html
    Explain(ExplainArguments),
    /// Find the largest batch that fits on a GPU.
    ///
    /// Searches for the largest batch whose peak memory stays within the GPU's with the wanted confidence. Peaks are not
    /// perfectly monotone in the batch, so a few batches above the answer are tried as well.
    ///
    /// Example: plimsoll fit-batch zoo:resnet50 --gpu t4 --precision amp --multiple-of 8
    FitBatch(FitBatchArguments),
    /// Compare GPUs and batch sizes.
    ///
    /// A table, and with `--plot` a drawing, of what the job takes at each batch size, and on which GPUs it fits.
    ///
    /// Example: plimsoll compare zoo:resnet50 --gpus t4,rtx-4090,a100-40 --plot load.html
    Compare(CompareArguments),
    /// List, search and pack the zoo of captured models.
    ///
    /// Every listed model can be given to other commands as zoo:NAME. A name that several libraries have means timm's;
    /// zoo:torchvision/NAME means that of torchvision.
    ///
    /// Example: plimsoll zoo resnet --library torchvision
    Zoo(ZooArguments),
    /// Read measurements in any known layout and keep them as Parquet.
    ///
    /// Prints how many rows were accepted and rejected; `--rejects` keeps the rejected ones with their reasons.
    ///
    /// Example: plimsoll ingest measurements.csv --out measurements.parquet --rejects rejects.csv
    Ingest(IngestArguments),
    /// Turn a published table of runs into a measurement table.
    ///
    /// Knows the layouts of timm's runs on an A100, `SchedTune`, milabench, the published real models and Lucid; which it
    /// is, the columns tell. Runs that ran out of memory and readings that contradict others are marked by rules that
    /// look at readings only (docs/measurement-tables.md). The other commands read these layouts as they are, too.
    /// Example: plimsoll convert published.csv --out table.csv
    Convert(ConvertArguments),
    /// Make synthetic workloads, labelled by the simulator and marked as simulated.
    ///
    /// Example: plimsoll generate --count 4000 --seed 7 --gpus a100-40,t4 --out generated.parquet
    Generate(GenerateArguments),
    /// Turn measurements into features.
    ///
    /// Example: plimsoll featurize measurements.parquet --out samples.parquet
    Featurize(FeaturizeArguments),
    /// Fit one estimator of a config to all its data and keep the checkpoint.
    ///
    /// Example: plimsoll fit configs/quickstart.toml --out checkpoint
    Fit(FitArguments),
    /// Fit the model of cuDNN's workspaces to a table of its answers.
    ///
    /// TABLE is what `python -m cudnn_workspaces generate` writes. 15 % of its shapes are kept for judging.
    ///
    /// Example: plimsoll fit-workspaces workspaces.parquet --out crates/plimsoll-simulate/src/workspace/weights.bin
    FitWorkspaces(FitWorkspacesArguments),
    /// Judge a checkpoint on measurements.
    ///
    /// Example: plimsoll evaluate runs/quickstart/checkpoint --data measurements.parquet
    Evaluate(EvaluateArguments),
    /// Fit a checkpoint to a new GPU or software stack from a few measured runs.
    ///
    /// The networks stay as they are: runs teach an offset in MiB, a scale where at least 20 of them support one, and
    /// how wide bounds must be. `--curve` says how many runs are worth it: other runs drawn again and again, judged on
    /// the rest.
    ///
    /// Example: plimsoll adapt shipped --data runs.csv --gpu l40s --out checkpoint
    Adapt(AdaptArguments),
    /// Write the report of a run again from its predictions.
    ///
    /// Example: plimsoll report runs/quickstart
    Report(ReportArguments),
    /// Collect runs into a leaderboard, or show one.
    ///
    /// Example: plimsoll leaderboard runs/quickstart runs/other --into leaderboard.csv --page leaderboard.html
    Leaderboard(LeaderboardArguments),
    /// Write a checkpoint as ONNX with its manifest.
    ///
    /// Example: plimsoll export runs/quickstart/checkpoint --out exported
    Export(ExportArguments),
    /// List the GPU catalogue.
    ///
    /// Example: plimsoll gpus rtx --json
    Gpus(GpusArguments),
    /// One fit of a run, in a process of its own.
    #[command(hide = true)]
    Worker(WorkerArguments),
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The experiment, a TOML file as in configs/.
    pub(crate) config: PathBuf,
    /// Folder for the results [default: runs/NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Fits that run at once [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Print the scores as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is not in the files: needed where rows or graphs do not say it.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArguments {
    /// Layout of the files [default: told from their content].
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// Catalogue entries of your own (TOML; see `plimsoll gpus --template`).
    #[arg(long, value_name = "FILE")]
    pub(crate) gpu_file: Option<PathBuf>,
    /// Any rejected row is a failure.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Keep utilisation counters that contradict each other instead of masking them.
    #[arg(long)]
    pub(crate) keep_contradictions: bool,
    /// Keep each repeat of a run in a published layout as a row of its own instead of their median.
    #[arg(long)]
    pub(crate) all_repeats: bool,
    #[command(flatten)]
    pub(crate) software: SoftwareArguments,
}

/// The software under a run.
#[derive(Debug, Clone, Args)]
pub(crate) struct SoftwareArguments {
    /// Versions of the software, such as "pytorch 2.4, cuda 12.4" [default: as today's].
    #[arg(
        long,
        value_name = "VERSIONS",
        long_help = "Versions of the software under the job, such as \"pytorch 2.4, cuda 12.4\": of pytorch, cuda, cudnn, \
                     rocm and driver, as far as known [default: counts as today's]"
    )]
    pub(crate) stack: Option<Stack>,
}

#[derive(Debug, Args)]
pub(crate) struct IngestArguments {
    /// Files or folders of measurements.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The Parquet file to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Keep rejected rows with their reasons in this CSV file.
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) setup: SetupArguments,
    /// Print counts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArguments {
    /// The published table, CSV.
    pub(crate) file: PathBuf,
    /// The measurement table to write, CSV.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Its layout: timm, schedtune, milabench, published or lucid [default: told from the columns].
    #[arg(long, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// The GPU, where the table names none.
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    /// Catalogue entries of your own (TOML; see `plimsoll gpus --template`).
    #[arg(long, value_name = "FILE")]
    pub(crate) gpu_file: Option<PathBuf>,
    /// Keep each repeat of a run as a row of its own instead of their median.
    #[arg(long)]
    pub(crate) all_repeats: bool,
    /// Keep rejected rows with their reasons in this CSV file.
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Any rejected row is a failure.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print counts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the job is trained and on which GPU.
#[derive(Debug, Clone, Args)]
pub(crate) struct SetupArguments {
    /// Samples per step.
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// Size of an epoch's last batch, if it is smaller and not dropped.
    #[arg(long, value_name = "N")]
    pub(crate) last_batch: Option<u64>,
    /// The GPU, by catalogue name.
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    #[command(flatten)]
    pub(crate) training: TrainingArguments,
}

/// How the job is trained, whatever its batch and GPU.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrainingArguments {
    /// Optimiser [default: adam].
    #[arg(
        long,
        value_name = "NAME",
        long_help = "Optimiser [default: adam]: sgd, sgd_momentum, adam, adamw, adafactor, adam8bit, rms_prop"
    )]
    pub(crate) optimizer: Option<String>,
    /// Precision [default: fp32].
    #[arg(long, value_name = "NAME", long_help = "Precision [default: fp32]: fp32, tf32, amp (fp16), amp_bf16, bf16")]
    pub(crate) precision: Option<String>,
    /// Micro-batches per step.
    #[arg(long, value_name = "N")]
    pub(crate) gradient_accumulation: Option<u64>,
    /// Recompute activations in the backward pass.
    #[arg(long)]
    pub(crate) activation_checkpointing: bool,
    /// Train only weights whose name starts with this; may be given several times.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) trainable: Vec<String>,
    #[command(flatten)]
    pub(crate) framework: FrameworkArguments,
}

/// Switches of the framework that move memory.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Framework")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the framework, on or off")]
pub(crate) struct FrameworkArguments {
    /// Batch of a forward pass before training, such as a model summary's.
    #[arg(long, value_name = "N")]
    pub(crate) startup_batch: Option<u64>,
    /// cuDNN tries all algorithms for each new shape (`torch.backends.cudnn.benchmark`).
    #[arg(long)]
    pub(crate) cudnn_benchmark: bool,
    /// Gradients are zeroed in place (`zero_grad(set_to_none=False)`).
    #[arg(long)]
    pub(crate) keep_gradients: bool,
    /// The loader copies the next batch to the GPU while a step runs (timm's does).
    #[arg(long)]
    pub(crate) prefetch: bool,
    /// The optimiser has a weight decay, for which SGD, Adam and `RMSprop` copy all gradients.
    #[arg(long)]
    pub(crate) weight_decay: bool,
    /// `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.
    #[arg(long)]
    pub(crate) expandable_segments: bool,
    /// `PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:N`.
    #[arg(long, value_name = "MIB")]
    pub(crate) max_split_size: Option<u64>,
}

/// The network, in whatever form it is there.
#[derive(Debug, Clone, Args)]
pub(crate) struct GraphArguments {
    /// A graph, an ONNX model, a Hugging Face config.json, a layer summary (`-`: on standard input), or a model of the
    /// zoo as zoo:NAME.
    pub(crate) file: PathBuf,
    /// Look zoo:NAME up in this file (see `plimsoll zoo --pack`) instead of the zoo that ships with Plimsoll.
    #[arg(long, value_name = "FILE")]
    pub(crate) zoo_file: Option<PathBuf>,
    /// Extent of a dimension that an ONNX model leaves open beside its batch.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    pub(crate) dims: Vec<(String, u64)>,
    #[command(flatten)]
    pub(crate) configuration: ConfigurationArguments,
}

/// What a Hugging Face configuration leaves open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Hugging Face config.json")]
pub(crate) struct ConfigurationArguments {
    /// Tokens of a sample [default: 512, or as many as there are positions].
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<u64>,
    /// Tokens of a sample's target, for models that have both [default: as many].
    #[arg(long, value_name = "N")]
    pub(crate) target_tokens: Option<u64>,
    /// What stands on top, such as causal-lm or sequence-classification [default: as the file says].
    #[arg(long, value_name = "NAME")]
    pub(crate) head: Option<String>,
    /// Attention without a fused kernel.
    #[arg(long)]
    pub(crate) eager_attention: bool,
}

/// `NAME=N`.
fn dimension(text: &str) -> Result<(String, u64), String> {
    let (name, extent) = text.rsplit_once('=').ok_or("expected NAME=N")?;
    let extent = extent.parse().map_err(|_| format!("expected a whole number after `=`, found `{extent}`"))?;
    Ok((name.to_owned(), extent))
}

#[derive(Debug, Args)]
#[command(mut_arg("file", |file| file.required(false).required_unless_present("jobs").conflicts_with("jobs")
    .default_value_if("jobs", clap::builder::ArgPredicate::IsPresent, "-")))]
pub(crate) struct EstimateArguments {
    #[command(flatten)]
    pub(crate) graph: GraphArguments,
    /// Estimate every row of this table: workload, `batch_size` and, unless `--gpu` says it, gpu; the arguments hold
    /// where a row leaves something open.
    #[arg(long, value_name = "TABLE")]
    pub(crate) jobs: Option<PathBuf>,
    /// Write the rows of `--jobs` there (.csv, .jsonl or .parquet) [default: CSV on standard output].
    #[arg(long, value_name = "FILE", requires = "jobs")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) setup: SetupArguments,
    /// Catalogue entries of your own.
    #[arg(long, value_name = "FILE")]
    pub(crate) gpu_file: Option<PathBuf>,
    /// The estimator [default: the one that ships with Plimsoll].
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// How memory is read.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "nvidia_smi_device",
        long_help = "How memory is read: nvidia_smi_device (used memory of the whole GPU), nvidia_smi_process, reserved \
                     or allocated (by the framework), unknown. Whether a job fits is always a matter of the whole GPU"
    )]
    pub(crate) label: String,
    #[command(flatten)]
    pub(crate) software: SoftwareArguments,
    /// Print one JSON object; with `--jobs` and without `--out` one a row.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) graph: GraphArguments,
    #[command(flatten)]
    pub(crate) setup: SetupArguments,
    /// Catalogue entries of your own.
    #[arg(long, value_name = "FILE")]
    pub(crate) gpu_file: Option<PathBuf>,
    /// Draw memory over a step: a page (.html) or the drawing alone (.svg).
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Layers and weights listed.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) top: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FitBatchArguments {
    #[command(flatten)]
    pub(crate) graph: GraphArguments,
    /// The GPU, by catalogue name.
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: String,
    #[command(flatten)]
    pub(crate) training: TrainingArguments,
    /// How sure it must be that the batch fits.
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = confidence)]
    pub(crate) confidence: f64,
    /// No batch beyond this is of interest.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = batch())]
    pub(crate) max: u64,
    /// Only batches that this divides.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = batch())]
    pub(crate) multiple_of: u64,
    #[command(flatten)]
    pub(crate) software: SoftwareArguments,
    /// Catalogue entries of your own.
    #[arg(long, value_name = "FILE")]
    pub(crate) gpu_file: Option<PathBuf>,
    /// The estimator [default: the one that ships with Plimsoll].
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    #[command(flatten)]
    pub(crate) graph: GraphArguments,
    /// GPUs, separated by commas; `all` means the whole catalogue.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pub(crate) gpus: Vec<String>,
    /// Batch sizes, separated by commas [default: powers of two until nothing fits].
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = batch())]
    pub(crate) batches: Vec<u64>,
    #[command(flatten)]
    pub(crate) training: TrainingArguments,
    #[command(flatten)]
    pub(crate) software: SoftwareArguments,
    /// Draw memory against the batch: a page (.html) or the drawing alone (.svg).
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Catalogue entries of your own.
    #[arg(long, value_name = "FILE")]
    pub(crate) gpu_file: Option<PathBuf>,
    /// The estimator [default: the one that ships with Plimsoll].
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a learning curve draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DrawBy {
    Run,
    Architecture,
}

/// A batch size.
fn batch() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=1 << 32)
}

/// A probability that an upper bound can be stated for.
fn confidence(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number such as 0.95".to_owned())?;
    if (0.5..=0.999).contains(&value) { Ok(value) } else { Err("expected 0.5 to 0.999".to_owned()) }
}

#[derive(Debug, Args)]
pub(crate) struct ZooArguments {
    /// Only models whose name has all of these words.
    pub(crate) text: Vec<String>,
    /// Only models of this library: timm, torchvision or hf.
    #[arg(long, value_name = "NAME")]
    pub(crate) library: Option<String>,
    /// Only models of this family: mlp, cnn, transformer, recurrent or other.
    #[arg(long, value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// List this file instead of the zoo that ships with Plimsoll.
    #[arg(long, value_name = "FILE")]
    pub(crate) zoo_file: Option<PathBuf>,
    /// Pack the graphs FOLDER/{timm,torchvision,hf}/NAME.json.
    #[arg(long, value_name = "FOLDER", requires = "out", conflicts_with_all = ["text", "library", "family", "zoo_file"])]
    pub(crate) pack: Option<PathBuf>,
    /// The file to pack them into.
    #[arg(long, value_name = "FILE", requires = "pack")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// How many workloads.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) count: u64,
    /// Seed: the same seed makes the same workloads.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Families, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = ["mlp".to_owned(), "cnn".to_owned(), "transformer".to_owned()])]
    pub(crate) families: Vec<String>,
    /// GPUs, separated by commas; `all` means the whole catalogue.
    #[arg(long, value_delimiter = ',', default_values_t = ["a100-40".to_owned()])]
    pub(crate) gpus: Vec<String>,
    /// Draw from everything: all shapes, optimisers, precisions, kernels and batches.
    #[arg(long)]
    pub(crate) varied: bool,
    /// Write features instead of graphs: smaller, and ready for `fit` and `run`.
    #[arg(long)]
    pub(crate) features: bool,
    /// The Parquet file to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct FeaturizeArguments {
    /// Files of measurements, raw or ingested.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The Parquet file to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) setup: SetupArguments,
}

#[derive(Debug, Args)]
pub(crate) struct FitArguments {
    /// The experiment, a TOML file as in configs/.
    pub(crate) config: PathBuf,
    /// Which of its estimators, by name [default: the first].
    #[arg(long, value_name = "NAME")]
    pub(crate) estimator: Option<String>,
    /// Folder for the checkpoint.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct FitWorkspacesArguments {
    /// The table, a Parquet file.
    pub(crate) table: PathBuf,
    /// The weight file to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Passes over the table.
    #[arg(long, value_name = "N", default_value_t = 45, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) epochs: u32,
    /// Seed: the same seed makes the same weights.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Keep these GPUs, and all that cuDNN answers alike, out of the fit, and judge it on them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) hold_out: Vec<String>,
    /// Judge it on these tables too.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) judge: Vec<PathBuf>,
    /// Print the scores as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EvaluateArguments {
    /// The checkpoint folder.
    pub(crate) checkpoint: PathBuf,
    /// Files of measurements: raw, ingested or featurised.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub(crate) data: Vec<PathBuf>,
    /// Keep every row with its estimate (.parquet or .csv).
    #[arg(long, value_name = "FILE")]
    pub(crate) predictions: Option<PathBuf>,
    /// Width of the bins for bin accuracy, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 8192.0)]
    pub(crate) bin_width: f64,
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) setup: SetupArguments,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AdaptArguments {
    /// The checkpoint folder, or `shipped` for the estimator that ships with Plimsoll.
    pub(crate) checkpoint: PathBuf,
    /// Files of measurements; `--gpu` leaves all but its rows out.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub(crate) data: Vec<PathBuf>,
    /// Folder for the checkpoint.
    #[arg(long, value_name = "DIR", required_unless_present = "curve", conflicts_with = "curve")]
    pub(crate) out: Option<PathBuf>,
    /// At most so many measured runs of each GPU, evenly spread over the files [default: all].
    #[arg(long, value_name = "N", conflicts_with = "curve", value_parser = clap::value_parser!(u64).range(3..))]
    pub(crate) rows: Option<u64>,
    /// Judge how good the estimator is after these numbers of runs, and write nothing.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub(crate) curve: Vec<usize>,
    /// Draw what `--curve` finds: a page (.html) or the drawing alone (.svg).
    #[arg(long, value_name = "FILE", requires = "curve", conflicts_with = "out")]
    pub(crate) plot: Option<PathBuf>,
    /// Draws for each number of runs.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "curve", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeats: u32,
    /// What is drawn: runs one by one, or those of whole architectures, so that none that is judged was shown.
    #[arg(long, value_enum, default_value_t = DrawBy::Run, requires = "curve")]
    pub(crate) by: DrawBy,
    /// Seed of the draws.
    #[arg(long, value_name = "S", default_value_t = 0, requires = "curve")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) setup: SetupArguments,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The folder of a run.
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct LeaderboardArguments {
    /// Folders of runs, or leaderboard files.
    pub(crate) runs: Vec<PathBuf>,
    /// The leaderboard to collect them into.
    #[arg(long, value_name = "FILE", default_value = "evaluation/leaderboard.csv")]
    pub(crate) into: PathBuf,
    /// Start from nothing: what the leaderboard held before is replaced by these runs.
    #[arg(long, requires = "runs")]
    pub(crate) fresh: bool,
    /// Also write it as a page with drawings, and beside that as Markdown.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) page: Option<PathBuf>,
    /// Only this target.
    #[arg(long, value_name = "NAME", default_value = "peak_memory_mib")]
    pub(crate) target: String,
    /// Print all rows as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The checkpoint folder.
    pub(crate) checkpoint: PathBuf,
    /// Folder for model.onnx and manifest.json.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Also write rows with their estimates, for a check in another runtime.
    #[arg(long, value_name = "FILE")]
    pub(crate) parity: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GpusArguments {
    /// Only entries that contain this.
    pub(crate) name: Option<String>,
    /// Catalogue entries of your own.
    #[arg(long, value_name = "FILE")]
    pub(crate) gpu_file: Option<PathBuf>,
    /// Print an entry to fill in for a GPU of your own.
    #[arg(long)]
    pub(crate) template: bool,
    /// Print all figures as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    /// The job, a JSON file.
    pub(crate) job: PathBuf,
}
