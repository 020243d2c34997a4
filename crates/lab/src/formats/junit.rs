//! JUnit's XML, as CI servers read it: one suite for each experiment.

use super::printable::printable;
use crate::results::{Check, Outcome, Report, Tally, Verdict};

/// All checks; an experiment that could not run is an error.
pub fn junit(report: &Report) -> String {
    let (tally, errors) = (Tally::total(report), report.not_run.len());
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"parachron lab\" tests=\"{}\" failures=\"{}\" errors=\"{errors}\" \
         skipped=\"{}\">\n",
        tally.checks() + errors,
        tally.failed,
        tally.not_measured
    );
    for outcome in &report.experiments {
        suite(&mut xml, outcome);
    }
    for one in &report.not_run {
        let (name, why) = (escaped(&one.experiment), escaped(&one.why));
        xml.push_str(&format!(
            "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\" \
             skipped=\"0\">\n    <testcase classname=\"parachron.lab.{name}\" \
             name=\"runs\"><error message=\"{why}\"/></testcase>\n  </testsuite>\n"
        ));
    }
    xml + "</testsuites>\n"
}

fn suite(xml: &mut String, outcome: &Outcome) {
    let (tally, name) = (Tally::of(outcome), outcome.name());
    xml.push_str(&format!(
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" \
         time=\"{:.3}\">\n",
        tally.checks(),
        tally.failed,
        tally.not_measured,
        outcome.seconds
    ));
    for check in &outcome.checks {
        case(xml, name, check);
    }
    xml.push_str("  </testsuite>\n");
}

fn case(xml: &mut String, suite: &str, check: &Check) {
    let message = escaped(&format!("expected: {}; found: {}", check.expected, check.found));
    let inside = match &check.verdict {
        Verdict::Passed => format!("<system-out>{message}</system-out>"),
        Verdict::Failed => format!("<failure message=\"{message}\"/>"),
        Verdict::NotMeasured(why) => format!("<skipped message=\"{}\"/>", escaped(why)),
    };
    let name = escaped(&check.name);
    xml.push_str(&format!(
        "    <testcase classname=\"parachron.lab.{suite}\" name=\"{name}\">{inside}</testcase>\n"
    ));
}

fn escaped(text: &str) -> String {
    let text = printable(text).replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
