//! Running one rule, and its result as a person reads it.

use facts::Facts;
use instruments::measurements::Measurements;

use crate::finding::{CheckState, Diagnosis, Finding};

/// The findings of one rule.
pub(crate) fn findings_of_rule(diagnosis: &Diagnosis, rule: &str) -> Vec<Finding> {
    diagnosis.findings.iter().filter(|finding| finding.rule == rule).cloned().collect()
}

/// The findings of one rule as a person reads them, for snapshots.
pub(crate) fn finding_text(
    facts: &Facts,
    measurements: Option<&Measurements>,
    rule: &str,
) -> String {
    let diagnosis = crate::diagnose(facts, measurements);
    let findings = findings_of_rule(&diagnosis, rule);
    assert!(!findings.is_empty(), "{rule} found nothing: {:#?}", diagnosis.checked);
    findings.iter().map(as_text).collect::<Vec<_>>().join("\n")
}

/// The outcome of a rule without findings; panics if it has some.
pub(crate) fn fine(facts: &Facts, measurements: Option<&Measurements>, rule: &str) -> String {
    outcome(facts, measurements, rule, false)
}

/// Why a rule could not check; panics if it could.
pub(crate) fn could_not(facts: &Facts, measurements: Option<&Measurements>, rule: &str) -> String {
    outcome(facts, measurements, rule, true)
}

fn outcome(
    facts: &Facts,
    measurements: Option<&Measurements>,
    rule: &str,
    not_checked: bool,
) -> String {
    let diagnosis = crate::diagnose(facts, measurements);
    let entry = diagnosis.checked.iter().find(|entry| entry.rule == rule);
    let Some(entry) = entry else {
        panic!("{rule} found something: {:#?}", findings_of_rule(&diagnosis, rule));
    };
    assert_eq!(entry.state == CheckState::NotChecked, not_checked, "{rule}: {}", entry.outcome);
    entry.outcome.clone()
}

fn as_text(finding: &Finding) -> String {
    let mut text = format!("{:?}: {}\n", finding.severity, finding.what);
    for line in &finding.evidence {
        text += &format!("  | {line}\n");
    }
    text += &format!("  {}\n", finding.why);
    for remedy in &finding.remedies {
        text += &format!("  > {}\n", remedy.what);
        if let Some(command) = &remedy.command {
            text += &format!("    $ {command}\n");
        }
        if let Some(changes) = &remedy.changes {
            text += &format!("    ({changes})\n");
        }
    }
    text
}
