//! What guest tools and VirtualBox on the host log of a guest's clock.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::daemon_evidence;
use super::events::{lines, report};
use super::single::LIST_TIME_UNITS;
use crate::fault::HOST;
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies::set_after_pause;
use crate::text;

/// adjtime(3) slews so fast.
const ADJTIME_PPM: f64 = 500.0;

/// Slewing it takes longer than five hours, s.
const LONG_SLEW_S: f64 = 10.0;

pub(super) fn tools_stepped(log: &[LogLine]) -> Option<Finding> {
    let stepped = lines(log, |event| matches!(event, LogEvent::ToolsStepped { .. }));
    let first = stepped.first()?;
    let LogEvent::ToolsStepped { stamped_s } = first.event else { return None };
    let by_s = first.at_s.zip(stamped_s).map(|(after, before)| {
        let day_s = 86_400.0;
        (after.rem_euclid(day_s) - before.rem_euclid(day_s) + day_s / 2.0).rem_euclid(day_s)
            - day_s / 2.0
    });
    let size = by_s.map_or_else(String::new, |by_s| {
        let side = if by_s > 0.0 { "ahead" } else { "back" };
        format!(" {side} by {}", figures::seconds(by_s.abs()))
    });
    Some(
        report(
            Severity::Warning,
            format!("VMware Tools stepped the clock{size}"),
            &stepped,
            format!(
                "The line's own stamp is from before the step, and the log's from after it. VMware \
                 Tools set the clock to the host's after a resume, a snapshot, a migration and at \
                 its start, whatever a time daemon says: one of the two clocks was wrong. {HOST}"
            ),
        )
        .remedy(Remedy::advice("Compare the host's clock with NTP: the step set this guest to it."))
        .remedy(
            Remedy::command(
                "Keep one of the two: where chronyd or ntpd runs, turn VMware's synchronisation \
                 off, and time.synchronize.* in the machine's .vmx file as well.",
                "vmware-toolbox-cmd timesync disable",
            )
            .changes("periodic synchronisation, from now on"),
        ),
    )
}

/// A daemon that slews what it ought to step.
pub(super) fn daemon_slew(log: &[LogLine]) -> Option<Finding> {
    let by_s = |line: &LogLine| match line.event {
        LogEvent::DaemonSlewed { by_s } => by_s,
        _ => 0.0,
    };
    let large: Vec<_> = log.iter().filter(|line| by_s(line).abs() >= LONG_SLEW_S).collect();
    let (first, last) = (large.first()?, large.last()?);
    let off_s = by_s(first);
    let side = if off_s > 0.0 { "behind" } else { "ahead" };
    let took = figures::seconds(off_s.abs() / (ADJTIME_PPM * 1e-6));
    let left = (large.len() > 1).then(|| {
        let apart = first.at_s.zip(last.at_s).map(|(then, now)| now - then).filter(|s| *s > 0.0);
        let apart = apart.map_or_else(String::new, |s| format!(" after {}", figures::seconds(s)));
        let left = figures::exact_time(by_s(last).abs() * 1e9);
        format!("still {left}{apart}, by {}", text::count(large.len(), "line", "lines"))
    });
    Some(
        report(
            Severity::Error,
            format!(
                "The time daemon slews a clock that is {} {side}, and does not step it: that takes \
                 {took}",
                figures::seconds(off_s.abs())
            ),
            &large,
            "adjtime(3) corrects 0.5 ms a second, so the clock stays wrong. OpenNTPD steps only \
             at its start, and some versions only with -s; ntpd -x and chronyd without makestep \
             slew as well. Why the clock was off is not in the lines: often a machine without a \
             battery for its clock. At fault: the configuration of the time daemon."
                .into(),
        )
        .evidence(format!("{} at 0.5 ms a second: {took}", figures::seconds(off_s.abs())))
        .evidence_from(left)
        .remedy(Remedy::advice(
            "Set the clock when the daemon starts: OpenNTPD with -s or `constraints`, chronyd with \
             `makestep 1 3`, ntpd with -g.",
        ))
        .remedy(
            Remedy::command("Set the clock now.", "sudo ntpdate -b pool.ntp.org")
                .changes("the time of day, at once"),
        ),
    )
}

pub(super) fn tools_slew(log: &[LogLine]) -> Option<Finding> {
    let behind = lines(log, |event| matches!(event, LogEvent::GuestBehindHost { .. }));
    let by_ns = |line: &LogLine| match line.event {
        LogEvent::GuestBehindHost { by_ns } => by_ns as f64,
        _ => 0.0,
    };
    let (first, last) = (behind.first()?, behind.last()?);
    let by_s = by_ns(last) / 1e9;
    if by_s.abs() < 1.0 {
        return None;
    }
    let side = if by_s > 0.0 { "behind" } else { "ahead of" };
    let days = by_s.abs() / (ADJTIME_PPM * 1e-6) / 86_400.0;
    let grown_s = (by_ns(last) - by_ns(first)).abs() / 1e9;
    let apart_s = first.at_s.zip(last.at_s).map_or(0.0, |(then, now)| now - then);
    let growth = (behind.len() > 1 && by_ns(last).abs() > by_ns(first).abs()).then(|| {
        format!(
            "the difference grew by {} in {}: the guest loses time faster than it is slewed",
            figures::seconds(grown_s),
            figures::seconds(apart_s)
        )
    });
    Some(
        report(
            Severity::Error,
            format!(
                "VirtualBox's guest tools slew a clock that is {} {side} its host's: that takes {days:.1} days",
                figures::seconds(by_s.abs())
            ),
            &behind,
            format!(
                "VBoxService slews by adjtime, 0.5 ms a second, and steps only from 20 min on \
                 (--timesync-set-threshold). The guest did not run while its host slept, or was \
                 paused. {HOST}"
            ),
        )
        .evidence(format!(
            "{} at 0.5 ms a second: {days:.1} days",
            figures::seconds(by_s.abs())
        ))
        .evidence_from(growth)
        .remedy(
            Remedy::command(
                "Let the guest tools step from 1 s on.",
                "VBoxService --timesync-set-threshold 1000",
            )
            .changes("until VBoxService is started again; add it to its unit to keep it"),
        )
        .remedy(set_after_pause()),
    )
}

pub(super) fn guest_jumped(log: &[LogLine]) -> Option<Finding> {
    // The host's jump, which two programs' finding has, is followed by the guest's.
    if !lines(log, |event| matches!(event, LogEvent::HostTimeJumped { .. })).is_empty() {
        return None;
    }
    let jumped = lines(log, |event| matches!(event, LogEvent::GuestTimeJumped { .. }));
    let LogEvent::GuestTimeJumped { by_ns } = jumped.first()?.event else { return None };
    let side = if by_ns > 0 { "ahead" } else { "back" };
    Some(
        report(
            Severity::Warning,
            format!(
                "VirtualBox's guest tools set this guest's clock {side} by {}",
                figures::seconds(by_ns.unsigned_abs() as f64 / 1e9)
            ),
            &jumped,
            format!(
                "The guest was behind its host by so much: the host slept, or the machine was \
                 saved, and its clock stood still meanwhile. {HOST}"
            ),
        )
        .remedy(set_after_pause())
        .remedy(Remedy::command("Find the other programs that set this clock.", LIST_TIME_UNITS)),
    )
}

pub(super) fn lag_given_up(log: &[LogLine]) -> Option<Finding> {
    let given_up = lines(log, |event| matches!(event, LogEvent::LagGivenUp { .. }));
    let LogEvent::LagGivenUp { total_ns, .. } = given_up.last()?.event else { return None };
    let native = lines(log, |event| *event == LogEvent::NativeHypervisor);
    let lag = figures::seconds(total_ns as f64 / 1e9);
    let by_nem = if native.is_empty() {
        "The host was overloaded or asleep."
    } else {
        "VT-x belongs to Hyper-V on this host (WSL 2, virtualisation-based security), and \
         VirtualBox runs the guest through it (NEM), which is slow and stalls."
    };
    Some(
        report(
            Severity::Error,
            format!("VirtualBox did not run this guest in time, and gave up {lag} of its timers' time"),
            &given_up,
            format!(
                "The guest's timers and clock are behind by that much until its guest tools or a \
                 time daemon set the clock; its kernel reports stalled CPUs meanwhile. {by_nem} {HOST}"
            ),
        )
        .evidence_from(native.iter().take(1).map(|line| daemon_evidence(line)))
        .remedies((!native.is_empty()).then(|| {
            Remedy::command(
                "Give VT-x to VirtualBox: turn Hyper-V off on the host, and reboot it (WSL 2 and \
                 memory integrity need Hyper-V).",
                "bcdedit /set hypervisorlaunchtype off",
            )
            .changes("Hyper-V and what needs it, from the host's next boot on")
        }))
        .remedy(Remedy::advice("Give the guest fewer vCPUs than the host has CPUs to spare."))
        .remedy(set_after_pause()),
    )
}
