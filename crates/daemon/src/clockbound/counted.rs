//! Layout 3: a time that clients compute from the TSC.

use facts::Sample;
use linux::clock::LinuxClock;
use linux::counter::{CLOCKSOURCES, Counter as _, CpuCounter, is_readable};
use pvclock::clockbound::{Fraction, SegmentBound, SegmentCounter, SegmentStatus};
use pvclock::units::{Bracket, Hertz};

/// The TSC's period is measured over this at the least, ns, …
const SHORTEST_NS: u64 = 400_000_000;

/// … and about this: the TSC of another host has another.
const LONGEST_NS: u64 = 30_000_000_000;

/// The TSC, as samples compare it with CLOCK_MONOTONIC_RAW.
#[derive(Debug, Default)]
pub(crate) struct DisruptionCount {
    /// CLOCK_MONOTONIC_RAW within the TSC, at the beginning and later.
    first: Option<Bracket>,
    middle: Option<Bracket>,
    period: Option<DisruptedPeriod>,
}

/// The TSC's period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DisruptedPeriod {
    ns: u64,
    cycles: u64,
    /// How far `ns` may be off.
    error_ns: u64,
}

impl DisruptionCount {
    /// Takes a sample of the clocks.
    pub(crate) fn note_sample(&mut self, sample: &Sample) {
        // Where the kernel uses another source, it has found this counter wanting.
        let is_counted =
            sample.source.value().is_some_and(|it| CLOCKSOURCES.contains(&it.as_str()));
        let Some(raw) = sample.raw.filter(|_| is_counted) else {
            return *self = Self::default();
        };
        let Some(first) = self.first else {
            return (self.first, self.middle) = (Some(raw), Some(raw));
        };
        self.period = DisruptedPeriod::between(&first, &raw);
        if self.period.is_none() && raw.inner.saturating_sub(first.inner) >= SHORTEST_NS {
            *self = Self { first: Some(raw), middle: Some(raw), period: None };
        }
        // The half that is older goes.
        let middle = self.middle.unwrap_or(raw);
        if raw.inner.saturating_sub(middle.inner) >= LONGEST_NS {
            (self.first, self.middle) = (Some(middle), Some(raw));
        }
    }

    /// The rate of the TSC by CLOCK_MONOTONIC_RAW, once it is known.
    pub(crate) fn rate(&self) -> Option<Hertz> {
        let period = self.period?;
        let hz = u128::from(period.cycles) * 1_000_000_000 / u128::from(period.ns);
        u64::try_from(hz).ok().map(Hertz)
    }

    /// As [`SegmentBound`] of layout 2, of a time computed from the TSC at the kernel's rate, which
    /// is CLOCK_MONOTONIC_RAW's and `frequency_ppb`.
    pub(super) fn bound(&mut self, of_system: &SegmentBound, frequency_ppb: i32) -> SegmentBound {
        if of_system.status == SegmentStatus::Disrupted {
            *self = Self::default();
        }
        match within_tsc(LinuxClock::Realtime) {
            Some(realtime) => {
                let period = self.period.map(|period| period.steered(frequency_ppb));
                bound_by_counter(of_system, period.as_ref(), &realtime)
            }
            None => unless_bounded(of_system),
        }
    }
}

impl DisruptedPeriod {
    /// `None` unless both clocks went forward, by enough.
    fn between(first: &Bracket, later: &Bracket) -> Option<Self> {
        let ns = later.inner.checked_sub(first.inner).filter(|ns| *ns >= SHORTEST_NS)?;
        let cycles =
            middle(later).checked_sub(middle(first)).filter(|cycles| *cycles > ns / 1000)?;
        let widths = first.width()?.saturating_add(later.width()?);
        let error_ns = u64::try_from(u128::from(widths) * u128::from(ns) / u128::from(cycles));
        Some(Self { ns, cycles, error_ns: error_ns.ok()?.saturating_add(2) })
    }

    /// The same of a clock that is steered by this.
    fn steered(&self, frequency_ppb: i32) -> Self {
        let by = i128::from(self.ns) * i128::from(frequency_ppb) / 1_000_000_000;
        let ns = self.ns.saturating_add_signed(i64::try_from(by).unwrap_or_default());
        // A ppb, as the frequency is rounded, beside what the division drops.
        let error_ns = self.error_ns.saturating_add(self.ns / 1_000_000_000 + 2);
        Self { ns, error_ns, ..*self }
    }

    fn of_cycles(&self, cycles: u64) -> u64 {
        let ns = u128::from(cycles) * u128::from(self.ns) / u128::from(self.cycles);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn counter(&self, tsc: u64) -> Option<SegmentCounter> {
        // ns / cycles / 1e9, with the product within 64 bits: a minute of
        // cycles at 5 GHz is 3e11.
        let (over, under) = (self.ns / 1_000, self.cycles.checked_mul(1_000_000)?);
        let rounded = self.error_ns.saturating_add(1_000);
        Some(SegmentCounter {
            tsc,
            period: Fraction::new(over, under)?,
            period_error: Fraction::new(rounded, self.ns)?,
        })
    }
}

/// Without a period the time stands still: no bound holds.
fn bound_by_counter(
    of_system: &SegmentBound,
    period: Option<&DisruptedPeriod>,
    realtime: &Bracket,
) -> SegmentBound {
    let lasts_ns = of_system.void_after_ns.saturating_sub(of_system.as_of_ns);
    let timed = SegmentBound {
        as_of_ns: realtime.inner,
        void_after_ns: realtime.inner.saturating_add(lasts_ns),
        counter: SegmentCounter { tsc: middle(realtime), ..SegmentCounter::default() },
        ..*of_system
    };
    let measured = period.and_then(|period| Some((period, period.counter(middle(realtime))?)));
    let Some((period, counter)) = measured else { return unless_bounded(&timed) };
    let half_ns = realtime.width().map_or(u64::MAX, |cycles| period.of_cycles(cycles) / 2 + 1);
    SegmentBound { bound_ns: of_system.bound_ns.saturating_add(half_ns), counter, ..timed }
}

fn unless_bounded(bound: &SegmentBound) -> SegmentBound {
    let is_disrupted = bound.status == SegmentStatus::Disrupted;
    SegmentBound {
        status: if is_disrupted { SegmentStatus::Disrupted } else { SegmentStatus::Unknown },
        ..*bound
    }
}

pub(crate) fn middle(bracket: &Bracket) -> u64 {
    bracket.before.midpoint(bracket.after)
}

/// A clock within the TSC, now.
pub(crate) fn within_tsc(clock: LinuxClock) -> Option<Bracket> {
    let take = || {
        let before = CpuCounter.read_ordered();
        Some(Bracket { before, inner: clock.read_ns()?, after: CpuCounter.read_ordered() })
    };
    is_readable().then(|| Bracket::tightest(4, 1_000, take)).flatten()
}

#[cfg(test)]
mod tests {
    use facts::Fact;

    use super::*;

    /// At 2 GHz, read within 200 cycles.
    fn raw(at_ns: u64) -> Bracket {
        Bracket { before: 2 * at_ns, inner: at_ns + 50, after: 2 * at_ns + 200 }
    }

    fn sample(at_ns: u64, source: &str) -> Sample {
        let source = Fact::Known(source.to_owned());
        Sample { raw: Some(raw(at_ns)), source, ..Sample::new(at_ns) }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_period_is_measured_while_the_kernel_counts_the_tsc() {
        let mut counted = DisruptionCount::default();
        for at_ns in (0..100 * SECOND).step_by(500_000_000) {
            counted.note_sample(&sample(at_ns, CLOCKSOURCES[0]));
            assert_eq!(counted.period.is_some(), at_ns > 0);
            let measured_ns = counted.period.map_or(0, |period| period.ns);
            assert!(measured_ns <= 2 * LONGEST_NS, "{measured_ns}");
        }
        let period = counted.period.unwrap();
        assert_eq!((period.cycles, period.error_ns), (2 * period.ns, 202));
        counted.note_sample(&sample(101 * SECOND, "hpet"));
        assert!(counted.period.is_none());
        // The TSC went back: another host's.
        counted.note_sample(&sample(200 * SECOND, CLOCKSOURCES[0]));
        counted.note_sample(&Sample {
            raw: Some(Bracket { inner: 201 * SECOND, ..raw(0) }),
            ..sample(0, CLOCKSOURCES[0])
        });
        assert!(counted.period.is_none());
    }

    #[test]
    fn a_bound_of_the_tsc_is_wider_by_how_long_the_clock_took() {
        let period = DisruptedPeriod { ns: SECOND, cycles: 2 * SECOND, error_ns: 200 };
        let of_system = SegmentBound {
            bound_ns: 40_000,
            status: SegmentStatus::Synchronised,
            ..SegmentBound::UNKNOWN
        };
        let realtime = Bracket { before: 1_000, inner: 7 * SECOND, after: 1_400 };
        let bound = super::bound_by_counter(&of_system, Some(&period), &realtime);
        let without = super::bound_by_counter(&of_system, None, &realtime);
        assert_eq!((without.as_of_ns, without.status), (7 * SECOND, SegmentStatus::Unknown));
        assert_eq!((bound.as_of_ns, bound.counter.tsc), (7 * SECOND, 1_200));
        assert_eq!(bound.bound_ns, 40_000 + 101);
        let value = |it: Fraction| it.numerator as f64 / 2f64.powi(64 + i32::from(it.shift));
        assert!((value(bound.counter.period) / 5e-10 - 1.0).abs() < 1e-12);
        assert!((value(bound.counter.period_error) / 1.2e-6 - 1.0).abs() < 1e-12);
    }
}
