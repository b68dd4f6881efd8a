//! Lucid's jobs, each alone on its GPU.

use plimsoll_graph::{Optimizer, Precision, TrainingSetup};

use super::Job;
use super::run::Cells;
use crate::ingest::cells;
use crate::measurement::Label;
use crate::target::Target;

pub(super) const COLUMNS: &[&str] = &["model", "dataset", "batchsize", "amp", "gpu_util", "gmem"];

/// Jobs whose model and input are public: the model, its data set, and where the graph is found.
const MODELS: [(&str, &str, &str); 3] = [
    ("ResNet50", "ImageNet", "torchvision/resnet50"),
    ("MobileNetV3", "ImageNet", "torchvision/mobilenet_v3_large"),
    ("BERT", "SQuAD", "hf/bert-base-uncased@384"),
];

/// SGD with momentum for vision, `AdamW` for BERT; AMP by its column.
pub(super) fn job(row: &Cells<'_>) -> Result<Job, String> {
    let (model, data) = (row.needed("model")?, row.needed("dataset")?);
    let (.., reference) = MODELS.iter().find(|(known, on, _)| (*known, *on) == (model, data)).ok_or_else(|| {
        format!("the model of Lucid's `{}` on `{}` is not known", cells::short(model), cells::short(data))
    })?;
    let is_text = reference.starts_with("hf/");
    let setup = TrainingSetup {
        optimizer: if is_text { Optimizer::AdamW } else { Optimizer::SgdMomentum },
        precision: if cells::flag("amp", row.needed("amp")?)? { Precision::AmpFp16 } else { Precision::Fp32 },
        ..TrainingSetup::new(row.count("batchsize")?)
    };
    let mut utilisation = [None; 6];
    utilisation[0] = cells::utilisation(Target::Gputl, "gpu_util", row.text("gpu_util"))?;
    Ok(Job {
        label: Label::NvidiaSmiDevice,
        utilisation,
        ..Job::new((*reference).to_owned(), model, setup, row.reading("gmem")?)
    })
}
