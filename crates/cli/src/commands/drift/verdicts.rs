//! Whether the clocks keep to the budget, in sentences and as an error.

use inspect::comparison::PairReport;
use instruments::drift::BudgetVerdict;
use instruments::figures::time;

use super::report::{DriftReport, NotHeld};
use crate::error::CliError;

/// Whether all is within the budget.
///
/// # Errors
/// A limit was not checked, and nothing is outside the others.
pub(super) fn is_within(report: &DriftReport) -> Result<bool, CliError> {
    if report.is_outside() {
        return Ok(false);
    }
    let [first, others @ ..] = &report.not_held[..] else { return Ok(true) };
    let joined = |part: fn(&NotHeld) -> &str| {
        others.iter().map(part).fold(part(first).to_owned(), |all, one| all + "; " + one)
    };
    Err(CliError::Failed { cause: joined(|one| &one.why), remedy: joined(|one| &one.remedy) })
}

/// The same in sentences; none without limits.
pub(super) fn sentences(report: &DriftReport) -> Vec<String> {
    if report.budget.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<String> =
        report.pairs.iter().flat_map(|pair| complaints(pair, report)).collect();
    let is_sure = lines.is_empty();
    lines.extend(report.not_held.iter().map(|one| format!("{}.", one.why)));
    let all = if report.is_outside() {
        "Outside the limit."
    } else if !report.not_held.is_empty() {
        "It is not known whether the clocks are within the limit."
    } else if is_sure {
        "Within the limit."
    } else {
        "Within the limit, but not with certainty: use a longer --duration."
    };
    lines.push(all.into());
    lines
}

fn complaints(pair: &PairReport, report: &DriftReport) -> Vec<String> {
    let relation = |verdict: BudgetVerdict| match verdict {
        // What was not measured is listed for all clocks together.
        BudgetVerdict::Within | BudgetVerdict::NotMeasured => None,
        BudgetVerdict::WithinUnsure => Some("is within, but its interval extends beyond"),
        BudgetVerdict::OutsideUnsure => Some("is beyond, but its interval extends within"),
        BudgetVerdict::Outside => Some("is beyond"),
    };
    let who = format!("{} against {}", pair.clock, pair.reference);
    let mut lines = Vec::new();
    if let (Some(limit), Some(words)) =
        (report.budget.max_ppm, pair.frequency_verdict.and_then(relation))
    {
        lines.push(format!("{who}: the frequency {words} the {limit} ppm allowed."));
    }
    let limit = report.budget.max_offset_ns;
    if let (Some(limit), Some(words)) = (limit, pair.offset_verdict.and_then(relation)) {
        lines.push(format!("{who}: the offset {words} the {} allowed.", time(limit)));
    }
    lines
}

#[cfg(test)]
mod tests;
