//! All checks by the Test Anything Protocol, version 14.

use lab::results::Verdict;

use super::report::LabReport;
use super::{checks, summary};
use crate::output::printable;

/// The whole report; what could not be made is a failure.
pub(super) fn render(report: &LabReport) -> String {
    let experiments = &report.lab.experiments;
    let planned = experiments.iter().map(|outcome| outcome.checks.len()).sum::<usize>()
        + report.not_made.len();
    let mut text = format!("TAP version 14\n1..{planned}\n");
    let mut number = 0;
    for outcome in experiments {
        for check in &outcome.checks {
            number += 1;
            let result = if check.verdict == Verdict::Failed { "not ok" } else { "ok" };
            let name = escaped(&format!("{}: {}", summary::name(&outcome.findings), check.name));
            text.push_str(&format!("{result} {number} - {name}"));
            if let Verdict::NotMeasured(why) = &check.verdict {
                text.push_str(&format!(" # SKIP {}\n", escaped(why)));
                continue;
            }
            text.push_str(&format!(
                "\n  ---\n  must hold: {}\n  found: {}\n  ...\n",
                quoted(&check.bar),
                quoted(checks::found(check))
            ));
        }
    }
    for one in &report.not_made {
        number += 1;
        let name = escaped(&one.experiment);
        text.push_str(&format!("not ok {number} - {name}: could be made\n"));
        text.push_str(&format!("  ---\n  found: {}\n  ...\n", quoted(&one.why)));
    }
    text
}

/// A description, whose `#` would begin a directive.
fn escaped(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// A YAML string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(text).replace('\\', "\\\\").replace('"', "\\\""))
}
