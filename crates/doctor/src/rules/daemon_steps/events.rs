//! What daemons and agents log beside steps: why a clock is not set, and who else sets it.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::single::{LIST_TIME_UNITS, four_servers, is_zone};
use super::{daemon_evidence, tools};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies::READ_ONLY;
use crate::text;

/// Two corrections so soon are of one clock.
const SOON_S: f64 = 60.0;

/// All findings of such lines.
pub(super) fn findings(log: &[LogLine]) -> Vec<Finding> {
    type Find = fn(&[LogLine]) -> Option<Finding>;
    let all: [Find; 9] = [
        unreadable,
        ended,
        contradiction,
        agent_set,
        tools::tools_stepped,
        tools::tools_slew,
        tools::daemon_slew,
        tools::guest_jumped,
        tools::lag_given_up,
    ];
    all.into_iter().filter_map(|find| find(log)).collect()
}

/// The lines of a kind.
pub(super) fn lines(log: &[LogLine], is_wanted: impl Fn(&LogEvent) -> bool) -> Vec<&LogLine> {
    log.iter().filter(|line| is_wanted(&line.event)).collect()
}

pub(super) fn report(severity: Severity, what: String, lines: &[&LogLine], why: String) -> Finding {
    let shown = lines.iter().take(3).map(|line| format!("log: {}", line.text.trim()));
    Finding::new(severity, what).evidence_from(shown).explain(why)
}

fn unreadable(log: &[LogLine]) -> Option<Finding> {
    let lines = lines(log, |event| matches!(event, LogEvent::ClockUnreadable { .. }));
    let LogEvent::ClockUnreadable { because } = &lines.first()?.event else { return None };
    let what = format!("The time daemon may not read the clock ({because}), and ended");
    Some(
        report(
            Severity::Error,
            what,
            &lines,
            "The system refused clock_gettime, as a container's system call filter does whose \
             library is older than the call that the program makes (clock_gettime64). The stamps \
             of these lines are read by the same call: a year far off is no clock's. At fault: \
             this machine's container runtime, not its clock."
                .into(),
        )
        .remedy(Remedy::command(
            "Update the container runtime and libseccomp (2.4.2 or later) on the machine that runs \
             the container.",
            "docker version; dpkg -l libseccomp2",
        ))
        .remedy(Remedy::advice(
            "Run the time daemon on the machine itself: containers share its clock.",
        )),
    )
}

fn ended(log: &[LogLine]) -> Option<Finding> {
    let lines = lines(log, |event| matches!(event, LogEvent::DaemonEnded { .. }));
    let LogEvent::DaemonEnded { by_s, limit_s } = lines.first()?.event else { return None };
    let off = by_s.map_or_else(String::new, |by_s| {
        let side = if by_s > 0.0 { "behind" } else { "ahead" };
        format!(" {} {side},", figures::seconds(by_s.abs()))
    });
    let limit = limit_s.map_or_else(|| "its limit".into(), |s| format!("its limit of {s} s"));
    let what = format!("The time daemon ended: the clock is{off} further off than {limit}");
    Some(
        report(
            Severity::Error,
            what,
            &lines,
            format!(
                "ntpd and ntpd-rs end rather than correct so much, and the clock stays wrong. A \
                 virtual machine is so far off after a pause, another one after a boot with a \
                 wrong hardware clock. The lines do not show which. {}",
                crate::fault::NOT_SHOWN
            ),
        )
        .remedy(Remedy::advice(
            "Set the clock once at the start: start ntpd with -g (its unit's NTPD_OPTS), or \
             ntpd-rs with a larger startup-step-panic-threshold.",
        ))
        .remedy(Remedy::advice(
            "Add `tinker panic 0` to ntp.conf on a virtual machine, whose pauses ntpd then \
             corrects while it runs.",
        ))
        .remedy(Remedy::command(
            "Add Restart=on-failure to the daemon's unit, so that it does not stay ended.",
            "systemctl edit ntp",
        )),
    )
}

/// Two corrections that no step separates, of which each is from another server.
fn contradiction(log: &[LogLine]) -> Option<Finding> {
    let is_correction = |event: &LogEvent| matches!(event, LogEvent::DaemonStepped { .. });
    let all = lines(log, is_correction);
    let (first, second, by_s) = all.windows(2).find_map(|pair| {
        let (LogEvent::DaemonStepped { by_s: one }, LogEvent::DaemonStepped { by_s: next }) =
            (&pair[0].event, &pair[1].event)
        else {
            return None;
        };
        let apart_s = pair[1].at_s? - pair[0].at_s?;
        let is_slewed = pair.iter().all(|line| line.text.contains("adjustment started"));
        let by_s = one - next;
        let is_soon = (0.0..SOON_S).contains(&apart_s) && by_s.abs() > 1.0 + 2.0 * one.abs() * 1e-3;
        (is_slewed && is_soon && one * next < 0.0).then_some((pair[0], pair[1], by_s))
    })?;
    // A clock that moved meanwhile looks alike; the daemon's own count of its servers does not.
    let beside = lines(log, |event| *event == LogEvent::NoMajority);
    beside.first()?;
    Some(
        report(
            Severity::Warning,
            format!(
                "The time servers contradict each other by {}",
                figures::seconds(by_s.abs())
            ),
            &[first, second],
            "Within a minute the daemon followed two servers, without a step between, so the clock \
             did not move and the servers differ by the difference of the two offsets. At least \
             one of them is wrong; these lines do not show which, nor whether the clock is right. \
             At fault: a time server, or the configuration of the time daemon."
                .into(),
        )
        .evidence_from(beside.iter().take(1).map(|line| daemon_evidence(line)))
        .remedy(four_servers()),
    )
}

/// A daemon without a server, where the log shows nothing else of the clock.
pub(super) fn no_source(log: &[LogLine]) -> Option<Finding> {
    let moves = lines(log, |event| {
        matches!(
            event,
            LogEvent::DaemonStepped { .. } | LogEvent::TimeLeapt { .. } | LogEvent::ClockSet { .. }
        )
    });
    if !moves.is_empty() {
        return None;
    }
    let missing = lines(log, |event| *event == LogEvent::NoSource);
    let last = missing.last()?;
    let selected = lines(log, |event| matches!(event, LogEvent::SourceSelected { .. }));
    let next = log
        .iter()
        .skip_while(|line| !std::ptr::eq(*line, *last))
        .find(|line| matches!(line.event, LogEvent::SourceSelected { .. }));
    let lost = lines(log, |event| matches!(event, LogEvent::SourceLost { .. }));
    let command = if last.text.contains("Timed out waiting") {
        "timedatectl timesync-status; networkctl status"
    } else {
        "chronyc sources -v; chronyc ntpdata"
    };
    let Some(next) = next else {
        let severity = if selected.is_empty() { Severity::Warning } else { Severity::Note };
        return Some(
            report(
                severity,
                "The time daemon has no server to follow, and the clock runs free".into(),
                &missing,
                "None of its servers answers or agrees with the others. At fault: the network, or \
                 the configuration of the time daemon."
                    .into(),
            )
            .remedy(
                Remedy::command("Find which servers answer: UDP port 123.", command)
                    .changes(READ_ONLY),
            ),
        );
    };
    let after = last
        .at_s
        .zip(next.at_s)
        .filter(|(then, now)| now >= then)
        .map_or_else(String::new, |(then, now)| format!(" after {}", figures::seconds(now - then)));
    let why = if lost.is_empty() {
        "The daemon waits until several servers have answered. At fault: the network, or no one; \
         nothing is wrong with the clock."
    } else {
        "All servers went offline at once, as when the network is restarted, and the daemon needs \
         some minutes of their answers before it follows one again. At fault: the network; \
         nothing is wrong with the clock."
    };
    Some(
        report(
            Severity::Note,
            format!("The time daemon had no server for a while, and followed one again{after}"),
            &[*last, next],
            why.into(),
        )
        .evidence_from(lost.iter().take(2).map(|line| daemon_evidence(line)))
        .remedy(
            Remedy::command("Do nothing; check that it follows a server now.", "chronyc sources")
                .changes(READ_ONLY),
        ),
    )
}

/// Lines that only show that the clock was set.
fn set_by_something(set: &[&LogLine]) -> Finding {
    let stamps: Vec<f64> = set.iter().filter_map(|line| line.at_s).collect();
    let back = stamps.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let earliest = stamps.iter().copied().reduce(f64::min);
    let span_s = stamps.iter().copied().reduce(f64::max).zip(earliest).map(|(max, min)| max - min);
    let what = match span_s.filter(|s| *s > 0.0 && set.len() > 1) {
        Some(s) => format!(
            "Something set the clock {} in {}, every {} on average",
            text::count(set.len(), "time", "times"),
            figures::seconds(s),
            figures::seconds(s / (set.len() - 1) as f64)
        ),
        None if set.len() > 1 => {
            format!("Something set the clock {}", text::count(set.len(), "time", "times"))
        }
        None => "Something set the clock".into(),
    };
    // Lines of which the newest is first go back from each to the next.
    let is_to_and_fro = back > 0 && back + 1 < stamps.len();
    let severity = if set.len() > 1 { Severity::Warning } else { Severity::Note };
    report(
        severity,
        format!("{what}; by how much is not in the lines"),
        set,
        "systemd logs this when any program, the kernel or the host sets the time of day; a time \
         daemon that works sets it once, at its start. If it repeats, two programs set the clock \
         in turn (a time daemon and the host's guest service), or one on a timer. The lines do not \
         show which. At fault: another program on this machine's side, or the host's guest service."
            .into(),
    )
    .evidence_from(is_to_and_fro.then(|| {
        format!(
            "{back} of the stamps are before the one above: the clock was set back and on again"
        )
    }))
    .remedy(
        Remedy::command(
            "Find the programs that set this clock, and stop all but one.",
            LIST_TIME_UNITS,
        )
        .changes(READ_ONLY),
    )
}

/// An agent that sets the clock from the RTC, and by how much the stamps moved.
fn agent_set(log: &[LogLine]) -> Option<Finding> {
    let set = lines(log, |event| matches!(event, LogEvent::ClockSet { .. }));
    let (at, first) =
        log.iter().enumerate().find(|(_, line)| matches!(line.event, LogEvent::ClockSet { .. }))?;
    let by_agent = set.iter().any(|line| matches!(&line.event, LogEvent::ClockSet { by: Some(_) }));
    let before = log[..at].iter().rev().find_map(|line| line.at_s);
    let by_s = before.zip(first.at_s).map(|(before, after)| after - before);
    // A stamp of the same clock goes back only when it was set.
    let by_s = by_s.filter(|by_s| *by_s < -1.0);
    if !by_agent && by_s.is_none() {
        return Some(set_by_something(&set));
    }
    let by_whom = if by_agent { "Google's guest agent" } else { "Something" };
    let what = match by_s {
        Some(by_s) => format!("{by_whom} set the clock back by about {}", figures::seconds(-by_s)),
        None => format!("{by_whom} set the clock from the hardware clock"),
    };
    let zone = by_s.filter(|by_s| is_zone(*by_s));
    let why = if zone.is_some() {
        "By its stamps the clock moved by whole hours, as time zones do: the agent ran hwclock \
         --hctosys, which took an hardware clock in UTC for local time or the reverse \
         (/etc/adjtime). At fault: this machine's setting of its hardware clock, and the agent."
    } else {
        "The agent runs hwclock --hctosys after a migration of the machine; other time daemons do \
         not expect it. At fault: this machine's agent."
    };
    Some(
        report(Severity::Warning, what, &set, why.into())
            .remedy(
                Remedy::command(
                    "Find whether the hardware clock holds UTC: the third line of /etc/adjtime.",
                    "cat /etc/adjtime; sudo hwclock --show --utc; date --utc",
                )
                .changes(READ_ONLY),
            )
            .remedy(Remedy::advice(
                "Stop the agent's clock daemon (clock_skew_daemon = false in \
                 /etc/default/instance_configs.cfg), and let chronyd follow \
                 metadata.google.internal.",
            )),
    )
}
