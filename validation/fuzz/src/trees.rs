//! Whole trees: bytes become files, the files become facts, a capture of the
//! tree gives the same facts, and the doctor has an answer to them.
//!
//! The form of the bytes is lines `-- PATH --`, each followed by the content
//! of that file.

use std::fs;
use std::path::{Component, Path, PathBuf};

use inspect::tree::Tree;
use tempfile::TempDir;

/// Names longer than this only test the file system.
const PATH_BYTES: usize = 120;

/// Reads any tree twice, as it is and from a capture of it, and diagnoses it.
pub(crate) fn tree(data: &[u8]) {
    let place = temporary_folder();
    let original = place.path().join("original");
    fs::create_dir(&original).expect("the folder is new");
    for (path, content) in files(data) {
        let path = original.join(path);
        // A path below a file, or one that is a folder already: left out.
        let _ = path.parent().map(fs::create_dir_all);
        let _ = fs::write(path, content);
    }
    let Ok(tree) = Tree::captured(&original) else { return };
    let tree = tree.recording();
    let facts = inspect::read(&tree);
    let recording = tree.into_recording();
    let copy = place.path().join("copy");
    recording.write(&copy, &recording.manifest("fuzz", 0)).expect("what was read can be written");
    let copied = Tree::captured(&copy).expect("a capture is a tree");
    assert_eq!(inspect::read(&copied), facts);

    let diagnosis = doctor::diagnose(&facts, None);
    assert!(!diagnosis.verdict.is_empty());
    let severities = diagnosis.findings.iter().map(|finding| finding.severity);
    assert!(severities.is_sorted_by(|worse, milder| worse >= milder), "{diagnosis:?}");
    for finding in &diagnosis.findings {
        assert!(!finding.evidence.is_empty(), "a finding without evidence: {finding:?}");
    }
}

/// In memory where that can be had: a capture waits for its disk.
fn temporary_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("there is room for a temporary folder")
}

/// The files that the bytes describe.
fn files(data: &[u8]) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        if let Some(path) = heading(line) {
            files.push((path, Vec::new()));
        } else if let Some((_, content)) = files.last_mut() {
            content.extend_from_slice(line);
        }
    }
    files
}

/// The path of a heading, when it stays below the tree's root.
fn heading(line: &[u8]) -> Option<PathBuf> {
    let path = line.strip_prefix(b"-- ")?.trim_ascii_end().strip_suffix(b" --")?;
    let path = Path::new(std::str::from_utf8(path).ok()?.trim_start_matches('/'));
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    let size = path.as_os_str().len();
    (inside && (1..PATH_BYTES).contains(&size) && !path.to_str()?.contains('\0'))
        .then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_files_below_the_root_only() {
        let data =
            b"lost\n-- proc/stat --\ncpu 1\n\xff\n-- ../etc/passwd --\n-- /proc/uptime --\n1";
        let expected = [
            (PathBuf::from("proc/stat"), b"cpu 1\n\xff\n-- ../etc/passwd --\n".to_vec()),
            (PathBuf::from("proc/uptime"), b"1".to_vec()),
        ];
        assert_eq!(files(data), expected);
    }
}
