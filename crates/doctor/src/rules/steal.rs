//! CPU time stolen by the host, and stalls.

use facts::cpu::HypervisorKind;
use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use crate::case::{Case, log_evidence, why_not};
use crate::finding::{Finding, Remedy, Severity};
use crate::outcome::{Check, Outcome, Skipped};

/// Of CPU time, a share from which stolen time is worth knowing.
const NOTABLE: f64 = 0.02;
/// From which it disturbs.
const HIGH: f64 = 0.05;

/// `steal-time`
pub(crate) fn steal(case: &Case<'_>) -> Check {
    if case.is_guest() == Some(false) {
        return Err(Skipped::DoesNotApply("does not apply: no hypervisor".to_owned()));
    }
    let since_boot = &case.facts.load.steal_since_boot;
    let now = case.measured().ok().and_then(|measured| measured.stolen);
    let Some(&since_boot) = since_boot.known() else { return Err(why_not(since_boot)) };
    if since_boot == 0.0
        && let Some(why) = not_reported(case)
    {
        return Err(Skipped::DoesNotApply(format!("not reported here: {why}")));
    }
    let share = now.map_or(0.0, |now| now.share).max(since_boot);
    if share < NOTABLE {
        return Outcome::fine(match now {
            Some(now) => format!(
                "{:.1} % of CPU time stolen in {}, {:.2} % since boot",
                now.share * 100.0,
                figures::seconds(now.over_s),
                since_boot * 100.0
            ),
            None => format!("{:.2} % of CPU time stolen since boot", since_boot * 100.0),
        });
    }
    // A share since boot alone may be an hour's of last month.
    let severity = match now {
        Some(now) if now.share >= HIGH => Severity::Warning,
        // The first figure of a boot may hold time from before it: Xen counts
        // a vCPU that is not yet started as stolen from (xen_steal_clock), KVM
        // all that its thread has ever waited (record_steal_time).
        None if since_boot >= HIGH && !case.just_booted() => Severity::Warning,
        _ => Severity::Note,
    };
    let mut finding = Finding::new(
        severity,
        match now.filter(|now| now.share >= NOTABLE) {
            Some(now) => {
                format!("The host steals {:.1} % of this machine's CPU time", now.share * 100.0)
            }
            None => {
                format!("The host stole {:.1} % of this machine's CPU time", since_boot * 100.0)
            }
        },
    );
    if let Some(now) = now {
        finding = finding.evidence(format!(
            "/proc/stat: steal {:.1} % of all CPU time in {} just now",
            now.share * 100.0,
            figures::seconds(now.over_s)
        ));
    }
    let cloud = ["Amazon", "Google", "Microsoft"].iter().any(|vendor| case.is_vendor(vendor));
    finding
        .evidence(format!(
            "/proc/stat: steal {:.1} % of all CPU time since boot",
            since_boot * 100.0
        ))
        .why(if case.kind() == Some(HypervisorKind::Xen) {
            "Xen counts as stolen what a vCPU waited for a CPU, Xen's own work included, and what \
             it was paused or not yet started: with no other guest too. Meanwhile timers fire \
             late, clock reads are late, and timeouts expire early."
        } else {
            "While the host runs other guests this machine stalls without notice: timers fire \
             late, clock reads are late, and timeouts expire early."
        })
        .remedy(Remedy::advice(if case.is_dom0() {
            "Give dom0 CPUs of its own: dom0_max_vcpus=N dom0_vcpus_pin on Xen's command line, and \
             keep the other guests off those CPUs."
        } else if cloud {
            "Use an instance type that is not burstable, or a larger one."
        } else {
            "On the host: run fewer vCPUs than CPUs, or dedicate CPUs to this guest."
        }))
        .alone()
}

/// Why this hypervisor's guests count no stolen time, where that is known:
/// Linux has a steal clock from KVM, Xen and VMware only, if the host offers it
/// (arch/x86/kernel/kvm.c, arch/x86/xen/time.c, arch/x86/kernel/cpu/vmware.c).
fn not_reported(case: &Case<'_>) -> Option<&'static str> {
    match case.kind()? {
        HypervisorKind::HyperV => Some("Hyper-V tells its guests of no stolen time"),
        HypervisorKind::VirtualBox => Some("VirtualBox tells its guests of no stolen time"),
        HypervisorKind::Kvm => {
            let features = case.facts.cpu.hypervisor.known()?.kvm_features.as_ref()?;
            (!features.steal_time).then_some("this KVM host does not offer KVM_FEATURE_STEAL_TIME")
        }
        _ => None,
    }
}

/// `stalls`
pub(crate) fn stalls(case: &Case<'_>) -> Check {
    case.log()?;
    // Less is an ordinary interrupt storm or a busy host; a tenth of a second
    // is a pause.
    const PAUSE_NS: u64 = 100_000_000;
    let all: Vec<_> = case
        .logged(|event| match event {
            LogEvent::Stall => true,
            LogEvent::HrtimerLate { took_ns } => *took_ns >= PAUSE_NS,
            _ => false,
        })
        .collect();
    let stalls: Vec<&LogLine> = all.iter().copied().filter(|line| case.is_recent(line)).collect();
    let Some(first) = stalls.first() else {
        if let Some(age_s) = all.last().and_then(|line| case.age_s(line)) {
            return Outcome::fine(format!(
                "none in the last 24 h; the last one {} ago",
                figures::seconds(age_s)
            ));
        }
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
