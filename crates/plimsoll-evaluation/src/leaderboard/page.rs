//! The leaderboard as one page, and as Markdown.

use std::path::Path;

use plimsoll_dataset::Target;

use super::{ALL_FAMILIES, Leaderboard, LeaderboardRow, chart};
use crate::error::Result;
use crate::replace_file::replace_text;
use crate::report::document::{Block, Figure};
use crate::report::{html, markdown, words};

const TITLE: &str = "Plimsoll: leaderboard";

const INTRODUCTION: &str = "Every estimator on every set. Each section is over rows that no fit behind its figures has \
    seen. Only rows of one table can be compared: they share data, split and label definition. Latency is the time of one \
    estimate of a workload whose features are known, by itself.";

impl Leaderboard {
    /// The leaderboard as one HTML page that needs no other file: a drawing and a ranking for each set.
    ///
    /// # Errors
    /// A drawing that fails.
    pub fn html(&self) -> Result<String> {
        Ok(html::page(TITLE, &self.blocks()?))
    }

    /// Writes the page, and beside it its tables as Markdown, in a file of the same name with the extension `md`.
    ///
    /// # Errors
    /// A drawing that fails; files that cannot be written.
    pub fn write_page(&self, path: &Path) -> Result<()> {
        let mut blocks = self.blocks()?;
        replace_text(path, &html::page(TITLE, &blocks))?;
        // Drawings are on the page alone.
        blocks.retain(|block| !matches!(block, Block::Drawing(_)));
        replace_text(&path.with_extension("md"), &markdown::page(TITLE, &blocks))
    }

    fn blocks(&self) -> Result<Vec<Block>> {
        let mut blocks = vec![Block::Text(INTRODUCTION.to_owned())];
        let rows: Vec<&LeaderboardRow> = self.rows().collect();
        for set in rows.chunk_by(|one, other| set_of(one) == set_of(other)) {
            blocks.extend(self.section(set)?);
        }
        blocks.push(Block::Heading { level: 2, text: "How to read the numbers".to_owned() });
        blocks.push(Block::Facts(words::GLOSSARY.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec()));
        Ok(blocks)
    }

    /// One set: memory over all families as a drawing and a table, all else folded away.
    fn section(&self, set: &[&LeaderboardRow]) -> Result<Vec<Block>> {
        let first = set[0];
        let whole = |row: &LeaderboardRow| row.target == Target::PeakMemory && row.family == ALL_FAMILIES;
        let tables = |wanted: &dyn Fn(&LeaderboardRow) -> bool| -> Vec<Block> {
            let tables = self.tables(|row| set_of(row) == set_of(first) && wanted(row));
            tables.into_iter().map(Block::Table).collect()
        };
        let mut blocks =
            vec![Block::Heading { level: 2, text: format!("{}: {} ({})", first.data, first.split, first.label) }];
        let rows: Vec<&LeaderboardRow> = set.iter().copied().filter(|row| whole(row)).collect();
        if rows.iter().any(|row| row.median_ape_pct.is_some()) {
            blocks.push(Block::Drawing(Figure {
                title: "Error of peak memory by estimator".to_owned(),
                caption: format!(
                    "{}. Bars are medians of the absolute percentage error, dots its mean, lines their 95 % bootstrap \
                     intervals.",
                    words::origin(&first.data, &first.split, &first.label)
                ),
                svg: chart::draw(&rows)?,
                legend: chart::legend(),
            }));
        }
        blocks.extend(tables(&whole));
        let families = tables(&|row| row.target == Target::PeakMemory && row.family != ALL_FAMILIES);
        let utilisation = tables(&|row| row.target != Target::PeakMemory && row.family == ALL_FAMILIES);
        for (summary, blocks_of) in [("Peak memory by family", families), ("Utilisation", utilisation)] {
            if !blocks_of.is_empty() {
                blocks.push(Block::Fold { summary: summary.to_owned(), blocks: blocks_of });
            }
        }
        Ok(blocks)
    }
}

/// What rows have to share to be compared.
fn set_of(row: &LeaderboardRow) -> (&str, &str, &str) {
    (&row.data, &row.split, &row.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaderboard::{Cost, RunName};
    use crate::prediction::tests::row;
    use crate::scores::{ScoreContext, Scores};

    fn board() -> Leaderboard {
        let mut leaderboard = Leaderboard::default();
        for (estimator, factor) in [("<mlp>", 1.01), ("horus", 3.0), ("perfect", 1.0)] {
            let mut rows =
                [("a:1", 1000.0), ("a:2", 2000.0), ("a:3", 4000.0)].map(|(id, mib)| row(id, mib, mib * factor));
            for row in &mut rows {
                estimator.clone_into(&mut row.estimator);
            }
            for split in ["5-fold by row", "all rows, held out whole"] {
                let scores = Scores::of(&rows, &ScoreContext::new("published", split));
                leaderboard.merge(LeaderboardRow::of(RunName { id: "r1", config: "c" }, &scores, Cost::default()));
            }
        }
        leaderboard
    }

    #[test]
    fn each_set_has_its_drawing_and_its_ranking() {
        let html = board().html().expect("drawn");
        assert_eq!(html.matches("<svg ").count(), 2, "one a set");
        for text in ["5-fold by row", "held out whole", "&lt;mlp&gt;", "horus", "95 % bound holds", "200.00"] {
            assert!(html.contains(text) || html.contains(&text.replace(" %", "&nbsp;%")), "{text}");
        }
        assert!(!html.contains("<mlp>") && !html.contains("NaN") && !html.contains("<script"));
    }

    #[test]
    fn the_page_has_its_tables_beside_it_as_markdown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("leaderboard.html");
        board().write_page(&path).expect("written");
        let markdown = std::fs::read_to_string(folder.path().join("leaderboard.md")).expect("beside it");
        assert!(markdown.contains("| 1 | perfect |") && markdown.contains("| 3 | horus |"), "{markdown}");
        assert!(std::fs::read_to_string(path).expect("written").starts_with("<!DOCTYPE html>"));
    }

    #[test]
    fn an_empty_board_is_a_page_too() {
        assert!(Leaderboard::default().html().expect("a page").contains("</html>"));
    }
}
