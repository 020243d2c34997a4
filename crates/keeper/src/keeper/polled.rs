//! A source as the keeper polls it: when, how often, and its last offset.

use pvclock::units::{LeapSecond, OffsetBound};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::offset::Offset;
use crate::source::AnnouncedScale;
use crate::source::SourceKind;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// A day, without a leap second.
pub(super) const DAY_NS: u64 = 86_400 * SECOND_NS;

/// Polls of one source in one sample: one, and one to confirm.
const POLLS_PER_SAMPLE: u32 = 2;

/// One that has not replied more often than this, in a row, is given up: it is asked for again after
/// 8 s, then 16 s, and so on.
const GIVEN_UP: u32 = 3;

/// For how long the last reading of a local source counts once it cannot be read any more: a page
/// that is being rewritten is read again soon.
const LOST_NS: u64 = 10 * SECOND_NS;

/// By how much local time moves in spring: an hour, half of one on Lord Howe
/// Island. An absence of just that is not told from it.
const SUMMER_TIME_NS: [i64; 2] = [3600 * SECOND_NS as i64, 1800 * SECOND_NS as i64];

/// What the RTC shows, as learnt while the clock was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RtcView {
    /// By how much it is ahead of the clock, ns; whole hours in local time.
    pub ahead_ns: i64,
    /// The error of that is at most this, ns.
    pub bound_ns: u64,
    /// It has stopped: it showed one time twice.
    pub stands: bool,
}

#[derive(Debug)]
pub(super) struct PolledSource {
    pub(super) kind: SourceKind,
    /// When it is to be polled next.
    pub(super) due_ns: u64,
    /// It is to be polled in this sample.
    pub(super) is_wanted: bool,
    /// How often it was polled in this sample.
    pub(super) polls: u32,
    /// It replied in this sample.
    pub(super) is_fresh: bool,
    /// Offsets in a row that agree.
    pub(super) in_a_row: u32,
    failures: u32,
    /// When it failed first, since it replied last.
    failing_since_ns: u64,
    /// The leap second that it announces.
    pub(super) leap: Option<LeapSecond>,
    /// It announced one before: that it announces none says something then.
    pub(super) has_announced: bool,
    /// The scale that it shows.
    pub(super) scale: AnnouncedScale,
    /// The RTC's offset while the clock was right, or undisturbed at least.
    reference: Option<OffsetBound>,
    /// The RTC's reading that later ones are held against, and whether one of them showed
    /// the same time.
    earlier: Option<OffsetBound>,
    stands: bool,
    /// The last one since time was disturbed. The RTC's is by how much it has
    /// moved since `reference`.
    pub(super) offset: Option<OffsetBound>,
}

impl PolledSource {
    pub(super) fn new(kind: SourceKind) -> Self {
        Self {
            kind,
            due_ns: 0,
            is_wanted: false,
            polls: 0,
            is_fresh: false,
            in_a_row: 0,
            failures: 0,
            failing_since_ns: 0,
            leap: None,
            has_announced: false,
            scale: AnnouncedScale::Unknown,
            reference: None,
            stands: false,
            earlier: None,
            offset: None,
        }
    }

    /// What the RTC shows itself, where it was learnt.
    pub(super) fn rtc(&self) -> Option<RtcView> {
        let OffsetBound { offset_ns: ahead_ns, bound_ns, .. } =
            self.reference.filter(|_| self.kind == SourceKind::Rtc)?;
        Some(RtcView { ahead_ns, bound_ns, stands: self.stands })
    }

    /// The RTC, learnt, where it shows no time away.
    pub(super) fn agrees_only(&self) -> bool {
        self.reference.is_some() && self.offset.is_none()
    }

    /// Its offset, where it was measured at `oldest_ns` or later. A local one is read in each
    /// sample: [`LOST_NS`] after that failed first, its last reading shows no more.
    pub(super) fn valid_offset(&self, oldest_ns: u64, now_ns: u64) -> Option<OffsetBound> {
        let failing_ns = now_ns.saturating_sub(self.failing_since_ns);
        let is_lost = self.kind.is_local() && self.failures > 0 && failing_ns > LOST_NS;
        self.offset.filter(|offset| offset.at_monotonic_ns >= oldest_ns && !is_lost)
    }

    /// A sample begins.
    pub(super) fn begin(&mut self) {
        (self.is_fresh, self.polls) = (false, 0);
    }

    /// Its offset does not count any more: poll it from `due_ns` on.
    pub(super) fn forget(&mut self, due_ns: u64) {
        let due_ns = if self.kind.is_local() { 0 } else { due_ns };
        let Self { kind, polls, scale, has_announced, reference, stands, earlier, .. } = *self;
        *self = Self {
            due_ns,
            polls,
            scale,
            has_announced,
            reference,
            stands,
            earlier,
            ..Self::new(kind)
        };
    }

    /// The clock was stepped: its offset is smaller by that. Poll it again to
    /// verify the step.
    pub(super) fn shift(&mut self, by_ns: i64, now_ns: u64) {
        (self.due_ns, self.is_fresh) = (now_ns, false);
        if let Some(offset) = &mut self.offset {
            offset.offset_ns = offset.offset_ns.saturating_sub(by_ns);
        }
    }

    /// The clock was set by something other than the time that the RTC showed
    /// the machine to be away: its offset has to be learnt again.
    pub(super) fn unlearn(&mut self) {
        if self.kind == SourceKind::Rtc {
            (self.reference, self.offset, self.earlier) = (None, None, None);
        }
    }

    /// By how much the RTC has moved against the clock since it was learnt.
    /// `None` where that is nothing: it agrees, it was not learnt yet, it went
    /// back, as one that was set or that stopped does and no machine that was
    /// away, it went forward by what summer time does, or to the clock's own
    /// time, as the kernel writes it (`sync_hw_clock`, kernel/time/ntp.c). Its
    /// offset is learnt, and learnt again, while the clock is right as far as is
    /// known.
    pub(super) fn rtc_move(&mut self, shown: OffsetBound, is_right: bool) -> Option<OffsetBound> {
        let known = self.reference.filter(|reference| {
            !shown.agrees_with(reference)
                && shown.offset_ns > reference.offset_ns
                && !is_summer_time(&shown, reference)
                && !is_set_to_clock(&shown, reference)
        });
        let Some(reference) = known else {
            let earlier = self.earlier.get_or_insert(shown);
            if let Some(stands) = stands(&shown, earlier) {
                (self.stands, *earlier) = (stands, shown);
            }
            let keeps = self.reference.filter(|reference| shown.agrees_with(reference));
            self.reference = if is_right { Some(shown) } else { keeps };
            return None;
        };
        let bound_ns = shown.bound_ns.saturating_add(reference.bound_at(shown.at_monotonic_ns));
        let offset_ns = shown.offset_ns.saturating_sub(reference.offset_ns);
        Some(OffsetBound { offset_ns, bound_ns, ..shown })
    }

    /// Polls it in the next sample.
    pub(super) fn poll_soon(&mut self) {
        self.due_ns = 0;
    }

    /// Polls it in this sample, up to [`POLLS_PER_SAMPLE`].
    pub(super) fn want(&mut self) {
        self.is_wanted = self.can_be_polled();
    }

    /// Whether it may be polled again in this sample.
    pub(super) fn can_be_polled(&self) -> bool {
        !self.kind.is_pushed() && self.polls < POLLS_PER_SAMPLE
    }

    /// It is polled now.
    pub(super) fn poll(&mut self) {
        (self.is_wanted, self.polls) = (false, self.polls + 1);
    }

    /// It replied; whether it has moved against the clock.
    pub(super) fn take_offset(&mut self, offset: OffsetBound, now_ns: u64, poll_ns: u64) -> bool {
        let has_moved = self.offset.is_some_and(|earlier| !offset.agrees_with(&earlier));
        self.in_a_row = if has_moved { 1 } else { self.in_a_row.saturating_add(1) };
        (self.failures, self.is_fresh, self.offset) = (0, true, Some(offset));
        self.wait(now_ns, poll_ns);
        has_moved
    }

    /// It replied, and shows nothing: an RTC that did not move.
    pub(super) fn note_agreement(&mut self, now_ns: u64, poll_ns: u64) {
        (self.failures, self.in_a_row, self.offset) = (0, 0, None);
        self.wait(now_ns, poll_ns);
    }

    /// It has not replied for some time.
    pub(super) fn is_given_up(&self) -> bool {
        self.failures > GIVEN_UP
    }

    /// It gave no usable offset: poll it again soon, then less and less often,
    /// as a network may need some seconds.
    pub(super) fn back_off(&mut self, now_ns: u64, poll_ns: u64) {
        let soon_ns = SECOND_NS.saturating_mul(1 << self.failures.min(30));
        if self.failures == 0 {
            self.failing_since_ns = now_ns;
        }
        self.failures = self.failures.saturating_add(1);
        // An RTC may have been set since.
        self.unlearn();
        self.wait(now_ns, soon_ns.min(poll_ns));
    }

    /// Local ones are due in each sample all the same. Another one, polled
    /// together with this, may have wanted it polled again; it just was.
    fn wait(&mut self, now_ns: u64, wait_ns: u64) {
        self.is_wanted = false;
        let wait_ns = if self.kind.is_local() { 0 } else { wait_ns };
        self.due_ns = now_ns.saturating_add(wait_ns);
    }
}

/// Whether an RTC shows the time that it did; unknown of readings close together, as
/// those of two samples are.
fn stands(shown: &OffsetBound, before: &OffsetBound) -> Option<bool> {
    let passed_ns = shown.at_monotonic_ns.saturating_sub(before.at_monotonic_ns);
    let known_ns = shown.bound_ns.saturating_add(before.bound_ns);
    let lost_ns = i128::from(before.offset_ns) - i128::from(shown.offset_ns);
    let is_long = passed_ns > known_ns.saturating_mul(4);
    is_long.then(|| (lost_ns - i128::from(passed_ns)).unsigned_abs() <= known_ns.into())
}

/// Whether an RTC may have been set to the clock's time: a write lands on a whole
/// second, which a long move tells from time away.
fn is_set_to_clock(shown: &OffsetBound, before: &OffsetBound) -> bool {
    let is_long = shown.offset_ns.abs_diff(before.offset_ns) > 60 * SECOND_NS;
    let lands_ns = if is_long { 2 * SECOND_NS } else { 0 };
    shown.offset_ns.unsigned_abs() <= shown.bound_ns.saturating_add(lands_ns)
}

/// Whether an RTC in local time may have been set to summer time meanwhile.
fn is_summer_time(shown: &OffsetBound, before: &OffsetBound) -> bool {
    let set =
        |by_ns: i64| OffsetBound { offset_ns: before.offset_ns.saturating_add(by_ns), ..*before };
    SUMMER_TIME_NS.into_iter().any(|by_ns| shown.agrees_with(&set(by_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_for_ten_seconds_from_its_first_failure_on() {
        let reading = OffsetBound { offset_ns: 0, bound_ns: 1000, at_monotonic_ns: SECOND_NS };
        // Samples are a minute apart, as by `--interval 60s`.
        for first_s in [2, 61] {
            let mut source = PolledSource::new(SourceKind::VmClock);
            source.take_offset(reading, SECOND_NS, 64 * SECOND_NS);
            for s in [0, 10, 11] {
                let now_ns = (first_s + s) * SECOND_NS;
                source.back_off(now_ns, 64 * SECOND_NS);
                let counts = source.valid_offset(0, now_ns) == Some(reading);
                assert_eq!(counts, s <= 10, "{s} s after {first_s} s");
            }
        }
    }

    /// The kernel writes it each eleven minutes while the clock is synchronised
    /// (kernel/time/ntp.c, sync_hw_clock), `hwclock -w` at any time.
    #[test]
    fn an_rtc_that_is_set_by_the_clock_was_not_away() {
        for behind_s in [3, 60, 5 * 3600, 39 * 86_400] {
            let mut source = PolledSource::new(SourceKind::Rtc);
            assert_eq!(source.rtc_move(rtc(-behind_s, 0), true), None);
            assert_eq!(source.rtc_move(rtc(0, 10), true), None, "{behind_s}");
            let next = source.rtc_move(rtc(60, 20), true);
            assert_eq!(next.map(|offset| offset.offset_ns), Some(60 * SECOND_NS as i64));
        }
        // A long move ends within two seconds of it; a pause of two seconds counts.
        for (before_s, is_away) in [(-86_400, false), (0, true)] {
            let mut source = PolledSource::new(SourceKind::Rtc);
            assert_eq!(source.rtc_move(rtc(before_s, 0), true), None);
            assert_eq!(source.rtc_move(rtc(2, 10), true).is_some(), is_away);
        }
    }

    fn rtc(offset_s: i64, at_s: u64) -> OffsetBound {
        let offset_ns = offset_s * SECOND_NS as i64;
        OffsetBound { offset_ns, bound_ns: SECOND_NS / 2, at_monotonic_ns: at_s * SECOND_NS }
    }

    #[test]
    fn an_rtc_that_stopped_is_told_from_one_that_is_off() {
        let mut source = PolledSource::new(SourceKind::Rtc);
        let mut stands = |offset_s, at_s| {
            assert_eq!(source.rtc_move(rtc(offset_s, at_s), true), None);
            source.rtc().map(|rtc| (rtc.ahead_ns / SECOND_NS as i64, rtc.stands))
        };
        assert_eq!(stands(7200, 0), Some((7200, false)), "in local time");
        assert_eq!(stands(7200, 60), Some((7200, false)));
        for s in 1..=3 {
            assert_eq!(
                stands(7200 - s, 60 + s as u64),
                Some((7200 - s, false)),
                "too soon to tell"
            );
        }
        for s in 4..=60 {
            stands(7200 - s, 60 + s as u64);
        }
        assert_eq!(stands(7139, 121), Some((7139, true)), "a minute later the same time");
        for s in 0..=10 {
            stands(7139, 122 + s);
        }
        assert_eq!(stands(7139, 133), Some((7139, false)));
        assert_eq!(PolledSource::new(SourceKind::VmClock).rtc(), None);
    }

    /// Two hours ahead of UTC, and somebody sets it.
    #[test]
    fn an_rtc_that_is_set_to_summer_time_was_not_away() {
        for (by_s, moved_s) in [
            (60, Some(60)),
            (3600, None),
            (3601, None),
            (1800, None),
            (3610, Some(3610)),
            (-3600, None),
        ] {
            let mut source = PolledSource::new(SourceKind::Rtc);
            assert_eq!(source.rtc_move(rtc(7200, 0), true), None);
            let moved = source.rtc_move(rtc(7200 + by_s, 10), true);
            let moved_s = moved_s.map(|s| s * SECOND_NS as i64);
            assert_eq!(moved.map(|offset| offset.offset_ns), moved_s, "{by_s}");
            // And what comes after counts from there.
            if moved.is_none() {
                let next = source.rtc_move(rtc(7200 + by_s + 60, 20), true);
                assert_eq!(next.map(|offset| offset.offset_ns), Some(60 * SECOND_NS as i64));
            }
        }
    }
}
