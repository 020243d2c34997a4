#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod fault;
pub mod finding;
pub mod fleet;
pub mod log;
pub mod report;
pub mod report_text;
pub mod rule;
pub mod rules;
pub mod selection;

mod case;
mod outcome;
mod remedies;
#[cfg(test)]
mod testing;
mod text;

use facts::Facts;
use instruments::measurements::Measurements;

use case::Case;
use finding::{Checked, Diagnosis, Finding, Severity};
use outcome::{Outcome, Skipped};
use selection::RuleSelection;

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
        let entry = |outcome: String, could_check| Checked {
            rule: rule.name.to_owned(),
            outcome,
            could_check,
        };
        match (rule.check)(&case) {
            Ok(Outcome::Found(found)) => findings.extend(found.into_iter().map(|finding| {
                Finding { rule: rule.name.to_owned(), source: rule.source.to_owned(), ..finding }
            })),
            Ok(Outcome::Fine(why)) => checked.push(entry(why, true)),
            Err(Skipped::DoesNotApply(why)) => checked.push(entry(why, true)),
            Err(Skipped::CouldNot(why)) => checked.push(entry(why, false)),
        }
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
    Diagnosis { verdict: verdict(&findings, &checked, rules.len()), findings, checked }
}

/// The diagnosis in one line.
fn verdict(findings: &[Finding], checked: &[Checked], rules: usize) -> String {
    let unknown = checked.iter().filter(|entry| !entry.could_check).count();
    let checks = rules - unknown;
    let Some(worst) = findings.first() else {
        return match (checks, unknown) {
            (0, _) => "Nothing could be checked.".to_owned(),
            (_, 0) => format!("The clock is in order: {checks} checks, no findings."),
            _ => format!(
                "The clock is in order as far as could be checked: {checks} checks, no findings; \
                 {unknown} checks were not possible."
            ),
        };
    };
    let head = match worst.severity {
        Severity::Error => "The clock needs attention",
        Severity::Warning => "The clock works but is at risk",
        Severity::Note => "The clock is in order",
    };
    format!("{head} ({}). {}.", counts(findings), worst.what)
}

/// `1 error, 2 warnings`
fn counts(findings: &[Finding]) -> String {
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    [
        (of(Severity::Error), "error", "errors"),
        (of(Severity::Warning), "warning", "warnings"),
        (of(Severity::Note), "note", "notes"),
    ]
    .into_iter()
    .filter(|(n, ..)| *n > 0)
    .map(|(n, one, many)| text::count(n, one, many))
    .collect::<Vec<_>>()
    .join(", ")
}

#[cfg(test)]
mod tests;
