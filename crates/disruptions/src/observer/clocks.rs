//! The kernel's clocks against each other, and against the TSC.

use facts::Sample;
use facts::steering::Adjtimex;
use instruments::steps::Rates;
use instruments::steps::{ConstantOffset, LearntRate, RateMove, Slewed};
use pvclock::Scale;
use pvclock::units::Bracket;
use pvclock::units::Interval;

use crate::event::seconds;
use crate::observer::{Elapsed, Noticed};
use crate::{BOOTTIME, Evidence, MONOTONIC, RAW, REALTIME, TSC};

/// What a slew may add to the rate (kernel/time/ntp.c): adjtime runs at
/// 500 ppm; the kernel's loop takes at most a quarter of an offset in a
/// second, which is a third of what it leaves.
const SLEW: f64 = 500e-6;
const OFFSET_PART_PER_S: f64 = 1.0 / 3.0;

/// Microseconds per tick without a slew by the tick (USER_HZ is 100).
const TICK_US: f64 = 10_000.0;

/// The resolution of an unknown source, ns: coarse, so that no step is
/// reported that is none. The counters in use are finer.
const UNKNOWN_STEP_NS: f64 = 1000.0;

/// TSC and raw clock that differ by more than this in one sample have
/// diverged, ns; a smaller difference is a step once it is certain.
const DIVERGED_NS: f64 = 1e6;

const KVM_CLOCK: &str = "kvm-clock";

/// Each pair of clocks.
pub(super) struct ClockOffsets {
    realtime: ConstantOffset,
    boottime: ConstantOffset,
    monotonic: Slewed,
    raw: LearntRate,
    step_ns: f64,
    source: Option<String>,
    reference: ObserverReference,
}

/// What the TSC's rate by the raw clock depends on, besides the source.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ObserverReference {
    /// The CPU whose TSC is read: two may differ.
    pub(super) cpu: Option<u32>,
    /// The rate of the TSC by the kvm-clock page.
    pub(super) scale: Option<Scale>,
    /// A smaller step of the page is none, ns.
    pub(super) no_step_ns: u64,
}

impl ObserverReference {
    /// Whether a TSC that was compared by one is not comparable by the other:
    /// the page's scale counts where the raw clock is the page's.
    fn differs(self, other: Self, source: Option<&str>) -> bool {
        let by_page = source == Some(KVM_CLOCK) && self.scale != other.scale;
        self.cpu != other.cpu || by_page
    }
}

impl ClockOffsets {
    pub(super) fn new() -> Self {
        Self {
            realtime: ConstantOffset::new(),
            boottime: ConstantOffset::new(),
            monotonic: Slewed::new(),
            raw: LearntRate::new(UNKNOWN_STEP_NS),
            step_ns: UNKNOWN_STEP_NS,
            source: None,
            reference: ObserverReference::default(),
        }
    }

    pub(super) fn tsc_hz(&self) -> Option<f64> {
        self.raw.rates().map(|rates| 1e9 / rates.middle())
    }

    pub(super) fn begin(&mut self, sample: &Sample, reference: ObserverReference) {
        self.reference = reference;
        self.take_source(sample);
        if let Some(bracket) = sample.raw {
            push_moved(self.raw.observe(bracket, sample.monotonic_ns), &mut Noticed::default());
        }
        self.observe_steps(sample, &mut Noticed::default());
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        (last, reference): (&Sample, ObserverReference),
        elapsed: Elapsed,
        noticed: &mut Noticed,
    ) {
        let now = sample.source.value();
        let before = std::mem::replace(&mut self.reference, reference);
        if now.is_some() && now != self.source.as_ref() {
            // Under another source the raw clock has another rate: it is
            // learnt again from the next sample on, since this one may belong
            // to either.
            push_moved(self.raw.finish(), noticed);
            let before = self.source.take();
            self.take_source(sample);
            if let (Some(before), Some(after)) = (before, now.cloned()) {
                noticed.change(sample.monotonic_ns, Evidence::Clocksource { before, after });
            }
        } else if before.differs(reference, self.source.as_deref()) {
            push_moved(self.raw.finish(), noticed);
            self.raw = self.unlearnt();
        } else if let Some(bracket) = sample.raw {
            self.observe_divergence((last.raw, bracket), sample.monotonic_ns, elapsed, noticed);
            push_moved(self.raw.observe(bracket, sample.monotonic_ns), noticed);
        }
        self.observe_steps(sample, noticed);
    }

    fn take_source(&mut self, sample: &Sample) {
        self.source = sample.source.value().cloned();
        self.step_ns = sample.source_step_ns.unwrap_or(UNKNOWN_STEP_NS);
        self.raw = self.unlearnt();
    }

    /// Under kvm-clock the raw clock counts the page's time, at the page's rate,
    /// and with its steps.
    fn unlearnt(&mut self) -> LearntRate {
        let by_page = self.source.as_deref() == Some(KVM_CLOCK);
        if by_page {
            self.step_ns = self.step_ns.max(self.reference.no_step_ns as f64);
        }
        match self.reference.scale.filter(|_| by_page).and_then(Scale::to_hertz) {
            Some(hertz) if hertz.0 > 0 => LearntRate::with_rate(self.step_ns, 1e9 / hertz.0 as f64),
            _ => LearntRate::new(self.step_ns),
        }
    }

    /// Whether TSC and raw clock diverged since the last sample: known at once,
    /// where a step is certain only a sample later.
    fn observe_divergence(
        &self,
        (last, now): (Option<Bracket>, Bracket),
        at_ns: u64,
        elapsed: Elapsed,
        noticed: &mut Noticed,
    ) {
        let (Some(last), Some(rates)) = (last, self.raw.rates()) else { return };
        let difference = rates.widened(SLEW).residual(last, now, self.step_ns);
        if difference.low < DIVERGED_NS && difference.high > -DIVERGED_NS {
            return;
        }
        let advance = |from: u64, to: u64| (i128::from(to) - i128::from(from)) as f64 / 1e9;
        noticed.evidence(
            at_ns,
            Evidence::ClocksDiverged {
                tsc_s: advance(last.before, now.before) * rates.middle(),
                raw_s: advance(last.inner, now.inner),
                planned_s: seconds(elapsed.planned_ns),
            },
        );
    }

    fn observe_steps(&mut self, sample: &Sample, noticed: &mut Noticed) {
        let realtime = sample.realtime.and_then(|bracket| self.realtime.observe(bracket));
        push_step(sample.monotonic_ns, [REALTIME, MONOTONIC], realtime, noticed);
        let boottime = sample.boottime.and_then(|bracket| self.boottime.observe(bracket));
        push_step(sample.monotonic_ns, [BOOTTIME, MONOTONIC], boottime, noticed);
    }

    /// A slew may have begun and ended unseen: what it moved is no step.
    pub(super) fn forget_slews(&mut self) {
        self.monotonic = Slewed::new();
    }

    pub(super) fn observe_slews(
        &mut self,
        sample: &Sample,
        before: &Adjtimex,
        after: &Adjtimex,
        noticed: &mut Noticed,
    ) {
        let rates = slews(before, after);
        let step = sample.monotonic.and_then(|bracket| self.monotonic.observe(bracket, rates));
        push_step(sample.monotonic_ns, [MONOTONIC, RAW], step, noticed);
    }

    pub(super) fn finish(&mut self, noticed: &mut Noticed) {
        push_moved(self.raw.finish(), noticed);
    }
}

/// The rates at which CLOCK_MONOTONIC may run by CLOCK_MONOTONIC_RAW while
/// adjtimex changes from one state to the other.
pub(super) fn slews(before: &Adjtimex, after: &Adjtimex) -> Rates {
    let (slow, fast) = slew_bounds(before, after);
    Rates::new(slow, fast)
}

/// The slowest and the fastest of [`slews`].
pub(super) fn slew_bounds(before: &Adjtimex, after: &Adjtimex) -> (f64, f64) {
    let rate = |state: &Adjtimex| state.tick_us as f64 / TICK_US + state.frequency_ppm * 1e-6;
    let offset_ns = before.offset_ns.unsigned_abs().max(after.offset_ns.unsigned_abs());
    let doubt = SLEW + seconds(offset_ns) * OFFSET_PART_PER_S;
    let (before, after) = (rate(before), rate(after));
    (before.min(after) - doubt, before.max(after) + doubt)
}

fn push_moved(moved: Vec<RateMove>, noticed: &mut Noticed) {
    for moved in moved {
        match moved {
            RateMove::Step { at_ns, step } => push_step(at_ns, [RAW, TSC], Some(step), noticed),
            RateMove::Rate { at_ns, before, after } => {
                let (before_hz, after_hz) = (1e9 / before, 1e9 / after);
                noticed.change(at_ns, Evidence::Rate { before_hz, after_hz });
            }
        }
    }
}

fn push_step(
    at_ns: u64,
    [clock, against]: [&str; 2],
    step: Option<Interval<f64>>,
    noticed: &mut Noticed,
) {
    let Some(step) = step else { return };
    let (clock, against) = (clock.to_owned(), against.to_owned());
    let (step_ns, bound_ns) = (step.middle(), step.bound());
    noticed.change(at_ns, Evidence::Step { clock, against, step_ns, bound_ns });
}
