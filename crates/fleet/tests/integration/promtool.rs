//! The rules on traces, by Prometheus' own promtool.

use std::io::Write as _;
use std::process::Command;

#[test]
fn promtool_finds_each_fault_and_nothing_in_calm() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("rules.yml"), fleet::rules(Some("https://wiki.example/clocks"))).unwrap();
    std::fs::write(path("alerts.yml"), include_str!("alerts.yml")).unwrap();
    for arguments in [["check", "rules", "rules.yml"], ["test", "rules", "alerts.yml"]] {
        let ran = Command::new("promtool").args(arguments).current_dir(folder.path()).output();
        let Ok(output) = ran else {
            // A fresh machine has none; .ci/run installs it.
            let said = "skipped: no promtool (Debian's package prometheus)";
            // Not by eprintln: a test that passes shows none of it.
            return writeln!(std::io::stderr(), "{said}").unwrap();
        };
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
}
