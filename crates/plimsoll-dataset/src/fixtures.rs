//! Small workloads for this crate's tests.

use plimsoll_graph::{Activation, DType, Family, GpuCatalogue, Graph, GraphBuilder, Shape, TrainingSetup, Workload};

use crate::measurement::{Doubt, Label, Measurement, Outcome};
use crate::sample::Sample;

/// A chain of linear layers.
pub(crate) fn graph(depth: u64) -> Graph {
    let mut builder = GraphBuilder::new(format!("mlp-{depth}"), Family::Mlp);
    let mut value = builder.input("x", Shape::batched(&[32]), DType::Float32);
    for index in 0..depth {
        value = builder.linear(&format!("linear{index}"), value, 16 + index, true).expect("fits");
        value = builder.activation(&format!("act{index}"), value, Activation::Relu, false);
    }
    builder.finish(&[value]).expect("valid")
}

/// A measurement of such a chain on an A100; every field says something.
pub(crate) fn measurement(depth: u64, batch_size: u64) -> Measurement {
    let gpu = GpuCatalogue::built_in().find("a100-40").expect("known").clone();
    Measurement {
        id: format!("fixture.csv:{depth}-{batch_size}"),
        architecture: format!("mlp-{depth}"),
        shape: "uniform".into(),
        workload: Workload::new(graph(depth), TrainingSetup::new(batch_size), gpu).expect("valid"),
        label: Label::NvidiaSmiDevice,
        stack: "pytorch 2.9".parse().expect("a version"),
        outcome: Outcome::Measured { peak_mib: 1500.0 + batch_size as f64 },
        utilisation: [Some(0.5), None, Some(0.25), Some(0.0), Some(1.0), None],
        published_estimates: vec![("horus".into(), 1024.5)],
        doubt: Some(Doubt { reason: "reads less than at a smaller batch".into(), reading_mib: 900.5 }),
    }
}

/// The sample of [`measurement`].
pub(crate) fn sample(depth: u64, batch_size: u64) -> Sample {
    Sample::from_measurement(&measurement(depth, batch_size))
}
