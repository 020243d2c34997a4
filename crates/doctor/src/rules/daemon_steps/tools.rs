//! What guest tools and VirtualBox on the host log of a guest's clock.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::daemon_evidence;
use super::events::{lines, quote};
use crate::finding::Finding;
use crate::rules::statements::named;
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
    Some(quote(named("tools-stepped", &[("size", size)]), &stepped))
}

/// A daemon that slews what it ought to step.
pub(super) fn daemon_slew(log: &[LogLine]) -> Option<Finding> {
    let by_s = |line: &LogLine| match line.event {
        LogEvent::DaemonSlewed { by_s } => by_s,
        _ => 0.0,
    };
    let large: Vec<_> = log.iter().filter(|line| by_s(line).abs() >= LONG_SLEW_S).collect();
    let Some((first, last)) = large.first().zip(large.last()) else { return slewing(log) };
    let off_s = by_s(first);
    let side = if off_s > 0.0 { "behind" } else { "ahead" };
    let took = figures::seconds(off_s.abs() / (ADJTIME_PPM * 1e-6));
    let left = (large.len() > 1).then(|| {
        let apart = first.at_s.zip(last.at_s).map(|(then, now)| now - then).filter(|s| *s > 0.0);
        let apart = apart.map_or_else(String::new, |s| format!(" after {}", figures::seconds(s)));
        let left = figures::exact_time(by_s(last).abs() * 1e9);
        format!("still {left}{apart}, by {}", text::count(large.len(), "line", "lines"))
    });
    let off = figures::seconds(off_s.abs());
    let sum = format!("{off} at 0.5 ms a second: {took}");
    let finding = named("daemon-slews", &[("off", format!("{off} {side}")), ("took", took)]);
    Some(quote(finding, &large).evidence(sum).evidence_from(left))
}

/// A slew that ends within hours.
fn slewing(log: &[LogLine]) -> Option<Finding> {
    const LEAST_S: f64 = 0.5;
    let slews: Vec<(&LogLine, f64)> = log
        .iter()
        .filter_map(|line| match line.event {
            LogEvent::DaemonSlewed { by_s } => Some((line, by_s)),
            _ => None,
        })
        .collect();
    let (_, off_s) = *slews.iter().find(|(_, by_s)| by_s.abs() >= LEAST_S)?;
    let (_, left_s) = *slews.last()?;
    let side = if off_s > 0.0 { "behind" } else { "ahead" };
    let took = figures::seconds(left_s.abs() / (ADJTIME_PPM * 1e-6));
    let left = match slews.len() {
        1 => format!("that takes {took}"),
        _ => format!("the last line leaves {}: {took} more", figures::seconds(left_s.abs())),
    };
    let off = format!("{} {side}", figures::seconds(off_s.abs()));
    let lines: Vec<&LogLine> = slews.iter().map(|(line, _)| *line).collect();
    Some(quote(named("slewing", &[("off", off), ("left", left)]), &lines))
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
    let off = figures::seconds(by_s.abs());
    let days = format!("{days:.1}");
    let sum = format!("{off} at 0.5 ms a second: {days} days");
    let finding = named("tools-slew", &[("off", format!("{off} {side}")), ("days", days)]);
    Some(quote(finding, &behind).evidence(sum).evidence_from(growth))
}

pub(super) fn guest_jumped(log: &[LogLine]) -> Option<Finding> {
    // The host's jump, which two programs' finding has, is followed by the guest's.
    if !lines(log, |event| matches!(event, LogEvent::HostTimeJumped { .. })).is_empty() {
        return None;
    }
    let jumped = lines(log, |event| matches!(event, LogEvent::GuestTimeJumped { .. }));
    let LogEvent::GuestTimeJumped { by_ns } = jumped.first()?.event else { return None };
    let side = if by_ns > 0 { "ahead" } else { "back" };
    let by = figures::seconds(by_ns.unsigned_abs() as f64 / 1e9);
    Some(quote(named("guest-jumped", &[("side", side.to_owned()), ("by", by)]), &jumped))
}

pub(super) fn lag_given_up(log: &[LogLine]) -> Option<Finding> {
    let given_up = lines(log, |event| matches!(event, LogEvent::LagGivenUp { .. }));
    let LogEvent::LagGivenUp { total_ns, .. } = given_up.last()?.event else { return None };
    let native = lines(log, |event| *event == LogEvent::NativeHypervisor);
    let lag = figures::seconds(total_ns as f64 / 1e9);
    let name = if native.is_empty() { "lag-given-up" } else { "lag-given-up-nem" };
    let finding = quote(named(name, &[("lag", lag)]), &given_up);
    Some(finding.evidence_from(native.iter().take(1).map(|line| daemon_evidence(line))))
}
