//! Any text as a printed layer summary.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = plimsoll_graph::summary::parse(text, "fuzz");
});
