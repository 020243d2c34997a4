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
//! nothing of the machine. Nor does one that follows the correction of what a
//! disruption left: the kernel had written the time of day that was wrong, and
//! writes the right one as soon as it is synchronised again (sync_hw_clock,
//! kernel/time/ntp.c).

use facts::Sample;
use facts::steering::Adjtimex;
use pvclock::units::Bracket;

use super::clocks::slew_bounds;
use crate::Evidence;
use crate::observer::Noticed;

/// The RTC's resolution, ns.
const RESOLUTION_NS: f64 = 1e9;

/// What is written to it begins a second there, not just when it does elsewhere, ns.
const PHASE_NS: f64 = RESOLUTION_NS / 2.0;

/// The drift of the RTC against CLOCK_BOOTTIME, relative, beyond what adjtimex
/// explains: a worn crystal.
const DRIFT: f64 = 200e-6;

/// For so long after a correction the RTC may follow it, ns: a daemon confirms a step by
/// its next polls before the kernel counts as synchronised, and that writes once a second.
const FOLLOWS_NS: u64 = 20_000_000_000;

/// The last reading of the RTC.
#[derive(Debug, Default)]
pub(super) struct ObservedRtc {
    last: Option<RtcOffset>,
    /// A disruption may have left the time of day wrong, and it did not move since.
    is_doubted: bool,
    correction: Option<RtcCorrection>,
}

/// The time of day moved after a disruption that may have left it wrong.
#[derive(Debug, Clone, Copy)]
struct RtcCorrection {
    by_ns: f64,
    boottime_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct RtcOffset {
    /// RTC − CLOCK_BOOTTIME is at least this, ns.
    low: f64,
    /// And at most this.
    high: f64,
    boottime_ns: u64,
    /// CLOCK_REALTIME − CLOCK_BOOTTIME, ns.
    unix: Option<f64>,
}

impl ObservedRtc {
    /// A disruption may have left the time of day wrong: the next reading is not compared
    /// with one before this sample.
    pub(super) fn doubt_before(&mut self, sample: &Sample) {
        (self.is_doubted, self.correction) = (true, None);
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
        let Some(Some(bracket)) = sample.rtc.value() else { return false };
        let now = RtcOffset::new(*bracket, sample);
        let Some(last) = self.last.replace(now) else { return false };
        self.note_correction(last, now);
        let (low, high) = last.predict(now.boottime_ns, steered);
        let is_step = now.low > high || now.high < low;
        let (least, most) = (now.low - high, now.high - low);
        if !is_step || now.was_set_to_time_of_day(last) || self.follows((last, now), least, most) {
            return true;
        }
        noticed.evidence(
            sample.monotonic_ns,
            Evidence::Rtc {
                gained_s: (least + most) / 2.0 / 1e9,
                bound_s: (most - least) / 2.0 / 1e9,
            },
        );
        true
    }

    fn note_correction(&mut self, last: RtcOffset, now: RtcOffset) {
        let Some((before, after)) = last.unix.zip(now.unix) else { return };
        if self.is_doubted && !is_standing(before, after) {
            let boottime_ns = now.boottime_ns;
            self.correction = Some(RtcCorrection { by_ns: after - before, boottime_ns });
            self.is_doubted = false;
        }
    }

    /// Whether it moved, by what lies between these, as the time of day was corrected.
    fn follows(&mut self, (last, now): (RtcOffset, RtcOffset), least: f64, most: f64) -> bool {
        let Some(unix) = now.unix else { return false };
        let followed = |of: &RtcCorrection| {
            now.boottime_ns.saturating_sub(of.boottime_ns) <= FOLLOWS_NS
                && now.agrees(unix, RESOLUTION_NS)
                // One that had the right time already shows a stop.
                && !last.agrees(unix, PHASE_NS)
                && least - PHASE_NS <= of.by_ns
                && of.by_ns <= most + PHASE_NS
        };
        // Once: a machine may be stopped again.
        self.correction.take_if(|of| followed(of)).is_some()
    }
}

impl RtcOffset {
    fn new(bracket: Bracket, sample: &Sample) -> Self {
        let rtc_ns = bracket.inner as f64 * 1e9;
        // CLOCK_BOOTTIME when the other clocks of the sample were read.
        let unix = sample.realtime.zip(sample.boottime).map(|(realtime, boottime)| {
            let offset =
                |bracket: Bracket| (i128::from(bracket.inner) - i128::from(bracket.before)) as f64;
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
    fn predict(self, boottime_ns: u64, steered: Option<&Adjtimex>) -> (f64, f64) {
        let (slow, fast) = steered.map_or((1.0, 1.0), |state| slew_bounds(state, state));
        let drift = (1.0 - slow).abs().max((fast - 1.0).abs()) + DRIFT;
        let doubt_ns = boottime_ns.saturating_sub(self.boottime_ns) as f64 * drift;
        (self.low - doubt_ns, self.high + doubt_ns)
    }

    /// Whether it agrees with the time of day, and did not before, while the
    /// time of day did not move.
    fn was_set_to_time_of_day(self, last: Self) -> bool {
        let (Some(before), Some(now)) = (last.unix, self.unix) else { return false };
        is_standing(before, now)
            && self.agrees(now, RESOLUTION_NS)
            && !last.agrees(before, RESOLUTION_NS)
    }

    /// Whether it shows a time of day, to `within_ns`.
    fn agrees(&self, unix: f64, within_ns: f64) -> bool {
        self.low - within_ns <= unix && unix <= self.high + within_ns
    }
}

/// Whether the time of day did not move against CLOCK_BOOTTIME.
fn is_standing(before: f64, after: f64) -> bool {
    (after - before).abs() < PHASE_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a right time of day at 0, seconds of the RTC that begin so much later, s.
    fn offset(low_s: f64) -> RtcOffset {
        let (low, unix) = (low_s * 1e9, Some(0.0));
        RtcOffset { low, high: low + RESOLUTION_NS, boottime_ns: 5_000_000_000, unix }
    }

    #[test]
    fn an_rtc_follows_a_correction_from_the_wrong_time_alone() {
        let follows = |by_s: f64, last_s: f64, now_s: f64| {
            let (last, now) = (offset(last_s), offset(now_s));
            let correction = RtcCorrection { by_ns: by_s * 1e9, boottime_ns: 0 };
            let mut rtc = ObservedRtc { correction: Some(correction), ..ObservedRtc::default() };
            let is_one = rtc.follows((last, now), now.low - last.high, now.high - last.low);
            assert_eq!(rtc.correction.is_none(), is_one);
            is_one
        };
        assert!(follows(2.0, -2.5, -0.5) && follows(2.0, -2.9, -0.1) && follows(60.0, -60.3, -0.2));
        // It had the right time: the machine was stopped again, for as long.
        for (last_s, now_s) in [(-0.5, 0.8), (-0.9, 0.9), (-0.1, 0.9)] {
            assert!(!follows(1.6, last_s, now_s), "{last_s} {now_s}");
        }
        assert!(!follows(5.0, -2.5, -0.5), "by something else");
    }
}
