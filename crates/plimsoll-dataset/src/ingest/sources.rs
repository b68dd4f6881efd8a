//! Which files are meant by the paths given.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::format::Format;
use crate::error::{DatasetError, Result};

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// What ids begin with: the file's name, with as many folders before it as tell it from the other files.
    pub(super) name: String,
    /// Found by walking a folder, and not named by the caller.
    pub(super) found: bool,
}

impl Source {
    /// Whether the file holds one workload and no measurement.
    pub(super) fn is_workload(&self) -> bool {
        has_extension(&self.path, &["json", "txt"])
    }
}

/// Folders deeper than this are a circle.
const MAX_DEPTH: usize = 32;

/// The files behind paths, in order; tables of a folder before its workload files.
pub(super) fn find(paths: &[PathBuf], format: Option<Format>) -> Result<Vec<Source>> {
    let extensions = format.map_or(&["csv", "parquet", "json", "txt"][..], Format::extensions);
    let mut files = Vec::new();
    for path in paths {
        let kind = std::fs::metadata(path).map_err(|source| DatasetError::File {
            action: "read",
            path: path.clone(),
            source,
        })?;
        if kind.is_dir() {
            let mut within = Vec::new();
            walk(path, extensions, 0, &mut within)?;
            if within.is_empty() {
                return Err(DatasetError::Empty {
                    what: path.display().to_string(),
                    expected: format!("files ending in .{}", extensions.join(", .")),
                });
            }
            within.sort_by_key(|file| has_extension(file, &["json", "txt"]));
            files.extend(within.into_iter().map(|path| (path, true)));
        } else {
            files.push((path.clone(), false));
        }
    }
    Ok(named(files))
}

/// Files below a folder in the order of their paths. Hidden ones are not meant.
fn walk(folder: &Path, extensions: &[&str], depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |source| DatasetError::File { action: "read", path: folder.into(), source };
    if depth > MAX_DEPTH {
        return Err(DatasetError::OutOfRange {
            what: format!("the depth of {}", folder.display()),
            expected: format!("at most {MAX_DEPTH} folders in each other"),
            found: "more".into(),
        });
    }
    let mut entries = std::fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        // Links to folders are not followed: they can lead back.
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(&path, extensions, depth + 1, files)?;
        } else if has_extension(&path, extensions) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|found| extensions.iter().any(|wanted| found.eq_ignore_ascii_case(wanted)))
}

/// Gives each file the shortest end of its path that no other file has; a file given twice gets a number too.
fn named(files: Vec<(PathBuf, bool)>) -> Vec<Source> {
    let end = |path: &Path, parts: usize| -> String {
        let names: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        names[names.len().saturating_sub(parts)..].join("/")
    };
    let longest = files.iter().map(|(path, _)| path.iter().count()).max().unwrap_or(1);
    let mut parts = vec![1; files.len()];
    for length in 1..longest {
        let mut uses: HashMap<String, usize> = HashMap::new();
        for (path, _) in &files {
            *uses.entry(end(path, length)).or_default() += 1;
        }
        for (index, (path, _)) in files.iter().enumerate() {
            if parts[index] == length && uses[&end(path, length)] > 1 {
                parts[index] = length + 1;
            }
        }
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    let name = |((path, found), parts): ((PathBuf, bool), usize)| {
        let mut name = end(&path, parts);
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            name = format!("{name}#{times}");
        }
        Source { path, name, found }
    };
    files.into_iter().zip(parts).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_name_are_told_apart_by_their_folders() {
        let files = ["a/x/runs.csv", "a/y/runs.csv", "a/y/other.csv", "b/x/runs.csv", "a/x/runs.csv"];
        let names: Vec<String> = named(files.iter().map(|path| (PathBuf::from(path), false)).collect())
            .into_iter()
            .map(|source| source.name)
            .collect();
        assert_eq!(names, ["a/x/runs.csv", "y/runs.csv", "other.csv", "b/x/runs.csv", "a/x/runs.csv#2"]);
    }

    #[test]
    fn a_folder_gives_its_tables_first_and_no_hidden_or_foreign_files() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for file in ["b.csv", "a.json", "notes.md", ".hidden.csv", "deep/c.PARQUET", "deep/d.txt"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("creates");
            std::fs::write(path, "x").expect("writes");
        }
        let names = |format| -> Vec<String> {
            let sources = find(&[folder.path().into()], format).expect("walks");
            sources.into_iter().map(|source| source.name).collect()
        };
        assert_eq!(names(None), ["b.csv", "c.PARQUET", "a.json", "d.txt"]);
        assert_eq!(names(Some(Format::Graph)), ["a.json"]);
    }

    #[test]
    fn nothing_to_read_is_an_error() {
        let folder = tempfile::tempdir().expect("temporary folder");
        assert!(matches!(find(&[folder.path().into()], None), Err(DatasetError::Empty { .. })));
        assert!(matches!(find(&[folder.path().join("none.csv")], None), Err(DatasetError::File { .. })));
    }
}
