//! The machines of testdata/machines.

use std::path::{Path, PathBuf};

use doctor::finding::Diagnosis;
use inspect::tree::Tree;
use instruments::measurements::Measurements;
use tempfile::TempDir;

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
    diagnosis_of(&folder().join(tree))
}

/// The diagnosis of a folder.
pub(crate) fn diagnosis_of(folder: &Path) -> Diagnosis {
    let facts = inspect::read(&Tree::captured(folder).expect("a folder"));
    let text = std::fs::read_to_string(folder.join("measurements.json")).ok();
    let measured = text.map(|text| -> Measurements {
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", folder.display()))
    });
    doctor::diagnose(&facts, measured.as_ref())
}

/// A copy of a tree, to be changed.
pub(crate) fn copy_of(tree: &str) -> TempDir {
    let copy = TempDir::new().expect("a folder");
    copy_into(&folder().join(tree), copy.path());
    copy
}

fn copy_into(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            std::fs::create_dir(&to).expect("a folder");
            copy_into(&from, &to);
        } else {
            std::fs::copy(&from, &to).expect("a file");
        }
    }
}
