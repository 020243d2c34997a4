//! All checks as JUnit's XML, as CI servers read it: a suite an experiment.

use lab::results::{Check, Outcome, Verdict};

use super::report::{LabReport, Tally};
use super::{checks, summary};
use crate::output::printable;

/// The whole report; what could not be made is an error.
pub(super) fn render(report: &LabReport) -> String {
    let tally = Tally::total(report);
    let all = tally.passed + tally.failed + tally.not_measured + report.not_made.len();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"parachron lab\" tests=\"{all}\" failures=\"{}\" errors=\"{}\" \
         skipped=\"{}\">\n",
        tally.failed,
        report.not_made.len(),
        tally.not_measured
    );
    for outcome in &report.lab.experiments {
        suite(&mut xml, outcome);
    }
    for one in &report.not_made {
        let (name, why) = (escaped(&one.experiment), escaped(&one.why));
        xml.push_str(&format!(
            "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\" \
             skipped=\"0\">\n    <testcase classname=\"parachron.lab.{name}\" name=\"could be \
             made\"><error message=\"{why}\"/></testcase>\n  </testsuite>\n"
        ));
    }
    xml + "</testsuites>\n"
}

fn suite(xml: &mut String, outcome: &Outcome) {
    let (tally, name) = (Tally::of(outcome), summary::name(&outcome.findings));
    xml.push_str(&format!(
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" \
         time=\"{:.3}\">\n",
        outcome.checks.len(),
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
    let said = escaped(&format!("{}; found {}", check.bar, checks::found(check)));
    let inside = match &check.verdict {
        Verdict::Passed => format!("<system-out>{said}</system-out>"),
        Verdict::Failed => format!("<failure message=\"{said}\"/>"),
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
