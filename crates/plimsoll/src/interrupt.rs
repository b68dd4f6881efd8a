//! Ctrl-C ends work at the next safe place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Exit code of a program that an interrupt ended.
const INTERRUPTED: i32 = 130;
/// How long loops have to come to a safe place. What waits for a file or a pipe looks at no flag.
const GRACE: Duration = Duration::from_secs(3);

/// Listens for Ctrl-C and termination; a second one, or time running out, ends the program.
pub(crate) fn listen() {
    // A handler can be set once per process; where that fails the default one stays, which is to die.
    let _ = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
        // Files get their names only when they are complete, so an end at any moment loses nothing.
        std::thread::spawn(|| {
            std::thread::sleep(GRACE);
            std::process::exit(INTERRUPTED);
        });
    });
}

/// Whether the user asked to stop.
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
