//! What the host takes from this machine: CPU time, and moments.

use facts::kernel::LogEvent;

use crate::case::{Case, log_evidence, why_not};
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, Skipped};
use crate::text;

/// `steal-time`
pub(crate) fn steal(case: &Case<'_>) -> Check {
    if case.is_guest() == Some(false) {
        return Err(Skipped::DoesNotApply("does not apply: no hypervisor".to_owned()));
    }
    let steal = &case.facts.load.steal_since_boot;
    let Some(&steal) = steal.known() else { return Err(why_not(steal)) };
    let percent = steal * 100.0;
    const HIGH_PERCENT: f64 = 5.0;
    const NOTABLE_PERCENT: f64 = 2.0;
    if percent < NOTABLE_PERCENT {
        return Outcome::fine(format!("{percent:.2} % of CPU time since boot"));
    }
    let severity = if percent >= HIGH_PERCENT { Severity::Warning } else { Severity::Note };
    Finding::new(severity, format!("The host took {percent:.1} % of this machine's CPU time"))
        .evidence(format!("/proc/stat: steal {percent:.1} % of all CPU time since boot"))
        .why(
            "While the host runs others this machine stands still and does not notice: timers \
             fire late, the clock is read late, and time-outs run out early.",
        )
        .remedy(Remedy::advice(
            "On the host: fewer vCPUs than CPUs, or CPUs of its own for this guest; in a cloud, \
             an instance that is not burstable.",
        ))
        .alone()
}

/// `stalls`
pub(crate) fn stalls(case: &Case<'_>) -> Check {
    case.log()?;
    // Below, an ordinary interrupt storm or a busy host; a tenth of a second
    // is a pause.
    const PAUSE_NS: u64 = 100_000_000;
    let stalls: Vec<_> = case
        .logged(|event| match event {
            LogEvent::Stall => true,
            LogEvent::HrtimerLate { took_ns } => *took_ns >= PAUSE_NS,
            _ => false,
        })
        .collect();
    let Some(first) = stalls.first() else {
        let longest = case
            .logged(|event| matches!(event, LogEvent::HrtimerLate { .. }))
            .filter_map(|line| match line.event {
                LogEvent::HrtimerLate { took_ns } => Some(took_ns),
                _ => None,
            })
            .max();
        return Outcome::fine(match longest {
            Some(ns) => format!(
                "a timer interrupt took {} once, which a busy host explains",
                text::duration_ns(ns as f64)
            ),
            None => "the kernel log has no pause".to_owned(),
        });
    };
    let guest = case.is_guest() == Some(true);
    let mut finding = Finding::new(Severity::Warning, "The kernel saw CPUs stand still")
        .evidence(log_evidence(first));
    for line in stalls.iter().skip(1).take(3) {
        finding = finding.evidence(log_evidence(line));
    }
    finding
        .why(match guest {
            true => {
                "In a guest that is mostly a pause: the host saved, moved or starved it. Leases \
                 and time-outs ran out meanwhile."
            }
            false => "Something kept a CPU from its timers: a driver, firmware, or a fault.",
        })
        .remedy(Remedy::advice(match guest {
            true => {
                "Ask whoever runs the host what it did then. A host that announces its pauses \
                 (KVM_KVMCLOCK_CTRL) keeps the guest's watchdogs quiet."
            }
            false => "Look at the stack trace that follows the line in the kernel log.",
        }))
        .alone()
}

#[cfg(test)]
mod tests;
