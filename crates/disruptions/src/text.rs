//! A disruption as people read it: what happened, by how much, and the
//! evidence.

use std::collections::BTreeMap;

use instruments::figures::{count, exact_time, signed, time};

use crate::steering::Move;
use crate::{Disruption, Evidence, Kind, Kinds, LateCause, Size};

/// Seconds in a day.
pub const DAY_S: u64 = 86_400;

/// Of each kind: its label, what happened, and what its size follows.
fn words(kind: Kind) -> [&'static str; 3] {
    match kind {
        Kind::Steered => ["STEERED", "the clock was steered", " by "],
        Kind::ClockSet => ["CLOCK SET", "the time of day was set", " by "],
        Kind::LeapSecond => ["LEAP SECOND", "a leap second passed", ""],
        Kind::Suspend => ["SUSPEND", "the machine was suspended", " for "],
        Kind::Pause => ["PAUSE", "the host paused this machine", " for "],
        Kind::SnapshotRestored => ["RESTORED", "this machine was restored from a snapshot", ""],
        Kind::Migrated => ["MIGRATED", "this machine was migrated to another host", ""],
        Kind::SourceSwitched => ["SWITCHED", "the kernel switched to another clock source", ""],
        Kind::LongSteal => ["LONG STEAL", "the host stole CPU time", ": "],
        Kind::HostStepped => ["HOST STEP", "the host stepped the kvm-clock page", " by "],
        Kind::CounterDisrupted => ["DISRUPTED", "an unknown cause disrupted the counter", " by "],
        Kind::RtcSet => ["RTC SET", "the RTC was set", " by "],
    }
}

/// The label of its line.
pub fn label(kinds: Kinds) -> &'static str {
    kinds.only().map_or_else(|| label_of_several(kinds), |kind| words(kind)[0])
}

/// What is certain of a machine of which several kinds fit.
fn label_of_several(kinds: Kinds) -> &'static str {
    if kinds.contains(Kind::RtcSet) {
        "RTC STEP"
    } else if kinds.contains(Kind::Suspend) {
        "SUSPEND"
    } else if kinds.contains(Kind::Pause) {
        "STOPPED"
    } else {
        "DISRUPTED"
    }
}

/// What happened, what it did to the time of day, and the evidence, line by
/// line.
pub fn lines(disruption: &Disruption) -> Vec<String> {
    let mut lines = vec![sentence(disruption)];
    // An RTC that was set left it as it was.
    let if_so = if disruption.kinds.contains(Kind::RtcSet) { "if it was stopped, " } else { "" };
    let left = behind(disruption).map(|behind| format!("{if_so}the time of day is {behind}"));
    lines.extend(left);
    lines.extend(disruption.evidence.iter().map(|evidence| format!("- {}", observed(evidence))));
    lines
}

/// How often each kind was reported: `disruptions: clock-set 2, pause 1`.
pub fn counts(of_kinds: &BTreeMap<String, u64>) -> String {
    let each = of_kinds.iter().map(|(kinds, times)| format!("{kinds} {}", count(*times)));
    let each = each.collect::<Vec<_>>().join(", ");
    format!("disruptions: {}", if each.is_empty() { "none" } else { &each })
}

/// `5.0 ± 1.0 s behind`; none where that is unknown or nothing.
fn behind(disruption: &Disruption) -> Option<String> {
    let behind = disruption.behind.filter(|behind| behind.ns.abs() > behind.bound_ns)?;
    let side = if behind.ns < 0.0 { "ahead" } else { "behind" };
    Some(format!("{} {side}", plus_minus(Size { ns: behind.ns.abs(), ..behind }, false)))
}

/// What happened, in one sentence.
fn sentence(disruption: &Disruption) -> String {
    let sized = |before: &str| match disruption.size.filter(|_| !before.is_empty()) {
        Some(size) => format!("{before}{}", plus_minus(size, before == " by ")),
        None => String::new(),
    };
    match disruption.kinds.only().map(words) {
        Some([_, happened, before]) => format!("{happened}{}", sized(before)),
        None => several(disruption.kinds, &sized(" for ")),
    }
}

/// What happened, where several kinds fit.
fn several(kinds: Kinds, lasted: &str) -> String {
    if kinds.contains(Kind::LongSteal) {
        return format!(
            "nothing on this machine ran{lasted}: the host paused it or ran other guests (steal)"
        );
    }
    let rest: Vec<_> = kinds.iter().filter_map(passive).collect();
    let (last, rest) = rest.split_last().unwrap_or((&"disrupted", &[]));
    let ways =
        if rest.is_empty() { (*last).into() } else { format!("{} or {last}", rest.join(", ")) };
    if kinds.contains(Kind::Suspend) {
        format!(
            "the machine was suspended{lasted}, by a request inside it or by its host for a \
             restore or migration"
        )
    } else if kinds.contains(Kind::RtcSet) {
        format!("this machine was stopped{lasted} ({ways}), or its RTC was set")
    } else if kinds.contains(Kind::Pause) {
        format!("this machine was stopped{lasted}: {ways}")
    } else {
        format!("this machine was {ways}")
    }
}

fn passive(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Pause => Some("paused"),
        Kind::SnapshotRestored => Some("restored from a snapshot"),
        Kind::Migrated => Some("migrated to another host"),
        _ => None,
    }
}

/// A size with its bound, and no more digits than the bound allows: `5.0 ±
/// 1.0 s` is from a clock of whole seconds.
fn plus_minus(size: Size, with_sign: bool) -> String {
    let Size { ns, bound_ns } = size;
    let figure =
        |shown: &dyn Fn(f64) -> String| if with_sign { signed(ns, shown) } else { shown(ns) };
    match bound_ns {
        bound if bound < 0.5 => figure(&exact_time),
        bound if bound < 1e7 => format!("{} ± {}", figure(&exact_time), time(bound)),
        bound => {
            let digits = if bound < 1e8 { 2 } else { 1 };
            let seconds = |ns: f64| format!("{:.digits$}", ns / 1e9);
            format!("{} ± {} s", figure(&seconds), seconds(bound))
        }
    }
}

/// One observation.
pub fn observed(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Step { clock, against, step_ns, bound_ns } => {
            let size = plus_minus(Size { ns: *step_ns, bound_ns: *bound_ns }, true);
            format!("{clock} stepped {size} against {against}")
        }
        Evidence::ClocksDiverged { tsc_s, raw_s, planned_s } => format!(
            "in an interval planned for {} the TSC advanced {tsc_s:.3} s, CLOCK_MONOTONIC_RAW \
             {raw_s:.3} s",
            span(*planned_s)
        ),
        Evidence::PageStep { step_ns, explained_ns } => format!(
            "the kvm-clock page stepped {}; the host's NTP explains at most {}",
            signed(*step_ns as f64, exact_time),
            exact_time(*explained_ns as f64)
        ),
        Evidence::PageReset => "the kvm-clock page was reset".into(),
        Evidence::PageRate { before_hz, after_hz } => {
            let rates = rates(*before_hz as f64, *after_hz as f64);
            format!("the kvm-clock page advertises TSC {rates}")
        }
        Evidence::GuestStopped => "GUEST_STOPPED is set in the kvm-clock page".into(),
        Evidence::Rate { before_hz, after_hz } => {
            format!("TSC measured against CLOCK_MONOTONIC_RAW: {}", rates(*before_hz, *after_hz))
        }
        Evidence::VmClockMarker { before, after } => {
            format!("VMClock: disruption marker {before} → {after}")
        }
        Evidence::VmClockGeneration { before, after } => {
            let before = before.map_or("none".into(), |before| before.to_string());
            format!("VMClock: VM generation {before} → {after}")
        }
        Evidence::NewGeneration => "the kernel announced NEW_VMGENID=1".into(),
        Evidence::Late { gap_s, planned_s, cause } => format!(
            "no sample for {gap_s:.1} s instead of {}: {}",
            span(*planned_s),
            late_cause(*cause)
        ),
        Evidence::Stolen { cpu, stolen_ns } => {
            format!("CPU {cpu}: {} stolen since the last sample", span(*stolen_ns as f64 / 1e9))
        }
        Evidence::Rtc { gained_s, bound_s } => {
            format!("the RTC stepped {gained_s:+.1} ± {bound_s:.1} s against CLOCK_BOOTTIME")
        }
        Evidence::Log { line } => format!("kernel log: {line}"),
        Evidence::WasSet => "the kernel reported that the time of day was set".into(),
        Evidence::Adjtimex { change } => format!("adjtimex: {}", adjtimex_change(change)),
        Evidence::Clocksource { before, after } => format!("{before} → {after}"),
    }
}

/// Why a sample was late.
fn late_cause(cause: LateCause) -> &'static str {
    match cause {
        LateCause::Stolen => "the host gave the CPU to other guests (steal)",
        LateCause::StolenOrStopped => {
            "the host gave the CPU to other guests (steal) or stopped the machine"
        }
        LateCause::RunDelay => "other threads ran on the CPU",
        LateCause::ProcessStopped => "this process was stopped (SIGSTOP)",
        LateCause::ProcessNotRun => "the machine ran, but this process did not",
        LateCause::MachineStopped => "the machine was stopped",
        _ => "this process or the machine was stopped",
    }
}

/// A change of the kernel's clock discipline.
fn adjtimex_change(change: &Move) -> String {
    match change {
        Move::Frequency { before_ppm, after_ppm } => {
            format!("frequency {before_ppm:+.3} → {after_ppm:+.3} ppm")
        }
        Move::Tick { before_us, after_us } => format!("tick {before_us} → {after_us} µs"),
        Move::Offset { before_ns, after_ns } => format!(
            "offset {} → {}",
            signed(*before_ns as f64, exact_time),
            signed(*after_ns as f64, exact_time)
        ),
        Move::Tai { before_s, after_s } => format!("TAI - UTC {before_s} → {after_s} s"),
        Move::Status { set, cleared } => {
            let part = |names: &[String], verb: &str| {
                (!names.is_empty()).then(|| format!("{} {verb}", names.join(", ")))
            };
            let parts: Vec<_> =
                [part(set, "set"), part(cleared, "cleared")].into_iter().flatten().collect();
            format!("status: {}", parts.join("; "))
        }
        Move::Leap { before, after } => format!("leap second: {before} → {after}"),
    }
}

/// `2445.428000 → 2400.000000 MHz (-18576.7 ppm)`.
fn rates(before_hz: f64, after_hz: f64) -> String {
    let ppm = (after_hz / before_hz - 1.0) * 1e6;
    format!("{:.6} → {:.6} MHz ({ppm:+.3} ppm)", before_hz / 1e6, after_hz / 1e6)
}

/// A duration: `100 ms`, `5.0 s`, `40 min 3 s`, `2 h 5 min`, `3 d 4 h`.
pub fn span(s: f64) -> String {
    let whole = s.round() as u64;
    match whole {
        _ if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        _ if s < 59.95 => format!("{s:.1} s"),
        0..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..DAY_S => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / DAY_S, whole / 3600 % 24),
    }
}

/// A time of day, UTC: `05:12:03.250`; dashes where it is not known.
pub fn time_of_day(unix_ns: Option<u64>) -> String {
    let Some(ns) = unix_ns else { return "--:--:--.---".into() };
    let (ms, s) = (ns / 1_000_000 % 1000, ns / 1_000_000_000 % DAY_S);
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_day_and_a_time_before_1970() {
        assert_eq!(time_of_day(None), "--:--:--.---");
        assert_eq!(time_of_day(Some(86_399_999_999_999)), "23:59:59.999");
    }
}
