//! Any text as a GPUMemNet configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = plimsoll_graph::gpumemnet::alternatives(text);
});
