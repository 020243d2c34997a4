//! Steps and other events in a time daemon's log that have no common rate.

use facts::kernel::{Direction, LogEvent, LogLine};
use instruments::figures;

use super::{DaemonStep, daemon_evidence, signed};
use crate::case::is_near_zone;
use crate::finding::{Finding, Remedy};
use crate::rules::statements::named;
use crate::text;

/// Less is what a daemon finds at each start, s.
const SMALL_S: f64 = 0.1;

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

/// Two opposite steps of one size: the first, or the second, followed a wrong answer.
/// +2.528809 s, and 3590 s later -2.484406 s.
fn stepped_and_back(large: &[&DaemonStep<'_>]) -> Option<Finding> {
    let [one, next] = large else { return None };
    let program = |step: &DaemonStep<'_>| step.line.text.split(' ').next().map(str::to_owned);
    let least_s = one.by_s.abs().min(next.by_s.abs());
    if (one.by_s + next.by_s).abs() >= least_s / 10.0 || program(one) != program(next) {
        return None;
    }
    let apart_s = one.at_s.zip(next.at_s).map(|(one, next)| next - one).filter(|s| *s > 0.0);
    let apart = apart_s.map_or_else(String::new, |s| format!(" {} later", figures::seconds(s)));
    let values = [("step", signed(one.by_s)), ("back", signed(next.by_s)), ("apart", apart)];
    let lines = large.iter().map(|step| daemon_evidence(step.line));
    Some(named("stepped-and-back", &values).evidence_from(lines))
}

/// What a step of the clock shows.
pub(super) fn step(log: &[LogLine], steps: &[DaemonStep<'_>]) -> Option<Finding> {
    let large = || steps.iter().filter(|step| step.by_s.abs() >= SMALL_S);
    let first = large().next()?;
    if let Some(step) = large().find(|step| is_zone(step.by_s)) {
        let finding = named("local-time", &[("off", step.side())]);
        return Some(finding.evidence(daemon_evidence(step.line)));
    }
    if let Some(finding) = stepped_and_back(&large().collect::<Vec<_>>()) {
        return Some(finding);
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
    let is_step = |line: &&LogLine| {
        let text = &line.text;
        matches!(line.event, LogEvent::DaemonStepped { .. })
            && !text.contains("(slew)")
            && (!text.contains("System clock wrong by") || text.contains("(step)"))
    };
    let unstepped = if log.iter().any(|line| is_step(&line)) {
        ""
    } else {
        "No line shows a step: the clock is slewed, or is still wrong. "
    };
    let zone = if is_near_zone(first.by_s) {
        "It is a whole number of hours, like a time zone, to within two minutes: the hardware \
         clock may hold local time. "
    } else {
        ""
    };
    let why = format!("{why}{zone}");
    let values =
        [("off", first.side()), ("more", more), ("why", why), ("unstepped", unstepped.to_owned())];
    let mut finding = named("off-once", &values)
        .evidence_from(large().take(3).map(|step| daemon_evidence(step.line)))
        .evidence_from(beside);
    finding.remedies.splice(..0, four);
    Some(finding)
}

/// A clock that was off again soon after it was right, in one direction: how often and by how
/// much, and what rate that is.
/// Steps of +3.45 s and, 13 s later, +4.14 s: 4.14 s in 13 s are 318 000 ppm.
fn again(steps: &[&DaemonStep<'_>]) -> Option<(String, String)> {
    const REPEATED_S: f64 = 3600.0;
    /// More than any quartz is off, ppm.
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
        "No quartz is off by that much: another program or the host sets the clock, the machine is \
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

/// ntpd at its limit.
pub(super) fn beyond_limit(log: &[LogLine], steps: &[DaemonStep<'_>]) -> Option<Finding> {
    let (line, ppm) = log.iter().find_map(|line| match line.event {
        LogEvent::FrequencyBeyondLimit { ppm } => Some((line, ppm)),
        _ => None,
    })?;
    let measured =
        if ppm.abs() > MEASURED_PPM { ", so its assumed frequency is wrong" } else { "" };
    let values = [("ppm", figures::ppm(ppm)), ("measured", measured.to_owned())];
    Some(
        named("beyond-limit", &values)
            .evidence(daemon_evidence(line))
            .evidence_from(steps.iter().take(3).map(|step| daemon_evidence(step.line)))
            .evidence_from(steps.first().map(|step| format!("the clock was {}", step.side()))),
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
    if let Some(finding) = undone(log, steps) {
        return Some(finding);
    }
    let found =
        |step: &DaemonStep<'_>| format!("the time daemon then found the clock {}", step.side());
    Some(
        named("set-back", &[("times", times)])
            .evidence_from(leaps(log, Direction::Backward).take(3).map(daemon_evidence))
            .evidence_from(steps.first().map(found)),
    )
}

/// A step after which the clock went back at once.
fn undone(log: &[LogLine], steps: &[DaemonStep<'_>]) -> Option<Finding> {
    let (step, back, apart_s) = steps.iter().find_map(|step| {
        let is_soon = |line: &&LogLine| {
            let apart_s = line.at_s.zip(step.at_s).map(|(back, step)| back - step);
            apart_s.is_some_and(|s| (0.0..SOON_S).contains(&s))
        };
        let back = leaps(log, Direction::Backward).find(is_soon)?;
        Some((step, back, back.at_s? - step.at_s?))
    })?;
    if step.by_s < SMALL_S {
        return None;
    }
    let values = [("off", step.side()), ("apart", figures::seconds(apart_s))];
    let lines = [step.line, back].map(daemon_evidence);
    Some(named("stepped-then-undone", &values).evidence_from(lines))
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
        named("step-refused", &[("side", side)])
            .evidence(daemon_evidence(line))
            .evidence_from(steps.iter().take(2).map(|step| daemon_evidence(step.line))),
    )
}

fn leapt(log: &[LogLine]) -> Option<Finding> {
    let first = leaps(log, Direction::Forward).next()?;
    Some(named("leapt-forward", &[]).evidence(daemon_evidence(first)))
}

fn no_majority(log: &[LogLine]) -> Option<Finding> {
    let line = log.iter().find(|line| line.event == LogEvent::NoMajority)?;
    Some(named("no-majority", &[]).evidence(daemon_evidence(line)))
}

fn unsynchronised(log: &[LogLine]) -> Option<Finding> {
    let after = |line: &&LogLine| !matches!(line.event, LogEvent::SourceSelected { .. });
    let mut open = log.iter().rev().take_while(after);
    let line = open.find(|line| line.event == LogEvent::Unsynchronised)?;
    Some(named("not-yet-synchronized", &[]).evidence(daemon_evidence(line)))
}

pub(super) fn four_servers() -> Remedy {
    Remedy::command(
        "Configure at least four independent servers, and remove the one that differs.",
        "chronyc sources -v",
    )
}
