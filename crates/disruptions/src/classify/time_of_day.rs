//! Whether the time of day was moved, and how.

use pvclock::units::Interval;

use super::{Context, Dated, step_of};
use crate::steering::Move;
use crate::{BOOTTIME, MONOTONIC, REALTIME};
use crate::{Disruption, Evidence, Kind, Size};

const S_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * S_NS;

/// A leap second is within this of the end of its day, ns: it is reported at
/// the sample after it.
const AROUND_MIDNIGHT_NS: u64 = 12 * S_NS;

/// A leap second is a second to the nanosecond.
const EXACT_NS: f64 = 100.0;

/// A set for each step of CLOCK_REALTIME that no suspend explains.
pub(super) fn classify(evidence: &[Dated], context: Context<'_>) -> Vec<Disruption> {
    let steps = evidence.iter().filter_map(|(at_ns, entry)| {
        let realtime = step_of(entry, REALTIME, MONOTONIC)?;
        let left = realtime - slept_at(evidence, *at_ns);
        (!left.contains(0.0)).then(|| set_or_leap(evidence, (*at_ns, entry), left, context))
    });
    let sets: Vec<_> = steps.collect();
    if sets.is_empty() {
        return set_and_set_back(evidence).into_iter().collect();
    }
    sets
}

/// How far a suspend moved CLOCK_BOOTTIME, and with it the time of day.
fn slept_at(evidence: &[Dated], at_ns: u64) -> Interval<f64> {
    let same_sample = evidence.iter().filter(|(at, _)| *at == at_ns);
    let step = same_sample.filter_map(|(_, entry)| step_of(entry, BOOTTIME, MONOTONIC)).next();
    step.unwrap_or(Interval::plus_minus(0.0, 0.0))
}

fn set_or_leap(
    evidence: &[Dated],
    (at_ns, step): (u64, &Evidence),
    left: Interval<f64>,
    context: Context<'_>,
) -> Disruption {
    let is_leap = is_a_second(left)
        && evidence.iter().any(|(_, entry)| announces_leap(entry))
        && is_around_midnight(at_ns, context);
    let supports = |entry: &Evidence| match entry {
        Evidence::WasSet => true,
        other => is_leap && announces_leap(other),
    };
    let supporting = evidence.iter().map(|(_, entry)| entry).filter(|entry| supports(entry));
    Disruption {
        kinds: if is_leap { Kind::LeapSecond } else { Kind::ClockSet }.into(),
        at_monotonic_ns: at_ns,
        size: Some(Size::from(left)),
        behind: is_leap.then_some(Size { ns: 0.0, bound_ns: 0.0 }),
        evidence: std::iter::once(step).chain(supporting).cloned().collect(),
    }
}

/// The kernel reported a set, and no step or suspend shows: the clock was set
/// back before the next sample.
fn set_and_set_back(evidence: &[Dated]) -> Option<Disruption> {
    let is_set = |entry: &Evidence| *entry == Evidence::WasSet;
    let slept = evidence.iter().any(|(_, entry)| step_of(entry, BOOTTIME, MONOTONIC).is_some());
    if slept {
        return None;
    }
    super::collect_kind(Kind::ClockSet, evidence, is_set)
}

fn is_a_second(step: Interval<f64>) -> bool {
    [1e9, -1e9].iter().any(|s| step.low - EXACT_NS <= *s && *s <= step.high + EXACT_NS)
}

fn announces_leap(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::Adjtimex { change: Move::Leap { .. } | Move::Tai { .. } } => true,
        Evidence::Log { line } => line.contains("leap second"),
        _ => false,
    }
}

fn is_around_midnight(at_ns: u64, context: Context<'_>) -> bool {
    let ago_ns = context.monotonic_ns.saturating_sub(at_ns);
    let Some(unix_ns) = context.unix_ns.and_then(|now| now.checked_sub(ago_ns)) else {
        return false;
    };
    let of_day = unix_ns % DAY_NS;
    of_day.min(DAY_NS - of_day) <= AROUND_MIDNIGHT_NS
}
