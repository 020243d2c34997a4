//! The findings expected of each machine in testdata/machines, written down by
//! hand in its file `expected-findings`: one more or less fails.

use std::collections::BTreeSet;

use doctor::finding::{Diagnosis, Severity};
use doctor::rules::RULES;

use crate::trees::{diagnosis, names, text_of};

/// `warning clock-steered`, for each finding.
fn finding_lines(diagnosis: &Diagnosis) -> Vec<String> {
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
        let known = RULES.iter().any(|known| known.name == rule);
        assert!(known, "{tree}: `{line}` names no rule; a line is `severity rule: reason`");
        expected.push(finding.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    expected.sort();
    expected
}

/// The lines of `these` that are not in `those`, each as often as it is there.
fn missing_lines(these: &[String], those: &[String]) -> Vec<String> {
    let mut rest = those.to_vec();
    let mut missing = Vec::new();
    for line in these {
        match rest.iter().position(|other| other == line) {
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
            wrong += &format!(
                "{tree}: no file expected-findings; found {:?}\n",
                finding_lines(&diagnosis)
            );
            continue;
        };
        let (found, expected) = (finding_lines(&diagnosis), expected(&tree, &text));
        for line in missing_lines(&expected, &found) {
            wrong += &format!("{tree}: expected, not found: {line}\n");
        }
        for line in missing_lines(&found, &expected) {
            let rule = line.split_whitespace().nth(1).unwrap_or_default();
            let whats = diagnosis.findings.iter().filter(|finding| finding.rule == rule);
            let whats: Vec<_> = whats.map(|finding| finding.what.as_str()).collect();
            wrong += &format!("{tree}: found, not expected: {line}: {}\n", whats.join("; "));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Rules that fire in no captured machine and in none of a cited report, each with
/// what its tree is made from.
const FROM_DOCUMENTS: [(&str, &str); 2] = [
    ("phc-time-scale", "a mail to netdev says which time the driver returns, and shows no machine"),
    ("facts-agree", "a capture of two machines is nobody's"),
];

/// The trees that were captured, or whose source in sources.tsv cites a report.
fn from_life() -> BTreeSet<String> {
    let sources = text_of("", "sources.tsv").expect("testdata/machines/sources.tsv");
    let rows = text_of("../../validation/machines", "machines.toml")
        .expect("validation/machines/machines.toml");
    let is_thread = |word: &str| {
        let number = |text: &str| text.trim_end_matches([',', ';', ':', ')']).parse::<u32>();
        word.split_once('#')
            .is_some_and(|(repository, rest)| repository.contains('/') && number(rest).is_ok())
    };
    // What is measured on a machine is in no capture of it: its tree is made by hand, and
    // the row of machines.toml has to state its rule.
    let is_of_row = |tree: &str, source: &str| {
        let named = source.split("seen in row `").skip(1).filter_map(|rest| rest.split_once('`'));
        let rule = tree.strip_prefix("rule-").unwrap_or(tree);
        named.map(|(name, _)| name).any(|name| states(&rows, name, rule))
    };
    let cites = |tree: &str, source: &str| {
        source.starts_with("captured")
            || source.split_whitespace().any(is_thread)
            || is_of_row(tree, source)
    };
    let cited = sources.lines().filter_map(|line| {
        let (tree, source) = line.split_once('\t')?;
        cites(tree, source).then(|| tree.to_owned())
    });
    let is_row = |name: &str| row(&rows, name).is_some();
    cited.chain(names().into_iter().filter(|tree| is_row(tree))).collect()
}

/// A row of validation/machines/machines.toml.
fn row<'r>(rows: &'r str, name: &str) -> Option<&'r str> {
    let named = format!("name = \"{name}\"\n");
    rows.split("[[row]]\n").skip(1).find(|row| row.starts_with(&named))
}

/// Whether the row demands or allows a finding of that rule: `"warning read-cost: …",`.
fn states(rows: &str, name: &str, rule: &str) -> bool {
    let is_of = |line: &str| {
        let finding = line.trim_start().strip_prefix('"');
        let stated = finding.and_then(|finding| finding.split_once(' ')?.1.split_once(':'));
        stated.is_some_and(|(stated, _)| stated == rule)
    };
    row(rows, name).is_some_and(|row| row.lines().any(is_of))
}

#[test]
fn a_row_states_the_rules_of_its_own_findings_alone() {
    let rows = text_of("../../validation/machines", "machines.toml")
        .expect("validation/machines/machines.toml");
    assert!(states(&rows, "q35-5.10", "slow-clocksource"));
    for (name, rule) in [
        ("no-vdso-7.2", "reads-enter-kernel"),
        ("kvm-no-master-clock", "clock-order"),
        ("q35-5.10", "clocksource"),
        ("no-such-row", "read-cost"),
    ] {
        assert!(!states(&rows, name, rule), "{name} {rule}");
    }
}

#[test]
fn every_rule_fires_on_a_real_machine_or_in_a_cited_report() {
    let from_life = from_life();
    let (mut fired, mut fired_from_life) = (BTreeSet::new(), BTreeSet::new());
    for tree in names() {
        let rules = diagnosis(&tree).findings.into_iter().map(|finding| finding.rule);
        let of = if from_life.contains(&tree) { &mut fired_from_life } else { &mut fired };
        of.extend(rules);
    }
    let all = RULES.iter().map(|rule| rule.name);
    let never: BTreeSet<&str> = all.filter(|rule| !fired_from_life.contains(*rule)).collect();
    let known: BTreeSet<&str> = FROM_DOCUMENTS.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(never, known, "rules without a machine, and those known to have none");
    assert!(known.iter().all(|rule| fired.contains(*rule)), "{known:?}, {fired:?}");
}

/// A note on a machine set up as its vendor says.
struct Note {
    tree: &'static str,
    rule: &'static str,
    /// Files of the tree, and what of each shows that it is so.
    shown_by: &'static [(&'static str, &'static str)],
}

/// All of them. Whether what they say is so of such machines, the README argues.
const NOTES_ON_VENDORS: [Note; 3] = [
    Note {
        tree: "vendor-aws-phc",
        rule: "mixed-leap-smear",
        shown_by: &[
            ("etc/chrony.conf", "refclock PHC /dev/ptp_ena "),
            ("etc/chrony.d/link-local.sources", "server 169.254.169.123 "),
        ],
    },
    Note {
        tree: "vendor-aws-phc-alone",
        rule: "tai-offset",
        shown_by: &[("parachron/adjtimex", "\ntai 0\n")],
    },
    Note {
        tree: "vendor-azure",
        rule: "tai-offset",
        shown_by: &[("parachron/adjtimex", "\ntai 0\n")],
    },
];

#[test]
fn a_machine_set_up_as_its_vendor_says_has_notes_alone_that_are_so() {
    let mut notes = BTreeSet::new();
    for tree in names().into_iter().filter(|tree| tree.starts_with("vendor-")) {
        for finding in diagnosis(&tree).findings {
            assert_eq!(finding.severity, Severity::Note, "{tree}: {}", finding.what);
            notes.insert((tree.clone(), finding.rule));
        }
    }
    let known = NOTES_ON_VENDORS.iter().map(|note| (note.tree.to_owned(), note.rule.to_owned()));
    assert_eq!(notes, known.collect(), "notes found, and those argued for");
    for Note { tree, shown_by, .. } in NOTES_ON_VENDORS {
        for (file, shown) in shown_by {
            assert!(text_of(tree, file).is_some_and(|text| text.contains(shown)), "{tree}/{file}");
        }
    }
}

#[test]
fn a_tree_named_for_a_rule_shows_it() {
    for tree in names() {
        if let Some(rule) = tree.strip_prefix("rule-") {
            let shown =
                diagnosis(&tree).findings.iter().any(|finding| rule.starts_with(&finding.rule));
            assert!(shown, "{tree} does not show the rule it is named for");
        }
    }
}

/// What a remedy may begin with.
const VERBS: &[&str] = &[
    "Add",
    "Advertise",
    "Alert",
    "Allow",
    "Ask",
    "Boot",
    "Build",
    "Call",
    "Capture",
    "Check",
    "Choose",
    "Compare",
    "Configure",
    "Copy",
    "Correct",
    "Dedicate",
    "Delete",
    "Discipline",
    "Do",
    "Enable",
    "Find",
    "Fix",
    "Follow",
    "Give",
    "Install",
    "Keep",
    "Leave",
    "Let",
    "Load",
    "Make",
    "Measure",
    "Mount",
    "Move",
    "Name",
    "Note",
    "Pin",
    "Point",
    "Raise",
    "Read",
    "Reboot",
    "Remove",
    "Restart",
    "Restore",
    "Run",
    "Search",
    "See",
    "Set",
    "Slew",
    "Start",
    "Step",
    "Stop",
    "Switch",
    "Take",
    "Trace",
    "Unmask",
    "Update",
    "Use",
    "Wait",
    "Watch",
    "Write",
];

#[test]
fn each_remedy_begins_with_a_verb_and_none_is_missing() {
    for tree in names() {
        for finding in diagnosis(&tree).findings {
            let needs = finding.severity != Severity::Note;
            assert!(!needs || !finding.remedies.is_empty(), "{tree}: {}", finding.what);
            for remedy in &finding.remedies {
                let lead = ["Or ", "But ", "Then ", "Until then, "].into_iter();
                let text = lead.fold(remedy.what.as_str(), |text, lead| {
                    text.strip_prefix(lead).unwrap_or(text)
                });
                let first = text.split([' ', ':', ',']).next().unwrap_or_default();
                let is_verb = VERBS.iter().any(|verb| verb.eq_ignore_ascii_case(first));
                assert!(is_verb, "{tree}: {}", remedy.what);
            }
        }
    }
}

#[test]
fn every_tree_has_a_source() {
    let sources = text_of("", "sources.tsv").expect("testdata/machines/sources.tsv");
    // Captured by `cargo xtask machines`, which has the facts about each.
    let rows = text_of("../../validation/machines", "machines.toml")
        .expect("validation/machines/machines.toml");
    for tree in names() {
        let is_row = rows.contains(&format!("name = \"{tree}\"\n"));
        let has_source = sources.contains(&format!("\n{tree}\t"));
        assert!(is_row || has_source, "sources.tsv does not name {tree}");
    }
}
