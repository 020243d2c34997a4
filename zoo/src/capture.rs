//! A row's capture, kept as a tree of text files in testdata/machines, with the
//! findings that the row's hand wrote down: `cargo test` replays it.

use std::fs;
use std::path::{Component, Path};

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
    fn files_have_their_lengths_and_stay_in_their_folder() {
        let output = "@file ./a 3\nx\ny@file ./proc/b 0\n";
        assert_eq!(files(output).unwrap(), [("a", "x\ny"), ("proc/b", "")]);
        for wrong in ["@file ./a 9\nx", "@file ../a 1\nx", "@file /a 1\nx", "x\n", "@file a x\n"] {
            assert!(files(wrong).is_err(), "{wrong:?}");
        }
    }
}
