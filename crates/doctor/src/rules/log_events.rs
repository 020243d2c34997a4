//! Lines of the kernel's log about time that was lost or set, or about a calibration.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use crate::case::{Case, log_evidence};
use crate::fault;
use crate::finding::{Finding, Remedy, Severity};
use crate::outcome::{Check, Outcome};
use crate::remedies::{READ_ONLY, set_after_pause};

/// Less is what two clocks differ by at any time.
const SMALL_NS: u64 = 10_000_000;

/// `time-lost`
pub(crate) fn check_time_lost(case: &Case<'_>) -> Check {
    let log = case.log()?;
    let mut findings = Vec::new();
    findings.extend(lost_ticks(log));
    findings.extend(went_backward(log));
    findings.extend(set_by_hypervisor(log));
    findings.extend(super::statements::findings(case, log));
    // On a machine the calibration's result and the interrupts' cost are measured.
    if case.is_log_alone() {
        findings.extend(not_calibrated(log));
        findings.extend(late_interrupt(log));
    }
    Outcome::findings_or_fine(findings, || {
        "the kernel log reports no lost ticks and no step by the hypervisor".to_owned()
    })
}

fn lost_ticks(log: &[LogLine]) -> Option<Finding> {
    let ticks = |line: &LogLine| match line.event {
        LogEvent::TicksLost { ticks } => Some(ticks.unwrap_or(0)),
        _ => None,
    };
    log.iter().find(|line| ticks(line).is_some())?;
    let signs: Vec<_> = super::unstable::lost_tick_signs(log).collect();
    let is_firmwares = signs.iter().any(|line| line.event == LogEvent::TimerNotConnected);
    let count: u64 = log.iter().filter_map(ticks).fold(0, u64::saturating_add);
    let what = match count {
        0 => "The kernel lost timer ticks, so its clock ran behind".to_owned(),
        n => format!("The kernel lost {} timer ticks, so its clock ran behind", figures::count(n)),
    };
    Some(
        Finding::new(Severity::Warning, what)
            .evidence_from(signs.into_iter().map(log_evidence))
            .explain(format!(
                "This kernel counts timer interrupts as time. {} {}",
                if is_firmwares {
                    "The firmware's table connects its timer wrongly, so the kernel uses another \
                     one, and interrupts get lost; or load keeps them off."
                } else {
                    "Something kept interrupts off for longer than a tick: a driver, an SMI or a \
                     busy host."
                },
                fault::TICKS
            ))
            .remedy(Remedy::advice(
                "Boot with a clock source that needs no ticks: clocksource=hpet or \
                 clocksource=acpi_pm (clock=pmtmr before 2.6.18).",
            )),
    )
}

fn went_backward(log: &[LogLine]) -> Option<Finding> {
    let (line, by_ns) = log.iter().find_map(|line| match line.event {
        LogEvent::XenBackward { by_ns } => Some((line, by_ns)),
        _ => None,
    })?;
    Some(
        Finding::new(
            Severity::Error,
            format!("Xen's time went backward by {}", figures::time(by_ns.unsigned_abs() as f64)),
        )
        .evidence(log_evidence(line))
        .evidence(format!(
            "Xen's time minus the time already counted: {}",
            figures::signed(by_ns as f64, figures::time)
        ))
        .explain(format!(
            "One vCPU saw an earlier time than another vCPU had already counted: the hypervisor's \
             time differs between its CPUs. {}",
            fault::HOST
        ))
        .remedy(Remedy::advice(
            "Update the hypervisor and its dom0 kernel, and pin dom0's vCPUs (dom0_vcpus_pin on \
             Xen's command line).",
        )),
    )
}

fn set_by_hypervisor(log: &[LogLine]) -> Option<Finding> {
    let (at, by_ns) = log.iter().enumerate().find_map(|(at, line)| match line.event {
        LogEvent::HypervisorStepped { by_ns } if by_ns.unsigned_abs() >= SMALL_NS => {
            Some((at, by_ns))
        }
        _ => None,
    })?;
    let line = &log[at];
    let side = if by_ns > 0 { "behind" } else { "ahead" };
    let size = figures::time(by_ns.unsigned_abs() as f64);
    let mut next = log[at + 1..].iter().take(2);
    let was_set =
        next.any(|line| line.text.contains("force sync") || line.text.contains("sync result: 1"));
    if !was_set {
        return Some(not_set(line, &size, side));
    }
    Some(
        Finding::new(
            Severity::Note,
            format!("Hyper-V set the clock, which was {size} {side}"),
        )
        .evidence(log_evidence(line))
        .explain(format!(
            "The guest driver hv_utils takes the host's time after a pause or a suspend of the \
             host. {}",
            fault::HOST
        ))
        .remedy(
            Remedy::command(
                "Find why the guest did not run: the host's own log has its suspends and saves.",
                "journalctl --dmesg --grep TimeSync",
            )
            .changes(READ_ONLY),
        ),
    )
}

/// The guest was compared with its host, and no line shows a step.
fn not_set(line: &LogLine, size: &str, side: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("This guest's clock was {size} {side} of its host's, and no line shows that Hyper-V set it"),
    )
    .evidence(log_evidence(line))
    .explain(format!(
        "The guest driver hv_utils compares the two clocks every 5 s and steps only on request. A \
         guest falls behind while it is paused. {}",
        fault::HOST
    ))
    .remedy(set_after_pause())
}

fn not_calibrated(log: &[LogLine]) -> Option<Finding> {
    let line = log.iter().find(|line| {
        line.text.contains("TSC calibration failed") || line.text.contains("Unable to calibrate")
    })?;
    // A verdict on the TSC makes its rate unimportant.
    let is_settled = |line: &LogLine| {
        matches!(
            line.event,
            LogEvent::TscFrequency { refined: true, .. } | LogEvent::MarkedUnstable { .. }
        )
    };
    if log.iter().any(is_settled) {
        return None;
    }
    Some(
        Finding::new(Severity::Note, "One calibration of the TSC failed at boot")
            .evidence(log_evidence(line))
            .explain(format!(
                "The kernel then tries other timers, so the rate may still be right. {}",
                fault::hardware(None)
            ))
            .remedy(
                Remedy::command(
                    "Do nothing if a later line has a refined rate; otherwise add \
                     tsc_early_khz= with the true rate to the kernel's command line, or update \
                     the kernel, whose tables may lack this CPU.",
                    "sudo journalctl --dmesg --grep 'Refined TSC|Detected'",
                )
                .changes(READ_ONLY),
            ),
    )
}

fn late_interrupt(log: &[LogLine]) -> Option<Finding> {
    let took = |line: &LogLine| match line.event {
        // More is a stall.
        LogEvent::HrtimerLate { took_ns } if took_ns < super::steal::PAUSE_NS => Some(took_ns),
        _ => None,
    };
    // Beside a verdict of the watchdog it is one more sign of load.
    if log.iter().any(|line| matches!(line.event, LogEvent::MarkedUnstable { .. })) {
        return None;
    }
    let line = log.iter().find(|line| took(line).is_some())?;
    let longest = log.iter().filter_map(took).max()?;
    Some(
        Finding::new(
            Severity::Note,
            format!(
                "A timer interrupt took {}; no clock is at fault",
                figures::time(longest as f64)
            ),
        )
        .evidence(log_evidence(line))
        .explain(
            "The kernel logs the longest run of its timer interrupt. Its clock is right, but \
             timers fired late. At fault: in a virtual machine the host, which did not run it; \
             otherwise this machine's drivers, console or firmware.",
        )
        .remedy(Remedy::advice(
            "Give a guest its CPU time: `parachron doctor` reports stolen time on the machine. \
             Elsewhere look for SMIs or a slow serial console (console= on the command line).",
        )),
    )
}
