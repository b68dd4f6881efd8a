//! Networks built from a `config.json` have the library's parameters; what cannot be built is refused.
//!
//! `huggingface/` is written by `python -m huggingface_configs`: configurations of the hub, small odd ones (`small-*`)
//! and empty ones (`default-*`), with what transformers makes of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;

use plimsoll_graph::huggingface::{self, Head, Options};
use plimsoll_graph::{Graph, GraphError, Op, WeightKind, json};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn fixtures() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/huggingface");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("fixtures").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let text = fs::read_to_string(&file).expect("a file");
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, serde_json::from_str(&text).expect("JSON"))
        })
        .collect()
}

fn build(config: &Value, options: &Options) -> Result<Graph, GraphError> {
    huggingface::parse(&config.to_string(), "config.json", options)
}

/// A small Llama with some fields set.
fn llama(fields: &Value) -> Value {
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 99,
    });
    merge(&mut config, fields);
    config
}

fn merge(config: &mut Value, fields: &Value) {
    let target = config.as_object_mut().expect("an object");
    target.extend(fields.as_object().expect("an object").clone());
}

/// Parameters as the fixtures list them.
fn lines(graph: &Graph) -> Vec<String> {
    let parameters = graph.weights().iter().filter(|weight| weight.kind != WeightKind::Buffer);
    parameters
        .map(|weight| {
            weight.shape.dims().iter().fold(weight.name.clone(), |mut line, dim| {
                let _ = write!(line, " {dim}");
                line
            })
        })
        .collect()
}

/// FNV-1a.
fn checksum(lines: &[String]) -> String {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

#[test]
fn parameters_are_those_of_the_library_by_name_shape_and_number() {
    let fixtures = fixtures();
    assert!(fixtures.len() > 80, "{} fixtures", fixtures.len());
    for (name, fixture) in fixtures {
        for form in ["config", "saved"] {
            let Some(config) = fixture.get(form) else { continue };
            let graph = build(config, &Options::default()).expect("a configuration");
            let found = lines(&graph);
            match fixture.get("weights") {
                Some(weights) => assert_eq!(json!(found), *weights, "{name} {form}"),
                None => assert_eq!(json!(checksum(&found)), fixture["checksum"], "{name} {form}: {found:#?}"),
            }
            assert_eq!(json!(graph.parameter_count()), fixture["parameters"], "{name} {form}");
        }
    }
}

#[test]
fn built_graphs_survive_a_round_trip_through_a_file() {
    for (name, fixture) in fixtures() {
        let graph = build(&fixture["config"], &Options::default()).expect("a configuration");
        assert!(json::parse(&json::write(&graph), &name).expect("own text parses") == graph, "{name}");
    }
}

#[test]
fn tokens_default_to_what_the_network_can_take() {
    let input = |config: &Value, tokens| {
        let options = Options { tokens, ..Options::default() };
        build(config, &options).map(|graph| graph.tensor(graph.inputs()[0]).shape.to_string())
    };
    let bert = |positions: u64| json!({"model_type": "bert", "max_position_embeddings": positions});
    let roberta = json!({"model_type": "roberta", "max_position_embeddings": 514});
    assert_eq!(input(&bert(2048), None).expect("valid"), "[batch, 512]");
    assert_eq!(input(&bert(128), None).expect("valid"), "[batch, 128]");
    assert_eq!(input(&roberta, None).expect("valid"), "[batch, 512]");
    assert_eq!(input(&bert(2048), Some(1000)).expect("valid"), "[batch, 1000]");
    let error = input(&bert(128), Some(129)).expect_err("too many").to_string();
    assert!(error.contains("1 to 128"), "{error}");
    assert!(input(&roberta, Some(513)).is_err());
    assert!(input(&bert(128), Some(0)).is_err());
    let vit = build(&json!({"model_type": "vit"}), &Options { tokens: Some(8), ..Options::default() });
    assert!(vit.expect_err("an image has no tokens").to_string().contains("image"));
}

#[test]
fn the_head_is_the_files_or_what_is_asked_for() {
    let outputs = |architecture: &str, head| {
        let config = json!({"model_type": "bert", "architectures": [architecture], "num_labels": 7});
        let graph = build(&config, &Options { head, ..Options::default() }).expect("a configuration");
        graph.tensor(graph.outputs()[0]).shape.to_string()
    };
    assert_eq!(outputs("BertForMaskedLM", None), "[batch, 512, 30522]");
    assert_eq!(outputs("BertModel", None), "[batch, 512, 768]");
    assert_eq!(outputs("BertForSequenceClassification", None), "[batch, 7]");
    assert_eq!(outputs("BertForMaskedLM", Some(Head::TokenClassification)), "[batch, 512, 7]");
    for (architecture, head) in
        [("BertForNextSentencePrediction", None), ("BertModel", Some(Head::ImageClassification))]
    {
        let config = json!({"model_type": "bert", "architectures": [architecture]});
        let error = build(&config, &Options { head, ..Options::default() }).expect_err("no such head").to_string();
        assert!(error.contains("masked-lm"), "{error}");
    }
    for head in Head::ALL {
        assert_eq!(Head::from_name(head.name()).expect("own name"), head);
    }
    assert!(Head::from_name("masked-ml").expect_err("a typo").to_string().contains("masked-lm"));
}

#[test]
fn attention_is_fused_where_the_library_would_and_unless_asked_otherwise() {
    let fused = |fields: &Value, options: &Options| {
        let graph = build(&llama(fields), options).expect("a configuration");
        graph.nodes().iter().filter(|node| matches!(node.op, Op::Attention { .. })).count()
    };
    let plain = Options::default();
    let grouped = json!({"num_key_value_heads": 2});
    assert_eq!(fused(&json!({}), &plain), 2);
    assert_eq!(fused(&json!({}), &Options { eager_attention: true, ..plain.clone() }), 0);
    assert_eq!(fused(&json!({"_attn_implementation": "eager"}), &plain), 0);
    assert_eq!(fused(&json!({"head_dim": 10}), &plain), 0);
    assert_eq!(fused(&grouped, &plain), 0);
    assert_eq!(fused(&grouped, &Options { half_precision: true, ..plain }), 2);
}

#[test]
fn a_folder_is_read_through_its_configuration() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("huggingface");
    fs::create_dir_all(&folder).expect("a folder");
    let text = llama(&json!({})).to_string();
    fs::write(folder.join("config.json"), format!("\u{feff}{text}")).expect("a file");
    assert!(huggingface::is_config(&text));
    let graph = huggingface::read(&folder, &Options::default()).expect("a folder");
    assert_eq!(graph, huggingface::read(&folder.join("config.json"), &Options::default()).expect("a file"));
    let missing = huggingface::read(&folder.join("missing"), &Options::default()).expect_err("nothing there");
    assert!(matches!(missing, GraphError::Read { .. }));
    assert!(!huggingface::is_config(&json::write(&graph)));
    assert!(!huggingface::is_config("[\"model_type\"]"));
}

#[test]
fn the_oldest_files_name_a_class_only() {
    let config = json!({"architectures": ["XLMRobertaForMaskedLM"], "num_hidden_layers": 1});
    assert!(build(&config, &Options::default()).expect("a class").name().starts_with("xlm-roberta"));
    assert!(build(&json!({"architectures": ["Gemma2ForCausalLM"]}), &Options::default()).is_ok());
}

#[test]
fn unknown_networks_are_refused_with_what_is_known() {
    for (config, word) in [
        (json!({"model_type": "mamba"}), "`mamba`"),
        (json!({"model_type": "llava", "text_config": {}, "vision_config": {}}), "text_config and vision_config"),
        (json!({"architectures": ["Mamba2ForCausalLM"]}), "`Mamba2ForCausalLM`"),
        (json!({"hidden_size": 8}), "`none`"),
        (json!({"model_type": 3}), "`none`"),
    ] {
        let error = build(&config, &Options::default()).expect_err("unknown").to_string();
        assert!(error.contains(word) && error.contains("xlnet") && error.contains("plimsoll_gpu.capture"), "{error}");
        assert!(error.starts_with("config.json"), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_field_is_said() {
    let huge = 1_u64 << 40;
    for (fields, word) in [
        (json!({"hidden_size": "wide"}), "`hidden_size`"),
        (json!({"hidden_size": huge}), "16777216"),
        (json!({"hidden_size": -32}), "-32"),
        (json!({"hidden_size": 32.5}), "32.5"),
        (json!({"hidden_size": 0}), "`hidden_size`"),
        (json!({"hidden_size": [32]}), "[32]"),
        (json!({"num_hidden_layers": 1_000_000_000}), "`num_hidden_layers`"),
        (json!({"num_attention_heads": 3}), "divisor of the width 32"),
        (json!({"num_attention_heads": huge}), "`num_attention_heads`"),
        (json!({"num_key_value_heads": 3}), "divisor of the 4"),
        (json!({"num_key_value_heads": 8}), "divisor of the 4"),
        (json!({"head_dim": 7}), "even"),
        (json!({"hidden_act": "xielu"}), "gelu_new"),
        (json!({"attention_dropout": 1.5}), "0 to 1"),
        (json!({"attention_dropout": "some"}), "`attention_dropout`"),
        (json!({"attention_bias": "yes"}), "true or false"),
        (json!({"tie_word_embeddings": 1}), "true or false"),
        (json!({"quantization_config": {"bits": 4}}), "`quantization_config`"),
        (
            json!({"num_hidden_layers": 1000, "intermediate_size": 1 << 24, "hidden_size": 1 << 24}),
            "number of parameters",
        ),
    ] {
        let started = Instant::now();
        let error = build(&llama(&fields), &Options::default()).expect_err(&fields.to_string()).to_string();
        assert!(error.contains(word), "{fields}: {error}");
        assert!(started.elapsed().as_secs() < 2, "{fields} took {:?}", started.elapsed());
    }
    let tokens = Options { tokens: Some(u64::MAX), ..Options::default() };
    assert!(build(&llama(&json!({})), &tokens).is_err());
    for text in ["", "[]", "{", "\"bert\"", "{\"model_type\": \"bert\", \"hidden_size\": 1e999}"] {
        assert!(huggingface::parse(text, "test", &Options::default()).is_err(), "{text}");
    }
    assert!(huggingface::parse(&"[".repeat(1_000_000), "test", &Options::default()).is_err());
}

#[test]
fn other_families_refuse_what_they_cannot_be_too() {
    for config in [
        json!({"model_type": "gemma2", "layer_types": ["full_attention"]}),
        json!({"model_type": "qwen2", "layer_types": "full_attention"}),
        json!({"model_type": "gpt2", "add_cross_attention": true}),
        json!({"model_type": "bert", "pruned_heads": {"0": [1]}}),
        json!({"model_type": "bert", "id2label": []}),
        json!({"model_type": "gpt_neox", "rotary_pct": 0.0}),
        json!({"model_type": "gpt_neox", "rotary_pct": 2.0}),
        json!({"model_type": "t5", "feed_forward_proj": "gated-maxout"}),
        json!({"model_type": "vit", "patch_size": 300}),
        json!({"model_type": "vit", "image_size": [224]}),
        json!({"model_type": "vit", "image_size": [224, "224"]}),
        json!({"model_type": "whisper", "decoder_attention_heads": 5}),
        json!({"model_type": "xlnet", "attn_type": "tri"}),
        json!({"model_type": "albert", "num_hidden_groups": 13}),
        json!({"model_type": "albert", "num_hidden_layers": 1000, "inner_group_num": 1000}),
    ] {
        assert!(build(&config, &Options::default()).is_err(), "{config}");
    }
}

/// Fixtures of small networks.
static SMALL: LazyLock<Vec<(String, Value)>> =
    LazyLock::new(|| fixtures().into_iter().filter(|(name, _)| name.starts_with("small-")).collect());

/// One change to a configuration.
#[derive(Debug, Clone)]
enum Damage {
    Drop(usize),
    Set(usize, Value),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u64..70).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0.0..1.0).prop_map(Value::from),
        "[a-z_]{0,9}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([3, 5])),
        Just(json!({"0": "A", "1": "B", "2": "C"})),
    ];
    let damage = prop_oneof![
        any::<usize>().prop_map(Damage::Drop),
        (any::<usize>(), value).prop_map(|(at, v)| Damage::Set(at, v))
    ];
    prop::collection::vec(damage, 1..4)
}

fn damaged(config: &Map<String, Value>, damages: Vec<Damage>) -> Value {
    let mut config = config.clone();
    for damage in damages {
        let keys: Vec<String> = config.keys().cloned().collect();
        let (Damage::Drop(at) | Damage::Set(at, _)) = damage;
        let Some(key) = keys.get(at % keys.len().max(1)) else { continue };
        match damage {
            Damage::Drop(_) => drop(config.remove(key)),
            Damage::Set(_, value) => drop(config.insert(key.clone(), value)),
        }
    }
    Value::Object(config)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damaged_configurations_give_a_graph_or_an_error(
        which in any::<prop::sample::Index>(),
        damages in damages(),
        tokens in prop::option::of(0_u64..40),
        head in prop::option::of(0..Head::ALL.len()),
        (eager_attention, half_precision) in any::<(bool, bool)>(),
    ) {
        let (_, fixture) = which.get(&SMALL);
        let config = damaged(fixture["config"].as_object().expect("an object"), damages);
        let head = head.map(|index| Head::ALL[index]);
        let options = Options { tokens, target_tokens: tokens, head, eager_attention, half_precision };
        if let Ok(graph) = build(&config, &options) {
            prop_assert!(!graph.nodes().is_empty());
            prop_assert!(json::parse(&json::write(&graph), "own").expect("own text parses") == graph);
        }
    }
}

/// Run it alone: `cargo test --release -p plimsoll-graph --test huggingface -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, and meaningless without optimisation"]
#[expect(clippy::print_stderr, reason = "the measurement is the point")]
fn eighty_layers_take_twenty_milliseconds() {
    let fixtures = fixtures();
    let (_, fixture) = fixtures.iter().find(|(name, _)| name == "llama-2-70b").expect("a fixture");
    let text = fixture["config"].to_string();
    for eager_attention in [false, true] {
        let options = Options { eager_attention, ..Options::default() };
        // The best of several: the machine may have other things to do.
        let timed = (0..20).map(|_| {
            let start = Instant::now();
            let nodes = huggingface::parse(&text, "test", &options).expect("a configuration").nodes().len();
            (start.elapsed(), nodes)
        });
        let (elapsed, nodes) = timed.min().expect("several");
        eprintln!("{nodes} nodes in {elapsed:?}");
        assert!(elapsed.as_millis() < 20, "{elapsed:?}");
    }
}
