//! Another process may set the clock between any two of our calls: what was measured
//! before says nothing then.
//!
//! The kernel has no call that adjusts a clock if it was not set meanwhile. So the look
//! comes right before what rests on a measurement; before each measurement, as one of a
//! clock that is set and set back would not show it; and as a sample begins, before it
//! measures: the observer classifies a set some samples later, and until then a clock of the
//! host would undo it.

use disruptions::Kind;
use keeper::{Action, Corrector, Keeper};

use crate::kept_clock::monotonic_ns;
use crate::realtime_offset::{ObservedRealtimeOffset, OffsetMove};

/// How the clocks were beside each other: as of the start, or since it was noticed last that
/// the clock was moved.
#[derive(Debug, Default)]
pub(super) struct ClockGuard {
    pub(super) then: Option<ObservedRealtimeOffset>,
}

impl ClockGuard {
    /// A sample begins: whether the clock was set since the last. What a suspend or a leap
    /// second left is measured in this one.
    pub(super) fn begin_sample(&mut self) -> Option<OffsetMove> {
        let (Some(then), Some(now)) = (self.then, ObservedRealtimeOffset::now()) else {
            // A read that failed once hides no set.
            self.then = self.then.or_else(ObservedRealtimeOffset::now);
            return None;
        };
        let moved = then.moved_until(now);
        self.then = Some(if moved.is_some() { now } else { then.and(now) });
        moved.filter(|moved| matches!(moved, OffsetMove::Set))
    }

    /// Whether the clock was moved, by another process mostly, since that was noticed last.
    pub(super) fn take_move(&mut self) -> Option<OffsetMove> {
        let (now, moved) = self.find_move()?;
        self.then = Some(now);
        Some(moved)
    }

    /// By how much chronyd has just stepped what it was slewing, as it was told to, ns: what
    /// is left to correct is as much less. A host's word counts once, and would be lost by
    /// measuring again. `None` if the machine slept, or a leap second passed.
    pub(super) fn take_chronyds_step_ns(&mut self) -> Option<i64> {
        match self.then.zip(self.find_move()) {
            Some((then, (now, OffsetMove::Set))) => {
                self.then = Some(now);
                Some(then.ns_until(now))
            }
            Some(_) => None,
            None => Some(0),
        }
    }

    /// The clock was stepped by this program.
    pub(super) fn step(&mut self, by_ns: i64) {
        self.then = self.then.map(|then| then.stepped(by_ns));
    }

    /// How the clocks are now, where one was moved.
    fn find_move(&self) -> Option<(ObservedRealtimeOffset, OffsetMove)> {
        let (then, now) = (self.then?, ObservedRealtimeOffset::now()?);
        Some((now, then.moved_until(now)?))
    }
}

/// Reports to the keeper that the clock was moved.
pub(super) fn report(keeper: &mut Keeper, moved: OffsetMove) {
    let at_ns = monotonic_ns();
    // chronyd corrects the clock: its own steps are no date that somebody set.
    let is_chronyds = matches!(keeper.policy().corrector, Corrector::Chronyd { .. });
    match moved {
        OffsetMove::LeapSecond => keeper.was_moved(at_ns, Kind::LeapSecond),
        OffsetMove::Suspend => keeper.was_moved(at_ns, Kind::Suspend),
        OffsetMove::Set if is_chronyds => keeper.was_set_beside_chronyd(at_ns),
        OffsetMove::Set => keeper.was_set(at_ns),
    }
}

/// Whether this is not to be done once the clock was set, as it rests on what was measured
/// before. Steps and slews are looked after where they are made, and what chronyd is told to
/// step by it measures itself.
pub(super) fn rests_on_measurement(action: &Action) -> bool {
    matches!(
        action,
        Action::SetError(_)
            | Action::SetFigures { max_ns: None, .. }
            | Action::Discipline(_)
            | Action::SetLeap(_)
            | Action::FeedChronyd(_)
            | Action::Synchronised(_)
    )
}

#[cfg(test)]
mod tests;
