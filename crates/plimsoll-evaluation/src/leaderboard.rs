//! The scores of many runs in one CSV file.

mod bytes;
mod chart;
mod page;
mod ranking;
mod row;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

pub(crate) use row::ALL_FAMILIES;
use row::{COLUMNS, Key};
pub use row::{Cost, LeaderboardRow, RunName};

use crate::error::{EvaluationError, Result};
use crate::replace_file::{folder_of, replace_file};

/// Scores of many runs, sorted, each (run, estimator, data, split, label, target, family) once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Leaderboard {
    rows: BTreeMap<Key, LeaderboardRow>,
}

impl Leaderboard {
    /// Reads a file; one that does not exist yet is an empty leaderboard.
    ///
    /// # Errors
    ///
    /// What is not a regular file or is larger than a leaderboard can be, other columns than this version writes, and
    /// any line that cannot be read: a leaderboard is never read in part.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = match bytes::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(EvaluationError::File { action: "read", path: path.to_owned(), source }),
        };
        let failed = |source| EvaluationError::Csv { action: "read", path: path.to_owned(), source };
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let headers = reader.headers().map_err(failed)?;
        if !headers.iter().eq(COLUMNS) {
            let found: Vec<_> = headers.iter().collect();
            return Err(EvaluationError::Layout {
                path: path.to_owned(),
                expected: format!("the columns {}", COLUMNS.join(",")),
                found: if found.is_empty() { "no heading".to_owned() } else { bytes::shortened(&found.join(",")) },
            });
        }
        let mut leaderboard = Self::default();
        for row in reader.deserialize() {
            leaderboard.merge([row.map_err(failed)?]);
        }
        Ok(leaderboard)
    }

    /// Adds rows; those of the same run, estimator, data, split, label, target and family are replaced.
    ///
    /// Runs that say the same of the same rows share a row: that of the run whose id comes first.
    pub fn merge(&mut self, rows: impl IntoIterator<Item = LeaderboardRow>) {
        for row in rows {
            let key = row.key();
            let twin = self.rows.range(key.first_of_its_runs()..).take_while(|(other, _)| other.is_beside(&key));
            let twin = twin.filter(|(other, _)| **other != key).find(|(_, other)| other.says_what(&row));
            match twin.map(|(twin, _)| twin.clone()) {
                Some(twin) if twin < key => {
                    self.rows.remove(&key);
                    continue;
                }
                Some(twin) => self.rows.remove(&twin),
                None => None,
            };
            self.rows.insert(key, row);
        }
    }

    /// Writes the file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        replace_file(path, |file| {
            let failed = |source| EvaluationError::Csv { action: "write", path: path.to_owned(), source };
            let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(file);
            writer.write_record(COLUMNS).map_err(failed)?;
            for row in self.rows.values() {
                writer.serialize(row).map_err(failed)?;
            }
            writer.flush().map_err(|source| failed(source.into()))
        })
    }

    /// Reads the file, adds rows and writes it back; returns what it now holds.
    ///
    /// A file that cannot be read is an error and stays as it is. Runs that end at the same time wait for each other.
    pub fn update(path: &Path, rows: impl IntoIterator<Item = LeaderboardRow>) -> Result<Self> {
        let folder = folder_of(path);
        std::fs::create_dir_all(folder).map_err(|source| EvaluationError::File {
            action: "create",
            path: folder.to_owned(),
            source,
        })?;
        // The folder is locked, not the file: the file is replaced, and a lock on the old one would guard nothing.
        // Where folders cannot be opened or locked, runs go on without waiting.
        let guard = File::open(folder).ok();
        let _ = guard.as_ref().map(File::lock);
        let mut leaderboard = Self::read(path)?;
        leaderboard.merge(rows);
        leaderboard.write(path)?;
        Ok(leaderboard)
    }

    /// The rows, sorted.
    pub fn rows(&self) -> impl Iterator<Item = &LeaderboardRow> {
        self.rows.values()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::tests::row;
    use crate::scores::{ScoreContext, Scores};

    fn rows(run_id: &str, estimated_mib: f64) -> Vec<LeaderboardRow> {
        let predictions = [row("a:1", 1000.0, estimated_mib), row("a:2", 2000.0, 2000.0)];
        let scores = Scores::of(&predictions, &ScoreContext::new("published, all", "test"));
        LeaderboardRow::of(
            RunName { id: run_id, config: "test" },
            &scores,
            Cost { size_bytes: Some(1024), latency_ms: None },
        )
    }

    #[test]
    fn a_run_again_replaces_its_rows_and_other_runs_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("runs").join("leaderboard.csv");
        Leaderboard::update(&path, rows("r2", 1100.0)).expect("updated");
        Leaderboard::update(&path, rows("r1", 1200.0)).expect("updated");
        let leaderboard = Leaderboard::update(&path, rows("r2", 1300.0)).expect("updated");
        let found: Vec<_> =
            leaderboard.rows().map(|row| (row.run_id.as_str(), row.family.as_str(), row.median_ape_pct)).collect();
        assert_eq!(
            found,
            [
                ("r1", "all", Some(10.0)),
                ("r2", "all", Some(15.0)),
                ("r1", "cnn", Some(10.0)),
                ("r2", "cnn", Some(15.0))
            ]
        );
        assert_eq!(Leaderboard::read(&path).expect("readable"), leaderboard);
    }

    #[test]
    fn the_order_of_runs_does_not_change_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, order: [&str; 2]| {
            let path = folder.path().join(name);
            for run in order {
                let estimate = if run == "r1" { 1100.0 } else { 1200.0 };
                Leaderboard::update(&path, rows(run, estimate)).expect("updated");
            }
            std::fs::read(path).expect("readable")
        };
        assert_eq!(write("one.csv", ["r1", "r2"]), write("two.csv", ["r2", "r1"]));
    }

    #[test]
    fn a_bad_file_is_an_error_and_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("leaderboard.csv");
        let heading = COLUMNS.join(",");
        for bad in [
            "estimator,score\nmlp,1\n".to_owned(),
            String::new(),
            ",".repeat(2_000_000),
            format!("{heading}\n{}", ",".repeat(2_000_000)),
            ",".repeat(10_000),
            format!("{heading}\nr1,mlp,data\n"),
            format!("{heading}\nr1,c,mlp,d,s,l,peak_memory_mib,all,many{}\n", ",".repeat(24)),
        ] {
            std::fs::write(&path, &bad).expect("written");
            let error = Leaderboard::update(&path, rows("r1", 1100.0)).expect_err("refused").to_string();
            assert!(error.contains("leaderboard.csv"), "{error}");
            assert!(error.len() < 5_000, "{} bytes", error.len());
            assert_eq!(std::fs::read_to_string(&path).expect("readable"), bad);
        }
    }

    #[test]
    fn runs_at_the_same_time_lose_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("leaderboard.csv");
        std::thread::scope(|scope| {
            for run in 0..8 {
                let path = &path;
                let rows = rows(&format!("r{run}"), 1100.0 + f64::from(run));
                scope.spawn(move || Leaderboard::update(path, rows).expect("updated"));
            }
        });
        assert_eq!(Leaderboard::read(&path).expect("readable").rows().count(), 16);
    }

    #[test]
    fn what_several_runs_say_alike_is_said_once() {
        let twins = |order: [&str; 3]| {
            let mut leaderboard = Leaderboard::default();
            for run in order {
                leaderboard.merge(rows(run, 1100.0));
            }
            leaderboard
        };
        let leaderboard = twins(["r2", "r1", "r3"]);
        let found: Vec<_> = leaderboard.rows().map(|row| (row.run_id.as_str(), row.family.as_str())).collect();
        assert_eq!(found, [("r1", "all"), ("r1", "cnn")]);
        assert_eq!(leaderboard, twins(["r3", "r2", "r1"]));
        let mut changed = leaderboard;
        changed.merge(rows("r2", 1500.0));
        assert_eq!(changed.rows().count(), 4, "another figure is another row");
        changed.merge(rows("r2", 1100.0));
        assert_eq!(changed.rows().count(), 2, "a run that comes to agree has no row of its own");
    }

    #[test]
    fn a_missing_file_is_empty() {
        assert!(Leaderboard::read(Path::new("no/such/leaderboard.csv")).expect("readable").is_empty());
    }
}
