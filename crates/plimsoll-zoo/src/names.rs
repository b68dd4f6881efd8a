//! Finding entries by what people call them.

use crate::entry::{Entry, Library};
use crate::error::{Result, ZooError};

/// How many names an error proposes.
const PROPOSALS: usize = 3;

/// The entry of a name: `library/name`, or a name alone.
///
/// A name that several libraries have means the first of them in the order of [`Library`]. Where no name is exactly
/// this one, capitals, `-`, `_` and `.` do not matter, as long as only one name of a library is left.
pub(crate) fn find<'a>(entries: &'a [Entry], wanted: &str) -> Result<&'a Entry> {
    let (library, name) = match wanted.split_once('/') {
        Some((prefix, name)) => (Library::from_name(&prefix.to_lowercase()), name),
        None => (None, wanted),
    };
    let unknown = || ZooError::Unknown { name: wanted.into(), nearest: nearest(entries, library, name) };
    if library.is_none() && wanted.contains('/') {
        return Err(unknown());
    }
    let candidates = || entries.iter().filter(|entry| library.is_none_or(|library| library == entry.library));
    if let Some(entry) = candidates().filter(|entry| entry.name == name).min_by_key(|entry| entry.library) {
        return Ok(entry);
    }
    let loosely = loose(name);
    let mut alike: Vec<&Entry> = candidates().filter(|entry| loose(&entry.name) == loosely).collect();
    alike.sort_by_key(|entry| entry.library);
    match alike[..] {
        [] => Err(unknown()),
        [first, second, ..] if first.library == second.library => Err(unknown()),
        [first, ..] => Ok(first),
    }
}

/// A name without what people spell differently.
fn loose(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

/// The closest names, if any is close enough to be meant.
fn nearest(entries: &[Entry], library: Option<Library>, name: &str) -> Vec<String> {
    let name = name.to_lowercase();
    let candidates = entries.iter().filter(|entry| library.is_none_or(|library| library == entry.library));
    let mut scored: Vec<(f64, &str)> = candidates
        .map(|entry| (strsim::jaro_winkler(&name, &entry.name.to_lowercase()), entry.name.as_str()))
        .filter(|(similarity, _)| *similarity > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by_key(|(_, name)| *name);
    let prefix = library.map_or_else(String::new, |library| format!("{}/", library.name()));
    scored.into_iter().take(PROPOSALS).map(|(_, name)| format!("{prefix}{name}")).collect()
}

/// Entries that contain every word of a text in their full name or family.
pub(crate) fn search<'a>(entries: &'a [Entry], text: &str) -> Vec<&'a Entry> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let says = |entry: &Entry, word: &String| {
        entry.full_name().to_lowercase().contains(word.as_str()) || entry.family.name() == word
    };
    entries.iter().filter(|entry| words.iter().all(|word| says(entry, word))).collect()
}
