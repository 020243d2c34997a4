#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod fault;
pub mod finding;
mod headline;
pub mod log;
pub mod report;
pub mod report_text;
pub mod rule;
pub mod rules;

mod case;
mod remedies;
mod text;

use facts::Facts;
use instruments::measurements::Measurements;

use case::{Asked, Case};
use finding::{CheckState, Checked, Diagnosis, Finding, Harm, Severity};
use rule::RuleSelection;
use rule::{Outcome, Skipped};

/// Applies every rule to a machine.
pub fn diagnose(facts: &Facts, measurements: Option<&Measurements>) -> Diagnosis {
    diagnose_by(facts, measurements, &RuleSelection::default())
}

/// Applies the rules of a selection to a machine.
pub fn diagnose_by(
    facts: &Facts,
    measurements: Option<&Measurements>,
    selection: &RuleSelection,
) -> Diagnosis {
    let case = Case::new(facts, measurements);
    let mut findings = Vec::new();
    let mut checked = Vec::new();
    let rules: Vec<_> = selection.rules().collect();
    for rule in &rules {
        let outcome = (rule.check)(&case);
        let asked = case.take_asked();
        let (state, outcome) = match outcome {
            Ok(Outcome::Found(found)) => {
                findings.extend(found.into_iter().map(|finding| Finding {
                    rule: rule.name.to_owned(),
                    source: rule.source.to_owned(),
                    harm: if finding.harm == Harm::WrongNow { finding.harm } else { rule.harm },
                    ..finding
                }));
                continue;
            }
            Ok(Outcome::Fine(why)) => (CheckState::InOrder, why),
            Err(Skipped::DoesNotApply(why)) => (CheckState::DoesNotApply, why),
            Err(Skipped::Absent(why) | Skipped::CouldNot(why)) => (CheckState::NotChecked, why),
        };
        checked.push(checked_entry(rule.name, state, outcome, asked));
    }
    // A person on call needs something to do.
    debug_assert!(
        findings.iter().all(|finding: &Finding| {
            finding.severity == Severity::Note || !finding.remedies.is_empty()
        }),
        "no remedy: {findings:?}"
    );
    // A stable sort: within a severity, findings keep the table's order,
    // which puts causes before consequences.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let time = headline::time_now(&case, &findings);
    let verdict = headline::headline(&time, &findings, &checked, rules.len());
    Diagnosis { verdict, time, findings, checked }
}

/// A rule without a finding. Whatever it made of them, it checked nothing where a fact that it
/// asked for is unknown, or where it asked for none.
fn checked_entry(rule: &str, state: CheckState, outcome: String, asked: Asked) -> Checked {
    let mut entry = Checked {
        rule: rule.to_owned(),
        outcome,
        state,
        rests_on: asked.known.into_iter().map(str::to_owned).collect(),
    };
    if state != CheckState::NotChecked && !asked.unknown.is_empty() {
        entry.state = CheckState::NotChecked;
        entry.outcome = asked.unknown.into_iter().collect::<Vec<_>>().join("; ");
    }
    if entry.rests_on.is_empty() || entry.state == CheckState::NotChecked {
        entry.state = CheckState::NotChecked;
        entry.rests_on.clear();
    }
    entry
}

#[cfg(test)]
mod tests;
#[cfg(test)]
use tests::testing;
