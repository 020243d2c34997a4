//! "No fact, no verdict": a fact of a captured machine that is hidden turns no finding into "in
//! order", moves no blame and accuses nobody new.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use doctor::finding::{CheckState, Diagnosis};
use serde_json::{Value, json};

use crate::trees::{copy_of, diagnosis_of, names};

/// How a fact is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hiding {
    /// The file is missing.
    Removed,
    /// An ordinary user may not read it.
    Unreadable,
    /// The file ends in the middle of a line.
    Cut,
}

const MANIFEST: &str = "parachron/manifest.json";

/// Files that are no facts, and the measurements, which are not the machine's.
const NO_FACTS: [&str; 3] = [MANIFEST, "expected-findings", "measurements.json"];

fn hide(tree: &Path, file: &str, how: Hiding) {
    let path = tree.join(file);
    match how {
        Hiding::Removed => fs::remove_file(path).expect("a file"),
        Hiding::Unreadable => {
            fs::remove_file(path).expect("a file");
            let text = fs::read_to_string(tree.join(MANIFEST)).unwrap_or(r#"{"format":1}"#.into());
            let mut manifest: Value = serde_json::from_str(&text).expect("a manifest");
            let name = if file.starts_with("parachron/") { file } else { &format!("/{file}") };
            if let Some(taken) = manifest["taken"].as_object_mut() {
                taken.remove(name);
            }
            manifest["not_taken"][name] = json!({"reason": "needs-root", "what": name});
            fs::create_dir_all(tree.join("parachron")).expect("a folder");
            fs::write(tree.join(MANIFEST), manifest.to_string()).expect("a copy");
        }
        Hiding::Cut => {
            let bytes = fs::read(&path).expect("a file");
            // A cut at the end of a line leaves a whole file in a tree made by hand.
            let at = bytes.len().saturating_sub(2);
            fs::write(path, &bytes[..at]).expect("a copy");
        }
    }
}

/// Each rule's findings: the sentence about who is at fault, `At fault: the host`.
fn accused(diagnosis: &Diagnosis) -> BTreeMap<&str, Vec<&str>> {
    let mut accused = BTreeMap::<_, Vec<_>>::new();
    for finding in &diagnosis.findings {
        let blame = finding.why.find("At fault").map_or("", |at| &finding.why[at..]);
        let blame = blame.split('.').next().unwrap_or_default();
        accused.entry(finding.rule.as_str()).or_default().push(blame);
    }
    accused
}

fn last_word(text: &str) -> &str {
    text.rsplit(' ').next().unwrap_or_default()
}

/// What a hidden fact changed for the worse.
fn healed(before: &Diagnosis, after: &Diagnosis, file: &str, how: Hiding) -> Vec<String> {
    // Settings without one of their files are other settings.
    let is_settings = how == Hiding::Removed && file.starts_with("etc/");
    let mut wrong = Vec::new();
    let (was, is) = (accused(before), accused(after));
    for (rule, blame) in &was {
        let Some(now) = is.get(rule) else {
            let entry = after.checked.iter().find(|entry| entry.rule == *rule).expect("each rule");
            // What is removed may be a device, which this machine then does not have.
            let is_absent = how == Hiding::Removed && entry.state == CheckState::DoesNotApply;
            if entry.state != CheckState::NotChecked && !is_absent && !is_settings {
                wrong.push(format!("{rule} healed: {}", entry.outcome));
            }
            continue;
        };
        // With less known, more parties may be named; the one that was stays among them.
        let keeps = |one: &str| blame.iter().any(|was| one.contains(last_word(was)));
        for one in now.iter().filter(|one| !one.is_empty() && !keeps(one)) {
            wrong.push(format!("{rule} now blames: {one} before: {blame:?}"));
        }
    }
    if how != Hiding::Removed {
        let new = is.keys().filter(|rule| !was.contains_key(**rule) && !ANSWERS.contains(rule));
        wrong.extend(new.map(|rule| format!("{rule} accuses")));
    }
    wrong
}

/// The rule that reports that most others cannot check, the one that reports facts that do not
/// agree, and the log's own, which the clock source in use withdraws.
const ANSWERS: [&str; 3] = ["clock-sources-readable", "facts-agree", "tsc-marked-unstable"];

fn files(folder: &Path, below: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder.join(below)).expect("a folder") {
        let path = below.join(entry.expect("an entry").file_name());
        if folder.join(&path).is_dir() {
            files(folder, &path, all);
        } else {
            all.push(path.to_str().expect("UTF-8").to_owned());
        }
    }
}

/// The files of a tree that hold facts.
pub(crate) fn facts_of(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    files(folder, &PathBuf::new(), &mut all);
    all.sort();
    all.retain(|file| !NO_FACTS.contains(&file.as_str()));
    all
}

/// Hides one fact after another of every tree, of all cases those with `sampled(n)`.
fn hide_facts(sampled: impl Fn(usize) -> bool) {
    let (mut wrong, mut tried) = (String::new(), 0);
    for (nth, tree) in names().into_iter().enumerate() {
        let copy = copy_of(&tree);
        let folder = copy.path();
        let before = diagnosis_of(folder);
        let manifest = fs::read(folder.join(MANIFEST)).ok();
        let all = facts_of(folder);
        let cases = all.iter().flat_map(|file| {
            [Hiding::Removed, Hiding::Unreadable, Hiding::Cut].map(|how| (file, how))
        });
        for (file, how) in cases.enumerate().filter(|(n, _)| sampled(n + nth)).map(|(_, case)| case)
        {
            let content = fs::read(folder.join(file)).expect("a file");
            hide(folder, file, how);
            for line in healed(&before, &diagnosis_of(folder), file, how) {
                wrong += &format!("{tree}: {how:?} {file}: {line}\n");
            }
            fs::write(folder.join(file), content).expect("a copy");
            match &manifest {
                Some(bytes) => fs::write(folder.join(MANIFEST), bytes).expect("a copy"),
                None => drop(fs::remove_file(folder.join(MANIFEST))),
            }
            tried += 1;
        }
    }
    assert!(tried > 250, "{tried}");
    assert!(wrong.is_empty(), "{} of {tried}:\n{wrong}", wrong.lines().count());
}

#[test]
fn a_hidden_fact_never_heals() {
    hide_facts(|n| n % 31 == 0);
}

#[test]
#[ignore = "minutes: all facts of all trees"]
fn no_hidden_fact_ever_heals() {
    hide_facts(|_| true);
}
