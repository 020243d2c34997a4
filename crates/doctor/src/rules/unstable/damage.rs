//! Lines that a person copied wrongly: what the kernel cannot have printed.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::counter::WatchdogCounter;
use super::rate;
use crate::case::Case;

/// Lengths that the kernel computed from its counters agree to this, as a part.
const ROUNDING: f64 = 5e-3;

/// Known rates of a counter are good to this; QEMU's, VMware's and most boards' are.
const RATE_SLACK: f64 = 0.02;

/// TSCs of CPUs that run Linux, and of emulators, Hz.
const TSC_HZ: std::ops::Range<f64> = 0.1e9..10e9;

/// The counters of an interval.
pub(super) struct IntervalCounters<'l> {
    /// The reference's name and its counter.
    pub(super) reference: Option<(&'l str, WatchdogCounter)>,
    pub(super) tsc: Option<WatchdogCounter>,
}

/// What is wrong with the figures after a verdict; `logged` is its line of the skew and
/// the interval.
pub(super) fn find(
    case: &Case<'_>,
    lines: &[LogLine],
    counters: &IntervalCounters<'_>,
    logged: Option<(i64, u64)>,
) -> Option<String> {
    unreadable(lines).or_else(|| contradiction(case, lines, counters, logged))
}

/// A line whose counters are not there, by a wrong key or digit.
fn unreadable(lines: &[LogLine]) -> Option<String> {
    lines.iter().find_map(|line| {
        let LogEvent::WatchdogInterval { clocksource, .. } = &line.event else { return None };
        let has_counter = line.text.contains("_now") || line.text.contains("mask:");
        let is_cut = line.text.trim_end().ends_with('>');
        let unreadable = has_counter && !is_cut && WatchdogCounter::parse(&line.text).is_none();
        unreadable.then(|| {
            format!("the line about '{clocksource}' has no readable _now:, _last: and mask:")
        })
    })
}

fn contradiction(
    case: &Case<'_>,
    lines: &[LogLine],
    counters: &IntervalCounters<'_>,
    logged: Option<(i64, u64)>,
) -> Option<String> {
    let logged_ns = |of_watchdog| {
        lines.iter().find_map(|line| match line.event {
            LogEvent::WatchdogInterval { watchdog, interval_ns, .. } if watchdog == of_watchdog => {
                interval_ns
            }
            _ => None,
        })
    };
    let (reference_ns, tsc_ns) = (logged_ns(true), logged_ns(false));
    if let (Some((skew, length)), Some(reference_ns), Some(tsc_ns)) = (logged, reference_ns, tsc_ns)
        && (i128::from(tsc_ns) - i128::from(reference_ns) != i128::from(skew)
            || length != reference_ns)
    {
        return Some(format!(
            "cs_nsec − wd_nsec is {} ns, and the last line gives {skew} ns over {length} ns",
            i128::from(tsc_ns) - i128::from(reference_ns)
        ));
    }
    let differs = |ticks: u64, ns: u64, hz: f64, slack: f64| {
        let by_ticks = ticks as f64 / hz * 1e9;
        (by_ticks - ns as f64).abs() > by_ticks * slack + 1000.0
    };
    if let Some((ns, (name, counter))) = reference_ns.zip(counters.reference)
        && !counter.is_discarded()
        && let Some(hz) = rate::known_reference_hz(case, name)
        && ns > 0
        && differs(counter.ticks(), ns, hz, ROUNDING)
    {
        return Some(format!(
            "{} ticks of {name} are not {ns} ns at {}",
            figures::count(counter.ticks()),
            figures::hz(hz)
        ));
    }
    let (ns, counter) = tsc_ns.filter(|ns| *ns > 0).zip(counters.tsc)?;
    let hz = counter.ticks() as f64 / ns as f64 * 1e9;
    let known_hz = rate::tsc(case).filter(|rate| rate.from == rate::From::Log).map(|rate| rate.hz);
    let is_possible = match known_hz {
        Some(known) => (hz / known - 1.0).abs() < RATE_SLACK,
        None => TSC_HZ.contains(&hz),
    };
    (!is_possible && counter.backward().is_none()).then(|| {
        format!(
            "{} ticks of the TSC in {ns} ns are a rate of {}, which no TSC has",
            figures::count(counter.ticks()),
            figures::hz(hz)
        )
    })
}
