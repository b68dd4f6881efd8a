//! What the defaults of the generator give stays the same, and it is quick.

use std::time::Instant;

use plimsoll_graph::generator::{CnnRanges, Generator, GeneratorConfig, MlpRanges, Span, TransformerRanges};
use plimsoll_graph::{Family, GpuCatalogue};

fn generator(config: GeneratorConfig) -> Generator {
    Generator::new(config, GpuCatalogue::built_in()).expect("a valid configuration")
}

#[test]
fn a_seed_gives_what_it_always_gave() {
    let config = GeneratorConfig { seed: 1, ..GeneratorConfig::default() };
    let rows: Vec<_> = generator(config)
        .take(4)
        .map(|row| format!("{} {}", row.architecture, row.workload.setup().batch_size))
        .collect();
    let expected = [
        "cnn-bottleneck-channels3-side42-classes2-depth15-filters16-pool4-silu-batchnorm 2",
        "transformer-encoder-vocabulary252623-tokens43-width1536-layers2-heads12-feedforward5707-classes339-gelu 1",
        "cnn-dense-channels3-side449-classes38-depth5-transition1-selu-batchnorm 5",
        "mlp-bottleneck-inputs11586-outputs138-depth28-gelu-softmax 4096",
    ];
    assert_eq!(rows, expected);
}

/// Networks of a few layers, at sizes that no candidate misses by much.
fn small() -> GeneratorConfig {
    GeneratorConfig {
        memory_mib: Span::new(100, 8_192),
        mlp: MlpRanges { depth: Span::new(1, 6), ..MlpRanges::default() },
        cnn: CnnRanges { depth: Span::new(1, 6), ..CnnRanges::varied() },
        transformer: TransformerRanges { layers: Span::new(1, 2), ..TransformerRanges::varied() },
        ..GeneratorConfig::varied()
    }
}

/// Run it alone: `cargo test --release -p plimsoll-graph --test generator -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, and meaningless without optimisation"]
#[expect(clippy::print_stderr, reason = "the measurement is the point")]
fn ten_thousand_small_workloads_take_a_second() {
    let rate = |config: GeneratorConfig| {
        let count = 20_000;
        let start = Instant::now();
        let nodes: usize =
            generator(GeneratorConfig { count, ..config }).map(|row| row.workload.graph().nodes().len()).sum();
        let rate = count as f64 / start.elapsed().as_secs_f64();
        (rate, nodes as f64 / count as f64)
    };
    for family in [Family::Mlp, Family::Cnn, Family::Transformer] {
        for (name, config) in
            [("small", small()), ("default", GeneratorConfig::default()), ("varied", GeneratorConfig::varied())]
        {
            let (rate, nodes) = rate(GeneratorConfig { families: vec![family], ..config });
            eprintln!("{name} {family}: {rate:.0} workloads a second, {nodes:.0} nodes each");
        }
    }
    let (rate, nodes) = rate(small());
    eprintln!("small: {rate:.0} workloads a second, {nodes:.0} nodes each");
    assert!(rate > 10_000.0, "{rate:.0} workloads a second");
}
