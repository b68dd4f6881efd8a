//! Synthetic workloads, in any number, the same for the same seed.
//!
//! Each is drawn on its own: from the stream of random numbers that belongs to its index. First comes the memory
//! that it shall take, uniform in the logarithm; then networks are drawn until one of them comes near it with some
//! batch. So the workloads spread over small and large jobs, where plain draws would be mostly small ones.

mod config;
mod draw;
mod ranges;
mod steer;

pub use config::GeneratorConfig;
pub use ranges::{CnnRanges, MlpRanges, Span, TransformerRanges};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::draw::{Network, ShapeChoice, log2_between, pick, precision};
use self::ranges::check_list;
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
        let mut gpus = Vec::new();
        for name in &config.gpus {
            if name == GeneratorConfig::ALL_GPUS {
                gpus.extend_from_slice(catalogue.gpus());
            } else {
                gpus.push(catalogue.find(name)?.clone());
            }
        }
        check_list("GPUs in the catalogue", &gpus)?;
        Ok(Self { config, gpus, next: 0 })
    }

    /// The workload of an index, whatever the count.
    pub fn generate(&self, index: u64) -> Generated {
        let config = &self.config;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
        rng.set_stream(index);
        let rng = &mut rng;
        let (family, shape) = ShapeChoice::draw(rng, config);
        let gpu = self.gpus[rng.random_range(0..self.gpus.len())].clone();
        let mut setup = TrainingSetup::new(1);
        setup.optimizer = pick(rng, &config.optimizers);
        setup.precision = precision(rng, config);
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
        let round = rng.random_bool(self.config.round_batch_share);
        setup.batch_size = line.batch_for(target, network.batches(&self.config), round);
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
    use crate::architectures::{CnnShape, MlpShape, TransformerShape};
    use crate::op::Op;
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
    fn all_that_is_varied_occurs() {
        let (mut shapes, mut gpus, mut precisions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut windows, mut grouped, mut adam, mut round) = (BTreeSet::new(), 0, 0, 0);
        let count = 1_000;
        for row in generator(GeneratorConfig { count, ..GeneratorConfig::varied() }) {
            let setup = row.workload.setup();
            shapes.insert((row.family, row.shape));
            gpus.insert(row.workload.gpu().name.clone());
            precisions.insert(setup.precision.name());
            adam += usize::from(matches!(setup.optimizer, Optimizer::Adam | Optimizer::AdamW));
            round += usize::from(setup.batch_size.is_power_of_two());
            for node in row.workload.graph().nodes() {
                if let Op::Conv(conv) = &node.op {
                    windows.insert(conv.kernel[0]);
                    grouped += usize::from(conv.groups > 1);
                }
            }
        }
        assert_eq!(shapes.len(), MlpShape::ALL.len() + CnnShape::ALL.len() + TransformerShape::ALL.len());
        assert_eq!(gpus.len(), GpuCatalogue::built_in().gpus().len());
        assert_eq!(precisions.len(), 4);
        assert_eq!(windows, BTreeSet::from([1, 3, 5, 7]));
        assert!(grouped > 0);
        assert!((700..800).contains(&adam), "{adam}");
        assert!((450..750).contains(&round), "{round}: half, and those odd ones that happen to be 1 or 2");
    }

    /// How far memory is from uniform: the share of rows in each of nine octaves, where a ninth is expected.
    fn octaves(config: GeneratorConfig) -> [f64; 9] {
        let count = config.count as f64;
        let mut octaves = [0.0; 9];
        for row in generator(config) {
            let (graph, setup) = (row.workload.graph(), row.workload.setup());
            let octave = Line::new(graph, setup).log2_mib(setup.batch_size) - 100_f64.log2();
            octaves[(octave.max(0.0) as usize).min(8)] += 1.0 / count;
        }
        octaves
    }

    #[test]
    fn memory_spreads_within_every_shape_of_transformer() {
        for shape in TransformerShape::ALL {
            let transformer = TransformerRanges { shapes: vec![shape], ..TransformerRanges::default() };
            let config = GeneratorConfig { families: vec![Family::Transformer], transformer, ..some(400) };
            let octaves = octaves(config);
            assert!(octaves.iter().all(|share| (0.05..0.2).contains(share)), "{}: {octaves:?}", shape.name());
        }
    }

    #[test]
    fn memory_spreads_over_other_convolutions() {
        let config = GeneratorConfig { families: vec![Family::Cnn], count: 400, ..GeneratorConfig::varied() };
        let octaves = octaves(config);
        assert!(octaves.iter().all(|share| (0.05..0.2).contains(share)), "{octaves:?}");
    }

    #[test]
    fn sizes_stand_in_the_setup() {
        for row in generator(GeneratorConfig { count: 60, ..GeneratorConfig::varied() }) {
            let setup = row.workload.setup();
            assert_eq!(setup.input_size.is_some(), row.family == Family::Cnn);
            assert_eq!(setup.sequence_length.is_some(), row.family == Family::Transformer);
        }
    }

    fn with_cnn(cnn: CnnRanges) -> GeneratorConfig {
        GeneratorConfig { cnn, ..GeneratorConfig::default() }
    }

    fn with_transformer(transformer: TransformerRanges) -> GeneratorConfig {
        GeneratorConfig { transformer, ..GeneratorConfig::default() }
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
            GeneratorConfig { precisions: vec![], ..good.clone() },
            GeneratorConfig { round_batch_share: 1.1, ..good.clone() },
            with_cnn(CnnRanges { kernels: vec![], ..CnnRanges::default() }),
            with_cnn(CnnRanges { kernels: vec![3, 4], ..CnnRanges::default() }),
            with_cnn(CnnRanges { groups: vec![0], ..CnnRanges::default() }),
            with_cnn(CnnRanges { stem_share: -0.1, ..CnnRanges::default() }),
            with_cnn(CnnRanges { separable_share: f64::NAN, ..CnnRanges::default() }),
            with_transformer(TransformerRanges { shapes: vec![], ..TransformerRanges::default() }),
            with_transformer(TransformerRanges { tied_share: 2.0, ..TransformerRanges::default() }),
            with_transformer(TransformerRanges { packed_share: f64::INFINITY, ..TransformerRanges::default() }),
            with_transformer(TransformerRanges {
                target_length: Span::new(1, 1 << 40),
                ..TransformerRanges::default()
            }),
            with_transformer(TransformerRanges {
                shapes: vec![TransformerShape::Decoder],
                vocabulary: Span::new(1, 1 << 24),
                batch: Span::new(1, 1 << 30),
                ..TransformerRanges::default()
            }),
            GeneratorConfig { memory_mib: Span::new(2, 1), ..good.clone() },
            GeneratorConfig { mlp: MlpRanges { depth: Span::new(0, 3), ..MlpRanges::default() }, ..good.clone() },
            GeneratorConfig { cnn: CnnRanges { input_size: Span::new(9, 65_536), ..CnnRanges::default() }, ..good },
        ] {
            assert!(Generator::new(bad.clone(), GpuCatalogue::built_in()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_largest_of_long_sequences_can_be_counted() {
        // Scores outgrow all else here, and their bound is what refuses the longer ones.
        let long = |tokens| {
            with_transformer(TransformerRanges {
                shapes: vec![TransformerShape::EncoderDecoder],
                sequence_length: Span::new(tokens, tokens),
                target_length: Span::new(tokens, tokens),
                width: Span::new(64, 64),
                layers: Span::new(2, 2),
                batch: Span::new(512, 512),
                ..TransformerRanges::default()
            })
        };
        let config = GeneratorConfig { families: vec![Family::Transformer], candidates: 2, ..long(1 << 18) };
        assert_eq!(generator(config).take(4).count(), 4);
        assert!(Generator::new(long(1 << 21), GpuCatalogue::built_in()).is_err());
    }

    #[test]
    fn a_configuration_survives_a_round_trip() {
        let odd = GeneratorConfig { optimizers: vec![Optimizer::RmsProp], ..some(3) };
        for config in [odd, GeneratorConfig::varied()] {
            let text = serde_json::to_string(&config).expect("serialises");
            assert_eq!(serde_json::from_str::<GeneratorConfig>(&text).expect("parses"), config);
        }
        assert_eq!(serde_json::from_str::<GeneratorConfig>("{}").expect("parses"), GeneratorConfig::default());
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
            kernels in prop::collection::vec((0..=15_u64).prop_map(|half| 2 * half + 1), 1..4),
            groups in prop::collection::vec(1..=4_096_u64, 1..4),
            shapes in prop::collection::vec(prop::sample::select(TransformerShape::ALL.to_vec()), 1..4),
            shares: [bool; 4],
        ) {
            let [stem_share, separable_share, tied_share, packed_share] = shares.map(f64::from);
            let config = GeneratorConfig {
                seed,
                candidates: 2,
                memory_mib: memory,
                mlp: MlpRanges { inputs: widths, outputs: sizes, depth: depths, batch: batches },
                cnn: CnnRanges {
                    base_filters: widths, depth: depths, input_size: sizes, classes: widths, batch: batches,
                    kernels, groups, stem_share, separable_share,
                },
                transformer: TransformerRanges {
                    shapes, width: widths, layers: depths, sequence_length: sizes, target_length: sizes,
                    vocabulary: widths, classes: sizes, batch: batches, tied_share, packed_share,
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
