//! Reports: what was estimated, how well, and on which rows, as Markdown and as one HTML page.

mod assemble;
pub(crate) mod document;
mod figures;
pub(crate) mod html;
pub(crate) mod markdown;
mod metric;
pub(crate) mod plot;
mod row_tables;
mod score_tables;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_dataset::Rejection;

use crate::error::Result;
use crate::leaderboard::Leaderboard;
use crate::prediction::Prediction;
use crate::replace_file::replace_text;
use crate::scores::ScoreContext;

/// Where the rows of a report come from, and what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataDescription {
    /// Name of the data set.
    pub name: String,
    /// What it is, in a sentence; may be empty.
    pub text: String,
    /// Rows used.
    pub accepted: usize,
    /// Rows that could not be used, by reason.
    pub rejected: BTreeMap<String, usize>,
    /// Rows used that ran out of memory.
    pub censored: usize,
}

impl DataDescription {
    /// Counts rejections by their reason.
    pub fn new(name: impl Into<String>, accepted: usize, rejections: &[Rejection], censored: usize) -> Self {
        let mut rejected = BTreeMap::new();
        for rejection in rejections {
            *rejected.entry(rejection.reason.clone()).or_insert(0) += 1;
        }
        Self { name: name.into(), text: String::new(), accepted, rejected, censored }
    }
}

/// Predictions of one or several estimators on one data set and split.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What the section is about; may be empty.
    pub text: String,
    /// Data, split and how to score.
    pub context: ScoreContext,
    /// All predictions. The estimator that comes first leads: its numbers stand out.
    pub predictions: Vec<Prediction>,
}

impl Section {
    /// A section without a text.
    pub fn new(title: impl Into<String>, context: ScoreContext, predictions: Vec<Prediction>) -> Self {
        Self { title: title.into(), text: String::new(), context, predictions }
    }
}

/// Everything that a report shows. The same contents give the same files, byte for byte.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// Which run it is of.
    pub run_id: String,
    /// When it was made, if the page should say so; nothing looks at the clock.
    pub created: Option<String>,
    /// The configuration, as it stood in its file.
    pub config: String,
    /// The data sets.
    pub data: Vec<DataDescription>,
    /// The parts, in order.
    pub sections: Vec<Section>,
    /// Scores of this and other runs; over all families only.
    pub leaderboard: Option<Leaderboard>,
}

/// The files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFiles {
    /// `report.md`.
    pub markdown: PathBuf,
    /// `report.html`.
    pub html: PathBuf,
}

impl Report {
    /// The report as Markdown, without its figures.
    pub fn markdown(&self) -> Result<String> {
        Ok(markdown::page(&self.title, &assemble::blocks(self)?))
    }

    /// The report as one HTML page that needs no other file.
    pub fn html(&self) -> Result<String> {
        Ok(html::page(&self.title, &assemble::blocks(self)?))
    }

    /// Writes `report.md` and `report.html` into a folder, which is made if there is none.
    pub fn write(&self, folder: &Path) -> Result<ReportFiles> {
        let blocks = assemble::blocks(self)?;
        let files = ReportFiles { markdown: folder.join("report.md"), html: folder.join("report.html") };
        replace_text(&files.markdown, &markdown::page(&self.title, &blocks))?;
        replace_text(&files.html, &html::page(&self.title, &blocks))?;
        Ok(files)
    }
}
