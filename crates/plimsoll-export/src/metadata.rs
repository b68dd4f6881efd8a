//! Metadata inside the model file: enough to use it when the manifest is lost.

use plimsoll_dataset::Label;
use plimsoll_model::{LEVELS, Learned};
use serde::Serialize;

use crate::interface::{self, Port};

/// Entries by name, in order. Values that are not plain words are JSON.
pub(crate) fn metadata(learned: &Learned, estimator: &str, metrics: &serde_json::Value) -> Vec<(String, String)> {
    let description = learned.description();
    let (settings, schema, data) = (&description.settings, &description.schema, &description.data);
    let units = |ports: Vec<Port>| ports.into_iter().map(|port| (port.name, port.unit)).collect::<Vec<_>>();
    let units = |ports| json(&units(ports).into_iter().collect::<std::collections::BTreeMap<_, _>>());
    let outputs = interface::outputs(description);
    let columns = outputs.iter().flat_map(|port| &port.columns).collect::<Vec<_>>();
    [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("estimator", estimator.to_owned()),
        ("schema_version", schema.version.to_string()),
        ("label", data.label.name().to_owned()),
        ("labels", json(&Label::ALL)),
        ("bound_levels", json(&LEVELS)),
        ("calibration", json(&description.calibration)),
        ("data_hash", data.hash.clone()),
        ("data", json(data)),
        ("training_gpus", json(&data.gpus)),
        ("tokens", json(&schema.tokens)),
        ("summary_features", json(&schema.summary)),
        ("gpu_features", json(&schema.gpu)),
        ("layer_features", json(&schema.layer)),
        ("input_units", units(interface::inputs(settings, schema))),
        ("utilisation_columns", json(&columns)),
        ("output_units", units(outputs)),
        ("settings", json(settings)),
        ("metrics", json(metrics)),
    ]
    .map(|(name, value)| (format!("plimsoll.{name}"), value))
    .into()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own types always serialise")
}
