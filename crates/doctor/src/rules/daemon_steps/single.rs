//! Steps and other events in a time daemon's log that have no common rate.

use facts::kernel::{Direction, LogEvent, LogLine};
use instruments::figures;

use super::{DaemonStep, daemon_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies::{READ_ONLY, set_after_pause};
use crate::text;

/// Less is what a daemon finds at each start, s.
const SMALL_S: f64 = 0.01;

/// Time zones are whole quarters of an hour, at most 14 h from UTC.
const ZONE_S: f64 = 900.0;

/// An RTC in local time is as exact as its quartz, s.
const ZONE_SLACK_S: f64 = 5.0;

/// Two opposite steps so soon are not one clock's, s.
const SOON_S: f64 = 60.0;

const YEAR_S: f64 = 365.25 * 86_400.0;

/// 2^31 s, 68 years: more than any clock since 1970 can be behind.
const LIFETIME_S: f64 = 2_147_483_648.0;

/// ntpd's own limit is 500 or 512 ppm: more is measured, ppm.
const MEASURED_PPM: f64 = 1000.0;

/// Programs and hosts that set a clock beside its daemon.
pub(super) const OTHER_PROGRAM: &str =
    "At fault: another program on this machine's side, or the host's guest service.";

/// Lists the services that set clocks.
pub(super) const LIST_TIME_UNITS: &str =
    "systemctl list-units | grep -E 'ntp|timesync|chrony|vbox|vmtools|hv'";

/// What a step of the clock shows.
pub(super) fn step(log: &[LogLine], steps: &[DaemonStep<'_>]) -> Option<Finding> {
    let large = || steps.iter().filter(|step| step.by_s.abs() >= SMALL_S);
    let first = large().next()?;
    if let Some(step) = large().find(|step| is_zone(step.by_s)) {
        return Some(local_time(step));
    }
    let others =
        |event: &LogEvent| matches!(event, LogEvent::NoMajority | LogEvent::TimeLeapt { .. });
    let beside = log.iter().filter(|line| others(&line.event)).map(daemon_evidence).take(2);
    let is_contradicted = large().zip(large().skip(1)).any(|(one, next)| {
        let soon = one.at_s.zip(next.at_s).is_some_and(|(then, now)| now - then < SOON_S);
        soon && (one.by_s > 0.0) != (next.by_s > 0.0)
    });
    // A clock without a battery has no date, and a server's may be wrong by as much.
    let is_of_years = first.by_s.abs() > YEAR_S;
    let four = (is_contradicted || is_of_years).then(four_servers);
    let again = again(&large().collect::<Vec<_>>());
    let (more, why) = again.unwrap_or_default();
    Some(
        Finding::new(
            Severity::Note,
            format!(
                "The time daemon found the clock {}{more}; its lines do not show why",
                first.side()
            ),
        )
        .evidence_from(large().take(3).map(|step| daemon_evidence(step.line)))
        .evidence_from(beside)
        .explain(format!(
            "{why}A step shows how far the clock was off, and not the cause: the machine was \
             paused, suspended or moved, its hardware clock was wrong at boot, its rate is wrong, \
             or the server is. At fault: not shown by these lines."
        ))
        .remedies(four)
        .remedy(
            Remedy::command(
                "Find why the clock was off in the full log: a suspend, a pause, a boot.",
                "journalctl --grep 'suspend|resume|hibernat|vmgenid|Linux version'",
            )
            .changes(READ_ONLY),
        )
        .remedy(set_after_pause())
        .remedy(
            Remedy::command(
                "Compare the hardware clock if it happened at boot; if it is wrong, run hwclock \
                 --systohc and replace the battery.",
                "sudo hwclock --show",
            )
            .changes(READ_ONLY),
        )
        .remedy(new_rate()),
    )
}

/// A clock that was off again soon after it was right, in one direction: how often and by how
/// much, and what rate that is.
/// Steps of +3.45 s and, 13 s later, +4.14 s: 4.14 s in 13 s are 318 000 ppm.
fn again(steps: &[&DaemonStep<'_>]) -> Option<(String, String)> {
    const REPEATED_S: f64 = 3600.0;
    /// No quartz is off by so much, ppm.
    const NO_QUARTZ_PPM: f64 = 10_000.0;
    let (first, later) = steps.split_first()?;
    let last = later.last()?;
    let span_s = last.at_s.zip(first.at_s).map(|(last, first)| last - first)?;
    let is_one_way = later.iter().all(|step| (step.by_s > 0.0) == (first.by_s > 0.0));
    let is_soon = span_s > 0.0 && span_s < REPEATED_S * later.len() as f64;
    if !is_one_way || !is_soon {
        return None;
    }
    let sum_s: f64 = later.iter().map(|step| step.by_s.abs()).sum();
    let ppm = sum_s / span_s * 1e6;
    let (rate, side) = (figures::ppm(ppm), if first.by_s > 0.0 { "slow" } else { "fast" });
    let more = format!(
        ", and again {}: {} more in {}",
        if later.len() == 1 { "once".into() } else { text::count(later.len(), "time", "times") },
        figures::seconds(sum_s),
        figures::seconds(span_s)
    );
    let other = if ppm > NO_QUARTZ_PPM {
        "No quartz is off by so much: another program or the host sets the clock, the machine is \
         paused repeatedly, or the rate of its clock source is wrong. "
    } else {
        "The rate of its clock source is wrong, the machine is paused repeatedly, or another \
         program sets the clock. "
    };
    Some((more, format!("From the first of these lines on the clock ran {rate} {side}. {other}")))
}

/// Whether a step is a whole time zone.
pub(super) fn is_zone(by_s: f64) -> bool {
    let size = by_s.abs();
    let rest = (size / ZONE_S).round() * ZONE_S - size;
    (3600.0 - ZONE_SLACK_S..=14.0 * 3600.0 + ZONE_SLACK_S).contains(&size)
        && rest.abs() <= ZONE_SLACK_S
}

fn local_time(step: &DaemonStep<'_>) -> Finding {
    Finding::new(
        Severity::Warning,
        format!(
            "The clock was {}, a whole time zone: the hardware clock probably holds local time",
            step.side()
        ),
    )
    .evidence(daemon_evidence(step.line))
    .explain(
        "At boot the kernel takes the hardware clock for UTC. The step is a whole quarter of an \
         hour to within 5 s, as time zones are; a clock that somebody set by hand to local time \
         looks alike. At fault: this machine's setting of its hardware clock or, in a virtual \
         machine, the host.",
    )
    .remedy(
        Remedy::command(
            "Find whether the hardware clock holds local time: compare it with UTC.",
            "sudo hwclock --show --utc; date --utc",
        )
        .changes(READ_ONLY),
    )
    .remedy(
        Remedy::command(
            "Set the hardware clock to UTC once the system clock is right.",
            "sudo timedatectl set-local-rtc 0 && sudo hwclock --systohc --utc",
        )
        .changes("the hardware clock, until it is set again"),
    )
}

/// ntpd at its limit.
pub(super) fn beyond_limit(log: &[LogLine], steps: &[DaemonStep<'_>]) -> Option<Finding> {
    let (line, ppm) = log.iter().find_map(|line| match line.event {
        LogEvent::FrequencyBeyondLimit { ppm } => Some((line, ppm)),
        _ => None,
    })?;
    Some(
        Finding::new(
            Severity::Error,
            format!(
                "The clock's rate is beyond what its time daemon corrects: {}{}",
                figures::ppm(ppm),
                if ppm.abs() > MEASURED_PPM { ", so its assumed frequency is wrong" } else { "" }
            ),
        )
        .evidence(daemon_evidence(line))
        .evidence_from(steps.iter().take(3).map(|step| daemon_evidence(step.line)))
        .evidence_from(steps.first().map(|step| format!("the clock was {}", step.side())))
        .explain(format!(
            "ntpd corrects at most 500 ppm and steps the clock every few minutes to remove the \
             rest. {}",
            crate::fault::hardware(None)
        ))
        .remedy(new_rate())
        .remedy(Remedy::advice(
            "Reboot to calibrate again; if the same rate returns, add tsc_early_khz= with the \
             true rate to the kernel's command line.",
        ))
        .remedy(Remedy::advice(
            "If ntp.conf has a server 127.127.1.0 (LOCAL), remove it: with that server, ntpd \
             follows this machine's own clock.",
        )),
    )
}

/// What the log shows without a step.
pub(super) fn without_step(log: &[LogLine]) -> Option<Finding> {
    leapt(log).or_else(|| no_majority(log)).or_else(|| unsynchronised(log))
}

/// The lines of a program that saw the time of day leap.
fn leaps(log: &[LogLine], wanted: Direction) -> impl Iterator<Item = &LogLine> {
    log.iter().filter(
        move |line| matches!(line.event, LogEvent::TimeLeapt { direction } if direction == wanted),
    )
}

/// A clock that something other than the daemon set back; a step of the daemon just
/// after shows by how much.
pub(super) fn set_back(log: &[LogLine], steps: &[DaemonStep<'_>]) -> Option<Finding> {
    let back = leaps(log, Direction::Backward).count();
    if back == 0 {
        return None;
    }
    let times = text::count(back, "time", "times");
    Some(
        Finding::new(Severity::Warning, format!("Something set the clock back {times}"))
            .evidence_from(leaps(log, Direction::Backward).take(3).map(daemon_evidence))
            .evidence_from(
                steps
                    .first()
                    .map(|step| format!("the time daemon then found the clock {}", step.side())),
            )
            .explain(format!(
                "The time of day went backward while a program ran that did not set it. \
                 {OTHER_PROGRAM}"
            ))
            .remedy(Remedy::command(
                "Stop all but one of the programs that set this clock.",
                LIST_TIME_UNITS,
            ))
            .remedy(
                Remedy::command(
                    "Find why the clock was off if it was set back once, at boot.",
                    "sudo hwclock --show",
                )
                .changes(READ_ONLY),
            ),
    )
}

/// A daemon that may not set the clock.
pub(super) fn refused(log: &[LogLine], steps: &[DaemonStep<'_>]) -> Option<Finding> {
    let line = log.iter().find(|line| line.event == LogEvent::StepRefused)?;
    // No clock is so far off: the daemon's figure is wrong, and its step with it.
    if steps.first().is_some_and(|step| step.by_s.abs() > LIFETIME_S) {
        return None;
    }
    let side = steps.first().map_or_else(String::new, |step| format!(", which is {}", step.side()));
    Some(
        Finding::new(Severity::Error, format!("The time daemon may not set the clock{side}"))
            .evidence(daemon_evidence(line))
            .evidence_from(steps.iter().take(2).map(|step| daemon_evidence(step.line)))
            .explain(
                "The kernel refused the step: the daemon lacks CAP_SYS_TIME, as in a container. \
                 At fault: the configuration of the time daemon.",
            )
            .remedy(Remedy::advice(
                "Give the container CAP_SYS_TIME (docker run --cap-add SYS_TIME), or start \
                 chronyd with -x and let the host keep the clock.",
            )),
    )
}

fn leapt(log: &[LogLine]) -> Option<Finding> {
    let first = leaps(log, Direction::Forward).next()?;
    Some(
        Finding::new(
            Severity::Warning,
            "The clock jumped forward: this machine did not run for a while, or the clock was set",
        )
        .evidence(daemon_evidence(first))
        .explain(
            "chronyd logs a jump when more than 10 s are missing between two of its own timers \
             (sched.c). At fault: the host, which paused or moved the machine, or this machine's \
             own suspend.",
        )
        .remedy(set_after_pause()),
    )
}

fn no_majority(log: &[LogLine]) -> Option<Finding> {
    let line = log.iter().find(|line| line.event == LogEvent::NoMajority)?;
    Some(
        Finding::new(Severity::Warning, "The time servers contradict each other")
            .evidence(daemon_evidence(line))
            .explain(
                "chronyd found no group of sources that agree, so it does not correct the clock. \
                 At fault: the configuration of the time daemon, or one time server.",
            )
            .remedy(four_servers()),
    )
}

fn unsynchronised(log: &[LogLine]) -> Option<Finding> {
    let line = log.iter().find(|line| line.event == LogEvent::Unsynchronised)?;
    Some(
        Finding::new(Severity::Note, "The kernel's clock is not synchronized yet")
            .evidence(daemon_evidence(line))
            .explain(
                "ntpd reads this flag at its start, before its first server has answered. At \
                 fault: the time daemon, if the flag remains.",
            )
            .remedy(
                Remedy::command("Wait ten minutes, then read the flags again.", "ntptime")
                    .changes(READ_ONLY),
            ),
    )
}

pub(super) fn four_servers() -> Remedy {
    Remedy::command(
        "Configure at least four independent servers, and remove the one that differs.",
        "chronyc sources -v",
    )
}

/// A clock whose rate is wrong.
pub(super) fn new_rate() -> Remedy {
    Remedy::advice(
        "Delete the drift file (/var/lib/chrony/drift, /var/lib/ntp/ntp.drift) if steps repeat in \
         one direction, and boot with another clock source.",
    )
}
