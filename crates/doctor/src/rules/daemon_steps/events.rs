//! What daemons and agents log beside steps: why a clock is not set, and who else sets it.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::single::is_zone;
use super::{daemon_evidence, readings, tools};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies::READ_ONLY;
use crate::rules::statements::named;
use crate::text;

/// Two corrections so soon are of one clock.
const SOON_S: f64 = 60.0;

/// All findings of such lines.
pub(super) fn findings(log: &[LogLine]) -> Vec<Finding> {
    type Find = fn(&[LogLine]) -> Option<Finding>;
    let all: [Find; 11] = [
        unreadable,
        ended,
        contradiction,
        agent_set,
        tools::tools_stepped,
        tools::tools_slew,
        tools::daemon_slew,
        readings::ptp,
        readings::rate,
        tools::guest_jumped,
        tools::lag_given_up,
    ];
    all.into_iter().filter_map(|find| find(log)).collect()
}

/// The lines of a kind.
pub(super) fn lines(log: &[LogLine], is_wanted: impl Fn(&LogEvent) -> bool) -> Vec<&LogLine> {
    log.iter().filter(|line| is_wanted(&line.event)).collect()
}

/// A finding with the first of its lines.
pub(super) fn quote(finding: Finding, lines: &[&LogLine]) -> Finding {
    finding.evidence_from(lines.iter().take(3).map(|line| format!("log: {}", line.text.trim())))
}

fn unreadable(log: &[LogLine]) -> Option<Finding> {
    let lines = lines(log, |event| matches!(event, LogEvent::ClockUnreadable { .. }));
    let LogEvent::ClockUnreadable { because } = &lines.first()?.event else { return None };
    Some(quote(named("unreadable", &[("because", because.clone())]), &lines))
}

fn ended(log: &[LogLine]) -> Option<Finding> {
    let lines = lines(log, |event| matches!(event, LogEvent::DaemonEnded { .. }));
    let LogEvent::DaemonEnded { by_s, limit_s } = lines.first()?.event else { return None };
    let off = by_s.map_or_else(String::new, |by_s| {
        let side = if by_s > 0.0 { "behind" } else { "ahead" };
        format!(" {} {side},", figures::seconds(by_s.abs()))
    });
    let limit = limit_s.map_or_else(|| "its limit".into(), |s| format!("its limit of {s} s"));
    Some(quote(named("ended", &[("off", off), ("limit", limit)]), &lines))
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
    let by = figures::seconds(by_s.abs());
    let finding = quote(named("servers-contradict", &[("by", by)]), &[first, second]);
    Some(finding.evidence_from(beside.iter().take(1).map(|line| daemon_evidence(line))))
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
        let mut finding = quote(named("no-source", &[]), &missing).remedy(
            Remedy::command("Find which servers answer: UDP port 123.", command).changes(READ_ONLY),
        );
        if !selected.is_empty() {
            finding.severity = Severity::Note;
        }
        return Some(finding);
    };
    let after = last
        .at_s
        .zip(next.at_s)
        .filter(|(then, now)| now >= then)
        .map_or_else(String::new, |(then, now)| format!(" after {}", figures::seconds(now - then)));
    let why = if lost.is_empty() {
        "The daemon waits until several servers have answered."
    } else {
        "All servers went offline at once, as when the network is restarted, and the daemon needs \
         some minutes of their answers before it follows one again."
    };
    let finding = named("source-again", &[("after", after), ("why", why.to_owned())]);
    Some(
        quote(finding, &[*last, next])
            .evidence_from(lost.iter().take(2).map(|line| daemon_evidence(line))),
    )
}

/// Lines that only show that the clock was set; back by what their stamps show.
fn set_by_something(set: &[&LogLine], back_s: Option<f64>) -> Finding {
    let stamps: Vec<f64> = set.iter().filter_map(|line| line.at_s).collect();
    let back = stamps.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let earliest = stamps.iter().copied().reduce(f64::min);
    let span_s = stamps.iter().copied().reduce(f64::max).zip(earliest).map(|(max, min)| max - min);
    let times = text::count(set.len(), "time", "times");
    let what = match span_s.filter(|s| *s > 0.0 && set.len() > 1) {
        Some(s) => format!(
            "Something set the clock {times} in {}, every {} on average",
            figures::seconds(s),
            figures::seconds(s / (set.len() - 1) as f64)
        ),
        None if set.len() > 1 => format!("Something set the clock {times}"),
        None => "Something set the clock".into(),
    };
    let by = back_s.map_or_else(
        || "; by how much is not in the lines".into(),
        |by_s| format!(", back by about {} at first", figures::seconds(-by_s)),
    );
    let mut finding = quote(named("clock-set", &[("what", what + &by)]), set);
    if set.len() == 1 && back_s.is_none() {
        finding.severity = Severity::Note;
    }
    // Lines of which the newest is first go back from each to the next.
    let is_to_and_fro = back > 0 && back + 1 < stamps.len();
    finding.evidence_from(is_to_and_fro.then(|| {
        format!("{back} of the stamps are earlier than the one above: the clock was set to and fro")
    }))
}

/// An agent that sets the clock from the RTC, and by how much the stamps moved.
fn agent_set(log: &[LogLine]) -> Option<Finding> {
    let mut set = lines(log, |event| matches!(event, LogEvent::ClockSet { .. }));
    // Several programs notice one setting, each in its words.
    const NOTICED_S: f64 = 3.0;
    let is_near = |one: &LogLine, other: &LogLine| {
        let apart_s = one.at_s.zip(other.at_s).map(|(one, other)| (other - one).abs());
        apart_s.is_some_and(|s| s < NOTICED_S)
    };
    let is_anonymous = |line: &LogLine| line.event == LogEvent::ClockSet { by: None };
    let is_same = |one: &LogLine, other: &LogLine| {
        is_anonymous(one) && is_anonymous(other) && one.text != other.text && is_near(one, other)
    };
    set.dedup_by(|other, one| is_same(one, other));
    let daemon = log.iter().find(|line| line.text.contains("clock synchronization to"));
    if let ([one], Some(daemon)) = (set.as_slice(), daemon)
        && is_anonymous(one)
        && is_near(one, daemon)
    {
        return Some(quote(named("set-by-daemon", &[]), &[daemon, one]));
    }
    let (at, first) =
        log.iter().enumerate().find(|(_, line)| matches!(line.event, LogEvent::ClockSet { .. }))?;
    let by_agent = set.iter().any(|line| matches!(&line.event, LogEvent::ClockSet { by: Some(_) }));
    let before = log[..at].iter().rev().find_map(|line| line.at_s);
    let by_s = before.zip(first.at_s).map(|(before, after)| after - before);
    // A stamp of the same clock goes back only when it was set.
    let by_s = by_s.filter(|by_s| *by_s < -1.0);
    if !by_agent {
        return Some(set_by_something(&set, by_s));
    }
    let how = by_s.map_or_else(
        || "from the hardware clock".to_owned(),
        |by_s| format!("back by about {}", figures::seconds(-by_s)),
    );
    let what = format!("Google's guest agent set the clock {how}");
    let zone = by_s.filter(|by_s| is_zone(*by_s));
    let name = if zone.is_some() { "agent-set-zone" } else { "agent-set" };
    Some(quote(named(name, &[("what", what)]), &set))
}
