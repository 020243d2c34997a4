//! The battery-backed clock, which goes on when all else stands still.
//!
//! It shows whole seconds, so each reading says between which values its
//! offset from CLOCK_BOOTTIME lies; up to the next reading that doubt grows by
//! what the two may drift apart. A reading outside is a step: the RTC went on
//! while the machine stood, or somebody set it. Each reading is held against
//! the one before alone, so that a clock that runs wrong all the time, as a
//! TSC does that another host runs faster, is no row of steps. Linux sets it from the time of day
//! every eleven minutes while that is synchronised, and `hwclock` when told
//! to: an RTC that moved *onto* a time of day that stayed where it was says
//! nothing of the machine.

use facts::Sample;
use facts::steering::Adjtimex;
use units::Bracket;

use super::Noticed;
use super::clocks::slew_bounds;
use crate::Evidence;

/// The RTC's resolution, ns.
const RESOLUTION_NS: f64 = 1e9;

/// How far apart RTC and CLOCK_BOOTTIME may drift, relative, beyond what
/// adjtimex says: a worn crystal.
const DRIFT: f64 = 200e-6;

/// What is known of the RTC.
#[derive(Debug, Default)]
pub(super) struct Rtc {
    last: Option<Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// The RTC less CLOCK_BOOTTIME is from here, ns,
    low: f64,
    /// to here.
    high: f64,
    boottime_ns: u64,
    /// The time of day less CLOCK_BOOTTIME, ns.
    unix: Option<f64>,
}

impl Rtc {
    /// What it shows next is not compared with what it showed before.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    pub(super) fn observe(
        &mut self,
        look: &Sample,
        steered: Option<&Adjtimex>,
        noticed: &mut Noticed,
    ) {
        let Some(Some(bracket)) = look.rtc.known() else { return };
        let now = Known::of(*bracket, look);
        let Some(last) = self.last.replace(now) else { return };
        let (low, high) = last.at(now.boottime_ns, steered);
        let is_step = now.low > high || now.high < low;
        if !is_step || now.was_put_onto_the_time_of_day(last) {
            return;
        }
        let (least, most) = (now.low - high, now.high - low);
        noticed.evidence(
            look.monotonic_ns,
            Evidence::Rtc {
                gained_s: (least + most) / 2.0 / 1e9,
                bound_s: (most - least) / 2.0 / 1e9,
            },
        );
    }
}

impl Known {
    fn of(bracket: Bracket, look: &Sample) -> Self {
        let rtc_ns = bracket.inner as f64 * 1e9;
        // CLOCK_BOOTTIME at the time of the look's other clocks.
        let unix = look.realtime.zip(look.boottime).map(|(realtime, boottime)| {
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

    /// The bounds as they are later.
    fn at(self, boottime_ns: u64, steered: Option<&Adjtimex>) -> (f64, f64) {
        let (slow, fast) = steered.map_or((1.0, 1.0), |state| slew_bounds(state, state));
        let drift = (1.0 - slow).abs().max((fast - 1.0).abs()) + DRIFT;
        let doubt_ns = boottime_ns.saturating_sub(self.boottime_ns) as f64 * drift;
        (self.low - doubt_ns, self.high + doubt_ns)
    }

    /// Whether it agrees with the time of day, and did not before, while the
    /// time of day stayed where it was.
    fn was_put_onto_the_time_of_day(self, last: Self) -> bool {
        let (Some(before), Some(now)) = (last.unix, self.unix) else { return false };
        let agrees = |known: &Self, unix: f64| {
            known.low - RESOLUTION_NS <= unix && unix <= known.high + RESOLUTION_NS
        };
        (now - before).abs() < RESOLUTION_NS / 2.0 && agrees(&self, now) && !agrees(&last, before)
    }
}
