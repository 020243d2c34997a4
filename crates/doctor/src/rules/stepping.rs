//! Whether chronyd may step the clock on a machine that pauses.

use facts::kernel::LogEvent;

use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};

const HYPER_V: &str = "Hyper-V can pause or move its guests";

/// Whether anything shows that this machine is paused, saved or moved.
pub(super) fn pauses(case: &Case<'_>) -> bool {
    case.snapshots().is_some()
        || case.generation_device().is_some()
        || case.is_hyper_v()
        || case.is_guest() == Some(true)
            && case
                .logged(|event| matches!(event, LogEvent::Restored | LogEvent::Resumed))
                .next()
                .is_some()
}

/// `makestep-limited`
pub(crate) fn check_limited(case: &Case<'_>) -> Check {
    let config = case.chrony_config_perhaps_used()?;
    if !pauses(case) {
        return Err(Skipped::DoesNotApply(
            "does not apply: no evidence that this machine is ever paused".to_owned(),
        ));
    }
    if case.is_kept() {
        return Outcome::fine("parachron keep steps the clock after a pause");
    }
    let (allowed, evidence) = match config.makestep {
        Some(step) if step.at_any_time() => {
            return Outcome::fine(format!(
                "chronyd steps offsets above {} s at any time",
                step.threshold_s
            ));
        }
        Some(step) => (
            match step.updates {
                0 => "may never step this clock".to_owned(),
                1 => "may step this clock only at its first update".to_owned(),
                n => format!("may step this clock only during its first {n} updates"),
            },
            format!("chrony's configuration: {step}"),
        ),
        None => (
            "may never step this clock".to_owned(),
            "chrony's configuration: no makestep line".to_owned(),
        ),
    };
    let seen = case
        .logged(|event| matches!(event, LogEvent::Restored | LogEvent::Resumed))
        .filter(|line| case.is_recent(line))
        .last();
    let severity = if seen.is_some() { Severity::Warning } else { Severity::Note };
    let saved = |device| format!("ACPI device {device}: the host can save and restore it");
    let shown = seen
        .map(log_evidence)
        .or_else(|| case.generation_device().map(saved))
        .or_else(|| case.snapshots().map(|by| format!("{by} saves and restores its guests")))
        .or_else(|| case.is_hyper_v().then(|| HYPER_V.to_owned()));
    Finding::new(severity, format!("chronyd {allowed}, and this machine can be paused"))
        .evidence(evidence)
        .evidence_from(case.perhaps_unused("chronyd"))
        .evidence_from(shown)
        .explain(
            "After a pause that the kernel does not notice (a saved state, a sleep of the host) \
             the clock is behind by the length of the pause, and chronyd slews it: at its usual 83 \
             333 ppm it takes twelve hours to recover an hour.",
        )
        .remedy(remedies::makestep(case))
        .remedy(remedies::keep(case))
        .alone()
}

#[cfg(test)]
mod tests;
