//! The page of all long runs, rendered from their results.

use std::fs;
use std::io;

use serde_json::Value;

use super::{RESULTS, result};
use crate::long::runs::RUNS;
use crate::project::Project;

const PAGE: &str = "docs/validation/runs.md";

const HEAD: &str = "\
# Results of long runs

`cargo xtask long` runs what takes too long for CI and writes this page from the results, which
are kept as data in [results](results). A run that was not repeated keeps its latest result;
its commit says how old the code was.

| run | what | result | date, UTC | commit | minutes |
| --- | --- | --- | --- | --- | --- |
";

/// Renders the results.
pub(super) fn write(project: &Project) -> io::Result<()> {
    let results: Vec<_> =
        RUNS.iter().map(|run| (run.what, run.name, result(project, run.name))).collect();
    fs::create_dir_all(project.path(RESULTS))?;
    fs::write(project.path(PAGE), page(&results))
}

fn page(results: &[(&str, &str, Option<Value>)]) -> String {
    let mut text = HEAD.to_owned();
    for (what, name, result) in results {
        let field =
            |field: &str| result.as_ref().and_then(|result| result[field].as_str()).unwrap_or("—");
        let took = result.as_ref().and_then(|result| result["took_s"].as_f64());
        let took = took.map_or_else(|| "—".to_owned(), |took_s| format!("{:.0}", took_s / 60.0));
        text += &format!(
            "| {name} | {what} | {} | {} | {} | {took} |\n",
            state(result.as_ref()),
            field("date"),
            field("commit")
        );
    }
    text += "\n## Commands and machines\n\n";
    for (_, name, result) in results {
        let Some(result) = result else { continue };
        let field = |field: &str| result[field].as_str().unwrap_or("not known");
        text += &format!(
            "- {name}: `{}` on {}, {}\n",
            field("command"),
            field("machine"),
            field("rustc")
        );
        for (reason, times) in result["reasons"].as_object().into_iter().flatten() {
            text += &format!("  - {times} × {reason}\n");
        }
    }
    text
}

/// The ending of a run with its counts, or that it never ran.
pub(super) fn state(result: Option<&Value>) -> String {
    let Some(result) = result else { return "not run".to_owned() };
    let count = |name: &str| result[name].as_u64().unwrap_or(0);
    let ending = if result["ending"] == "passed" { "passed" } else { "**failed**" };
    let mut text = ending.to_owned();
    for (name, words) in [
        ("passed", "right"),
        ("failed", "wrong"),
        ("not_measured", "not measured"),
        ("skipped", "skipped"),
    ] {
        if count(name) > 0 {
            text += &format!(", {} {words}", count(name));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_that_never_ran_is_named() {
        let ran = json!({
            "ending": "failed", "passed": 40, "failed": 2, "not_measured": 1, "skipped": 0,
            "date": "2026-11-24 10:00", "commit": "28010492", "took_s": 125.0,
            "command": "cargo xtask arm64", "machine": "2 × EPYC", "rustc": "rustc 1.95.0",
            "reasons": { "not measured: busy": 1 },
        });
        let page = page(&[("Tests for arm64", "arm64", Some(ran)), ("Miri", "miri", None)]);
        let row = "| arm64 | Tests for arm64 | **failed**, 40 right, 2 wrong, 1 not measured | 2026-11-24 10:00 | 28010492 | 2 |\n";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("| miri | Miri | not run | — | — | — |\n"), "{page}");
        assert!(page.contains(
            "- arm64: `cargo xtask arm64` on 2 × EPYC, rustc 1.95.0\n  - 1 × not measured: busy\n"
        ));
    }
}
