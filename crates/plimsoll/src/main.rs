//! `plimsoll`: tells how much GPU memory a training job takes, and how hard it works the GPU, before it runs.
//!
//! The binary parses arguments and config files, shows progress, prints results and turns errors into exit codes.
//! Everything it does lives in the library crates.

mod cli;
mod commands;
mod config;
mod errors;
mod interrupt;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

// The default allocator gives freed pages back to the system and faults them in again at every training step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match cli::Cli::try_parse() {
        Ok(arguments) => arguments,
        // Help and version are answers; anything else about the arguments is a usage error, exit code 2.
        Err(error) => error.exit(),
    };
    match commands::dispatch(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => errors::report(&error),
    }
}
