//! The machines of testdata/machines.

use std::path::PathBuf;

use doctor::finding::Diagnosis;
use inspect::tree::Tree;
use instruments::measurements::Measurements;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/machines"))
}

/// The names of all trees, sorted.
pub(crate) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("testdata/machines");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("a name in UTF-8"))
        .collect();
    names.sort();
    names
}

/// A file of a tree, where it has it.
pub(crate) fn text_of(tree: &str, file: &str) -> Option<String> {
    std::fs::read_to_string(folder().join(tree).join(file)).ok()
}

/// The diagnosis of a tree: by what it reports, and by the figures measured on
/// it where it has a file of them.
pub(crate) fn diagnosis(tree: &str) -> Diagnosis {
    let facts = inspect::read(&Tree::captured(&folder().join(tree)).expect("a folder"));
    let measured = text_of(tree, "measurements.json").map(|text| -> Measurements {
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{tree}: {why}"))
    });
    doctor::diagnose(&facts, measured.as_ref())
}
