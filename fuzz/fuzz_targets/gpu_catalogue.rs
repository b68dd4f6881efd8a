//! Any text as a user's GPU file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = plimsoll_graph::GpuCatalogue::parse(text, "fuzz");
});
