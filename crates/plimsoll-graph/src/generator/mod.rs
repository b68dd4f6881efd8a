//! Synthetic workloads, in any number, the same for the same seed.
//!
//! Each is drawn on its own: from the stream of random numbers that belongs to its index. First comes the memory
//! that it shall take, uniform in the logarithm; then networks are drawn until one of them comes near it with some
//! batch. So the workloads spread over small and large jobs, where plain draws would be mostly small ones.

mod config;
mod draw;
mod steer;

pub use config::{CnnRanges, GeneratorConfig, MlpRanges, Span, TransformerRanges};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::draw::{Network, ShapeChoice, log2_between, pick, precision};
use self::steer::Line;
use crate::error::Result;
use crate::family::Family;
use crate::gpu::{Gpu, GpuCatalogue};
use crate::graph::Graph;
use crate::setup::TrainingSetup;
use crate::workload::Workload;

/// One synthetic workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// Identifies the workload: seed and index.
    pub id: String,
    /// Architecture family.
    pub family: Family,
    /// Shape within the family, such as `pyramid`.
    pub shape: String,
    /// Identifies the architecture, without batch size and dropout rate.
    pub architecture: String,
    /// The workload.
    pub workload: Workload,
}

/// Draws workloads one after the other, or any one by its index.
#[derive(Debug, Clone)]
pub struct Generator {
    config: GeneratorConfig,
    gpus: Vec<Gpu>,
    next: u64,
}

/// A network with the batch it would get, and how far that is from the memory aimed at, in octaves.
struct Candidate {
    graph: Graph,
    setup: TrainingSetup,
    distance: f64,
}

impl Generator {
    /// A network this near to the memory aimed at, in octaves, is taken at once. Taking the nearest of many would
    /// prefer networks whose memory grows in small steps.
    const NEAR: f64 = 0.5;

    /// Checks the configuration and finds its GPUs.
    ///
    /// # Errors
    /// As [`GeneratorConfig::check`], and unknown GPUs.
    pub fn new(config: GeneratorConfig, catalogue: &GpuCatalogue) -> Result<Self> {
        config.check()?;
        let gpus = config.gpus.iter().map(|name| catalogue.find(name).cloned()).collect::<Result<_>>()?;
        Ok(Self { config, gpus, next: 0 })
    }

    /// The workload of an index, whatever the count.
    pub fn generate(&self, index: u64) -> Generated {
        let config = &self.config;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
        rng.set_stream(index);
        let rng = &mut rng;
        let family = pick(rng, &config.families);
        let shape = ShapeChoice::draw(rng, family);
        let gpu = self.gpus[rng.random_range(0..self.gpus.len())].clone();
        let mut setup = TrainingSetup::new(1);
        setup.optimizer = pick(rng, &config.optimizers);
        setup.precision = precision(rng, config.fp32_share);
        let target = log2_between(rng, config.memory_mib);

        let mut best = self.candidate(rng, shape, &setup, target);
        for _ in 1..config.candidates {
            if best.distance <= Self::NEAR {
                break;
            }
            let other = self.candidate(rng, shape, &setup, target);
            if other.distance < best.distance {
                best = other;
            }
        }
        Generated {
            id: format!("synthetic-{}-{index}", config.seed),
            family,
            shape: shape.name().into(),
            architecture: best.graph.name().into(),
            workload: Workload::new(best.graph, best.setup, gpu).expect("the check of the ranges bounds the sizes"),
        }
    }

    fn candidate(&self, rng: &mut ChaCha8Rng, shape: ShapeChoice, setup: &TrainingSetup, target: f64) -> Candidate {
        let network = Network::draw(rng, &self.config, shape);
        let graph = network.build().expect("the check of the ranges bounds the sizes");
        let mut setup = setup.clone();
        network.describe(&mut setup);
        let line = Line::new(&graph, &setup);
        // Half of the batches are powers of two, as people choose them.
        setup.batch_size = line.batch_for(target, network.batches(&self.config), rng.random_bool(0.5));
        let distance = (line.log2_mib(setup.batch_size) - target).abs();
        Candidate { graph, setup, distance }
    }
}

impl Iterator for Generator {
    type Item = Generated;

    fn next(&mut self) -> Option<Generated> {
        (self.next < self.config.count).then(|| {
            self.next += 1;
            self.generate(self.next - 1)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.config.count - self.next);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::architectures::{CnnShape, MlpShape};
    use crate::setup::{Optimizer, Precision};

    fn generator(config: GeneratorConfig) -> Generator {
        Generator::new(config, GpuCatalogue::built_in()).expect("valid")
    }

    fn some(count: u64) -> GeneratorConfig {
        GeneratorConfig { count, seed: 7, ..GeneratorConfig::default() }
    }

    #[test]
    fn equal_seeds_give_equal_workloads() {
        let first: Vec<_> = generator(some(20)).collect();
        let second: Vec<_> = generator(some(20)).collect();
        assert_eq!(first, second);
        let other: Vec<_> = generator(GeneratorConfig { seed: 8, ..some(20) }).collect();
        assert!(first.iter().zip(&other).all(|(a, b)| a.workload != b.workload));
    }

    #[test]
    fn a_row_does_not_depend_on_how_many_there_are() {
        let few: Vec<_> = generator(some(3)).collect();
        let many = generator(some(1_000_000));
        assert_eq!(many.size_hint(), (1_000_000, Some(1_000_000)));
        for (index, row) in few.iter().enumerate() {
            assert_eq!(*row, many.generate(index as u64));
        }
        assert_eq!(many.clone().nth(2), Some(few[2].clone()));
        assert_eq!(many.generate(u64::MAX), many.generate(u64::MAX));
    }

    #[test]
    fn everything_occurs_and_memory_spreads() {
        let mut shapes = BTreeSet::new();
        let (mut optimizers, mut precisions) = (BTreeSet::new(), BTreeSet::new());
        let (mut fp32, mut octaves) = (0, [0_usize; 9]);
        let count = 500;
        for row in generator(some(count)) {
            let (graph, setup) = (row.workload.graph(), row.workload.setup());
            assert_eq!((graph.name(), graph.family()), (row.architecture.as_str(), row.family));
            shapes.insert((row.family, row.shape.clone()));
            optimizers.insert(setup.optimizer.name());
            precisions.insert(setup.precision.name());
            fp32 += usize::from(setup.precision == Precision::Fp32);
            let octave = Line::new(graph, setup).log2_mib(setup.batch_size) - 100_f64.log2();
            octaves[(octave.max(0.0) as usize).min(8)] += 1;
        }
        assert_eq!(shapes.len(), MlpShape::ALL.len() + CnnShape::ALL.len() + 1);
        assert_eq!((optimizers.len(), precisions.len()), (4, Precision::ALL.len()));
        assert!((350..450).contains(&fp32), "{fp32}");
        assert!(octaves.iter().all(|&rows| rows > 25), "{octaves:?}");
    }

    #[test]
    fn sizes_stand_in_the_setup() {
        for row in generator(some(60)) {
            let setup = row.workload.setup();
            assert_eq!(setup.input_size.is_some(), row.family == Family::Cnn);
            assert_eq!(setup.sequence_length.is_some(), row.family == Family::Transformer);
        }
    }

    #[test]
    fn what_cannot_be_generated_is_refused() {
        let good = GeneratorConfig::default();
        for bad in [
            GeneratorConfig { families: vec![], ..good.clone() },
            GeneratorConfig { families: vec![Family::Recurrent], ..good.clone() },
            GeneratorConfig { gpus: vec![], ..good.clone() },
            GeneratorConfig { gpus: vec!["abacus".into()], ..good.clone() },
            GeneratorConfig { optimizers: vec![], ..good.clone() },
            GeneratorConfig { fp32_share: f64::NAN, ..good.clone() },
            GeneratorConfig { candidates: 0, ..good.clone() },
            GeneratorConfig { memory_mib: Span::new(2, 1), ..good.clone() },
            GeneratorConfig { mlp: MlpRanges { depth: Span::new(0, 3), ..MlpRanges::default() }, ..good.clone() },
            GeneratorConfig { cnn: CnnRanges { input_size: Span::new(9, 65_536), ..CnnRanges::default() }, ..good },
        ] {
            assert!(Generator::new(bad.clone(), GpuCatalogue::built_in()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_configuration_survives_a_round_trip() {
        let config = GeneratorConfig { optimizers: vec![Optimizer::RmsProp], ..some(3) };
        let text = serde_json::to_string(&config).expect("serialises");
        assert_eq!(serde_json::from_str::<GeneratorConfig>(&text).expect("parses"), config);
        assert!(serde_json::from_str::<GeneratorConfig>(r#"{"sed": 4}"#).is_err());
    }

    fn span(limit: u32) -> impl Strategy<Value = Span> {
        (0..limit, 0..limit).prop_map(|(a, b)| Span::new(1 << a.min(b), (1 << a.max(b)) + 1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_ranges_make_it_panic(
            seed: u64,
            widths in span(20), depths in span(8), sizes in span(14), batches in span(30), memory in span(30),
        ) {
            let config = GeneratorConfig {
                seed,
                candidates: 2,
                memory_mib: memory,
                mlp: MlpRanges { inputs: widths, outputs: sizes, depth: depths, batch: batches },
                cnn: CnnRanges { base_filters: widths, depth: depths, input_size: sizes, classes: widths, batch: batches },
                transformer: TransformerRanges {
                    width: widths, layers: depths, sequence_length: sizes, vocabulary: widths, classes: sizes,
                    batch: batches,
                },
                ..GeneratorConfig::default()
            };
            if let Ok(generator) = Generator::new(config, GpuCatalogue::built_in()) {
                for index in 0..4 {
                    generator.generate(index);
                }
            }
        }
    }
}
