//! What is read from each machine in `testdata/machines`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use facts::Unknown;
use inspect::tree::Tree;
use serde_json::Value;

fn machines() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/machines");
    let mut machines: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    machines.sort();
    machines
}

fn name(machine: &Path) -> &str {
    machine.file_name().unwrap().to_str().unwrap()
}

/// One line a fact, and one a line of the log.
fn describe(facts: &facts::Facts) -> String {
    let mut text = String::new();
    walk("", &serde_json::to_value(facts).unwrap(), &mut text);
    text
}

fn walk(path: &str, value: &Value, text: &mut String) {
    let Value::Object(fields) = value else { unreachable!("{path} is neither fact nor group") };
    match (fields.get("known"), fields.get("unknown")) {
        (Some(Value::Array(lines)), _) if path == "kernel.log" => {
            for line in lines {
                writeln!(text, "{path}: {} {} {}", line["at_s"], line["text"], line["event"])
                    .unwrap();
            }
        }
        (Some(known), _) => writeln!(text, "{path}: {known}").unwrap(),
        (_, Some(why)) => {
            let why: Unknown = serde_json::from_value(why.clone()).unwrap();
            writeln!(text, "{path}? {why}").unwrap();
        }
        (None, None) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk(&path, value, text);
            }
        }
    }
}

#[test]
fn each_machine_says_what_it_should() {
    let mut seen = 0;
    // The doctor's own trees, one a rule, are examined by its tests.
    for machine in machines().iter().filter(|machine| !name(machine).starts_with("rule-")) {
        let facts = inspect::read(&Tree::captured(machine).unwrap());
        insta::assert_snapshot!(name(machine), describe(&facts));
        seen += 1;
    }
    assert!(seen >= 11, "only {seen} machines found");
}

#[test]
fn nothing_in_a_tree_is_malformed_unless_it_means_to_be() {
    for machine in machines() {
        let facts = inspect::read(&Tree::captured(&machine).unwrap());
        let described = describe(&facts);
        let malformed: Vec<_> =
            described.lines().filter(|line| line.contains("? malformed: ")).collect();
        assert!(
            malformed.is_empty() || name(&machine).contains("contradictory"),
            "{}: {malformed:#?}",
            name(&machine)
        );
    }
}

#[test]
fn a_tree_of_nothing_is_all_reasons() {
    let empty = tempfile::tempdir().unwrap();
    let facts = inspect::read(&Tree::captured(empty.path()).unwrap());
    insta::assert_snapshot!("nothing", describe(&facts));
}
