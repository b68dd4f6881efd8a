//! The answer as JSON: MiB throughout.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Answer, fits};

impl Answer {
    /// One object.
    pub(super) fn json(&self) -> Result<Value> {
        let mut setup = serde_json::to_value(self.job.setup(1)?)?;
        if let Some(fields) = setup.as_object_mut() {
            fields.remove("batch_size");
        }
        let gpus = self.gpus.iter().enumerate().map(|(place, gpu)| {
            let loads = self.loads(place).map(|load| {
                json!({
                    "batch_size": load.batch(),
                    "peak_memory_mib": load.peak_mib(),
                    "share": load.share(),
                    "fits": fits(load),
                })
            });
            json!({
                "name": gpu.name,
                "memory_mib": gpu.memory_mib,
                "largest_batch_size": self.largest(place),
                "loads": loads.collect::<Vec<_>>(),
            })
        });
        Ok(json!({
            "file": self.job.file,
            "name": self.job.graph.name(),
            "family": self.job.graph.family(),
            "setup": setup,
            "batch_sizes": self.columns.iter().map(|column| column.batch).collect::<Vec<_>>(),
            "gpus": gpus.collect::<Vec<_>>(),
            "warnings": self.warnings(),
        }))
    }
}
