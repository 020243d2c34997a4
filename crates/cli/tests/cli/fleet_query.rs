//! `parachron fleet query` and a program in the place of `parachron-query`: found, handed the
//! question, and its rows shown.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Asks, with what this shell script does as the engine; none has no script.
fn ask(script: Option<&str>, words: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    if let Some(script) = script {
        let program = folder.path().join("parachron-query");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("our own");
    }
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    Command::new(env!("CARGO_BIN_EXE_parachron"))
        .args(["fleet", "query", "--records", "records of ours"])
        .args(words)
        .env("PATH", path)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn rows_are_a_table_and_other_forms_pass_through() {
    let rows = r#"printf '["host","of_day","off_ns","minutes"]\n["db-1","2026-11-22",5110000,3]\n'
        printf '["db-2","2026-11-22",null,3]\n'"#;
    let shown = ask(Some(rows), &["worst-clocks"]);
    assert_eq!(text(&shown.stderr), "");
    let expected = "\
        host  of day          off  minutes\n\
        ───────────────────────────────────\n\
        db-1  2026-11-22  5.11 ms        3\n\
        db-2  2026-11-22        –        3\n";
    assert_eq!(text(&shown.stdout), expected);
    let echo = r#"printf '%s|' "$@""#;
    let handed = ask(Some(echo), &["select 1 as one", "--format", "csv", "--memory", "300"]);
    assert_eq!(
        text(&handed.stdout),
        "--format|csv|--memory|300|--records|records of ours|--|select 1 as one|"
    );
    // A line more than a person reads.
    let many = "echo '[\"n\"]'; i=0; while [ $i -lt 1100 ]; do echo \"[$i]\"; i=$((i+1)); done";
    let many = ask(Some(many), &["select 1 as one"]);
    assert_eq!(text(&many.stdout).lines().count(), 1002);
    assert!(text(&many.stderr).contains("the first 1000 of 1100 rows"), "{many:?}");
}

#[test]
fn what_goes_wrong_is_said_and_is_a_failure() {
    if !Path::new(env!("CARGO_BIN_EXE_parachron")).with_file_name("parachron-query").exists() {
        let missing = ask(None, &["worst-clocks"]);
        assert_eq!(missing.status.code(), Some(2));
        assert!(text(&missing.stderr).contains("cargo install --locked --path query"));
    }
    let refused = ask(Some("echo 'parachron-query: no' >&2; exit 2"), &["worst-clocks"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!((text(&refused.stdout), text(&refused.stderr)), ("", "parachron-query: no\n"));
    let ended = ask(Some("kill -ABRT $$"), &["worst-clocks"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(text(&ended.stderr).contains("raise --memory"), "{ended:?}");
    let other = ask(Some("echo rows"), &["worst-clocks"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("install the same version"), "{other:?}");
}

/// The names are those of the folder `queries`.
#[test]
fn help_names_the_shipped_questions() {
    let help = Command::new(env!("CARGO_BIN_EXE_parachron"))
        .args(["fleet", "query", "--help"])
        .output()
        .expect("it runs");
    let help = text(&help.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../query/questions");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        if let Some(name) = name.strip_suffix(".sql") {
            assert!(help.contains(name), "{name}: {help}");
            count += 1;
        }
    }
    assert_eq!(count, 5);
}
