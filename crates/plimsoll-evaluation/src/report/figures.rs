//! Figures of a section, each with what is needed to read it.

use plimsoll_dataset::{Target, UTILISATION};

use super::document::Figure;
use super::plot::{self, Colour, Series};
use super::words;
use crate::error::Result;

/// Figures of peak memory; `None` where no estimator has any to show.
pub(super) fn memory(origin: &str, series: &[Series<'_>]) -> Result<Option<Vec<Figure>>> {
    let target = Target::PeakMemory;
    let drawn: Vec<Series<'_>> = series.iter().filter(|series| series.count(target) > 0).cloned().collect();
    if drawn.is_empty() {
        return Ok(None);
    }
    // Every scatter has the same axes, so that estimators can be compared by eye.
    let range = range_mib(&drawn);
    let mut figures = Vec::new();
    for series in &drawn {
        figures.push(Figure {
            title: format!("{}: {}", words::title(target), series.name),
            caption: format!(
                "Estimated against measured. {origin}; n = {}. Grey: the diagonal and 10 % around it.",
                words::count(series.count(target))
            ),
            svg: plot::memory_scatter(series, range)?,
            legend: Vec::new(),
        });
    }
    let figure = |title: &str, note: &str, svg, series: &[Series<'_>]| Figure {
        title: title.to_owned(),
        caption: format!("{origin}. {note}"),
        svg,
        legend: legend(series),
    };
    let note = "Errors beyond the ends are in the outermost bins.";
    figures.push(figure("How errors are spread", note, plot::error_histogram(&drawn)?, &drawn));
    let note = "Solid: median; dashed: 90 % quantile.";
    figures.push(figure("Errors by size", note, plot::error_by_size(&drawn)?, &drawn));
    let spread: Vec<Series<'_>> =
        drawn.iter().map(Series::with_spread).filter(|series| !series.rows.is_empty()).collect();
    if !spread.is_empty() {
        let note = "Measured runs only. Above the diagonal, more runs fit than promised.";
        figures.push(figure("Calibration", note, plot::calibration(&spread)?, &spread));
    }
    Ok(Some(figures))
}

/// One figure for each utilisation metric that the estimator has.
pub(super) fn utilisation(origin: &str, series: &Series<'_>) -> Result<Vec<Figure>> {
    let known = UTILISATION.into_iter().map(|target| (target, series.count(target))).filter(|(_, n)| *n > 0);
    let figures = known.map(|(target, n)| {
        Ok(Figure {
            title: words::title(target).to_owned(),
            caption: format!(
                "{}: estimated against measured. {origin}; n = {}. Grey: the diagonal and a tenth of the scale around it.",
                series.name,
                words::count(n)
            ),
            svg: plot::utilisation_scatter(series, target)?,
            legend: Vec::new(),
        })
    });
    figures.collect()
}

/// The smallest and the largest value, measured or estimated, above zero.
fn range_mib(series: &[Series<'_>]) -> (f64, f64) {
    let target = Target::PeakMemory;
    let rows = series.iter().flat_map(|series| &series.rows);
    let pairs = rows.filter_map(|row| Some([row.measured(target)?, row.estimated(target)?]));
    let values = pairs.flatten().filter(|mib| *mib > 0.0);
    // Without any, the axes are at least axes.
    values
        .fold(None, |range: Option<(f64, f64)>, mib| {
            Some(range.map_or((mib, mib), |(low, high)| (low.min(mib), high.max(mib))))
        })
        .unwrap_or((1.0, 1024.0))
}

fn legend(series: &[Series<'_>]) -> Vec<(Colour, String)> {
    let name =
        |series: &Series<'_>| format!("{} (n = {})", series.name, words::count(series.count(Target::PeakMemory)));
    series.iter().map(|series| (series.colour, name(series))).collect()
}
