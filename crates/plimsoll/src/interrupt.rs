//! Ctrl-C ends work at the next safe place.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Listens for Ctrl-C and termination; a second one ends the program at once.
pub(crate) fn listen() {
    // A handler can be set once per process; where that fails the default one stays, which is to die.
    let _ = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
}

/// Whether the user asked to stop.
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
