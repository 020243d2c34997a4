//! A disruption as people read it: what it was, how large, and what says so.

use disruptions::{Disruption, Evidence, Kind, Size};

use super::{late, moved, span};
use instruments::figures::{exact_time, signed, time};

/// The word in front of the line.
pub(super) fn heading(kind: Kind) -> &'static str {
    match kind {
        Kind::Steered => "STEERED",
        Kind::ClockSet => "CLOCK SET",
        Kind::LeapSecond => "LEAP SECOND",
        Kind::Suspend => "SUSPEND",
        Kind::Pause => "PAUSE",
        Kind::SnapshotRestored => "RESTORED",
        Kind::Migrated => "MIGRATED",
        Kind::SourceSwitched => "SWITCHED",
        Kind::LongSteal => "LONG STEAL",
        Kind::HostStepped => "HOST STEP",
        Kind::CounterDisrupted => "DISRUPTED",
    }
}

/// What happened, then what it is told from.
pub(in crate::commands::watch) fn said(told: &Disruption) -> Vec<String> {
    let mut said = vec![sentence(told)];
    if let Some(behind) = told.behind.filter(|behind| behind.ns.abs() > behind.bound_ns) {
        let side = if behind.ns < 0.0 { "ahead" } else { "behind" };
        said.push(format!(
            "the time of day is {} {side} for it",
            plus_minus(Size { ns: behind.ns.abs(), ..behind }, false)
        ));
    }
    said.extend(told.evidence.iter().map(|evidence| format!("- {}", seen(evidence))));
    said
}

fn sentence(told: &Disruption) -> String {
    let size = told.size;
    let moved = size.map_or(String::new(), |size| format!(" by {}", plus_minus(size, true)));
    let lasted = size.map_or(String::new(), |size| format!(" for {}", plus_minus(size, false)));
    match told.kind {
        Kind::Steered => format!("somebody steers the clock{moved}"),
        Kind::ClockSet => format!("somebody set the time of day{moved}"),
        Kind::LeapSecond => "a leap second passed".into(),
        Kind::Suspend => format!("the machine slept{lasted}"),
        Kind::Pause => format!("the host stopped this machine{lasted}"),
        Kind::SnapshotRestored => "this machine was restored from a snapshot".into(),
        Kind::Migrated => "this machine goes on on another host".into(),
        Kind::SourceSwitched => "the kernel took another clock source".into(),
        Kind::LongSteal => format!("the host gave a CPU to others{lasted}"),
        Kind::HostStepped => format!("the host moved its page's time{moved}"),
        Kind::CounterDisrupted => format!("the counter was disrupted{moved}; nothing says by what"),
    }
}

/// With its bound, and no more digits than that leaves: `5.0 ± 1.0 s` is known
/// by a clock of whole seconds.
fn plus_minus(size: Size, with_sign: bool) -> String {
    let Size { ns, bound_ns } = size;
    let figure = |shown: &dyn Fn(f64) -> String| match with_sign {
        true => signed(ns, shown),
        false => shown(ns),
    };
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

/// One thing that was seen.
fn seen(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Step { clock, against, step_ns, bound_ns } => {
            let size = plus_minus(Size { ns: *step_ns, bound_ns: *bound_ns }, true);
            format!("{clock} {size} against {against}")
        }
        Evidence::CounterWent { tsc_s, raw_s, planned_s } => format!(
            "in a look planned for {} the TSC went {tsc_s:.3} s, CLOCK_MONOTONIC_RAW {raw_s:.3} s",
            span(*planned_s)
        ),
        Evidence::PageStep { step_ns, explained_ns } => format!(
            "the kvm-clock page stepped {}; the host's NTP explains {} at most",
            signed(*step_ns as f64, exact_time),
            exact_time(*explained_ns as f64)
        ),
        Evidence::PageAnew => "the kvm-clock page was written anew".into(),
        Evidence::PageRate { before_hz, after_hz } => {
            let rates = rates(*before_hz as f64, *after_hz as f64);
            format!("the kvm-clock page says TSC {rates}")
        }
        Evidence::GuestStopped => "GUEST_STOPPED is set in the kvm-clock page".into(),
        Evidence::Rate { before_hz, after_hz } => {
            format!("TSC {} by CLOCK_MONOTONIC_RAW", rates(*before_hz, *after_hz))
        }
        Evidence::VmClockMarker { before, after } => {
            format!("VMClock: disruption marker {before} → {after}")
        }
        Evidence::VmClockGeneration { before, after } => {
            let before = before.map_or("none".into(), |before| before.to_string());
            format!("VMClock: VM generation {before} → {after}")
        }
        Evidence::NewGeneration => "the kernel announced NEW_VMGENID=1".into(),
        Evidence::Unwatched { unwatched_s, planned_s, cause } => format!(
            "no look for {unwatched_s:.1} s instead of {}: {}",
            span(*planned_s),
            late(*cause)
        ),
        Evidence::Stolen { cpu, stolen_ns } => {
            format!(
                "CPU {cpu} was denied {} since it was last asked",
                span(*stolen_ns as f64 / 1e9)
            )
        }
        Evidence::Rtc { gained_s, bound_s } => {
            format!("the RTC went {gained_s:+.1} ± {bound_s:.1} s against CLOCK_BOOTTIME")
        }
        Evidence::Log { line } => format!("kernel log: {line}"),
        Evidence::WasSet => "the kernel says that the time of day was set".into(),
        Evidence::Adjtimex(moves) => format!("adjtimex: {}", moved(moves)),
        Evidence::Source { before, after } => format!("{before} → {after}"),
    }
}

/// `2445.428000 → 2400.000000 MHz (-18576.7 ppm)`.
pub(super) fn rates(before_hz: f64, after_hz: f64) -> String {
    let ppm = (after_hz / before_hz - 1.0) * 1e6;
    format!("{:.6} → {:.6} MHz ({ppm:+.3} ppm)", before_hz / 1e6, after_hz / 1e6)
}
