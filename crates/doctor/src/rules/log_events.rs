//! Lines of the kernel's log about time that was lost or set, or about a calibration.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::statements::named;
use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Remedy};
use crate::rule::{Check, Outcome};

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
        let leap = log.iter().find(|line| line.event == LogEvent::LeapSecond);
        findings.extend(leap.map(|line| named("leap-second", &[]).evidence(log_evidence(line))));
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
    let falls_back: Vec<_> =
        log.iter().filter(|line| line.text.contains("Falling back to")).take(1).collect();
    let count: u64 = log.iter().filter_map(ticks).fold(0, u64::saturating_add);
    let count = if count == 0 { String::new() } else { format!("{} ", figures::count(count)) };
    let name = if is_firmwares { "ticks-lost-firmware" } else { "ticks-lost" };
    let others = if falls_back.is_empty() {
        "Boot with a clock source that needs no ticks: clocksource=hpet or clocksource=acpi_pm \
         (clock=pmtmr before 2.6.18)."
    } else {
        "Boot with another clock source that needs no ticks: clocksource=acpi_pm (clock=pmtmr \
         before 2.6.18)."
    };
    Some(
        named(name, &[("count", count)])
            .evidence_from(signs.into_iter().chain(falls_back).map(log_evidence))
            .remedy(Remedy::advice(others)),
    )
}

fn went_backward(log: &[LogLine]) -> Option<Finding> {
    let (line, by_ns) = log.iter().find_map(|line| match line.event {
        LogEvent::XenBackward { by_ns } => Some((line, by_ns)),
        _ => None,
    })?;
    let by = figures::time(by_ns.unsigned_abs() as f64);
    Some(named("xen-backward", &[("by", by)]).evidence(log_evidence(line)).evidence(format!(
        "Xen's time minus the time already counted: {}",
        figures::signed(by_ns as f64, figures::time)
    )))
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
    let off = format!("{} {side}", figures::time(by_ns.unsigned_abs() as f64));
    let mut next = log[at + 1..].iter().take(2);
    let was_set =
        next.any(|line| line.text.contains("force sync") || line.text.contains("sync result: 1"));
    let name = if was_set { "set-by-hypervisor" } else { "not-set-by-hypervisor" };
    Some(named(name, &[("off", off)]).evidence(log_evidence(line)))
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
    let detected = log.iter().find(|line| matches!(line.event, LogEvent::TscFrequency { .. }));
    if let Some(detected) = detected {
        let lines = [line, detected].map(log_evidence);
        return Some(named("calibrated-again", &[]).evidence_from(lines));
    }
    Some(named("not-calibrated", &[]).evidence(log_evidence(line)))
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
    let longest = figures::time(longest as f64);
    Some(named("late-interrupt", &[("longest", longest)]).evidence(log_evidence(line)))
}
