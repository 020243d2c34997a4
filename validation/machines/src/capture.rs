//! A row's capture, kept as a tree of text files in testdata/machines, with the
//! findings that the row's hand wrote down: `cargo test` replays it.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Prints a machine's capture.
pub(crate) const LINE: &str =
    "parachron capture /tmp/capture >/tmp/captured && tar -C /tmp/capture -c . | gzip | base64";

/// Writes a tree in place of an earlier one.
pub(crate) fn write(folder: &Path, output: &str, findings: &[&str]) -> Result<(), String> {
    let cannot = |error| format!("{}: {error}", folder.display());
    // It may not be there.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(cannot)?;
    let printed = folder.join("printed");
    fs::write(&printed, output).map_err(cannot)?;
    let mut unpack = Command::new("sh");
    unpack.args(["-c", "base64 -d | tar -xz -C \"$0\""]).arg(folder);
    let unpacked = unpack.stdin(File::open(&printed).map_err(cannot)?).status();
    fs::remove_file(printed).map_err(cannot)?;
    if !unpacked.is_ok_and(|status| status.success()) {
        return Err(format!("no capture: {:?}", output.lines().next()));
    }
    let lines: String = findings.iter().map(|one| format!("{one}\n")).collect();
    let lines = if lines.is_empty() { "# none\n" } else { &lines };
    fs::write(folder.join("expected-findings"), lines).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_becomes_a_tree_with_its_findings() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from/proc"), folder.path().join("to"));
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join("a"), "x\ny").unwrap();
        let pack = "cd \"$0/from\" && tar -c . | gzip | base64";
        let printed = Command::new("sh").args(["-c", pack]).arg(folder.path()).output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        for findings in [&["note d: too"][..], &[]] {
            write(&to, &printed, findings).unwrap();
        }
        assert_eq!(fs::read_to_string(to.join("proc/a")).unwrap(), "x\ny");
        assert_eq!(fs::read_to_string(to.join("expected-findings")).unwrap(), "# none\n");
        assert!(!to.join("printed").exists() && write(&to, "parachron: no", &[]).is_err());
    }
}
