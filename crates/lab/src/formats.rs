//! A report in the formats of test runners: TAP 14, and JUnit's XML as CI
//! servers read it.

use facts::text::printable;

use crate::results::{Check, CheckTally, ExperimentOutcome, Report, Verdict};

/// The Test Anything Protocol, version 14: all checks; an experiment that could
/// not run is a failure.
pub fn tap(report: &Report) -> String {
    let checks = report
        .experiments
        .iter()
        .flat_map(|outcome| outcome.checks.iter().map(|check| tap_check(outcome.name(), check)));
    let not_run = report.not_run.iter().map(|one| {
        let (name, why) = (tap_escaped(&one.experiment), quoted(&one.why));
        ("not ok", format!("{name}: runs\n  ---\n  found: {why}\n  ...\n"))
    });
    let results: Vec<_> = checks.chain(not_run).collect();
    let mut text = format!("TAP version 14\n1..{}\n", results.len());
    for (number, (result, line)) in (1..).zip(results) {
        text.push_str(&format!("{result} {number} - {line}"));
    }
    text
}

fn tap_check(experiment: &str, check: &Check) -> (&'static str, String) {
    let result = if check.verdict == Verdict::Failed { "not ok" } else { "ok" };
    let name = tap_escaped(&format!("{experiment}: {}", check.name));
    let (expected, found) = (quoted(&check.expected), quoted(&check.found));
    let line = match &check.verdict {
        Verdict::NotMeasured(why) => format!("{name} # SKIP {}\n", tap_escaped(why)),
        _ => format!("{name}\n  ---\n  expected: {expected}\n  found: {found}\n  ...\n"),
    };
    (result, line)
}

/// JUnit: a suite for each experiment; one that could not run is an error.
pub fn junit(report: &Report) -> String {
    let (tally, errors) = (CheckTally::total(report), report.not_run.len());
    let ran = report.experiments.iter().map(|outcome| {
        let cases = outcome.checks.iter().map(|check| case(outcome.name(), check));
        suite(
            outcome.name(),
            CheckTally::from_outcome(outcome),
            0,
            &seconds(outcome),
            &cases.collect::<String>(),
        )
    });
    let not_run = report.not_run.iter().map(|one| {
        let name = escaped(&one.experiment);
        let error = format!("<error message=\"{}\"/>", escaped(&one.why));
        suite(&name, CheckTally::default(), 1, "", &test_case(&name, "runs", &error))
    });
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"parachron lab\" \
         {}>\n{}</testsuites>\n",
        counts(tally, errors),
        ran.chain(not_run).collect::<String>()
    )
}

fn seconds(outcome: &ExperimentOutcome) -> String {
    format!(" time=\"{:.3}\"", outcome.seconds)
}

fn counts(tally: CheckTally, errors: usize) -> String {
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{errors}\" skipped=\"{}\"",
        tally.checks() + errors,
        tally.failed,
        tally.not_measured
    )
}

fn suite(name: &str, tally: CheckTally, errors: usize, time: &str, cases: &str) -> String {
    let counts = counts(tally, errors);
    format!("  <testsuite name=\"{name}\" {counts}{time}>\n{cases}  </testsuite>\n")
}

fn case(suite: &str, check: &Check) -> String {
    let message = escaped(&format!("expected: {}; found: {}", check.expected, check.found));
    let inside = match &check.verdict {
        Verdict::Passed => format!("<system-out>{message}</system-out>"),
        Verdict::Failed => format!("<failure message=\"{message}\"/>"),
        Verdict::NotMeasured(why) => format!("<skipped message=\"{}\"/>", escaped(why)),
    };
    test_case(suite, &escaped(&check.name), &inside)
}

fn test_case(suite: &str, name: &str, inside: &str) -> String {
    format!(
        "    <testcase classname=\"parachron.lab.{suite}\" name=\"{name}\">{inside}</testcase>\n"
    )
}

/// A description, in which `#` would begin a directive.
fn tap_escaped(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// A YAML string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(text).replace('\\', "\\\\").replace('"', "\\\""))
}

/// XML's text.
fn escaped(text: &str) -> String {
    let text = printable(text).replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
