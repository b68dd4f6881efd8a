//! The zoo that ships with Plimsoll.

use std::time::{Duration, Instant};

use plimsoll_graph::Family;
use plimsoll_zoo::{Library, Zoo};

#[test]
fn every_graph_opens_and_is_what_its_entry_says() {
    let zoo = Zoo::built_in();
    for entry in zoo.entries() {
        let graph = zoo.graph(entry).unwrap_or_else(|error| panic!("{}: {error}", entry.full_name()));
        let inputs: Vec<_> = graph.inputs().iter().map(|id| graph.tensor(*id).shape.clone()).collect();
        assert_eq!((graph.family(), inputs), (entry.family, entry.inputs.clone()), "{}", entry.full_name());
        assert!(!graph.outputs().is_empty() && graph.parameter_count() > 0, "{}", entry.full_name());
    }
}

#[test]
fn well_known_names_are_there() {
    let zoo = Zoo::built_in();
    assert_eq!(zoo.find("resnet50").expect("known").full_name(), "timm/resnet50");
    for (name, parameters) in [
        ("timm/resnet50", 25_557_032),
        ("torchvision/resnet50", 25_557_032),
        ("torchvision/vgg16", 138_357_544),
        ("timm/vit_base_patch16_224", 86_567_656),
    ] {
        assert_eq!(zoo.find(name).expect("known").parameters, parameters, "{name}");
    }
    for library in Library::ALL {
        assert!(zoo.entries().iter().any(|entry| entry.library == library), "{library:?}");
    }
    for family in [Family::Cnn, Family::Transformer] {
        assert!(zoo.entries().iter().filter(|entry| entry.family == family).count() > 40, "{family}");
    }
}

#[test]
fn opening_one_graph_reads_neither_all_of_them_nor_the_whole_file() {
    let zoo = Zoo::built_in();
    // The slowest of a few, on a machine that may be busy: all graphs together take minutes here.
    let started = Instant::now();
    for name in ["resnet50", "torchvision/vgg16"] {
        zoo.graph(zoo.find(name).expect("known")).expect("opens");
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
