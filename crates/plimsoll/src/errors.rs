//! Errors as a person reads them: what went wrong, then at most one hint.

use std::process::ExitCode;

use plimsoll_dataset::DatasetError;
use plimsoll_graph::GraphError;
use plimsoll_model::ModelError;
use plimsoll_onnx::OnnxError;
use plimsoll_zoo::ZooError;

/// Prints an error once and gives the exit code.
#[expect(clippy::print_stderr, reason = "the one place where errors are printed")]
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // A reader that closed the pipe (`| head`) has seen enough.
    if error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    }) {
        return ExitCode::SUCCESS;
    }
    let mut text = error.to_string();
    for cause in error.chain().skip(1).filter(|cause| !cause.is::<Hint>()) {
        let cause = cause.to_string();
        // Wrapped errors often repeat their source.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    eprintln!("error: {text}");
    if let Some(hint) = hint(error) {
        eprintln!("hint: {hint}");
    }
    // Wrong arguments are told from jobs that could not be done, wherever they are noticed.
    let is_usage = error.chain().any(<dyn std::error::Error>::is::<Usage>);
    ExitCode::from(if is_usage { 2 } else { 1 })
}

/// What to try next, where there is one thing to try.
fn hint(error: &anyhow::Error) -> Option<String> {
    for cause in error.chain() {
        if let Some(Hint(hint)) = cause.downcast_ref::<Hint>() {
            return Some(hint.clone());
        }
        if let Some(Usage { hint, .. }) = cause.downcast_ref::<Usage>() {
            return Some(hint.clone());
        }
        if let Some(error) = cause.downcast_ref::<ZooError>() {
            return match error {
                ZooError::Unknown { .. } => Some("`plimsoll zoo TEXT` searches the zoo".into()),
                _ => None,
            };
        }
        if let Some(error) = cause.downcast_ref::<OnnxError>() {
            return error.hint();
        }
        if let Some(error) = cause.downcast_ref::<GraphError>() {
            return match error {
                GraphError::Unknown { what: "GPU", .. } => {
                    Some("`plimsoll gpus` lists the catalogue; `--gpu-file` adds your own".into())
                }
                GraphError::TooLarge { .. } => Some("graph files hold shapes only: weights do not belong there".into()),
                GraphError::Malformed { expected, .. } if expected.contains("[[gpu]]") => {
                    Some("`plimsoll gpus --template` prints an entry".into())
                }
                GraphError::Malformed { expected, .. } if expected.contains("plimsoll_gpu.capture") => {
                    Some("docs/huggingface.md says what is read".into())
                }
                GraphError::Malformed { .. } => Some("docs/graph-format.md describes the format".into()),
                _ => None,
            };
        }
        if let Some(error) = cause.downcast_ref::<DatasetError>() {
            return match error {
                DatasetError::Rejected { .. } => {
                    Some("without `--strict` rejected rows are counted and left out".into())
                }
                DatasetError::Layout { .. } => Some("`--format` names the layout where it cannot be told".into()),
                DatasetError::Schema { .. } => Some("run `plimsoll featurize` again on the measurements".into()),
                _ => None,
            };
        }
        if let Some(error) = cause.downcast_ref::<ModelError>() {
            return match error {
                ModelError::Interrupted { .. } => Some("the same command goes on where it stopped".into()),
                ModelError::Schema { .. } => {
                    Some("fit it again with this version, or use the version that made it".into())
                }
                ModelError::Diverged { .. } => Some("lower training.learning_rate".into()),
                _ => None,
            };
        }
    }
    None
}

/// A hint attached to an error as context.
#[derive(Debug)]
pub(crate) struct Hint(pub(crate) String);

impl std::fmt::Display for Hint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hint {}

/// Arguments that a command cannot work with, and what to say instead.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) what: String,
    pub(crate) hint: String,
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Usage {}
