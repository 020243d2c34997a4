//! The findings expected of each machine in testdata/machines, written down by
//! hand in its file `expected-findings`: one more or less fails.

use std::collections::BTreeSet;

use doctor::finding::Diagnosis;
use doctor::rules::RULES;

use crate::trees::{diagnosis, names, text_of};

/// `warning clock-steered`, for each finding.
fn found(diagnosis: &Diagnosis) -> Vec<String> {
    let line = |finding: &doctor::finding::Finding| {
        format!("{:?} {}", finding.severity, finding.rule).to_lowercase()
    };
    let mut found: Vec<_> = diagnosis.findings.iter().map(line).collect();
    found.sort();
    found
}

/// `warning clock-steered` of a line `warning clock-steered: no daemon runs`.
fn expected(tree: &str, text: &str) -> Vec<String> {
    let mut expected = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        let (finding, reason) = line.split_once(": ").unwrap_or((line, ""));
        assert!(!reason.trim().is_empty(), "{tree}: `{line}` gives no reason");
        let rule = finding.split_whitespace().nth(1).unwrap_or_default();
        let known = RULES.iter().any(|one| one.name == rule);
        assert!(known, "{tree}: `{line}` names no rule; a line is `severity rule: reason`");
        expected.push(finding.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    expected.sort();
    expected
}

/// The lines of `these` that are not in `those`, each as often as it is there.
fn missing(these: &[String], those: &[String]) -> Vec<String> {
    let mut rest = those.to_vec();
    let mut missing = Vec::new();
    for line in these {
        match rest.iter().position(|one| one == line) {
            Some(at) => drop(rest.remove(at)),
            None => missing.push(line.clone()),
        }
    }
    missing
}

#[test]
fn each_machine_has_the_findings_expected_of_it() {
    let mut wrong = String::new();
    for tree in names() {
        let diagnosis = diagnosis(&tree);
        let Some(text) = text_of(&tree, "expected-findings") else {
            wrong += &format!("{tree}: no file expected-findings; found {:?}\n", found(&diagnosis));
            continue;
        };
        let (found, expected) = (found(&diagnosis), expected(&tree, &text));
        for line in missing(&expected, &found) {
            wrong += &format!("{tree}: expected, not found: {line}\n");
        }
        for line in missing(&found, &expected) {
            let rule = line.split_whitespace().nth(1).unwrap_or_default();
            let whats = diagnosis.findings.iter().filter(|one| one.rule == rule);
            let whats: Vec<_> = whats.map(|one| one.what.as_str()).collect();
            wrong += &format!("{tree}: found, not expected: {line}: {}\n", whats.join("; "));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_rule_fires_in_a_tree() {
    let trees = names();
    let fired: BTreeSet<String> = trees
        .iter()
        .flat_map(|tree| diagnosis(tree).findings)
        .map(|finding| finding.rule)
        .collect();
    let never: Vec<_> =
        RULES.iter().map(|rule| rule.name).filter(|rule| !fired.contains(*rule)).collect();
    assert!(never.is_empty(), "{never:?} fire in none of {} trees", trees.len());
}

#[test]
fn a_tree_named_for_a_rule_shows_it() {
    for tree in names() {
        if let Some(rule) = tree.strip_prefix("rule-") {
            let shown = diagnosis(&tree).findings.iter().any(|one| rule.starts_with(&one.rule));
            assert!(shown, "{tree} does not show the rule it is named for");
        }
    }
}

#[test]
fn the_readme_names_every_tree() {
    let readme = text_of("", "README.md").expect("testdata/machines/README.md");
    // Captured by `cargo xtask machines`, which has the facts about each.
    let rows = text_of("../../zoo", "machines.toml").expect("zoo/machines.toml");
    for tree in names() {
        let is_row = rows.contains(&format!("name = \"{tree}\"\n"));
        assert!(is_row || readme.contains(&format!("`{tree}`")), "README.md does not name {tree}");
    }
}
