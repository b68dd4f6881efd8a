//! `plimsoll fit`

use anyhow::Result;

use super::run;
use crate::cli::FitArguments;
use crate::config::Config;
use crate::output;

/// Fits one estimator to all data of a config, but for the validation part.
pub(super) fn run(arguments: &FitArguments) -> Result<()> {
    let config = Config::read(&arguments.config)?;
    let named = config.estimator(arguments.estimator.as_deref())?;
    let learned = run::fit_one(&config, named, &arguments.out)?;
    let description = learned.description();
    output::line(format!(
        "{} fitted to {} rows ({} out of memory), {} weights -> {}",
        named.name,
        description.data.training_rows,
        description.data.censored_rows,
        description.parameters,
        arguments.out.display()
    ))
}
