//! Whether the clocks keep to the budget, and which limits were not checked.

use instruments::drift::budget::{Budget, Verdict};

use super::report::{DriftReport, NotHeld, PairReport};
use crate::error::CliError;
use instruments::figures::time;

impl NotHeld {
    /// No offset is an error: clocks that count from boot are off by anything,
    /// and so are references that do not tell the time of day.
    pub(super) fn offset() -> Self {
        Self {
            why: "--max-offset was not checked: no clock that counts from 1970 (realtime, rtc, \
                  phc) was compared with a reference that gives UTC"
                .into(),
            remedy: "name such a reference (--ntp, --vmclock, --chrony, or --phc with what it \
                     counts), and with --clock such a clock"
                .into(),
        }
    }

    fn frequency(clocks: &[&str]) -> Self {
        Self {
            why: format!(
                "--max-ppm was not checked for {}: too few comparisons for a frequency",
                clocks.join(", ")
            ),
            remedy: "a longer --duration, or a shorter --interval".into(),
        }
    }
}

/// The limits that were not checked.
pub(super) fn not_held(pairs: &[PairReport], budget: Budget) -> Vec<NotHeld> {
    // Measured against one reference, a clock has its frequency.
    let mut unmeasured: Vec<&str> = Vec::new();
    for pair in pairs.iter().filter(|pair| is_unmeasured(pair)) {
        let clock = pair.clock.as_str();
        let mut others = pairs.iter().filter(|other| other.clock == clock);
        let is_measured = others.any(|other| is_judged(other) && !is_unmeasured(other));
        if !is_measured && !unmeasured.contains(&clock) {
            unmeasured.push(clock);
        }
    }
    let frequency = (!unmeasured.is_empty()).then(|| NotHeld::frequency(&unmeasured));
    let has_none = budget.max_offset_ns.is_some() && !pairs.iter().any(has_offset_verdict);
    frequency.into_iter().chain(has_none.then(NotHeld::offset)).collect()
}

fn is_judged(pair: &PairReport) -> bool {
    pair.frequency_verdict.is_some()
}

fn is_unmeasured(pair: &PairReport) -> bool {
    pair.frequency_verdict == Some(Verdict::NotMeasured)
}

fn has_offset_verdict(pair: &PairReport) -> bool {
    pair.offset_verdict.is_some()
}

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
        "Outside the budget."
    } else if !report.not_held.is_empty() {
        "Whether it is within the budget is not known."
    } else if is_sure {
        "Within the budget."
    } else {
        "Within the budget, but not certainly: measure for longer."
    };
    lines.push(all.into());
    lines
}

fn complaints(pair: &PairReport, report: &DriftReport) -> Vec<String> {
    let relation = |verdict: Verdict| match verdict {
        // What was not measured is listed for all clocks together.
        Verdict::Within | Verdict::NotMeasured => None,
        Verdict::WithinUnsure => Some("within, but its interval reaches beyond"),
        Verdict::OutsideUnsure => Some("beyond, but its interval reaches within"),
        Verdict::Outside => Some("beyond"),
    };
    let who = format!("{} against {}", pair.clock, pair.reference);
    let mut lines = Vec::new();
    if let (Some(limit), Some(words)) =
        (report.budget.max_ppm, pair.frequency_verdict.and_then(relation))
    {
        lines.push(format!("{who}: frequency {words} the {limit} ppm allowed."));
    }
    let limit = report.budget.max_offset_ns;
    if let (Some(limit), Some(words)) = (limit, pair.offset_verdict.and_then(relation)) {
        lines.push(format!("{who}: offset {words} the {} allowed.", time(limit)));
    }
    lines
}

#[cfg(test)]
mod tests;
