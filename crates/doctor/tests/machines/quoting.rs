//! No stranger's text in a command: a shell that is given a remedy's command never runs what a
//! captured file says.

use std::fs;

use crate::hidden::facts_of;
use crate::trees::{copy_of, diagnosis_of, names};

/// What a shell would run, were it not quoted.
const INJECTED: &str = "$(id>x)`id`;id|id";

/// What of a command a shell acts on: all but text in single quotes and escaped characters.
fn acted_on(command: &str) -> String {
    let (mut kept, mut quoted, mut escaped) = (String::new(), false, false);
    for c in command.chars() {
        match c {
            _ if escaped => escaped = false,
            '\'' => quoted = !quoted,
            '\\' if !quoted => escaped = true,
            c if !quoted => kept.push(c),
            _ => {}
        }
    }
    kept
}

/// Each word of each fact of each tree with something appended, of them those with `sampled(n)`.
#[test]
fn no_word_of_a_fact_is_run() {
    let mut commands = 0;
    for (nth, tree) in names().into_iter().enumerate() {
        let copy = copy_of(&tree);
        // Whose lengths would no longer be those of its files.
        let _ = fs::remove_file(copy.path().join("parachron/manifest.json"));
        for file in facts_of(copy.path()).into_iter().skip(nth % 5).step_by(5) {
            let path = copy.path().join(&file);
            let whole = fs::read_to_string(&path).unwrap_or_default();
            let each = |word: &str| match word.contains(|c: char| c.is_ascii_alphabetic()) {
                true => format!("{}{INJECTED}", word.trim_end_matches('\n')),
                false => word.to_owned(),
            };
            for last_only in [false, true] {
                let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
                for line in &mut lines {
                    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
                    let from = if last_only { words.len() - 1 } else { 0 };
                    words[from..].iter_mut().for_each(|word| *word = each(word));
                    *line = words.join(" ");
                }
                fs::write(&path, lines.join("\n") + "\n").expect("a copy");
                for finding in diagnosis_of(copy.path()).findings {
                    for command in finding.remedies.into_iter().filter_map(|one| one.command) {
                        commands += 1;
                        let run = acted_on(&command).contains("id>x");
                        assert!(!run, "{tree}: {file}: {command}");
                    }
                }
            }
            fs::write(path, whole).expect("a copy");
        }
    }
    assert!(commands > 100, "{commands}");
}
