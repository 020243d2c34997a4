//! CPU time stolen by the host, and stalls.

use facts::kernel::LogEvent;
use instruments::figures;

use crate::case::{Case, log_evidence, why_not};
use crate::finding::{Finding, Remedy, Severity};
use crate::outcome::{Check, Outcome, Skipped};

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
        return Outcome::fine(format!("{percent:.2} % of CPU time stolen since boot"));
    }
    let severity = if percent >= HIGH_PERCENT { Severity::Warning } else { Severity::Note };
    Finding::new(severity, format!("The host stole {percent:.1} % of this machine's CPU time"))
        .evidence(format!("/proc/stat: steal {percent:.1} % of all CPU time since boot"))
        .why(
            "While the host runs other guests this machine stalls without notice: timers fire late, \
             clock reads are late, and timeouts expire early.",
        )
        .remedy(Remedy::advice(
            "On the host: run fewer vCPUs than CPUs, or dedicate CPUs to this guest; in a cloud, use \
             an instance type that is not burstable.",
        ))
        .alone()
}

/// `stalls`
pub(crate) fn stalls(case: &Case<'_>) -> Check {
    case.log()?;
    // Less is an ordinary interrupt storm or a busy host; a tenth of a second
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
                "longest timer interrupt {}, which a busy host explains",
                figures::time(ns as f64)
            ),
            None => "no stall in the kernel log".to_owned(),
        });
    };
    let guest = case.is_guest() == Some(true);
    let mut finding = Finding::new(Severity::Warning, "The kernel reported stalled CPUs")
        .evidence(log_evidence(first));
    for line in stalls.iter().skip(1).take(3) {
        finding = finding.evidence(log_evidence(line));
    }
    finding
        .why(if guest {
            "In a guest that is mostly a pause: the host saved, migrated or starved it. Leases and \
             timeouts expired meanwhile."
        } else {
            "A driver, the firmware or a fault kept a CPU from its timers."
        })
        .remedy(Remedy::advice(if guest {
            "Ask the host's operator what it did then. A host that flags its pauses \
             (KVM_KVMCLOCK_CTRL) avoids false alarms of the guest's watchdogs."
        } else {
            "Read the stack trace that follows the line in the kernel log."
        }))
        .alone()
}

#[cfg(test)]
mod tests;
