//! `plimsoll report`

use anyhow::Result;

use super::run::RunRecord;
use crate::cli::ReportArguments;
use crate::output;

/// Writes the report of a run again from what it left.
pub(super) fn run(arguments: &ReportArguments) -> Result<()> {
    let files = RunRecord::read(&arguments.run)?.report(&arguments.run)?.write(&arguments.run)?;
    output::line(files.markdown.display().to_string())?;
    output::line(files.html.display().to_string())
}
