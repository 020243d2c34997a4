//! The runs of `cargo xtask long`, with the result of each that ever ran.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Line, Parts, Stamp, count, word};
use crate::long::RUNS;

pub(super) fn summarize(parts: &mut Parts, results: &[Value]) {
    let sum = |field: &str| results.iter().map(|result| count(&result[field])).sum();
    for result in results.iter().filter(|result| result["ending"] != "passed") {
        parts.wrong.push(format!(
            "`cargo xtask long`, {}: {}",
            word(&result["run"]),
            state(Some(result))
        ));
    }
    for result in results {
        for (reason, times) in result["reasons"].as_object().into_iter().flatten() {
            let run = word(&result["run"]);
            parts.absent.push(format!("`cargo xtask long`, {run}: {times} × {reason}"));
        }
    }
    let never = RUNS.iter().filter(|run| results.iter().all(|result| result["run"] != run.name));
    let never: Vec<String> = never.map(|run| format!("`{}`", run.name)).collect();
    if !never.is_empty() {
        parts.absent.push(format!("`cargo xtask long` has not run yet: {}.", never.join(", ")));
    }
    parts.lines.push(Line {
        what: "`cargo xtask long`, checks of its runs".to_owned(),
        tried: format!("{} of {} runs", results.len(), RUNS.len()),
        right: sum("passed"),
        wrong: sum("failed"),
        not_measured: sum("not_measured"),
        skipped: sum("skipped"),
        stamps: results.iter().map(Stamp::from_result).collect(),
    });
}

/// The runs that ran, with what each ran on.
pub(super) fn table(text: &mut String, results: &[Value], newest: &Stamp) {
    text.push_str("\n## Runs of `cargo xtask long`\n\n");
    if results.is_empty() {
        text.push_str("None has run yet.\n");
        return;
    }
    text.push_str(
        "| run | command | result | date, commit | minutes | machine |\n\
         | --- | --- | --- | --- | ---: | --- |\n",
    );
    for run in RUNS {
        let Some(result) = results.iter().find(|result| result["run"] == run.name) else {
            continue;
        };
        let minutes = result["took_s"].as_f64().unwrap_or(0.0) / 60.0;
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} | {minutes:.0} | {}, {} |",
            run.name,
            word(&result["command"]),
            state(Some(result)),
            Stamp::from_result(result).beside(newest),
            word(&result["machine"]),
            word(&result["rustc"]),
        );
    }
}

/// The ending of a run with its counts, or that it never ran.
pub(crate) fn state(result: Option<&Value>) -> String {
    let Some(result) = result else { return "not run".to_owned() };
    let mut text = if result["ending"] == "passed" { "passed" } else { "**failed**" }.to_owned();
    for (name, words) in [
        ("passed", "right"),
        ("failed", "wrong"),
        ("not_measured", "not measured"),
        ("skipped", "skipped"),
    ] {
        if count(&result[name]) > 0 {
            let _ = write!(text, ", {} {words}", result[name]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_shown_with_its_counts_and_those_that_never_ran_are_named() {
        let ran = json!({
            "run": "arm64", "ending": "failed", "passed": 40, "failed": 2, "not_measured": 1,
            "skipped": 0, "date": "2026-11-24 10:00", "commit": "28010492", "took_s": 125.0,
            "command": "cargo xtask arm64", "machine": "2 × EPYC", "rustc": "rustc 1.95.0",
        });
        let newest = Stamp::from_result(&ran);
        let mut text = String::new();
        let ran = [ran];
        table(&mut text, &ran, &newest);
        let row = "| arm64 | `cargo xtask arm64` | **failed**, 40 right, 2 wrong, 1 not measured | \
                   2026-11-24 28010492 | 2 | 2 × EPYC, rustc 1.95.0 |\n";
        assert!(text.ends_with(row), "{text}");
        let mut parts = Parts::default();
        summarize(&mut parts, &ran);
        assert!(parts.absent[0].contains("`miri`") && !parts.absent[0].contains("`arm64`"));
        assert_eq!(parts.wrong.len(), 1);
    }
}
