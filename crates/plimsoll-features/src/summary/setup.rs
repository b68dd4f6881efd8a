//! How the workload is trained, and what family it is of.

use plimsoll_graph::{Family, Optimizer, Precision};

use super::{Entries, Subject, flag};
use crate::log;

/// The name of the flag of cuDNN's benchmark mode.
pub(super) const BENCHMARK: &str = "cudnn_benchmark";

pub(super) fn add(entries: &mut Entries, subject: Option<&Subject<'_>>) {
    let setup = subject.map(|subject| subject.workload.setup());
    entries.add("log_batch_size", log(setup.map_or(0, |setup| setup.batch_size)));
    entries.add("log_last_batch", log(setup.and_then(|setup| setup.last_batch).unwrap_or_default()));
    entries.add("log_startup_batch", log(setup.and_then(|setup| setup.startup_batch).unwrap_or_default()));
    entries.add("log_sequence_length", log(setup.and_then(|setup| setup.sequence_length).unwrap_or_default()));
    entries.add("log_input_size", log(setup.and_then(|setup| setup.input_size).unwrap_or_default()));
    entries.add("log_gradient_accumulation", log(setup.map_or(0, |setup| setup.gradient_accumulation - 1)));
    for (name, is_on) in [
        ("activation_checkpointing", setup.is_some_and(|setup| setup.activation_checkpointing)),
        (BENCHMARK, setup.is_some_and(|setup| setup.cudnn_benchmark)),
        ("expandable_segments", setup.is_some_and(|setup| setup.expandable_segments)),
        ("keeps_gradients", setup.is_some_and(|setup| setup.keeps_gradients)),
    ] {
        entries.add(name, flag(is_on));
    }
    for optimizer in Optimizer::ALL {
        let is_it = setup.is_some_and(|setup| setup.optimizer == optimizer);
        entries.add(format_args!("optimizer_{}", optimizer.name()), flag(is_it));
    }
    for precision in Precision::ALL {
        let is_it = setup.is_some_and(|setup| setup.precision == precision);
        entries.add(format_args!("precision_{}", precision.name()), flag(is_it));
    }
    let family = subject.map(|subject| subject.workload.graph().family());
    for known in Family::ALL {
        entries.add(format_args!("family_{known}"), flag(family == Some(known)));
    }
}
