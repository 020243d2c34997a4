//! The kernel's frequency and the last microseconds: what is learnt from
//! offsets while the clock is right, and what to adjust.
//!
//! The frequency is set with ADJ_FREQUENCY, offsets are slewed with
//! ADJ_OFFSET_SINGLESHOT, which ends by itself: a daemon that dies leaves the
//! last good frequency, and no slew that goes on (docs/decisions/frequency.md).
//!
//! A clock that is read in this machine proves so much that no frequency need be
//! set that could be worse. Where it lies between
//! 40 and 60 ppb and 0 is set, 50 is nearer to all of that than 0 is; where it
//! lies between 10 and 90, only what is up to 20 is, as from 10 ppb it is as
//! far to 20 as to 0. Servers prove less than their noise shows: by them the
//! most probable line is followed, within what they prove (docs/decisions/frequency.md).

mod adjustment;

use pvclock::units::Interval;

pub use adjustment::Adjustment;
use adjustment::{LARGEST_PPB, LEAST_PPB, along, at_once};

use crate::frequency::{History, LearntFrequency};
use crate::slewing::Slewing;

/// What the kernel holds.
const HELD_PPB: Interval<f64> = Interval { low: -LARGEST_PPB, high: LARGEST_PPB };

/// What an oscillator's frequency may have changed by since it was learnt,
/// ppb: by temperature, mostly.
const WANDER_PPB: f64 = 100.0;

/// By how much the frequency may differ after a boot, ppb: the kernel measures
/// the counter's rate anew.
const BOOT_PPB: f64 = 10_000.0;

/// A counter of which the host says another's frequency is off by less: 1.9 and
/// 2.9 GHz are 53 % apart. Beyond it is the source that runs away.
const COUNTERS_PPB: f64 = 600_000_000.0;

/// A rate beyond an oscillator's was seen so often before it is believed: a pause or
/// two look like one as well, but go on for no longer.
const SEEN: usize = 6;

/// And was known so well, ppb.
const SURE_PPB: f64 = 100_000.0;

/// The least time between two adjustments, ns.
const INTERVAL_NS: u64 = 4_000_000_000;

/// Without a look at a line for so long the frequency is adjusted as before, ns: longer than the
/// loop's longest interval.
const LINE_INTERVAL_NS: u64 = 5 * INTERVAL_NS;

/// A line's frequency may be off what is known by so much, ppb: the loop's largest slew of 10 ppm,
/// and 1 ppm for what it learns.
const LINE_SLEW_PPB: f64 = 11_000.0;

/// A slew begins with the kernel's next second: it may be behind by so much, ns.
const SLEWING_UNSURE_NS: f64 = 500_000.0;

/// What is learnt.
#[derive(Debug, Default)]
pub(crate) struct Discipline {
    history: History,
    /// It is of servers.
    is_noisy: bool,
    /// The clock without steps either, since the last disruption.
    unstepped: History,
    stepped_ns: f64,
    /// The wrong rate that was reported, ppb.
    reported_ppb: Option<f64>,
    /// The kernel's frequency, ppb, and since when: as the clock would show that, had all
    /// of the slew been made before. Of a slew back, soon after the start, that is before 0.
    set_ppb: f64,
    /// The least and the most that it was since the clock's bound was noted.
    used_ppb: [f64; 2],
    since_ns: i64,
    /// By how much corrections had moved the clock until then, ns.
    corrected_ns: f64,
    learnt: Option<LearntFrequency>,
    /// Between which figures the frequency would have to be set, ppb, by all that was measured
    /// since the last disturbance.
    known_ppb: Option<Interval<f64>>,
    /// Where the clock's offset was at that time, ns.
    offset: Option<(u64, Interval<f64>)>,
    /// A slew is in progress until then: this one, if no other was when it began.
    slewing_until_ns: u64,
    slewing: Slewing,
    /// When the next adjustment may be made.
    next_ns: u64,
    /// A line is followed, by the last look.
    follows_line: bool,
}

impl Discipline {
    /// The kernel's frequency is this; `stored` was learnt before this start.
    /// What to adjust: a kernel that has just booted has no frequency yet.
    pub(crate) fn start(
        &mut self,
        kernel_ppb: f64,
        stored: Option<LearntFrequency>,
    ) -> Option<Adjustment> {
        self.use_frequency(kernel_ppb);
        let stored = stored.filter(|stored| stored.ppb.abs() <= LARGEST_PPB)?;
        if (stored.ppb - kernel_ppb).abs() <= LEAST_PPB {
            self.learnt = Some(stored);
            return None;
        }
        let uncertainty_ppb = stored.uncertainty_ppb + BOOT_PPB;
        let is_booted = kernel_ppb == 0.0 && stored.ppb.abs() > uncertainty_ppb;
        is_booted.then(|| {
            self.learnt = Some(LearntFrequency { uncertainty_ppb, ..stored });
            Adjustment { frequency_ppb: Some(stored.ppb), slew_ns: None }
        })
    }

    /// Whether enough was measured since the last disruption to show the rate.
    pub(crate) fn knows_rate(&mut self) -> bool {
        self.history.frequency_ppb().is_some() && self.history.fits()
    }

    /// What is known of the frequency that is set.
    pub(crate) fn frequency(&self) -> Option<LearntFrequency> {
        self.learnt
    }

    /// The clock was stepped or disturbed: the frequency stays, offsets from before do
    /// not count.
    pub(crate) fn forget_offsets(&mut self) {
        (self.history, self.offset, self.known_ppb) = (History::default(), None, None);
    }

    /// The kernel's frequency, ppb.
    pub(crate) fn set_ppb(&self) -> f64 {
        self.set_ppb
    }

    /// The kernel's frequency is this from now on, ppb.
    fn use_frequency(&mut self, ppb: f64) {
        let [low, high] = self.used_ppb;
        (self.set_ppb, self.used_ppb) = (ppb, [low.min(ppb), high.max(ppb)]);
    }

    /// The clock's bound is noted: what the frequency was before is in it.
    pub(crate) fn note_bound(&mut self) {
        self.used_ppb = [self.set_ppb; 2];
    }

    /// How far the rate of the clock was off at most since its bound was noted, ppb, as measured;
    /// `None` while that is not known. Example: 50 to 51 ppm are known, and 20 ppm were changed to
    /// 50.5: 31 ppm until the next measurement, then 0.5.
    pub(crate) fn rate_error_ppb(&self) -> Option<f64> {
        let (known, [low, high]) = (self.known_ppb?, self.used_ppb);
        Some((known.high - low).max(high - known.low).max(0.0))
    }

    /// Whether a line may have this frequency, ppb; `None` while nothing is known of it.
    pub(crate) fn proves(&self, ppb: f64) -> Option<bool> {
        let known = self.known_ppb?;
        Some(ppb >= known.low - LINE_SLEW_PPB && ppb <= known.high + LINE_SLEW_PPB)
    }

    /// The machine may run by another oscillator: what is learnt does not
    /// count. Where it certainly does, what to adjust.
    pub(crate) fn other_oscillator(&mut self, is_certain: bool) -> Option<Adjustment> {
        let was_learnt = self.learnt.take().is_some();
        self.forget_offsets();
        (was_learnt && is_certain).then_some(Adjustment { frequency_ppb: Some(0.0), slew_ns: None })
    }

    /// The clock was stepped by this, which ends a slew.
    pub(crate) fn note_step(&mut self, now_ns: u64, by_ns: i64) {
        self.forget_offsets();
        self.end_slew(now_ns);
        self.stepped_ns += by_ns as f64;
    }

    /// Whether one that was begun before is in progress.
    pub(crate) fn is_slewing(&self, at_ns: u64) -> bool {
        self.slewing.since_ns <= at_ns && self.slewing.left_ns(at_ns) != 0
    }

    /// Whether the kernel may be slewing: it begins with its next second.
    pub(crate) fn may_slew(&self, now_ns: u64) -> bool {
        now_ns < self.slewing_until_ns
    }

    /// What is left of the slew in progress, by a correction or by the discipline, ns.
    pub(crate) fn slew_left_ns(&self, now_ns: u64) -> i64 {
        self.slewing.left_ns(now_ns)
    }

    /// A slew ends here, if it was begun before: what is left of it was not made, and is
    /// known to half a millisecond only. Until the kernel is certainly done, that may be some
    /// where nothing should be left, which matters beside local sources.
    pub(crate) fn end_slew(&mut self, now_ns: u64) {
        if self.slewing.since_ns > now_ns {
            return;
        }
        let is_done = now_ns >= std::mem::take(&mut self.slewing_until_ns);
        let left_ns = std::mem::take(&mut self.slewing).left_ns(now_ns);
        if left_ns != 0 || !is_done && !self.is_noisy {
            self.forget_offsets();
        }
        self.corrected_ns -= left_ns as f64;
        self.since_ns = self.since_ns.saturating_sub(left_ns);
    }

    /// Whether the rate was reported as wrong, and was not right since.
    pub(crate) fn is_wrong_rate_reported(&self) -> bool {
        self.reported_ppb.is_some()
    }

    /// Something moved the clock that no source shows: its rate is seen anew.
    pub(crate) fn forget_rate(&mut self) {
        self.unstepped = History::default();
    }

    /// The clock is behind by what is `proven`, ns, be it right or not. What it has to
    /// gain without our corrections, ppb, where that is news, and proven to be more
    /// than an oscillator can be off by.
    pub(crate) fn find_wrong_rate(&mut self, now_ns: u64, proven: Interval<f64>) -> Option<f64> {
        let (by_ns, uncorrected_ns) = self.uncorrected(now_ns);
        let proven = self.uncorrect(by_ns + self.stepped_ns, now_ns, proven)?;
        self.unstepped.add(uncorrected_ns, proven, None);
        let known = self.unstepped.frequency_ppb().filter(|it| it.bound() <= SURE_PPB)?;
        if known.low >= -LARGEST_PPB && known.high <= LARGEST_PPB {
            self.reported_ppb = None;
        }
        let is_beyond = known.low > LARGEST_PPB || known.high < -LARGEST_PPB;
        let ppb = known.middle();
        let is_new = self.reported_ppb.is_none_or(|reported| (ppb - reported).abs() > LARGEST_PPB);
        let is_seen =
            is_beyond && ppb.abs() <= COUNTERS_PPB && self.unstepped.moves_beyond(HELD_PPB) >= SEEN;
        (is_seen && is_new).then(|| *self.reported_ppb.insert(ppb))
    }

    /// The clock is behind by `offset`, ns; what a majority proves of that is
    /// `proven`. By servers, whose noise is less than what they prove, it is `likely`.
    pub(crate) fn take_offset(
        &mut self,
        now_ns: u64,
        offset: Interval<f64>,
        proven: Interval<f64>,
        likely_ns: Option<f64>,
    ) {
        // How far a slew is, is known well enough for servers alone.
        if likely_ns.is_none() && now_ns < self.slewing_until_ns {
            return;
        }
        let (by_ns, uncorrected_ns) = self.uncorrected(now_ns);
        let Some(proven) = self.uncorrect(by_ns, now_ns, proven) else { return };
        // What servers show may have a pause in it that they do not.
        if self.is_noisy != likely_ns.is_some() {
            (self.history, self.is_noisy) = (History::default(), likely_ns.is_some());
        }
        self.history.add(uncorrected_ns, proven, likely_ns.map(|ns| ns + by_ns));
        self.known_ppb = self.history.known_ppb();
        self.learn();
        let both = self.offset_at(now_ns).map(|expected| expected.overlap(offset));
        self.offset = Some((now_ns, both.filter(|both| !both.is_empty()).unwrap_or(offset)));
    }

    /// Notes what is known of the frequency that is set.
    fn learn(&mut self) {
        if self.is_noisy {
            return;
        }
        if let Some(known) = self.history.frequency_ppb() {
            let farthest = (known.high - self.set_ppb).max(self.set_ppb - known.low);
            let uncertainty_ppb = farthest + WANDER_PPB;
            self.learnt = Some(LearntFrequency { ppb: self.set_ppb, uncertainty_ppb });
        }
    }

    /// Where the offset is by now.
    fn offset_at(&self, now_ns: u64) -> Option<Interval<f64>> {
        let (at_ns, offset) = self.offset?;
        let by = now_ns.saturating_sub(at_ns) as f64 * self.learnt?.uncertainty_ppb * 1e-9;
        Some(Interval { low: offset.low - by, high: offset.high + by })
    }

    /// By how much corrections have moved the clock, ns. At 200 ppm, of
    /// 1 000 200 ns that it shows 200 are corrections. What is left of a slew counts as made.
    fn corrected_ns(&self, now_ns: u64) -> f64 {
        let shown_ns = self.slewed_ns(now_ns).saturating_sub(self.since_ns) as f64;
        let rate = self.set_ppb * 1e-9;
        self.corrected_ns + shown_ns * rate / (1.0 + rate)
    }

    /// What the clock would show at `now_ns`, had all of the slew been made.
    fn slewed_ns(&self, now_ns: u64) -> i64 {
        now_ns.cast_signed().saturating_add(self.slewing.left_ns(now_ns))
    }

    /// By how much corrections have moved the clock, and the time that it would
    /// show without them, ns.
    fn uncorrected(&self, now_ns: u64) -> (f64, u64) {
        let by_ns = self.corrected_ns(now_ns) - self.slewing.left_ns(now_ns) as f64;
        (by_ns, now_ns.saturating_add_signed(-(by_ns.round() as i64)))
    }

    /// What would be `proven` without the corrections `by_ns`; `None` where it is not
    /// known how far they are.
    fn uncorrect(&self, by_ns: f64, now_ns: u64, proven: Interval<f64>) -> Option<Interval<f64>> {
        let is_slewing = now_ns < self.slewing_until_ns;
        let unsure_ns = if is_slewing { SLEWING_UNSURE_NS } else { 0.0 };
        let (low, high) = (proven.low + by_ns - unsure_ns, proven.high + by_ns + unsure_ns);
        (!is_slewing || self.slewing.by_ns != 0).then_some(Interval { low, high })
    }

    /// What to adjust now; servers are polled each `poll_ns`.
    pub(crate) fn adjust(&mut self, now_ns: u64, poll_ns: u64) -> Option<Adjustment> {
        self.next_adjustment(now_ns, poll_ns, |all| all)
    }

    /// As [`Discipline::adjust`], of a clock that is slewed by all that it is off.
    pub(crate) fn adjust_frequency(&mut self, now_ns: u64, poll_ns: u64) -> Option<Adjustment> {
        self.next_adjustment(now_ns, poll_ns, |all| Adjustment { slew_ns: None, ..all })
    }

    /// What is `wanted` of an adjustment, if it is time for one.
    fn next_adjustment(
        &mut self,
        now_ns: u64,
        poll_ns: u64,
        wanted: impl Fn(Adjustment) -> Adjustment,
    ) -> Option<Adjustment> {
        let (at_ns, offset) = self.offset?;
        if now_ns < self.next_ns || at_ns != now_ns {
            return None;
        }
        let adjustment = if self.is_noisy {
            let (by_ns, uncorrected_ns) = self.uncorrected(now_ns);
            let (mut line, known_ppb) = self.history.known_line(uncorrected_ns)?;
            line.offset_ns -= by_ns;
            let all = along(&self.history, &line, self.set_ppb, known_ppb, offset, poll_ns as f64);
            let is_slewing = now_ns < self.slewing_until_ns;
            Adjustment { slew_ns: all.slew_ns.filter(|_| !is_slewing), ..all }
        } else {
            at_once(self.set_ppb, self.history.frequency_ppb(), &offset)
        };
        let adjustment = wanted(adjustment);
        (adjustment != Adjustment::default()).then(|| {
            self.next_ns = now_ns + INTERVAL_NS;
            adjustment
        })
    }

    /// The adjustment could not be made: another process may steer the clock.
    pub(crate) fn reset(&mut self) {
        let Self { set_ppb, used_ppb, next_ns, follows_line, .. } = *self;
        let Self { slewing_until_ns, reported_ppb, .. } = *self;
        let kept = Self { set_ppb, used_ppb, next_ns, follows_line, ..Self::default() };
        *self = Self { slewing_until_ns, reported_ppb, ..kept };
    }

    /// The adjustment was made.
    pub(crate) fn note_adjustment(&mut self, now_ns: u64, made: Adjustment) {
        (self.corrected_ns, self.since_ns) = (self.corrected_ns(now_ns), self.slewed_ns(now_ns));
        if let Some(ppb) = made.frequency_ppb {
            self.use_frequency(ppb);
            (self.offset, self.learnt) = (None, self.learnt.filter(|_| !self.is_noisy));
            self.learn();
        }
        if let Some(by_ns) = made.slew_ns {
            self.note_slew(Slewing { by_ns, since_ns: now_ns });
        }
    }

    /// The frequency follows a line ([`crate::LineLoop`]): nothing else adjusts it meanwhile.
    pub(crate) fn follow_line(&mut self, now_ns: u64, frequency_ppb: f64) {
        let made = Adjustment { frequency_ppb: Some(frequency_ppb), slew_ns: None };
        self.note_adjustment(now_ns, made);
        (self.next_ns, self.follows_line) = (now_ns + LINE_INTERVAL_NS, true);
    }

    /// No line is followed: what was put off for it may be adjusted.
    pub(crate) fn leave_line(&mut self, now_ns: u64) {
        if std::mem::take(&mut self.follows_line) {
            self.next_ns = self.next_ns.min(now_ns);
        }
    }

    /// A slew began; until it ends the offsets of local sources do not count.
    pub(crate) fn note_slew(&mut self, slewing: Slewing) {
        self.end_slew(slewing.since_ns);
        self.corrected_ns += slewing.by_ns as f64;
        // In what a slew adds there is no frequency.
        self.since_ns = self.since_ns.saturating_add(slewing.by_ns);
        (self.slewing_until_ns, self.slewing, self.offset) = (slewing.ends_ns(), slewing, None);
    }
}

#[cfg(test)]
mod tests;
