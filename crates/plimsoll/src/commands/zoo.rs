//! `plimsoll zoo`

use std::path::Path;

use anyhow::{Result, bail};
use plimsoll_graph::{Dim, Family, Shape};
use plimsoll_zoo::{Entry, Library, pack};
use serde_json::{Value, json};

use super::replace::replace;
use super::source;
use crate::cli::ZooArguments;
use crate::errors::Usage;
use crate::{output, progress};

/// Lists, searches or packs.
pub(super) fn run(arguments: &ZooArguments) -> Result<()> {
    match (&arguments.pack, &arguments.out) {
        (Some(folder), Some(out)) => pack_into(folder, out, arguments.json),
        _ => list(arguments),
    }
}

fn list(arguments: &ZooArguments) -> Result<()> {
    let library = named("library", arguments.library.as_deref(), Library::from_name, &Library::ALL.map(Library::name))?;
    let family = named("family", arguments.family.as_deref(), Family::from_name, &Family::ALL.map(Family::name))?;
    let zoo = source::zoo(arguments.zoo_file.as_deref())?;
    let text = arguments.text.join(" ");
    let mut entries = zoo.search(&text);
    entries.retain(|entry| library.is_none_or(|library| library == entry.library));
    entries.retain(|entry| family.is_none_or(|family| family == entry.family));
    if entries.is_empty() {
        // A name that is nearly right is better met with a proposal than with an empty list.
        zoo.find(&text)?;
        bail!("no model of the zoo is all of that");
    }
    if arguments.json {
        let models: Vec<Value> = entries.iter().map(|entry| document(entry)).collect();
        return output::json(&json!({ "hash": zoo.hash(), "versions": zoo.versions(), "models": models }));
    }
    let rows: Vec<Vec<String>> = entries.iter().map(|entry| row(entry)).collect();
    output::line(output::table(&["name", "family", "parameters (M)", "operators", "input"], &rows))?;
    let versions: Vec<String> = zoo.versions().iter().map(|(name, version)| format!("{name} {version}")).collect();
    let from = if versions.is_empty() { String::new() } else { format!(", from {}", versions.join(", ")) };
    output::note(format!("{} of {} models{from}", entries.len(), zoo.entries().len()));
    Ok(())
}

/// The value that an argument names, if it is given.
fn named<T>(what: &str, name: Option<&str>, from_name: fn(&str) -> Option<T>, known: &[&str]) -> Result<Option<T>> {
    let Some(name) = name else { return Ok(None) };
    let unknown =
        || Usage { what: format!("unknown {what} `{name}`"), hint: format!("known are {}", known.join(", ")) };
    from_name(name).map(Some).ok_or_else(|| unknown().into())
}

fn row(entry: &Entry) -> Vec<String> {
    vec![
        entry.full_name(),
        entry.family.name().to_owned(),
        format!("{:.2}", entry.parameters as f64 / 1e6),
        entry.operators.to_string(),
        entry.inputs.iter().map(sample).collect::<Vec<_>>().join(" "),
    ]
}

/// The shape of one sample: without a leading batch.
fn sample(shape: &Shape) -> String {
    let dims = shape.dims();
    let dims = dims.strip_prefix(&[Dim::Batch(1)]).unwrap_or(dims);
    dims.iter().map(Dim::to_string).collect::<Vec<_>>().join("x")
}

fn document(entry: &Entry) -> Value {
    json!({
        "full_name": entry.full_name(),
        "library": entry.library.name(),
        "name": entry.name,
        "family": entry.family,
        "parameters": entry.parameters,
        "operators": entry.operators,
        "inputs": entry.inputs,
    })
}

fn pack_into(folder: &Path, out: &Path, is_json: bool) -> Result<()> {
    let bar = progress::bar("pack", 0);
    let packed = pack(folder, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let packed = packed?;
    replace(out, &packed.bytes)?;
    let bytes = packed.bytes.len();
    if is_json {
        return output::json(&json!({ "models": packed.graphs, "bytes": bytes, "text_bytes": packed.text_bytes }));
    }
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    output::line(format!(
        "{}: {} models in {:.2} MiB, {} bytes each; as text {:.1} MiB",
        out.display(),
        packed.graphs,
        mib(bytes as f64),
        bytes / packed.graphs.max(1),
        mib(packed.text_bytes as f64)
    ))
}
