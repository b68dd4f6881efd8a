//! Configurations of the GPUMemNet measurements, as their `Filename` column writes them.
//!
//! The string says everything about a measured network but one thing: the generator of dense networks tossed a
//! coin for the interval of the transitions, which shows from 28 layers on. [`parse`] takes the usual interval,
//! [`alternatives`] gives both readings.

mod fields;

use self::fields::{Fields, HAS_DROPOUT, Kind};
use crate::architectures::{
    CnnConfig, CnnShape, Convolution, LanguageModel, MlpConfig, MlpShape, TransformerConfig, TransformerShape,
};
use crate::error::{GraphError, Result, nearest};
use crate::family::Family;
use crate::graph::Graph;
use crate::op::Activation;
use crate::setup::TrainingSetup;

/// Batch of the forward pass with which the layer list was printed before training.
const SUMMARY_BATCH: u64 = 2;

/// Samples of an epoch, where the string does not say.
const SAMPLES: u64 = 4_096;

/// What is left for the last step of an epoch, if it is not a whole batch.
fn last_batch(samples: u64, batch: u64) -> Option<u64> {
    samples.checked_rem(batch).filter(|&rest| rest > 0 && samples > batch)
}

/// What a configuration string says.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Architecture family.
    pub family: Family,
    /// Shape within the family, such as `pyramid`.
    pub shape: String,
    /// Identifies the architecture, without batch size and dropout rate.
    pub architecture: String,
    /// The network.
    pub graph: Graph,
    /// How it was trained: Adam, fp32, cross-entropy.
    pub setup: TrainingSetup,
}

/// Reads a configuration string of any of the four layouts, with or without `.out` at its end.
///
/// # Errors
/// Missing, doubled, unknown or malformed fields, unknown shapes and activations, and sizes that are zero, over the
/// caps of [`crate::architectures`], or too large together.
pub fn parse(configuration: &str) -> Result<Configuration> {
    let fields = Fields::split(configuration)?;
    match fields.kind {
        Kind::PlainMlp | Kind::Mlp => mlp(&fields),
        Kind::Cnn => convolutional(&fields, &cnn(&fields)?),
        Kind::Transformer => transformer(&fields),
    }
}

/// Every network that a configuration string can mean, what [`parse`] gives first.
///
/// # Errors
/// As [`parse`].
pub fn alternatives(configuration: &str) -> Result<Vec<Configuration>> {
    let mut readings = vec![parse(configuration)?];
    let fields = Fields::split(configuration)?;
    if fields.kind == Kind::Cnn {
        let usual = cnn(&fields)?;
        let transition_every = CnnConfig::paced_interval(usual.depth, usual.input_size);
        let paced = CnnConfig { transition_every, ..usual.clone() }.normalised();
        if paced.id() != usual.id() {
            readings.push(convolutional(&fields, &paced)?);
        }
    }
    Ok(readings)
}

fn configuration(family: Family, shape: &str, graph: Graph, setup: TrainingSetup) -> Result<Configuration> {
    setup.check()?;
    Ok(Configuration { family, shape: shape.into(), architecture: graph.name().into(), graph, setup })
}

fn mlp(fields: &Fields) -> Result<Configuration> {
    let plain = fields.kind == Kind::PlainMlp;
    let config = MlpConfig {
        shape: named("MLP shape", fields.text("arch"), MlpShape::ALL, MlpShape::name)?,
        inputs: fields.number("input")?,
        outputs: fields.number("output")?,
        depth: fields.number("depth")?,
        activation: if plain { Activation::Relu } else { activation(fields)? },
        batch_norm: !plain && fields.flag("batchnorm")?,
        dropout: if plain { None } else { dropout(fields)? },
        // The plain networks leave their scores as they are.
        softmax: !plain,
    };
    let mut setup = TrainingSetup::new(fields.number("batch")?);
    setup.startup_batch = Some(SUMMARY_BATCH);
    setup.last_batch = last_batch(SAMPLES, setup.batch_size);
    configuration(Family::Mlp, config.shape.name(), config.build()?, setup)
}

fn cnn(fields: &Fields) -> Result<CnnConfig> {
    let config = CnnConfig {
        shape: named("CNN shape", fields.text("arch"), CnnShape::ALL, CnnShape::name)?,
        channels: fields.number("input_channels")?,
        input_size: fields.number("input_size")?,
        classes: fields.number("num_classes")?,
        depth: fields.number("depth")?,
        base_filters: fields.number("base_filters")?,
        activation: activation(fields)?,
        batch_norm: fields.flag("batchnorm")?,
        dropout: dropout(fields)?,
        // The generator could pool, but the measurements never asked for it.
        pool_every: 0,
        transition_every: 5,
        convolution: Convolution::default(),
    };
    Ok(config.normalised())
}

fn convolutional(fields: &Fields, config: &CnnConfig) -> Result<Configuration> {
    let mut setup = TrainingSetup::new(fields.number("batch")?);
    setup.input_size = Some(config.input_size);
    setup.startup_batch = Some(SUMMARY_BATCH);
    configuration(Family::Cnn, config.shape.name(), config.build()?, setup)
}

fn transformer(fields: &Fields) -> Result<Configuration> {
    let samples = fields.number("num_samples")?;
    let config = TransformerConfig {
        shape: TransformerShape::Encoder,
        vocabulary: fields.number("input_size")?,
        sequence_length: fields.number("seq_length")?,
        width: fields.number("embedding_size")?,
        layers: fields.number("num_layers")?,
        heads: fields.number("num_heads")?,
        feed_forward: fields.number("ff_hidden_size")?,
        classes: fields.number("num_classes")?,
        dropout: fields.rate("dropout_rate")?,
        activation: Activation::Relu,
        language_model: LanguageModel::default(),
    };
    let mut setup = TrainingSetup::new(fields.number("batch_size")?);
    setup.sequence_length = Some(config.sequence_length);
    // These were tried with a whole batch first.
    setup.startup_batch = Some(setup.batch_size);
    setup.last_batch = last_batch(samples, setup.batch_size);
    configuration(Family::Transformer, config.shape.name(), config.build()?, setup)
}

fn dropout(fields: &Fields) -> Result<Option<f64>> {
    let rate = fields.rate("dropout")?;
    Ok(fields.flag(HAS_DROPOUT)?.then_some(rate))
}

fn activation(fields: &Fields) -> Result<Activation> {
    let name = fields.text("act");
    Activation::from_name(name).ok_or_else(|| GraphError::Unknown {
        what: "activation function",
        name: name.chars().take(60).collect(),
        nearest: nearest(name, Activation::ALL.map(Activation::name)),
    })
}

fn named<T: Copy, const N: usize>(
    what: &'static str,
    name: &str,
    all: [T; N],
    name_of: fn(T) -> &'static str,
) -> Result<T> {
    all.into_iter().find(|value| name_of(*value) == name).ok_or_else(|| GraphError::Unknown {
        what,
        name: name.chars().take(60).collect(),
        nearest: nearest(name, all.map(name_of)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{Loss, Optimizer, Precision};

    const PLAIN: &str = "input:100_output:10_depth:2_arch:pyramid_batch:16.out";
    const MLP: &str = "input:100_output:10_depth:2_arch:bottleneck_batch:16_act:leaky_relu_dropout:0.2_dropout:True_\
                       batchnorm:True.out";
    const CNN: &str = "input_channels:3_num_classes:20_depth:4_arch:residual_base_filters:32_batch:8_input_size:64_\
                       act:swish_dropout:0.3_dropout:False_batchnorm:True.out";
    const DENSE: &str = "input_channels:1_num_classes:7_depth:28_arch:dense_base_filters:32_batch:8_input_size:200_\
                         act:prelu_dropout:0.3_dropout:True_batchnorm:False.out";
    const TRANSFORMER: &str = "num_classes:11_embedding_size:48_num_layers:3_num_heads:4_ff_hidden_size:100_\
                               dropout_rate:0.15_seq_length:20_input_size:900_num_samples:1000_batch_size:6.out";

    #[test]
    fn an_mlp_is_what_its_string_says() {
        let read = parse(PLAIN).expect("valid");
        assert_eq!((read.family, read.shape.as_str(), read.setup.batch_size), (Family::Mlp, "pyramid", 16));
        assert_eq!(read.graph.parameter_count(), 101 * 50 + 51 * 25 + 26 * 10);
        assert_eq!(read.setup.optimizer, Optimizer::Adam);
        assert_eq!((read.setup.precision, read.setup.loss), (Precision::Fp32, Loss::CrossEntropy));

        let read = parse(MLP).expect("valid");
        let hidden = (101 + 2) * 50 + (51 + 2) * 25 + (26 + 2) * 12;
        assert_eq!(read.graph.parameter_count(), hidden + 13 * 10);
        assert_eq!(read.graph.nodes().iter().filter(|node| node.op.token() == "leaky_relu").count(), 3);
    }

    #[test]
    fn a_cnn_is_what_its_string_says() {
        let read = parse(CNN).expect("valid");
        assert_eq!((read.family, read.shape.as_str()), (Family::Cnn, "residual"));
        assert_eq!((read.setup.batch_size, read.setup.input_size), (8, Some(64)));
        // 32 grows by 64^(1/4) = 2.83 to 90.
        let conv = |from: u64, to: u64, window: u64| (from * window + 1 + 2) * to;
        let block = |from: u64, to: u64| conv(from, to, 1) + conv(from, to, 9) + conv(to, to, 9);
        assert_eq!(read.graph.parameter_count(), block(3, 32) + block(32, 90) + 91 * 20);
    }

    #[test]
    fn a_deep_dense_network_has_two_readings() {
        let readings = alternatives(DENSE).expect("valid");
        assert_eq!(readings.len(), 2);
        assert_eq!(readings[0], parse(DENSE).expect("valid"));
        assert_ne!(readings[0].architecture, readings[1].architecture);
        assert!(readings[0].graph.nodes().len() > readings[1].graph.nodes().len());
        assert_eq!(alternatives(&DENSE.replace("depth:28", "depth:24")).expect("valid").len(), 1);
        assert_eq!(alternatives(CNN).expect("valid").len(), 1);
    }

    #[test]
    fn a_transformer_is_what_its_string_says() {
        let read = parse(TRANSFORMER).expect("valid");
        assert_eq!((read.family, read.shape.as_str()), (Family::Transformer, "encoder"));
        assert_eq!((read.setup.batch_size, read.setup.sequence_length), (6, Some(20)));
        let layer = 49 * 3 * 48 + 49 * 48 + 49 * 100 + 101 * 48 + 4 * 48;
        assert_eq!(read.graph.parameter_count(), 900 * 48 + 20 * 48 + 3 * layer + 49 * 11);
    }

    #[test]
    fn the_architecture_knows_neither_batch_nor_dropout_rate() {
        for (text, from, to) in [
            (PLAIN, "batch:16", "batch:17"),
            (MLP, "dropout:0.2", "dropout:0.4"),
            (CNN, "batch:8", "batch:80"),
            (TRANSFORMER, "num_samples:1000", "num_samples:4000"),
        ] {
            let other = text.replace(from, to);
            assert_ne!(text, other);
            assert_eq!(parse(text).expect("valid").architecture, parse(&other).expect("valid").architecture);
        }
        let others = [PLAIN, MLP, CNN, DENSE, TRANSFORMER].map(|text| parse(text).expect("valid").architecture);
        assert!(others.iter().enumerate().all(|(index, name)| !others[..index].contains(name)));
    }

    #[test]
    fn hostile_strings_are_refused_with_the_place() {
        for (text, from, to, word) in [
            (PLAIN, "depth:2", "depth:1000000000", "depth"),
            (PLAIN, "depth:2", "depth:0", "depth"),
            (PLAIN, "depth:2", "depth:-2", "depth"),
            (PLAIN, "depth:2", "depth:nan", "depth"),
            (PLAIN, "depth:2", "depth:99999999999999999999999", "depth"),
            (PLAIN, "input:100", "input:1e3", "input"),
            (PLAIN, "input:100", "input:16777217", "inputs"),
            (PLAIN, "input:100", "input:", "input"),
            (PLAIN, "batch:16", "batch:0", "batch"),
            (PLAIN, "batch:16", "batch:1000000000000", "batch"),
            (PLAIN, "pyramid", "pyramids", "did you mean `pyramid`"),
            (PLAIN, "_arch:pyramid", "", "arch"),
            (MLP, "leaky_relu", "leakyrelo", "leaky_relu"),
            (MLP, "leaky_relu", "glu", "glu"),
            (MLP, "dropout:0.2", "dropout:NaN", "dropout"),
            (MLP, "dropout:0.2", "dropout:1.5", "dropout"),
            (MLP, "dropout:0.2", "dropout:-inf", "dropout"),
            (MLP, "dropout:True", "dropout:Yes", "dropout"),
            (MLP, "_dropout:True", "", "dropout"),
            (CNN, "input_size:64", "input_size:0", "side"),
            (CNN, "input_size:64", "input_size:99999999", "side"),
            (CNN, "base_filters:32", "base_filters:0", "base filters"),
            (CNN, "residual", "reverse_pyramid", "reverse_pyramid"),
            (CNN, "channels:3", "channels:0", "channels"),
            (TRANSFORMER, "num_heads:4", "num_heads:5", "heads"),
            (TRANSFORMER, "num_heads:4", "num_heads:0", "heads"),
            (TRANSFORMER, "num_layers:3", "num_layers:10000000", "layers"),
            (TRANSFORMER, "seq_length:20", "seq_length:0", "sequence"),
            (TRANSFORMER, "num_samples:1000", "num_samples:many", "num_samples"),
        ] {
            let broken = text.replace(from, to);
            assert_ne!(broken, text, "{from} must occur");
            let error = parse(&broken).expect_err(&broken).to_string();
            assert!(error.contains(word), "{broken}: {error}");
        }
        let heavy = PLAIN.replace("100", "16777216").replace("depth:2", "depth:10000").replace("pyramid", "uniform");
        assert!(matches!(parse(&heavy), Err(GraphError::Overflow { .. })));
    }

    proptest::proptest! {
        #[test]
        fn no_string_makes_it_panic(text in ".{0,200}") {
            let _ = alternatives(&text);
        }

        #[test]
        fn no_field_makes_it_panic(
            which in 0_usize..5,
            field in 0_usize..12,
            value in "[0-9]{1,9}|-?[0-9.e]{1,20}|nan|inf|True|[a-z_:]{0,12}",
        ) {
            let text = [PLAIN, MLP, CNN, DENSE, TRANSFORMER][which];
            let mut parts: Vec<String> = text.split(':').map(str::to_owned).collect();
            let slot = 1 + field % (parts.len() - 1);
            let key = parts[slot].find('_').map_or(String::new(), |at| parts[slot][at..].to_owned());
            parts[slot] = value + &key;
            let _ = alternatives(&parts.join(":"));
        }
    }
}
