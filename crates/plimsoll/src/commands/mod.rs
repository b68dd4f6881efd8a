//! One module a command.

mod adapt;
mod compare;
mod convert;
mod estimate;
mod estimate_jobs;
mod evaluate;
mod explain;
mod export;
mod featurize;
mod fit;
mod fit_batch;
mod fit_workspaces;
mod generate;
mod gpus;
mod ingest;
mod leaderboard;
mod load;
mod replace;
mod report;
mod run;
mod source;
mod worker;
mod zoo;

use anyhow::Result;

use crate::cli::Command;
use crate::interrupt;

/// Runs a command.
pub(crate) fn dispatch(command: Command) -> Result<()> {
    interrupt::listen();
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Estimate(arguments) => estimate::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::FitBatch(arguments) => fit_batch::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Zoo(arguments) => zoo::run(&arguments),
        Command::Ingest(arguments) => ingest::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Featurize(arguments) => featurize::run(&arguments),
        Command::Fit(arguments) => fit::run(&arguments),
        Command::FitWorkspaces(arguments) => fit_workspaces::run(&arguments),
        Command::Evaluate(arguments) => evaluate::run(&arguments),
        Command::Adapt(arguments) => adapt::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Leaderboard(arguments) => leaderboard::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Gpus(arguments) => gpus::run(&arguments),
        Command::Worker(arguments) => worker::run(&arguments),
    }
}
