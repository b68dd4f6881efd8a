//! `plimsoll fit-workspaces`

use anyhow::{Context, Result, bail, ensure};
use plimsoll_dataset::{WorkspaceRow, output_path, read_workspaces};
use plimsoll_evaluation::WorkspaceScores;
use plimsoll_graph::GpuCatalogue;
use plimsoll_model::DeviceKind;
use plimsoll_model::workspaces::WorkspaceFit;
use plimsoll_simulate::workspace::{GpuClass, WorkspaceModel, encode};
use serde::Serialize;

use super::replace::{cannot_write, folder, replace};
use crate::cli::FitWorkspacesArguments;
use crate::{interrupt, output, progress};

/// What the command prints as JSON.
#[derive(Serialize)]
struct Document {
    /// Rows that were fitted to.
    training_rows: usize,
    /// Size of the written file.
    bytes: usize,
    /// Shapes that were kept for judging.
    held_out_shapes: Vec<WorkspaceScores>,
    /// Classes of GPUs that were kept out of the fit, each answered as the class below it.
    held_out_gpus: Vec<WorkspaceScores>,
    /// Tables that were asked for beside.
    tables: Vec<WorkspaceScores>,
}

/// Fits the workspace model to a table of cuDNN's answers, judges it, and writes it.
pub(super) fn run(arguments: &FitWorkspacesArguments) -> Result<()> {
    let catalogue = GpuCatalogue::built_in();
    // Better now than after minutes.
    let target = output_path(&arguments.out).with_context(|| cannot_write(&arguments.out))?;
    ensure!(folder(&target).is_dir(), "there is no folder for {}", arguments.out.display());
    let unknown = held_out_classes(&arguments.hold_out, catalogue)?;
    let rows = read_workspaces(&arguments.table, catalogue)?.rows;
    let is_fitted = |row: &&WorkspaceRow| !row.is_held_out() && !unknown.contains(&row.query.class);
    let training: Vec<WorkspaceRow> = rows.iter().filter(is_fitted).copied().collect();
    let fit = WorkspaceFit { epochs: arguments.epochs as usize, seed: arguments.seed, ..WorkspaceFit::default() };
    let bar = progress::bar("fit workspaces", 3 * fit.epochs as u64);
    let networks = fit.fit(&training, &DeviceKind::Cpu.open()?, &|| {
        bar.inc(1);
        !interrupt::is_requested()
    });
    bar.finish_and_clear();
    if interrupt::is_requested() {
        bail!("interrupted; {} was not written", arguments.out.display());
    }
    let bytes = encode(&networks?);
    // What is judged is what is written, rounding included.
    let model = WorkspaceModel::from_bytes(&bytes)?;
    let held_out: Vec<WorkspaceRow> = rows.into_iter().filter(WorkspaceRow::is_held_out).collect();
    let (new, known): (Vec<WorkspaceRow>, Vec<WorkspaceRow>) =
        held_out.into_iter().partition(|row| unknown.contains(&row.query.class));
    let mut tables = Vec::new();
    for path in &arguments.judge {
        for mut scores in WorkspaceScores::groups(&model, &read_workspaces(path, catalogue)?.rows) {
            scores.name = format!("{}: {}", path.file_stem().unwrap_or_default().display(), scores.name);
            tables.push(scores);
        }
    }
    let document = Document {
        training_rows: training.len(),
        bytes: bytes.len(),
        held_out_shapes: WorkspaceScores::groups(&model, &known),
        held_out_gpus: unknown.iter().map(|class| as_unknown(&model, *class, &unknown, &new)).collect(),
        tables,
    };
    replace(&arguments.out, &bytes)?;
    if arguments.json {
        return output::json(&document);
    }
    output::line(table(&document))?;
    let (rows, size, path) = (document.training_rows, document.bytes, arguments.out.display());
    output::line(format!("fitted to {rows} rows; {size} bytes -> {path}"))
}

fn held_out_classes(names: &[String], catalogue: &GpuCatalogue) -> Result<Vec<GpuClass>> {
    let mut classes = Vec::new();
    for name in names {
        let gpu = catalogue.find(name)?;
        let Some(class) = GpuClass::of(gpu) else { bail!("`{name}` has no workspaces to fit: it is older than Volta") };
        classes.push(class);
    }
    if classes.len() >= GpuClass::ALL.len() {
        bail!("nothing is left to fit to: every class of GPUs is held out");
    }
    Ok(classes)
}

/// Scores of a class that the fit has not seen, under the name of the nearest class before it that it has.
fn as_unknown(model: &WorkspaceModel, class: GpuClass, unknown: &[GpuClass], rows: &[WorkspaceRow]) -> WorkspaceScores {
    let known = || GpuClass::ALL.into_iter().filter(|class| !unknown.contains(class));
    let stand_in = known().rfind(|known| *known < class).or_else(|| known().next()).unwrap_or(class);
    let of_class: Vec<WorkspaceRow> = rows
        .iter()
        .filter(|row| row.query.class == class)
        .map(|row| {
            let mut row = *row;
            row.query.class = stand_in;
            row
        })
        .collect();
    WorkspaceScores::of(&format!("{} as {}", class.name(), stand_in.name()), model, of_class.iter())
}

fn table(document: &Document) -> String {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let row = |scores: &WorkspaceScores| {
        vec![
            scores.name.clone(),
            scores.rows.to_string(),
            percent(scores.form_accuracy),
            percent(scores.exact),
            percent(scores.near),
            percent(scores.error_share),
            format!("{:+.1}", 100.0 * scores.signed_share),
            percent(scores.largest_near),
            percent(scores.largest_error_share),
            percent(scores.spikes),
            percent(scores.spikes_expected),
            format!("{:.3}", scores.spike_auc),
        ]
    };
    let all = document.held_out_shapes.iter().chain(&document.held_out_gpus).chain(&document.tables);
    let rows: Vec<Vec<String>> = all.map(row).collect();
    let header = [
        "held-out shapes, %",
        "rows",
        "form",
        "exact",
        "near",
        "error",
        "signed",
        "largest near",
        "error",
        "spikes",
        "expected",
        "AUC",
    ];
    output::table(&header, &rows)
}
