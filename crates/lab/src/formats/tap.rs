//! The Test Anything Protocol, version 14.

use super::printable::printable;
use crate::results::{Report, Verdict};

/// All checks; an experiment that could not run is a failure.
pub fn tap(report: &Report) -> String {
    let checks = report.experiments.iter().flat_map(|outcome| {
        outcome.checks.iter().map(|check| (format!("{}: {}", outcome.name(), check.name), check))
    });
    let planned = checks.clone().count() + report.not_run.len();
    let mut text = format!("TAP version 14\n1..{planned}\n");
    let mut number = 0;
    for (name, check) in checks {
        number += 1;
        let result = if check.verdict == Verdict::Failed { "not ok" } else { "ok" };
        text.push_str(&format!("{result} {number} - {}", escaped(&name)));
        text.push_str(&match &check.verdict {
            Verdict::NotMeasured(why) => format!(" # SKIP {}\n", escaped(why)),
            Verdict::Passed | Verdict::Failed => format!(
                "\n  ---\n  expected: {}\n  found: {}\n  ...\n",
                quoted(&check.expected),
                quoted(&check.found)
            ),
        });
    }
    for one in &report.not_run {
        number += 1;
        let name = escaped(&one.experiment);
        text.push_str(&format!("not ok {number} - {name}: runs\n"));
        text.push_str(&format!("  ---\n  found: {}\n  ...\n", quoted(&one.why)));
    }
    text
}

/// A description, in which `#` would begin a directive.
fn escaped(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// A YAML string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(text).replace('\\', "\\\\").replace('"', "\\\""))
}
