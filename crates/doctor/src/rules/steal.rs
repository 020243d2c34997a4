//! CPU time stolen by the host, and stalls.

use facts::cpu::HypervisorKind;
use facts::kernel::{LogEvent, LogLine};
use instruments::figures;
use instruments::measurements::StolenShare;

use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, Skipped, perhaps};

/// Of CPU time, a share from which stolen time is worth knowing.
const NOTABLE: f64 = 0.02;
/// From which it disturbs.
const HIGH: f64 = 0.05;

/// Why a share since boot proves nothing under Xen: `xen_steal_clock`
/// (drivers/xen/time.c) adds up a vCPU's states `runnable` and `offline`, and
/// the first tick of a boot books all of both so far. Seen under Xen 4.20 with dom0
/// alone: 2.8 to 4.0 s as the first program started; 10 busy seconds added none.
const XEN_COUNTS_MORE: &str = ", in which Xen counts the time before the start, and pauses";

/// `steal-time`
pub(crate) fn check_steal(case: &Case<'_>) -> Check {
    if case.is_guest() == Some(false) {
        return Err(Skipped::DoesNotApply("does not apply: no hypervisor".to_owned()));
    }
    let now = case.measured().ok().and_then(|measured| measured.stolen);
    let &since_boot = case.steal_since_boot()?;
    // The share is of this time, and Xen counts more.
    case.uptime_s()?;
    perhaps(case.hypervisor())?;
    if since_boot == 0.0
        && let Some(why) = not_reported(case)
    {
        return Err(Skipped::DoesNotApply(format!("not reported here: {why}")));
    }
    let xen = case.kind() == Some(HypervisorKind::Xen);
    let share = match now {
        Some(now) if xen => now.share,
        None if xen && case.just_booted() => 0.0,
        now => now.map_or(0.0, |now| now.share).max(since_boot),
    };
    if share < NOTABLE {
        return Outcome::fine(little(now, since_boot, xen));
    }
    // A share since boot alone may be an hour's of last month, or in Xen a pause.
    let severity = match now {
        Some(now) if now.share >= HIGH => Severity::Warning,
        // The first figure of a boot may hold time from before it: KVM counts all
        // that the vCPU's thread has ever waited (record_steal_time).
        None if since_boot >= HIGH && !xen && !case.just_booted() => Severity::Warning,
        _ => Severity::Note,
    };
    let seen = now.filter(|now| now.share >= NOTABLE);
    let percent = seen.map_or(since_boot, |now| now.share) * 100.0;
    let mut finding = Finding::new(
        severity,
        match seen {
            // It may be Xen itself that takes the time.
            _ if xen => format!("Xen counts {percent:.1} % of this machine's CPU time as stolen"),
            Some(_) => format!("The host steals {percent:.1} % of this machine's CPU time"),
            None => format!("The host stole {percent:.1} % of this machine's CPU time"),
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
        .explain(if xen {
            "Xen counts as stolen the time a vCPU waited for a CPU (for Xen's own work too) and \
             the time it was paused or not yet started, even if there is no other guest. Meanwhile \
             timers fire late, clock reads are late, and timeouts expire early."
        } else {
            "While the host runs other guests this machine stalls without notice: timers fire \
             late, clock reads are late, and timeouts expire early."
        })
        .remedy(Remedy::advice(if case.is_dom0() {
            "Give dom0 dedicated CPUs: add dom0_max_vcpus=N dom0_vcpus_pin to Xen's command line, \
             and keep other guests off those CPUs."
        } else if cloud {
            "Use an instance type that is not burstable, or a larger one."
        } else {
            "Run fewer vCPUs than CPUs on the host, or dedicate CPUs to this guest (libvirt: \
             <vcpupin>)."
        }))
        .alone()
}

/// The figures where little is stolen.
fn little(now: Option<StolenShare>, since_boot: f64, xen: bool) -> String {
    let since_boot = since_boot * 100.0;
    let besides = if xen { XEN_COUNTS_MORE } else { "" };
    match now {
        Some(now) => format!(
            "{:.1} % of CPU time stolen in {}, {since_boot:.2} % since boot{besides}",
            now.share * 100.0,
            figures::seconds(now.over_s),
        ),
        None => format!("{since_boot:.2} % of CPU time stolen since boot{besides}"),
    }
}

/// Why a share of 0 says nothing here: Linux has a steal clock from KVM, Xen and
/// VMware only, from KVM and VMware if the host offers it (arch/x86/kernel/kvm.c,
/// arch/x86/xen/time.c, arch/x86/kernel/cpu/vmware.c, arch/arm64/kernel/paravirt.c).
fn not_reported(case: &Case<'_>) -> Option<&'static str> {
    let kvm = || case.hypervisor().ok()?.kvm_features.as_ref();
    let logged = |start| case.logged(|_| true).any(|line| line.text.trim().starts_with(start));
    match (case.kind()?, kvm()) {
        (HypervisorKind::Xen, _) => None,
        (HypervisorKind::Kvm, Some(features)) => {
            (!features.steal_time).then_some("this KVM host does not offer KVM_FEATURE_STEAL_TIME")
        }
        (HypervisorKind::Kvm, None) if logged("arm-pv: using stolen time") => None,
        (HypervisorKind::Vmware, _) if logged("vmware: vmware-stealtime: ") => None,
        (HypervisorKind::Kvm | HypervisorKind::Vmware, _) => Some(
            "no stolen time was counted, and no line of the kernel log shows that this host \
             reports it",
        ),
        (HypervisorKind::HyperV, _) => Some("Hyper-V does not report stolen time to its guests"),
        (HypervisorKind::VirtualBox, _) => {
            Some("VirtualBox does not report stolen time to its guests")
        }
        (HypervisorKind::Tcg, _) => {
            Some("QEMU's emulation does not report stolen time to its guests")
        }
        (HypervisorKind::UserModeLinux, _) => Some("User-mode Linux does not count stolen time"),
        _ => Some("Linux has no interface to this hypervisor's stolen time"),
    }
}

/// Whose fault a stall is.
const STALL_FAULT: &str = "At fault: in a virtual machine the host, which did not run it; \
     otherwise this machine's drivers or firmware.";

/// Less is an ordinary interrupt storm or a busy host; a tenth of a second is a pause.
pub(super) const PAUSE_NS: u64 = 100_000_000;

/// `stalls`
pub(crate) fn check_stalls(case: &Case<'_>) -> Check {
    case.log()?;
    if !case.is_log_alone() {
        case.uptime_s()?;
    }
    let all: Vec<_> = case
        .logged(|event| match event {
            LogEvent::Stall | LogEvent::CpuStuck { .. } => true,
            LogEvent::HrtimerLate { took_ns } => *took_ns >= PAUSE_NS,
            _ => false,
        })
        .collect();
    let stalls: Vec<&LogLine> = all.iter().copied().filter(|line| case.is_recent(line)).collect();
    let longest = case
        .logged(|event| matches!(event, LogEvent::HrtimerLate { .. }))
        .filter_map(|line| match line.event {
            LogEvent::HrtimerLate { took_ns } => Some(took_ns),
            _ => None,
        })
        .max();
    let Some(first) = stalls.first() else {
        if let Some(age_s) = all.last().and_then(|line| case.age_s(line)) {
            return Outcome::fine(format!(
                "none in the last 24 h; the last one {} ago",
                figures::seconds(age_s)
            ));
        }
        return Outcome::fine(match longest {
            Some(ns) => format!(
                "longest timer interrupt {}, which a busy host explains",
                figures::time(ns as f64)
            ),
            None => "no stall in the kernel log".to_owned(),
        });
    };
    let guest = case.is_guest() == Some(true);
    let stuck_s = |line: &&LogLine| match line.event {
        LogEvent::CpuStuck { for_s, .. } => for_s,
        _ => None,
    };
    let stuck = stalls.iter().filter_map(stuck_s).max();
    let stuck = stuck.map_or_else(String::new, |s| format!(", for up to {s} s"));
    Finding::new(Severity::Warning, format!("The kernel reported stalled CPUs{stuck}"))
        .evidence(log_evidence(first))
        .evidence_from(stalls.iter().skip(1).take(3).copied().map(log_evidence))
        .evidence_from(longest.map(|ns| {
            format!("longest timer interrupt: {}", figures::time(ns as f64))
        }))
        .evidence_from(stall_size(case))
        .explain(format!("{} These lines show no clock that is wrong; one that leapt would look the same. {STALL_FAULT}", if guest || has_no_progress(case) {
            "In a guest the usual cause is a pause: the host saved, restored, migrated or starved \
             it, or its clock leapt at a restore while no CPU was stalled at all. Leases and \
             timeouts expired meanwhile."
        } else {
            "A driver, the firmware or a fault kept a CPU from serving its timers."
        }))
        .remedy(Remedy::advice(if guest {
            "Ask the host's operator what happened at that time. A host that flags its pauses \
             (KVM_KVMCLOCK_CTRL) avoids false alarms from the guest's watchdogs."
        } else {
            "Read the stack trace that follows the line in the kernel log."
        }))
        .alone()
}

/// How long RCU waited: in jiffies, whose length is CONFIG_HZ's.
fn stall_size(case: &Case<'_>) -> Option<String> {
    let jiffies = case.logged(|_| true).find_map(|line| match line.event {
        LogEvent::RcuStall { jiffies } => Some(jiffies),
        _ => None,
    })?;
    let s = |hz: f64| figures::seconds(jiffies as f64 / hz);
    let count = figures::count(jiffies);
    Some(match case.tick_hz() {
        Some(hz) => format!("stall: {count} jiffies at CONFIG_HZ={hz}: {}", s(hz)),
        None => format!(
            "stall: {count} jiffies: {} if CONFIG_HZ is 1000, {} if it is 250; not in the log",
            s(1000.0),
            s(250.0)
        ),
    })
}

/// A CPU that served hardly a tick in a stall did not run, or there was none.
fn has_no_progress(case: &Case<'_>) -> bool {
    case.logged(|event| matches!(event, LogEvent::RcuProgress { ticks: Some(0 | 1) }))
        .next()
        .is_some()
}

#[cfg(test)]
mod tests;
