//! What the right sources' bounds allow.

use keeper::{Policy, SourceKind};

use super::History;
use super::fleet::Fleet;
use crate::model::{Deed, INTERVAL_NS, Machine, S, Source};

/// What of a deed no bound is held against: the kernel slews by microseconds, and what the
/// host sent half a second ago has wandered by 1000 ppm.
const UNSURE_NS: u64 = 2_000;

/// The fastest oscillator that a bound is for: the kernel adds 500 ppm (MAXFREQ), slews included.
const FASTEST_PPB: f64 = 200e3;

/// By whom a deed was shown that is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// By nobody.
    ByNone,
    /// By an RTC alone, which shows no time: so far off may it be.
    ByRtc(u64),
    /// By what shows the time; twice the widest bound of these.
    Within(u64),
}

/// How far what these showed may be from the truth: a falseticker that agrees with one of
/// the right is within twice its bound.
fn shown(fleet: &Fleet, by: &[(usize, u64)]) -> Shown {
    let mut shown = Shown::ByNone;
    for &(index, bound_ns) in by.iter().filter(|(index, _)| fleet.is_right(*index)) {
        shown = match (shown, fleet.sources[index].kind) {
            // Its bound is that of a difference of two readings.
            (Shown::ByNone, SourceKind::Rtc) => Shown::ByRtc(2 * bound_ns),
            (_, SourceKind::Rtc) => shown,
            (Shown::Within(widest), _) => Shown::Within(widest.max(2 * bound_ns)),
            _ => Shown::Within(2 * bound_ns),
        };
    }
    shown
}

/// Whether each was no worse than the right who showed it allow.
pub(crate) fn check_deeds(History { machine, fleet, policy, .. }: &History) -> Result<(), String> {
    // What may have been left by what came before.
    let mut left_ns = policy.tolerance_ns;
    let mut unknown_ns = machine.clock.unknown_ns.iter();
    for (at, deed) in machine.deeds.iter().enumerate() {
        let told = |why: String| {
            format!(
                "deed {at}, {why}, {} lie of {:?}\n{:?}",
                fleet.liars, fleet.voices, machine.sources
            )
        };
        match deed {
            Deed::Corrected { before_ns, after_ns, shown_by } => {
                let shown = shown(fleet, shown_by);
                let allowed_ns = match shown {
                    Shown::ByNone => left_ns,
                    Shown::ByRtc(by_ns) => left_ns + by_ns,
                    Shown::Within(by_ns) => by_ns + UNSURE_NS,
                };
                if after_ns.unsigned_abs() > before_ns.unsigned_abs().max(allowed_ns) {
                    return Err(told(format!(
                        "an error of {before_ns} ns became {after_ns} ns (allowed {allowed_ns}, {shown:?} {shown_by:?})"
                    )));
                }
                if shown != Shown::ByNone {
                    left_ns = allowed_ns.min(after_ns.unsigned_abs().max(policy.tolerance_ns));
                }
            }
            Deed::Told { max_ns, error_ns, shown_by } => {
                let unknown_ns = *unknown_ns.next().expect("one of each");
                let shown = shown(fleet, shown_by);
                let allowed_ns = match shown {
                    Shown::Within(by_ns) => by_ns + UNSURE_NS,
                    Shown::ByNone | Shown::ByRtc(_) => 0,
                };
                if error_ns.saturating_sub(*max_ns) > allowed_ns {
                    return Err(told(format!(
                        "reported {max_ns} ns, is {error_ns} ns ({shown:?} {shown_by:?})"
                    )));
                }
                // A rate that no oscillator has, the kernel does not add up.
                if machine.clock.drift_ppb.abs() <= FASTEST_PPB && unknown_ns > allowed_ns {
                    return Err(told(format!(
                        "{unknown_ns} ns off what was told, {max_ns} ns ({shown:?} {shown_by:?})"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Whether the clock was within each bound that was published. Nothing is allowed beyond it while
/// nobody lies and all have one scale. A liar that agrees with a right source may add twice the
/// bound of that, and near a leap second a source that is reached alone shows its own scale.
pub(crate) fn check_bounds(History { machine, fleet, .. }: &History) -> Result<(), String> {
    if machine.clock.drift_ppb.abs() > FASTEST_PPB {
        return Ok(());
    }
    let scale = machine.sources.first().map(|source| source.scale);
    let is_one_scale = machine.sources.iter().all(|source| Some(source.scale) == scale);
    let by_liars_ns = if fleet.liars == 0 && is_one_scale { 0 } else { widest_ns(fleet) };
    let allowed_ns = by_liars_ns + if is_one_scale { 0 } else { S / 2 };
    let beyond_ns = machine.beyond_bound_ns;
    if beyond_ns > allowed_ns + UNSURE_NS {
        return Err(format!(
            "{beyond_ns} ns beyond a published bound (allowed {allowed_ns}), {} lie of {:?}\n{:?}",
            fleet.liars, fleet.voices, machine.sources
        ));
    }
    Ok(())
}

/// Twice the widest bound of a right source that shows the time; what the host sent half a second
/// ago has wandered since.
fn widest_ns(fleet: &Fleet) -> u64 {
    let right = fleet.sources.iter().enumerate().filter(|(index, _)| fleet.is_right(*index));
    let bounds = right.filter_map(|(_, source)| match source.kind {
        SourceKind::Rtc => None,
        SourceKind::HostValue => Some(2 * (source.bound_ns + INTERVAL_NS / 1000)),
        _ => Some(2 * source.bound_ns),
    });
    bounds.max().unwrap_or(0)
}

#[test]
fn a_bound_that_a_clock_is_beyond_fails() {
    let mut history = super::run(0);
    let History { machine, fleet, .. } = &mut history;
    let source = Source::honest(SourceKind::Ntp, 1_000_000);
    *machine = Machine::new(Policy::default(), &[source; 3], 0, 1);
    *fleet = Fleet { sources: vec![source; 3], voices: vec![vec![0], vec![1], vec![2]], liars: 0 };
    machine.samples(20);
    assert!(machine.bounds > 10 && check_bounds(&history).is_ok());
    history.machine.clock.realtime_ns += 50_000_000;
    history.machine.samples(1);
    assert!(check_bounds(&history).is_err(), "moved, and the model does not know of it");
}
