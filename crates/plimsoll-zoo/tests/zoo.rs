//! Packing, finding and opening, and what happens to damaged and hostile containers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use plimsoll_graph::json;
use plimsoll_zoo::{Library, Zoo, ZooError, pack};
use proptest::prelude::*;
use tempfile::TempDir;

/// Library, name and file of the small zoo.
const GRAPHS: [(&str, &str, &str); 5] = [
    ("timm", "resnet50", "resnet50"),
    ("timm", "efficientnet_b0", "efficientnet_b0"),
    ("torchvision", "resnet50", "mobilenet_v2"),
    ("torchvision", "vgg16", "vgg16"),
    ("hf", "gpt2-large", "gpt2-large"),
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/graphs/{name}.json"))
}

/// A folder as capturing leaves it.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (library, name, source) in GRAPHS {
        fs::create_dir_all(folder.path().join(library)).expect("created");
        fs::copy(file(source), folder.path().join(library).join(format!("{name}.json"))).expect("copied");
    }
    fs::write(folder.path().join("versions.json"), r#"{"torch": "2.15", "timm": "1.0.31"}"#).expect("written");
    fs::write(folder.path().join("timm/notes.txt"), "not a graph").expect("written");
    folder
}

static PACKED: LazyLock<Vec<u8>> = LazyLock::new(|| pack(folder().path(), |_, _| {}).expect("packs").bytes);

fn zoo() -> Zoo {
    Zoo::open(PACKED.clone(), "test").expect("opens")
}

#[test]
fn what_is_packed_comes_back() {
    let zoo = zoo();
    assert_eq!(zoo.entries().len(), GRAPHS.len());
    assert_eq!(zoo.versions()["timm"], "1.0.31");
    for (library, name, source) in GRAPHS {
        let entry = zoo.find(&format!("{library}/{name}")).expect("there");
        let graph = zoo.graph(entry).expect("opens");
        assert_eq!(graph, json::read(&file(source)).expect("a graph"));
        assert_eq!(entry.parameters, graph.parameter_count());
        assert_eq!(entry.operators, graph.nodes().len() as u64);
        assert_eq!(entry.inputs[0], graph.tensor(graph.inputs()[0]).shape);
    }
    let texts: u64 = GRAPHS.iter().map(|(_, _, source)| fs::metadata(file(source)).expect("there").len()).sum();
    assert!((PACKED.len() as u64) < texts / 8, "{} of {texts}", PACKED.len());
}

#[test]
fn the_same_graphs_give_the_same_bytes_whatever_their_layout() {
    let folder = folder();
    let path = folder.path().join("torchvision/vgg16.json");
    let text = fs::read_to_string(&path).expect("there");
    fs::write(&path, format!("\u{feff}\n {}", text.replace(",\"", " ,\n  \""))).expect("written");
    let mut heard = Vec::new();
    let packed = pack(folder.path(), |done, all| heard.push((done, all))).expect("packs");
    assert!(packed.bytes == *PACKED);
    assert_eq!((packed.graphs, heard.last()), (GRAPHS.len(), Some(&(GRAPHS.len(), GRAPHS.len()))));
    assert_eq!(Zoo::open(packed.bytes, "again").expect("opens").hash(), zoo().hash());
}

#[test]
fn a_name_alone_means_timm_first_and_spelling_is_forgiven() {
    let zoo = zoo();
    let found = |name: &str| zoo.find(name).expect("known").full_name();
    assert_eq!(found("resnet50"), "timm/resnet50");
    assert_eq!(found("torchvision/resnet50"), "torchvision/resnet50");
    assert_eq!(found("vgg16"), "torchvision/vgg16");
    assert_eq!(found("EfficientNet-B0"), "timm/efficientnet_b0");
    assert_eq!(found("HF/GPT2_large"), "hf/gpt2-large");
    for name in ["hf/resnet50", "nowhere/resnet50", "", "/", "resnet50/timm"] {
        assert!(matches!(zoo.find(name), Err(ZooError::Unknown { .. })), "{name}");
    }
    let error = zoo.find("resnt50").expect_err("unknown").to_string();
    assert!(error.contains("`resnt50`") && error.ends_with("did you mean `resnet50`?"), "{error}");
    let error = zoo.find("torchvision/vgg61").expect_err("unknown").to_string();
    assert!(error.contains("torchvision/vgg16"), "{error}");
}

#[test]
fn a_search_wants_every_word() {
    let zoo = zoo();
    let found = |text: &str| zoo.search(text).iter().map(|entry| entry.full_name()).collect::<Vec<_>>();
    assert_eq!(found("resnet"), ["timm/resnet50", "torchvision/resnet50"]);
    assert_eq!(found("Torchvision RES"), ["torchvision/resnet50"]);
    assert_eq!(found("transformer"), ["hf/gpt2-large"]);
    assert_eq!(found("").len(), GRAPHS.len());
    assert!(found("resnet hf").is_empty());
    assert_eq!(Library::from_name("hf"), Some(Library::HuggingFace));
}

#[test]
fn graphs_are_shared_while_someone_holds_them() {
    let zoo = zoo();
    let graph = zoo.graph_by_name("vgg16").expect("opens");
    assert!(Arc::ptr_eq(&graph, &zoo.graph_by_name("torchvision/vgg16").expect("opens")));
    let held = Arc::downgrade(&graph);
    drop(graph);
    assert!(held.upgrade().is_none());
    assert_eq!(zoo.graph_by_name("vgg16").expect("opens again").name(), "vgg16");
}

#[test]
fn a_folder_without_usable_graphs_is_refused_by_name() {
    let refused = |folder: &TempDir| pack(folder.path(), |_, _| {}).expect_err("refused").to_string();
    let empty = tempfile::tempdir().expect("temporary folder");
    assert!(refused(&empty).contains("torchvision"));
    let folder = folder();
    let path = folder.path().join("timm/broken.json");
    fs::write(&path, "{\"plimsoll_graph\": 1").expect("written");
    assert!(refused(&folder).contains("broken.json"));
    fs::rename(&path, folder.path().join("timm/a b.json")).expect("renamed");
    assert!(refused(&folder).contains("a b.json"));
    fs::remove_file(folder.path().join("timm/a b.json")).expect("removed");
    fs::write(folder.path().join("versions.json"), "[1]").expect("written");
    assert!(refused(&folder).contains("versions.json"));
}

#[test]
fn a_file_that_is_no_zoo_is_refused() {
    for bytes in [&b""[..], b"PLIMZOO", &[0; 4096], b"{\"plimsoll_graph\": 1}", &PACKED[..PACKED.len() / 2]] {
        assert!(matches!(Zoo::open(bytes.to_vec(), "test"), Err(ZooError::Damaged { .. })));
    }
    let mut longer = PACKED.clone();
    longer.push(0);
    assert!(Zoo::open(longer, "test").is_err());
    let mut newer = PACKED.clone();
    newer[7] = 9;
    assert!(Zoo::open(newer, "test").expect_err("refused").to_string().contains("layout 9"));
    let missing = Zoo::read(Path::new("no-such-zoo.bin")).expect_err("missing").to_string();
    assert!(missing.contains("no-such-zoo.bin"));
}

/// A container whose hashes are right and whose index says what a test wants.
fn forged(index: &str, groups: &[u8]) -> Vec<u8> {
    let compressed = zstd::bulk::compress(index.as_bytes(), 3).expect("compresses");
    let mut bytes = b"PLIMZOO\x01".to_vec();
    bytes.extend(blake3::hash(&compressed).as_bytes());
    bytes.extend((compressed.len() as u32).to_le_bytes());
    bytes.extend((index.len() as u32).to_le_bytes());
    bytes.extend(compressed);
    bytes.extend(groups);
    bytes
}

fn entry(name: &str, bytes: u64) -> String {
    format!(
        r#"{{"library":"timm","name":"{name}","family":"cnn","parameters":1,"operators":1,"inputs":[["batch",3]],"bytes":{bytes}}}"#
    )
}

#[test]
fn a_hostile_index_is_refused() {
    let group = zstd::bulk::compress(b"{}", 3).expect("compresses");
    let hash = blake3::hash(&group).to_hex();
    let index = |bytes: u64, hash: &str, graphs: &[String]| {
        format!(r#"{{"versions":{{}},"groups":[{{"bytes":{bytes},"hash":"{hash}","graphs":[{}]}}]}}"#, graphs.join(","))
    };
    let bytes = group.len() as u64;
    let good = index(bytes, &hash, &[entry("x", 2)]);
    let zoo = Zoo::open(forged(&good, &group), "test").expect("opens");
    assert!(zoo.graph_by_name("x").is_err(), "an empty object is no graph");
    for (index, word) in [
        (index(bytes, &hash, &[entry("x", u64::MAX), entry("y", 9)]), "bytes of text"),
        (index(bytes, &hash, &[entry("x", 2), entry("x", 0)]), "each once"),
        (index(bytes, &hash, &[entry("../x", 2)]), "letters"),
        (index(bytes + 1, &hash, &[entry("x", 2)]), "bytes"),
        (index(u64::MAX, &hash, &[entry("x", 2)]), "bytes"),
        (index(bytes - 1, &hash, &[entry("x", 2)]), "end"),
        (index(bytes, "none", &[entry("x", 2)]), "hash"),
        ("[".repeat(100_000), "index"),
        (String::new(), "index"),
    ] {
        let error = Zoo::open(forged(&index, &group), "test").expect_err("refused").to_string();
        assert!(error.contains(word), "{error}");
    }
    // Texts that are longer or shorter than said, or cut in the middle of a character.
    for lengths in [&[1][..], &[3], &[1 << 27], &[1, 0]] {
        let graphs: Vec<_> = lengths.iter().enumerate().map(|(at, bytes)| entry(&format!("n{at}"), *bytes)).collect();
        let zoo = Zoo::open(forged(&index(bytes, &hash, &graphs), &group), "test").expect("the index is whole");
        assert!(matches!(zoo.graph_by_name("n0"), Err(ZooError::Damaged { .. })));
    }
    // A bomb says its length, or is refused before it takes the memory.
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).expect("compresses");
    let hash = blake3::hash(&bomb).to_hex();
    let zoo = Zoo::open(forged(&index(bomb.len() as u64, &hash, &[entry("x", 100)]), &bomb), "test").expect("opens");
    assert!(matches!(zoo.graph_by_name("x"), Err(ZooError::Damaged { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_changed_byte_is_noticed(place in any::<prop::sample::Index>(), change in 1_u8..) {
        let mut bytes = PACKED.clone();
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        if let Ok(zoo) = Zoo::open(bytes, "test") {
            // The index is whole, so that a group is not.
            prop_assert!(zoo.entries().iter().any(|entry| zoo.graph(entry).is_err()));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Zoo::open(bytes.clone(), "test");
        let _ = Zoo::open([b"PLIMZOO\x01", &bytes[..]].concat(), "test");
    }
}
