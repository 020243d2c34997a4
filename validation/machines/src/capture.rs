//! A row's capture, kept as a tree of text files in testdata/machines, with the
//! findings that the row's hand wrote down: `cargo test` replays it. A deed may leave
//! another one, of a state that it brought the machine into.

use std::fs;
use std::path::{Component, Path};

/// Prints a machine's capture.
pub(crate) const LINE: &str = "parachron capture /tmp/capture >/tmp/captured && cd /tmp/capture && \
    find . -type f | while read -r f; do echo \"@file $f $(wc -c <\"$f\")\"; cat \"$f\"; done";

/// Where a row's folder has what deeds left.
const LEFT: &str = "captures";

/// A capture that a deed left.
#[derive(Debug, PartialEq)]
pub(crate) struct Left {
    /// The end of its tree's name, behind the row's.
    pub(crate) state: String,
    /// The finding that it has beyond the row's.
    pub(crate) finding: String,
    output: String,
}

/// Leaves a capture in a row's folder.
pub(crate) fn leave(row: &Path, state: &str, finding: &str, output: &str) -> Result<(), String> {
    crate::tools::write(&row.join(LEFT).join(state), &format!("{finding}\n{output}"))
}

/// What deeds left there.
pub(crate) fn left(row: &Path) -> Result<Vec<Left>, String> {
    let Ok(files) = fs::read_dir(row.join(LEFT)) else { return Ok(Vec::new()) };
    let one = |path: &Path| {
        let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
        let (finding, output) = text.split_once('\n').unwrap_or_default();
        let state = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Left { state, finding: finding.to_owned(), output: output.to_owned() })
    };
    files.flatten().map(|file| one(&file.path())).collect()
}

impl Left {
    /// Writes its tree beside the row's, which has these findings.
    pub(crate) fn write(&self, of_row: &Path, findings: &[&str]) -> Result<(), String> {
        let name = of_row.file_name().unwrap_or_default().to_string_lossy();
        let tree = of_row.with_file_name(format!("{name}-{}", self.state));
        write(&tree, &self.output, &[findings, &[self.finding.as_str()]].concat())
    }
}

/// How each file begins in the output of the command `capture`.
const HEADING: &str = "@file ";

/// Writes a tree in place of an earlier one.
pub(crate) fn write(folder: &Path, output: &str, findings: &[&str]) -> Result<(), String> {
    let files = files(output)?;
    // It may not be there.
    let _ = fs::remove_dir_all(folder);
    let mut findings: String = findings.iter().map(|one| format!("{one}\n")).collect();
    if findings.is_empty() {
        findings.push_str("# none\n");
    }
    for (name, text) in files.into_iter().chain([("expected-findings", findings.as_str())]) {
        let path = folder.join(name);
        let cannot = |error| format!("{}: {error}", path.display());
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(cannot)?;
        fs::write(&path, text).map_err(cannot)?;
    }
    Ok(())
}

/// Name and text of each file.
fn files(output: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut files = Vec::new();
    let mut rest = output;
    while !rest.is_empty() {
        let wrong = || format!("not a file of a capture: {:?}", rest.lines().next());
        let (line, body) = rest.split_once('\n').ok_or_else(wrong)?;
        let heading = line.strip_prefix(HEADING).and_then(|line| line.rsplit_once(' '));
        let (name, length) = heading.ok_or_else(wrong)?;
        let length: usize = length.parse().map_err(|_| wrong())?;
        let (text, after) = body.split_at_checked(length).ok_or_else(wrong)?;
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(name).components().all(plain) {
            return Err(wrong());
        }
        files.push((name.trim_start_matches("./"), text));
        rest = after;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_deed_left_becomes_a_tree_beside_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let row = folder.path().join("ran/q35-7.3");
        assert_eq!(left(&row).unwrap(), []);
        leave(&row, "odd", "warning a: so it is", "@file ./b 2\nc\n").unwrap();
        let all = left(&row).unwrap();
        assert_eq!(all.len(), 1);
        all[0].write(&folder.path().join("q35-7.3"), &["note d: too"]).unwrap();
        let read = |name| fs::read_to_string(folder.path().join("q35-7.3-odd").join(name)).unwrap();
        assert_eq!(read("expected-findings"), "note d: too\nwarning a: so it is\n");
        assert_eq!(read("b"), "c\n");
    }

    #[test]
    fn files_have_their_lengths_and_stay_in_their_folder() {
        let output = "@file ./a 3\nx\ny@file ./proc/b 0\n";
        assert_eq!(files(output).unwrap(), [("a", "x\ny"), ("proc/b", "")]);
        for wrong in ["@file ./a 9\nx", "@file ../a 1\nx", "@file /a 1\nx", "x\n", "@file a x\n"] {
            assert!(files(wrong).is_err(), "{wrong:?}");
        }
    }
}
