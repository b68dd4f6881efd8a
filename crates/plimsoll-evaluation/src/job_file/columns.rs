//! The columns of a file of jobs.

use plimsoll_dataset::UTILISATION;
use polars::prelude::{Column, NamedFrom, Series};

use super::{EstimatedJob, JobRow};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Whole,
    Number,
}

/// Names and kinds of the columns, in order.
pub(super) const NAMES: [(&str, Kind); 25] = [
    ("id", Kind::Text),
    ("architecture", Kind::Text),
    ("gpu", Kind::Text),
    ("capacity_mib", Kind::Number),
    ("batch_size", Kind::Whole),
    ("precision", Kind::Text),
    ("optimizer", Kind::Text),
    ("label", Kind::Text),
    ("peak_memory_mib", Kind::Number),
    ("bound_p50_mib", Kind::Number),
    ("bound_p90_mib", Kind::Number),
    ("bound_p95_mib", Kind::Number),
    ("bound_p99_mib", Kind::Number),
    ("probability_fits", Kind::Number),
    ("ood", Kind::Number),
    ("spike_risk", Kind::Number),
    ("simulated_peak_mib", Kind::Number),
    ("gputl_pct", Kind::Number),
    ("gract", Kind::Number),
    ("smact", Kind::Number),
    ("smocc", Kind::Number),
    ("fp32a", Kind::Number),
    ("drama", Kind::Number),
    ("warnings", Kind::Text),
    ("rejected", Kind::Text),
];

/// One field of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Text(String),
    Whole(u64),
    Number(f64),
    Empty,
}

impl Cell {
    /// As CSV shows it; nothing stays empty.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Empty => String::new(),
        }
    }

    fn number(value: Option<f64>) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Empty, Self::Number)
    }
}

/// The fields of a row in the order of [`NAMES`].
pub(super) fn cells(row: &JobRow) -> [Cell; NAMES.len()] {
    let mut cells = [const { Cell::Empty }; NAMES.len()];
    cells[0] = Cell::Text(row.id.clone());
    match &row.job {
        Ok(job) => {
            for (cell, value) in cells[1..].iter_mut().zip(of_job(job)) {
                *cell = value;
            }
        }
        Err(reason) => cells[NAMES.len() - 1] = Cell::Text(reason.clone()),
    }
    cells
}

/// The fields of an estimate, between `id` and `rejected`.
fn of_job(job: &EstimatedJob) -> impl Iterator<Item = Cell> {
    let estimate = &job.estimate;
    let bounds = estimate.bounds.map(plimsoll_model::Bounds::to_array);
    let text = |text: &str| Cell::Text(text.to_owned());
    let setup = [
        text(&job.architecture),
        text(&job.gpu),
        Cell::number(Some(job.capacity_mib)),
        Cell::Whole(job.batch_size),
        text(job.precision),
        text(job.optimizer),
        text(job.label.name()),
        Cell::number(estimate.peak_memory_mib),
    ];
    let bounds: [Cell; 4] = std::array::from_fn(|level| Cell::number(bounds.map(|bounds| bounds[level])));
    let judgement = [
        Cell::number(job.probability_fits),
        Cell::number(Some(estimate.ood)),
        Cell::number(Some(job.spike_risk)),
        Cell::number(Some(job.simulated_mib)),
    ];
    let utilisation = UTILISATION.into_iter().zip(estimate.utilisation);
    let utilisation: Vec<Cell> =
        utilisation.map(|(target, ratio)| Cell::number(ratio.map(|ratio| ratio * target.per_ratio()))).collect();
    let warnings = if job.warnings.is_empty() { Cell::Empty } else { text(&job.warnings) };
    setup.into_iter().chain(bounds).chain(judgement).chain(utilisation).chain([warnings])
}

/// Rows as columns of a frame.
pub(super) fn series(rows: &[JobRow]) -> Vec<Column> {
    let rows: Vec<_> = rows.iter().map(cells).collect();
    let column = |(index, &(name, kind)): (usize, &(&str, Kind))| {
        let cells = rows.iter().map(|row| &row[index]);
        Column::from(match kind {
            Kind::Text => {
                let text = cells.map(|cell| if let Cell::Text(text) = cell { Some(text.as_str()) } else { None });
                Series::new(name.into(), text.collect::<Vec<_>>())
            }
            Kind::Whole => {
                let whole = cells.map(|cell| if let Cell::Whole(number) = cell { Some(*number) } else { None });
                Series::new(name.into(), whole.collect::<Vec<_>>())
            }
            Kind::Number => {
                let number = cells.map(|cell| if let Cell::Number(number) = cell { Some(*number) } else { None });
                Series::new(name.into(), number.collect::<Vec<_>>())
            }
        })
    };
    NAMES.iter().enumerate().map(column).collect()
}
