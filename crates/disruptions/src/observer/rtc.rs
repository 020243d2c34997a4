//! The RTC, which runs when all other clocks stop.
//!
//! It shows whole seconds, so each reading bounds its offset from
//! CLOCK_BOOTTIME; until the next reading the bounds widen by what the two may
//! drift. A reading outside is a step: the RTC ran while the machine was
//! stopped, or it was set. Each reading is compared with the last one alone, so
//! that a clock of a wrong rate, such as the TSC after a move to a host with a
//! faster one, does not cause a series of steps. Linux sets the RTC from the
//! time of day every eleven minutes while that is synchronised, and `hwclock`
//! on request: an RTC that was set *to* a time of day that did not move shows
//! nothing of the machine.

use facts::Sample;
use facts::steering::Adjtimex;
use units::Bracket;

use super::clocks::slew_bounds;
use super::noticed::Noticed;
use crate::Evidence;

/// The RTC's resolution, ns.
const RESOLUTION_NS: f64 = 1e9;

/// The drift of the RTC against CLOCK_BOOTTIME, relative, beyond what adjtimex
/// explains: a worn crystal.
const DRIFT: f64 = 200e-6;

/// The last reading of the RTC.
#[derive(Debug, Default)]
pub(super) struct Rtc {
    last: Option<Offset>,
}

#[derive(Debug, Clone, Copy)]
struct Offset {
    /// RTC − CLOCK_BOOTTIME is at least this, ns.
    low: f64,
    /// And at most this.
    high: f64,
    boottime_ns: u64,
    /// CLOCK_REALTIME − CLOCK_BOOTTIME, ns.
    unix: Option<f64>,
}

impl Rtc {
    /// The next reading is not compared with one before this sample.
    pub(super) fn forget_before(&mut self, sample: &Sample) {
        if !sample.rtc.is_known_and(Option::is_some) {
            self.last = None;
        }
    }

    /// Whether it was read, and compared with the reading before.
    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        steered: Option<&Adjtimex>,
        noticed: &mut Noticed,
    ) -> bool {
        let Some(Some(bracket)) = sample.rtc.known() else { return false };
        let now = Offset::of(*bracket, sample);
        let Some(last) = self.last.replace(now) else { return false };
        let (low, high) = last.at(now.boottime_ns, steered);
        let is_step = now.low > high || now.high < low;
        if !is_step || now.was_set_to_time_of_day(last) {
            return true;
        }
        let (least, most) = (now.low - high, now.high - low);
        noticed.evidence(
            sample.monotonic_ns,
            Evidence::Rtc {
                gained_s: (least + most) / 2.0 / 1e9,
                bound_s: (most - least) / 2.0 / 1e9,
            },
        );
        true
    }
}

impl Offset {
    fn of(bracket: Bracket, sample: &Sample) -> Self {
        let rtc_ns = bracket.inner as f64 * 1e9;
        // CLOCK_BOOTTIME when the other clocks of the sample were read.
        let unix = sample.realtime.zip(sample.boottime).map(|(realtime, boottime)| {
            let offset = |it: Bracket| (i128::from(it.inner) - i128::from(it.before)) as f64;
            offset(realtime) - offset(boottime)
        });
        Self {
            low: rtc_ns - bracket.after as f64,
            high: rtc_ns + RESOLUTION_NS - bracket.before as f64,
            boottime_ns: bracket.after,
            unix,
        }
    }

    /// The bounds at a later time.
    fn at(self, boottime_ns: u64, steered: Option<&Adjtimex>) -> (f64, f64) {
        let (slow, fast) = steered.map_or((1.0, 1.0), |state| slew_bounds(state, state));
        let drift = (1.0 - slow).abs().max((fast - 1.0).abs()) + DRIFT;
        let doubt_ns = boottime_ns.saturating_sub(self.boottime_ns) as f64 * drift;
        (self.low - doubt_ns, self.high + doubt_ns)
    }

    /// Whether it agrees with the time of day, and did not before, while the
    /// time of day did not move.
    fn was_set_to_time_of_day(self, last: Self) -> bool {
        let (Some(before), Some(now)) = (last.unix, self.unix) else { return false };
        let agrees = |known: &Self, unix: f64| {
            known.low - RESOLUTION_NS <= unix && unix <= known.high + RESOLUTION_NS
        };
        (now - before).abs() < RESOLUTION_NS / 2.0 && agrees(&self, now) && !agrees(&last, before)
    }
}
